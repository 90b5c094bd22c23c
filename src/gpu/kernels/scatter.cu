// SPDX-License-Identifier: Apache-2.0
// Carries chunks from a staging buffer in pinned host memory to device memory, each to a target of its own, as soon as
// it is filled: many small reads with one launch.
//
// This is the source; what the library ships is the text that nvcc makes of it (scatter.ptx, by make_ptx.sh).
// gpu/staging.h explains the arguments, carrying.cuh what the blocks do; the soft GPU does the same steps by ordinary
// code: change all of them together.
//
// What differs from the gather kernel:
//   - Chunk n goes to targets[n], which the host has written before the launch. It is asked for before the ticket is
//     waited for, so that it costs no trip over the link of its own.
//   - The bytes begin in their slot as far behind a 16-byte boundary as in their target.
//   - Chunks are of different lengths, and none begins later in its slot for a part that was skipped.
#include "carrying.cuh"

namespace {

struct ManyTargets {
  const volatile u64* targets;
  u32 stride;

  __device__ u32 into(u32, u64 target) const { return target & 15; }
  __device__ u64 target(u32 chunk) const { return targets[chunk]; }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(544)
    sluice_scatter(const char* staging, const volatile u64* targets, const volatile Ticket* tickets,
                   volatile u32* completed, volatile LaunchWords* words, volatile u32* counters, u32 stride, u32 chunks,
                   u32 silent_up_to, u32 first_number, u32 launch_id) {
  carry<Told::loaded>(staging, ManyTargets{targets, stride},
                      Shared{tickets, completed, words, counters, chunks, silent_up_to, first_number, launch_id});
}
