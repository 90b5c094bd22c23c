// SPDX-License-Identifier: Apache-2.0
// The way of chunks that go to consecutive device memory. Included behind carrying.cuh, each time in a namespace of its
// own; so it has no guard.

namespace {

struct OneRange {
  u64 begin;  // where chunk 0 would go if `skip` were 0
  u32 chunk_bytes;
  u32 stride;
  u32 skip;

  __device__ u32 into(u32 chunk, u64) const { return chunk == 0 ? skip : 0; }
  __device__ u64 target(u32 chunk) const { return begin + static_cast<u64>(chunk) * chunk_bytes + into(chunk, 0); }
};

}  // namespace
