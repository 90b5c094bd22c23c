/* SPDX-License-Identifier: Apache-2.0 */
/* A libcuda.so.1 that is not the soft GPU: it stands for a real driver that finds no device. */
int cuInit(unsigned flags);
int cuInit(unsigned flags) {
  (void)flags;
  return 100;
}
