// Carries chunks from a staging ring in pinned host memory to device memory, each to a target of its own, as soon as it
// is filled: many small reads with one launch.
//
// This is the source; what the library ships is the text that nvcc makes of it (scatter.ptx, by make_ptx.sh).
// gpu/staging.h explains the arguments; the soft GPU does the same steps by ordinary code: change all three together.
//
// Tickets, places, calling off and the words for the host are those of the gather kernel: the head of gather.cu says
// who waits for whom, and why it cannot hang. What differs:
//   - Chunk n goes to targets[n], which the host has written before the launch. It is read before the ticket is waited
//     for, so that it costs no trip over the link of its own.
//   - The bytes begin in their place as far behind a 16-byte boundary as in their target.
//   - Chunks are of different lengths, and none begins later in its place for a part that was skipped.

using u32 = unsigned int;
using u64 = unsigned long long;

namespace {

constexpr u32 called_off = 0xffffffffu;  // in the low half of chunk 0's ticket
constexpr u32 ticket_words = 8;          // from one ticket to the next: a line each
constexpr u32 ticket_slots = 256;

__device__ u32 length_in(u64 ticket) {
  return static_cast<u32>(ticket >> 32) & 0xffffffu;
}

__device__ u32 place_in(u64 ticket) {
  return static_cast<u32>(ticket >> 56);
}

// Loads pass the caches: the ring's places are used again and again.
__device__ void copy(char* to, const char* from, u32 length) {
  // Both have the same distance from a 16-byte boundary.
  const u32 head = min(length, static_cast<u32>(-reinterpret_cast<u64>(to)) & 15u);
  for (u32 i = threadIdx.x; i < head; i += blockDim.x) to[i] = __ldcv(from + i);
  const uint4* source = reinterpret_cast<const uint4*>(from + head);
  uint4* target = reinterpret_cast<uint4*>(to + head);
  const u32 words = (length - head) / 16;
  const u32 stride = blockDim.x;
  u32 i = threadIdx.x;
  // Four loads are on their way at once.
  for (; i + 3 * stride < words; i += 4 * stride) {
    const uint4 a = __ldcv(source + i);
    const uint4 b = __ldcv(source + i + stride);
    const uint4 c = __ldcv(source + i + 2 * stride);
    const uint4 d = __ldcv(source + i + 3 * stride);
    target[i] = a;
    target[i + stride] = b;
    target[i + 2 * stride] = c;
    target[i + 3 * stride] = d;
  }
  for (; i < words; i += stride) target[i] = __ldcv(source + i);
  for (u32 rest = head + words * 16 + threadIdx.x; rest < length; rest += stride) to[rest] = __ldcv(from + rest);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(512)
    sluice_scatter(const char* ring, const volatile u64* targets, const volatile u64* tickets, volatile u32* drained,
                   volatile u32* word, volatile u32* counters, u32 stride, u32 chunks, u32 silent_up_to,
                   u32 first_number, u32 serial) {
  __shared__ u32 drawn;
  __shared__ u32 length;
  __shared__ u32 place;
  __shared__ u64 target;
  u32* const draws = const_cast<u32*>(counters + 0);
  u32* const done = const_cast<u32*>(counters + 2);
  u32* const left = const_cast<u32*>(counters + 3);
  constexpr u32 go = 1;
  constexpr u32 off = 2;
  u32 carried = 0;
  if (threadIdx.x == 0) {
    u32 mine = atomicAdd(draws, 1u);
    if (mine == 0) {
      word[0] = serial;  // begun
      __threadfence_system();
      target = targets[0];
      u64 ticket;
      do {
        ticket = *tickets;
      } while (static_cast<u32>(ticket) != first_number && static_cast<u32>(ticket) != called_off);
      const u32 verdict = static_cast<u32>(ticket) == called_off ? off : go;
      counters[1] = serial << 2 | verdict;
      word[1] = serial << 2 | verdict;
      length = length_in(ticket);
      place = place_in(ticket);
      if (verdict == off) mine = chunks;
    } else {
      // Its own ticket is awaited meanwhile; a launch that was called off gets none.
      u32 verdict = 0;
      u64 ticket = 0;
      if (mine < chunks) target = targets[mine];
      for (;;) {
        if (mine < chunks && static_cast<u32>(ticket) != first_number + mine) {
          ticket = tickets[mine % ticket_slots * ticket_words];
        }
        if (verdict == 0) {
          const u32 seen = counters[1];
          if (seen >> 2 == (serial << 2) >> 2) verdict = seen & 3;
        }
        if (verdict == off) mine = chunks;
        if (verdict != 0 && (mine >= chunks || static_cast<u32>(ticket) == first_number + mine)) break;
      }
      length = length_in(ticket);
      place = place_in(ticket);
    }
    drawn = mine;
  }
  __syncthreads();
  while (drawn < chunks) {
    copy(reinterpret_cast<char*>(target), ring + static_cast<u64>(place) * stride + (target & 15), length);
    __syncthreads();
    if (threadIdx.x == 0) {
      // The bytes have been loaded (each store needed one): the place may be filled again.
      if (chunks > silent_up_to) drained[drawn % ticket_slots] = first_number + drawn;
      ++carried;
      drawn = atomicAdd(draws, 1u);
      if (drawn < chunks) {
        target = targets[drawn];
        u64 ticket;
        do {
          ticket = tickets[drawn % ticket_slots * ticket_words];
        } while (static_cast<u32>(ticket) != first_number + drawn);
        length = length_in(ticket);
        place = place_in(ticket);
      }
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    // This block's bytes are in place, for whoever looks, before they are counted; and the host hears of it when all
    // have been counted.
    __threadfence_system();
    if (carried > 0 && atomicAdd(done, carried) + carried == chunks) word[2] = serial;  // done
    if (atomicAdd(left, 1u) == gridDim.x - 1) {
      // All counters are 0 between launches; the verdict carries its launch's serial number.
      *draws = 0;
      *done = 0;
      *left = 0;
      __threadfence_system();
      word[3] = serial;  // left: nobody of this launch will look at anything again
    }
  }
}
