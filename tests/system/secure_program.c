/* SPDX-License-Identifier: Apache-2.0 */
/* What a program with privileges of its own takes from its caller: prints the size of the buffer cache that the
 * configuration gives. With the word "region": how many bytes the statistics of a process have, as
 * version 4 and in all. */
#include <cufile.h>
#include <stdio.h>
#include <string.h>

#include "sluice_stats.h"

int main(int count, char** words) {
  if (count > 1 && strcmp(words[1], "region") == 0) {
    printf("%zu %zu\n", SLUICE_STATS_BASE_SIZE, sizeof(sluice_stats_region_t));
    return 0;
  }
  size_t kib = 0;
  (void)cuFileDriverOpen(); /* without a GPU it fails, and the configuration holds all the same */
  if (cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB, &kib).err != CU_FILE_SUCCESS) return 1;
  printf("%zu\n", kib);
  return 0;
}
