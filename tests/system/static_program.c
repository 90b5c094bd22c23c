/* SPDX-License-Identifier: Apache-2.0 */
/* A program that no loader sees: linked statically. */
int main(void) {
  return 0;
}
