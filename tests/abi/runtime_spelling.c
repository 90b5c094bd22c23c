/* SPDX-License-Identifier: Apache-2.0 */
/* A program in the spelling of <cudafile.h>, as C11. */
#include "runtime_spelling.inc"
