// SPDX-License-Identifier: Apache-2.0
// Copies between pinned host memory and device memory, in the order of the program's own stream: carries what the
// host's commands say until the one that says it is over.
//
// This is the source; what the library ships is the text that nvcc makes of it (stream_copy.ptx, by make_ptx.sh).
// gpu/stream_copy.h explains the arguments; the soft GPU does the same steps by ordinary code: change all three
// together.
//
// What waits for what, and why it cannot hang:
//   - Commands have consecutive numbers; command n stands in slot n % slots, and its bytes in the staging slot of the
//     same number. Blocks draw numbers from a counter, in order, so one resident block is enough. Numbers go on from
//     launch to launch, and begin anew between two launches before they would come round.
//   - A command is two words in a line of the host's memory of its own, as is the answer to it: looks at its neighbours
//     would hold up its writer. Both words carry (part of) its number, so it does not matter in which order they
//     are seen.
//   - The last command says `end`. The block that draws it tells the others, which wait for commands that never come:
//     those with higher numbers. One that has drawn a lower one stays until its command has been seen and carried out.
//   - What a launch says of itself is told by the number that it begins with: the host need not have taken notice of
//   one
//     launch before the next one begins.
//   - The host may take everything back as long as no block has begun. The block that draws the first number says
//   `begun`
//     and then looks at the first command; the host first makes that command `revoked` and then looks for `begun`.
//     With a full fence between on both sides, at least one of them sees the other. The other blocks store nothing
//     before that block has given its commit word. A launch that was revoked stays until the host has done the work
//     itself, since what comes next in the stream may run when it leaves; or until the host, whose driver does not copy
//     now, leaves it the rest of the commands.

#include "../kernel_protocol.h"
#include "loads.cuh"

using namespace sluice::gpu;

using u32 = unsigned int;
using u64 = unsigned long long;

namespace {

// The commit word on a launch: this, or the number from which on it carries. Numbers begin beyond.
constexpr u32 off = 1;

// What the host says to a launch that was revoked, one of both: nothing is left, and where the next one begins; or
// the number from which on it is to carry after all.
constexpr u32 at_over = 0;
constexpr u32 at_from = 1;

// Looking at the host's memory is a request over the link each time, and those that wait would crowd out the bytes:
// only the blocks that are next look there, the others wait for news in device memory.
constexpr u32 lookouts = 6;

// Both words of 8 bytes by one load. (A load that only passes the caches would not do: compilers may take one before a
// loop for all in it.)
__device__ ulonglong2 look_at_both(const void* words) {
  ulonglong2 seen;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(seen.x), "=l"(seen.y) : "l"(words) : "memory");
  return seen;
}

// Asks once.
__device__ bool look(const StreamCopySlot* commands, u32 slots, u32 number, StreamCopyCommand& seen) {
  const ulonglong2 words = look_at_both(commands + number % slots);
  if (!has_number(words.x, words.y, number)) return false;
  seen = command_of(words.x, words.y);
  return true;
}

// Commands before the last one come for certain, also when a block has seen the last one before they were seen.
__device__ bool is_beyond_the_end(const volatile u32* counters, u32 number) {
  const u32 next = counters[at_next];
  return next != 0 && number >= next;
}

__device__ bool is_next(const volatile u32* counters, u32 number) {
  return number < counters[at_posted] + lookouts;
}

// Of a launch that was revoked: its commit word.
__device__ u32 wait_for_answer(const volatile u32* resume, volatile u32* counters) {
  for (;;) {
    const u32 over = resume[at_over];
    const u32 from = resume[at_from];
    if (over != 0) {
      counters[at_next] = over;
      return off;
    }
    if (from != 0) {
      atomicMax(const_cast<u32*>(counters + at_posted), from);
      __threadfence_system();  // the first command is another one now
      return from;
    }
  }
}

// Loads pass the caches: slots are used again and again, and other blocks write what is read back.
__device__ void copy_alike(char* to, const char* from, u32 length) {
  const u32 head = min(length, static_cast<u32>(-reinterpret_cast<u64>(to)) & 15u);
  for (u32 i = threadIdx.x; i < head; i += blockDim.x) to[i] = __ldcv(from + i);
  const uint4* source = reinterpret_cast<const uint4*>(from + head);
  uint4* target = reinterpret_cast<uint4*>(to + head);
  const u32 words = (length - head) / 16;
  const u32 stride = blockDim.x;
  for (u32 i = threadIdx.x; i < words; i += stride) target[i] = fetch(source + i);
  for (u32 rest = head + words * 16 + threadIdx.x; rest < length; rest += stride) to[rest] = __ldcv(from + rest);
}

