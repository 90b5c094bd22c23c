/* The lists of ABI facts, asserted as C11. */
#include "list_holds.inc"
