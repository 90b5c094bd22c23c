// SPDX-License-Identifier: Apache-2.0
// Serves mailboxes: takes small requests that the host posts in pinned memory to device memory. One block a mailbox;
// either for the one request that is there (many threads' reads with one launch), or for as long as requests keep
// coming (a resident kernel, which leaves by itself).
//
// This is the source; what the library ships is the text that nvcc makes of it (serve.ptx, by make_ptx.sh).
// gpu/mailbox.h explains the arguments and the words; the soft GPU does the same steps by ordinary code: change all
// three together.
//
// What waits for what, and why no request is lost or carried twice:
//   - A request is two words of 8 bytes, fetched by one load: target and length, and in both the request's number. The
//     bytes lie there before it. Half a request has two numbers that differ and is none, as is one of number 0 in the
//     first word. A block serves a number once.
//   - The block's last look at the request comes after it has decided to leave, and `gone` after that look. So the host
//     posts and waits for either: served, or gone without having been seen; then it launches anew, or copies.
//   - A launch that does not begin has its requests revoked. The block says `begun` and then looks for a request;
//     the host takes the request away and then looks for `begun`. With a full fence between on both sides, at least one
//     of them sees the other. A host that finds the kernel begun puts the request back (it may have been seen or not)
//     and waits as above.
//   - It leaves when there has been nothing to do for `idle`, and after `life` whatever there is to do. With 0 for both
//     it looks once.

#include "../kernel_protocol.h"
#include "loads.cuh"

using namespace sluice::gpu;

using u32 = unsigned int;
using u64 = unsigned long long;

namespace {

constexpr u32 threads = 512;
constexpr u32 at_once = 8;            // loads of a thread
constexpr u32 nothing = 0xffffffffu;  // as a length: no request

__device__ u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Both words of 8 bytes by one load. (A load that only passes the caches would not do: compilers may take one before a
// loop for all in it.)
__device__ ulonglong2 look_at_both(const void* words) {
  ulonglong2 seen;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(seen.x), "=l"(seen.y) : "l"(words) : "memory");
  return seen;
}

// All loads of 64 KiB are on their way before the first store.
__device__ void copy(char* to, const char* from, u32 length) {
  // Both have the same distance from a 16-byte boundary.
  const u32 head = min(length, static_cast<u32>(-reinterpret_cast<u64>(to)) & 15u);
  const u32 words = (length - head) / 16;
  const u32 tail = length - head - words * 16;
  const uint4* const source = reinterpret_cast<const uint4*>(from + head);
  uint4* const target = reinterpret_cast<uint4*>(to + head);
  // One byte of an edge each, for the first 32 threads.
  u32 edge = nothing;
  char byte = 0;
  if (threadIdx.x < head) {
    edge = threadIdx.x;
  } else if (threadIdx.x >= 16 && threadIdx.x - 16 < tail) {
    edge = head + words * 16 + threadIdx.x - 16;
  }
  if (edge != nothing) byte = __ldcv(from + edge);
  for (u32 first = threadIdx.x; first < words || edge != nothing; first += at_once * threads) {
    uint4 part[at_once];
#pragma unroll
    for (u32 i = 0; i < at_once; ++i) {
      if (first + i * threads < words) part[i] = fetch(source + first + i * threads);
    }
#pragma unroll
    for (u32 i = 0; i < at_once; ++i) {
      if (first + i * threads < words) target[first + i * threads] = part[i];
    }
    if (edge != nothing) to[edge] = byte;
    edge = nothing;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads)
    sluice_serve(char* boxes, u64 low, u64 high, u32 stride, u32 data, u32 launch_id, u32 idle, u32 life) {
  __shared__ u64 target;
  __shared__ u32 length;
  __shared__ bool leaving;
  const u32 index = static_cast<u32>((blockIdx.x < 8 ? low : high) >> (blockIdx.x % 8 * 8)) & 255u;
  char* const box = boxes + static_cast<u64>(index) * stride;
  volatile MailboxWords* const words = reinterpret_cast<MailboxWords*>(box);
  u32 last = 0;
  u32 number = 0;
  u64 born = 0;
  u64 since = 0;
  if (threadIdx.x == 0) {
    words->begun = launch_id;
    __threadfence_system();
    born = since = nanoseconds();
  }
  for (;;) {
    if (threadIdx.x == 0) {
      length = nothing;
      do {
        const u64 now = nanoseconds();
        leaving = now - since >= idle || now - born >= life;
        const ulonglong2 seen = look_at_both(box);
        const MailboxRequest request{seen.x, seen.y};
        number = request.number();
        if (request.is_whole() && number != last) {
          target = request.target();
          length = request.length();
        }
      } while (length == nothing && !leaving);
    }
    __syncthreads();
    const bool last_one = leaving;
    if (length == nothing) break;
    copy(reinterpret_cast<char*>(target), box + data + (target & 15), length);
    __syncthreads();
    if (threadIdx.x == 0) {
      // The whole block's bytes are in place, for every reader, before the host hears of it. Releasing is enough, and
      // costs less than a full fence.
      asm volatile("fence.acq_rel.sys;" ::: "memory");
      words->answer = mailbox_answer(last_one ? launch_id : 0, number);
      last = number;
      since = nanoseconds();
    }
    if (last_one) return;
  }
  if (threadIdx.x == 0) words->answer = mailbox_answer(launch_id, last);
}
