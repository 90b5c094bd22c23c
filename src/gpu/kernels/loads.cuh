// SPDX-License-Identifier: Apache-2.0
// Loads from pinned host memory, whose slots are used again and again: none may be answered by a cache. Included by
// each kernel in a namespace of its own; so it has no guard.
//
// Volatile loads would do, but those of one thread wait for each other, a trip over the link each. These do not: how
// many are on their way together is told by how the loops that use them are written.

namespace {

__device__ uint4 fetch(const uint4* from) {
  uint4 got;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(got.x), "=r"(got.y), "=r"(got.z), "=r"(got.w)
               : "l"(from)
               : "memory");
  return got;
}

}  // namespace
