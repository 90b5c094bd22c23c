// SPDX-License-Identifier: Apache-2.0
// What <cufile.h> says of error codes, as C++17.
#include "error_texts.inc"
