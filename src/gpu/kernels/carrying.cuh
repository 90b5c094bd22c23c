// SPDX-License-Identifier: Apache-2.0
// What the gather and the scatter kernel have in common: chunks wait in a staging buffer in pinned host memory, and
// each is carried to device memory as soon as it is filled. Included by each, in a namespace of its own; so it has
// no guard.
//
// A block is warps of *copiers*, one at least, and one more, whose first thread is its *usher*: it draws chunks and
// waits for their tickets, one ahead of the copiers. Both are trips over a link that is full of bytes, and copiers that
// made them themselves stood still for as long. Each warp of copiers goes from chunk to chunk at its own pace; the last
// one of the block to be done with a chunk tells the host.
//
// What waits for what, and why it cannot hang:
//   - Blocks draw chunks from a counter, in order. So one resident block is enough, however many were launched.
//   - What a block has drawn ahead keeps no warp from its present chunk: copiers wait for ushers, ushers for copiers
//   that
//     are a chunk behind, and those for none.
//   - The host may call a launch off as long as no block has begun. The block that draws chunk 0 first says `begun` and
//     then looks for the host's mark; the host first sets its mark and then looks for `begun`. With a full fence
//     between on both sides, at least one of them sees the other. The host's mark takes the place of chunk 0's ticket:
//     one read over the link, not two. The other blocks store nothing before that block has given its commit word.
//   - A chunk's ticket, in slot n % ticket_slots for chunk n, is a number that this slot never had before (low half),
//     the chunk's length and its staging slot (8 bits), written in one store after the chunk's bytes. Each has a line
//     of the host's memory to itself: looks at its neighbours would hold up its writer.
//   - Every chunk gets a ticket in the end: one of length 0 when there was nothing to read.

#include "../kernel_protocol.h"
#include "loads.cuh"

using namespace sluice::gpu;
using u32 = unsigned int;
using u64 = unsigned long long;

namespace {

constexpr u32 warp = 32;
constexpr u32 long_chunk = 65536;

// What the launch shares with the host, and what its blocks share.
struct Shared {
  const volatile Ticket* tickets;
  volatile u32* completed;
  volatile LaunchWords* words;
  volatile u32* counters;
  u32 chunks;
  u32 silent_up_to;
  u32 first_number;
  u32 launch_id;

  // All counters are 0 between launches; the commit word carries its launch's id.
  __device__ u32* draws() const { return const_cast<u32*>(counters + 0); }
  __device__ volatile u32& commit() const { return const_cast<volatile u32&>(counters[1]); }
  __device__ u32* done() const { return const_cast<u32*>(counters + 2); }
  __device__ u32* left() const { return const_cast<u32*>(counters + 3); }
};

struct Job {
  u32 chunk;  // behind the last one: there is no more
  u32 length;
  u64 to;
  u64 from;
};

// A chunk's way: where it goes, which may have to be asked for, and how far into its slot it begins.
template <typename Way>
class Usher {
 public:
  __device__ Usher(const Way& way, const Shared& shared) : way_(way), shared_(shared) {}

  __device__ Job first() {
    u32 chunk = atomicAdd(shared_.draws(), 1u);
    u64 ticket = 0;
    u64 to = 0;
    if (chunk == 0) {
      shared_.words->begun = shared_.launch_id;
      __threadfence_system();
      to = way_.target(0);
      do {
        ticket = shared_.tickets[0].value;
      } while (ticket_number(ticket) != shared_.first_number && ticket_number(ticket) != revoked_ticket);
      const LaunchCommit commit =
          ticket_number(ticket) == revoked_ticket ? LaunchCommit::revoked : LaunchCommit::carries;
      shared_.commit() = commit_word(shared_.launch_id, commit);
      shared_.words->commit = commit_word(shared_.launch_id, commit);
      if (commit == LaunchCommit::revoked) chunk = shared_.chunks;
    } else {
      // Its own ticket is awaited meanwhile; a launch that was revoked gets none.
      LaunchCommit commit = LaunchCommit::none_yet;
      if (chunk < shared_.chunks) to = way_.target(chunk);
      for (;;) {
        if (chunk < shared_.chunks && ticket_number(ticket) != shared_.first_number + chunk) ticket = look(chunk);
        if (commit == LaunchCommit::none_yet) {
          const u32 seen = shared_.commit();
          if (is_commit_of(seen, shared_.launch_id)) commit = commit_in(seen);
        }
        if (commit == LaunchCommit::revoked) chunk = shared_.chunks;
        if (commit != LaunchCommit::none_yet &&
            (chunk >= shared_.chunks || ticket_number(ticket) == shared_.first_number + chunk)) {
          break;
        }
      }
    }
    return job(chunk, to, ticket);
  }

  __device__ Job next() {
    const u32 chunk = atomicAdd(shared_.draws(), 1u);
    if (chunk >= shared_.chunks) return job(shared_.chunks, 0, 0);
    const u64 to = way_.target(chunk);
    u64 ticket;
    do {
      ticket = look(chunk);
    } while (ticket_number(ticket) != shared_.first_number + chunk);
    return job(chunk, to, ticket);
  }

