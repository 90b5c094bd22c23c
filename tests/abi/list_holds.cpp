// SPDX-License-Identifier: Apache-2.0
// The lists of ABI facts, asserted as C++17.
#include "list_holds.inc"
