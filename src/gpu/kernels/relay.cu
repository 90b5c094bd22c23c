// SPDX-License-Identifier: Apache-2.0
// As the gather kernel, into memory of so many slots that another device reads while chunks come: they go round in it,
// and a chunk is told of when its bytes are there for every reader, not as soon as its slot may be filled again.
//
// This is the source of relay.ptx (gather.cu says how); what changes there changes here, and in the soft GPU.
#include "carrying.cuh"
#include "one_range.cuh"

namespace {

struct RoundRelay : OneRange {
  u32 slots;

  __device__ u64 target(u32 chunk) const {
    return begin + static_cast<u64>(chunk % slots) * chunk_bytes + into(chunk, 0);
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(544)
    sluice_relay(const char* staging, u64 target, const volatile Ticket* tickets, volatile u32* completed,
                 volatile LaunchWords* words, volatile u32* counters, u32 chunk_bytes, u32 stride, u32 skip, u32 chunks,
                 u32 silent_up_to, u32 first_number, u32 launch_id, u32 slots) {
  carry<Told::in_place>(staging, RoundRelay{{target, chunk_bytes, stride, skip}, slots},
                        Shared{tickets, completed, words, counters, chunks, silent_up_to, first_number, launch_id});
}
