// SPDX-License-Identifier: Apache-2.0
/* The structures of 1.19, asserted as C++17. */
#define CUFILE_API_VERSION 1190
#define FIRST_LIST "cufile-abi-1.19.inc"
#include "list_holds.inc"
