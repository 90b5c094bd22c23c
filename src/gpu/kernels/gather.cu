// SPDX-License-Identifier: Apache-2.0
// Carries chunks from a staging buffer in pinned host memory to consecutive device memory, each as soon as it is
// filled.
//
// This is the source; what the library ships is the text that nvcc makes of it (gather.ptx, by make_ptx.sh), so that
// building needs no CUDA toolkit. gpu/staging.h explains the arguments, carrying.cuh what the blocks do; the soft GPU
// does the same steps by ordinary code: change all of them together.
#include "carrying.cuh"
#include "one_range.cuh"

extern "C" __global__ void __launch_bounds__(544)
    sluice_gather(const char* staging, u64 target, const volatile Ticket* tickets, volatile u32* completed,
                  volatile LaunchWords* words, volatile u32* counters, u32 chunk_bytes, u32 stride, u32 skip,
                  u32 chunks, u32 silent_up_to, u32 first_number, u32 launch_id) {
  carry<Told::loaded>(staging, OneRange{target, chunk_bytes, stride, skip},
                      Shared{tickets, completed, words, counters, chunks, silent_up_to, first_number, launch_id});
}