 private:
  __device__ u64 look(u32 chunk) const { return shared_.tickets[chunk % ticket_slots].value; }
  __device__ Job job(u32 chunk, u64 to, u64 ticket) const {
    return {chunk, ticket_length(ticket), to,
            static_cast<u64>(ticket_slot(ticket)) * way_.stride + way_.into(chunk, to)};
  }

  const Way& way_;
  const Shared& shared_;
};

// By `count` threads. Of a long chunk two loads of each are on their way at once, of others one: with more, those of
// all blocks together take so much longer that the whole does, too.
__device__ void copy(char* to, const char* from, u32 length, u32 count) {
  // Both have the same distance from a 16-byte boundary.
  const u32 head = min(length, static_cast<u32>(-reinterpret_cast<u64>(to)) & 15u);
  for (u32 i = threadIdx.x; i < head; i += count) to[i] = __ldcv(from + i);
  const uint4* source = reinterpret_cast<const uint4*>(from + head);
  uint4* target = reinterpret_cast<uint4*>(to + head);
  const u32 words = (length - head) / 16;
  u32 i = threadIdx.x;
  if (length >= long_chunk) {
    for (; i + count < words; i += 2 * count) {
      const uint4 a = fetch(source + i);
      const uint4 b = fetch(source + i + count);
      target[i] = a;
      target[i + count] = b;
    }
  }
  for (; i < words; i += count) target[i] = fetch(source + i);
  for (u32 rest = head + words * 16 + threadIdx.x; rest < length; rest += count) to[rest] = __ldcv(from + rest);
}

// The block has carried so many chunks and looks at nothing any more.
__device__ void leave(const Shared& shared, u32 carried) {
  // This block's bytes are in place, for every reader, before they are counted; and the host hears of it when all
  // have been counted.
  __threadfence_system();
  if (carried > 0 && atomicAdd(shared.done(), carried) + carried == shared.chunks)
    shared.words->done = shared.launch_id;
  if (atomicAdd(shared.left(), 1u) == gridDim.x - 1) {
    *shared.draws() = 0;
    *shared.done() = 0;
    *shared.left() = 0;
    __threadfence_system();
    shared.words->left = shared.launch_id;
  }
}

// What the host is told of a chunk: its slot may be filled again; or its bytes are there for every reader, too.
enum class Told { loaded, in_place };

template <Told told, typename Way>
__device__ void carry(const char* staging, const Way& way, const Shared& shared) {
  constexpr u32 job_slots = 2;  // where jobs wait: job n at n % job_slots
  __shared__ Job jobs[job_slots];
  __shared__ u32 posted[job_slots];   // the number of the job that lies there, plus one
  __shared__ u32 through[job_slots];  // warps that are done with it
  __shared__ u32 finished;            // jobs that all warps are done with
  __shared__ u32 gone;                // warps that have found no more
  if (threadIdx.x < job_slots) posted[threadIdx.x] = through[threadIdx.x] = 0;
  if (threadIdx.x == 0) finished = gone = 0;
  __syncthreads();
  const u32 copiers = blockDim.x - warp;
  const u32 warps = copiers / warp;
  if (threadIdx.x >= copiers) {
    if (threadIdx.x != copiers) return;
    Usher<Way> usher(way, shared);
    for (u32 n = 0;; ++n) {
      const volatile u32& done = finished;
      while (done + job_slots <= n) __nanosleep(32);
      const Job job = n == 0 ? usher.first() : usher.next();
      jobs[n % job_slots] = job;
      __threadfence_block();
      static_cast<volatile u32&>(posted[n % job_slots]) = n + 1;
      if (job.chunk >= shared.chunks) return;
    }
  }
  const bool speaks = threadIdx.x % warp == 0;  // for its warp
  for (u32 n = 0;; ++n) {
    if (speaks) {
      const volatile u32& there = posted[n % job_slots];
      while (there != n + 1) __nanosleep(32);
      __threadfence_block();
    }
    __syncwarp();
    const Job job = jobs[n % job_slots];
    if (job.chunk >= shared.chunks) {
      if (!speaks) return;
      __threadfence();
      if (atomicAdd(&gone, 1u) == warps - 1) leave(shared, n);
      return;
    }
    copy(reinterpret_cast<char*>(job.to), staging + job.from, job.length, copiers);
    __syncwarp();
    if (!speaks) continue;
    if (told == Told::in_place) {
      __threadfence_system();  // of all that the warp has written, which it has just waited for
    } else {
      __threadfence_block();
    }
    if (atomicAdd(&through[n % job_slots], 1u) != warps - 1) continue;
    if (told == Told::in_place) __threadfence_system();  // of what the other warps have told of
    through[n % job_slots] = 0;
    // The bytes have been loaded (each store needed one): the slot may be filled again.
    if (shared.chunks > shared.silent_up_to)
      shared.completed[job.chunk % ticket_slots] = shared.first_number + job.chunk;
    __threadfence_block();
    atomicAdd(&finished, 1u);
  }
}

}  // namespace
