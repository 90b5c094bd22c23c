/* What <cufile.h> says of error codes, as C11. */
#include "error_texts.inc"
