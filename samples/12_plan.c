/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: many ranges of a file into places of their own, as one object. The program waits for the first ones, a stream
 * for all of them, and each range says what came of it. */
#include "sample.h"
#include "sluice.h"

enum { ranges_count = 1000 };

int main(int argc, char** argv) {
  static sluice_range_t ranges[ranges_count];
  static sluice_item_result_t results[ranges_count];
  const size_t piece = 4000; /* of the file; each lies on 256 bytes of its own in memory */
  const size_t stride = 4096;
  const sluice_plan_options_t options = {sizeof options, CUFILE_READ, SLUICE_PLAN_FOR_STREAMS, 0};
  sluice_plan_counts_t counts;
  sluice_plan_t plan;
  CUstream stream;
  use_gpu();
  const int file = sample_file(argc, argv, ranges_count * piece);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(ranges_count * stride);
  WANT_CUDA(cuStreamCreate(&stream, 1));

  for (size_t i = 0; i < ranges_count; ++i) {
    ranges[i].file = handle;
    ranges[i].file_offset = (off_t)(i * piece);
    ranges[i].memory = pointer(memory + i * stride);
    ranges[i].size = piece;
  }
  WANT_CUFILE(sluice_plan_create(ranges, ranges_count, &options, &plan));
  WANT_CUFILE(sluice_plan_submit(plan)); /* returns at once */

  want(sluice_plan_wait(plan, 10, NULL) == 10, "waiting for the first ten");
  want_bytes(memory + 9 * stride, piece, 9 * piece);
  WANT_CUFILE(sluice_plan_wait_in_stream(plan, ranges_count, stream)); /* this thread does not wait */
  WANT_CUDA(cuStreamSynchronize(stream));

  WANT_CUFILE(sluice_plan_results(plan, 0, ranges_count, results));
  for (size_t i = 0; i < ranges_count; ++i) {
    want(results[i].state == SLUICE_ITEM_DONE && results[i].bytes == piece, "a range of the plan");
    want_bytes(memory + i * stride, piece, i * piece);
  }
  counts.size = sizeof counts;
  WANT_CUFILE(sluice_plan_progress(plan, &counts));
  printf("%zu ranges, %llu bytes, by the path %s\n", counts.items_ended, (unsigned long long)counts.bytes_in_place,
         sluice_path_name(results[0].path));

  WANT_CUFILE(sluice_plan_destroy(plan));
  cuStreamDestroy(stream);
  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