// Source and target lie differently in their 16 bytes: neighbouring threads take neighbouring bytes.
__device__ void copy_bytes(char* to, const char* from, u32 length) {
  for (u32 i = threadIdx.x; i < length; i += blockDim.x) to[i] = __ldcv(from + i);
}

__device__ void copy(char* to, const char* from, u32 length) {
  if (((reinterpret_cast<u64>(to) ^ reinterpret_cast<u64>(from)) & 15u) == 0) {
    copy_alike(to, from, length);
  } else {
    copy_bytes(to, from, length);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(512)
    sluice_stream_copy(char* staging, const StreamCopySlot* commands, volatile StreamCopyAck* acked,
                       volatile u32* words, const volatile u32* resume, volatile u32* counters, u32 slot_bytes,
                       u32 slots) {
  __shared__ StreamCopyCommand command;
  __shared__ u32 number;
  __shared__ bool over;
  u32* const draws = const_cast<u32*>(counters + at_draws);
  u32* const left = const_cast<u32*>(counters + at_left);
  u32* const posted = const_cast<u32*>(counters + at_posted);
  if (threadIdx.x == 0) {
    u32 mine = atomicAdd(draws, 1u);
    StreamCopyCommand seen;
    u32 commit = 0;
    bool ready = false;
    bool leave = false;
    if (mine == counters[at_first]) {
      words[0] = mine;  // begun
      __threadfence_system();
      while (!look(commands, slots, mine, seen)) {
      }
      ready = seen.kind != StreamCopyKind::revoked;
      words[1] = ready ? committed_launch(mine) : revoked_launch(mine);
      commit = ready ? mine : wait_for_answer(resume, counters);
      __threadfence();
      counters[at_commit] = commit;
    }
    for (;;) {
      if (commit == 0) commit = counters[at_commit];
      leave = commit == off;
      if (leave) break;
      // Commands before are done: none of them waits for this block.
      while (commit != 0 && mine < commit) {
        mine = atomicAdd(draws, 1u);
        ready = false;
      }
      if (!ready && is_next(counters, mine)) ready = look(commands, slots, mine, seen);
      if (commit == 0) continue;
      leave = !ready && is_beyond_the_end(counters, mine);
      if (leave || ready) break;
    }
    if (!leave) atomicMax(posted, mine + 1);
    number = mine;
    command = seen;
    over = leave;
  }
  __syncthreads();
  while (!over && command.kind != StreamCopyKind::end) {
    char* const slot = staging + static_cast<u64>(number % slots) * slot_bytes + command.offset;
    char* const memory = reinterpret_cast<char*>(command.address);
    if (command.kind == StreamCopyKind::to_device) {
      copy(memory, slot, command.length);
    } else {
      copy(slot, memory, command.length);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      // Before the host hears of it, this block's bytes are in place: for the host itself, or for other blocks, which
      // may be told to fetch them.
      if (command.kind == StreamCopyKind::to_device) {
        __threadfence();
      } else {
        __threadfence_system();
      }
      acked[number % slots].number = number;
      const u32 mine = atomicAdd(draws, 1u);
      StreamCopyCommand seen;
      bool leave = false;
      while (!leave && !(is_next(counters, mine) && look(commands, slots, mine, seen))) {
        leave = is_beyond_the_end(counters, mine);
      }
      if (!leave) atomicMax(posted, mine + 1);
      number = mine;
      command = seen;
      over = leave;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    if (!over) counters[at_next] = number + 1;
    __threadfence_system();
    if (atomicAdd(left, 1u) == gridDim.x - 1) {
      const u32 first = counters[at_first];
      const u32 next = following_launch(counters[at_next]);
      counters[at_draws] = next;
      counters[at_first] = next;
      counters[at_posted] = next;
      counters[at_commit] = 0;
      counters[at_left] = 0;
      counters[at_next] = 0;
      __threadfence_system();
      words[2] = first;  // left: no block of this launch will look at anything again
    }
  }
}
