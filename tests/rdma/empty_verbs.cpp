// SPDX-License-Identifier: Apache-2.0
// A libibverbs.so.1 that is none.
extern "C" int ibv_of_another_age() {
  return 0;
}
