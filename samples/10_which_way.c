/* SPDX-License-Identifier: Apache-2.0 */
/* Which way do the bytes of a file go, and why? These calls are Sluice's own (<sluice.h>). */
#include "sample.h"
#include "sluice.h"

int main(int argc, char** argv) {
  const size_t size = 1 << 20;
  sluice_explanation_t answer;
  sluice_path_counter_t counters[16];
  size_t count = 0;
  use_gpu();
  const int file = sample_file(argc, argv, size);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(size);

  WANT_CUFILE(sluice_explain(handle, pointer(memory), 0, CUFILE_READ, size, 0, &answer));
  printf("path:   %s\nreason: %s\n        %s\nremedy: %s\n", answer.path_name, answer.reason_name, answer.sentence,
         answer.remedy);

  want(cuFileRead(handle, pointer(memory), size, 0, 0) == (ssize_t)size, "cuFileRead");
  want_bytes(memory, size, 0);
  WANT_CUFILE(sluice_path_counters(counters, 16, &count));
  want(count >= 1, "a counter");
  for (size_t i = 0; i < count && i < 16; ++i) {
    printf("%llu reads of %llu bytes by %s (%s)\n", (unsigned long long)counters[i].reads,
           (unsigned long long)counters[i].read_bytes, sluice_path_name(counters[i].path),
           sluice_reason_name(counters[i].reason));
  }

  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
