// SPDX-License-Identifier: Apache-2.0
// Who carries a transfer, in which chunks, with how many helpers and into which places. Pure functions of what is known
// when it begins.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/strong.h"
#include "gpu/mailbox.h"
#include "gpu/memory.h"
#include "staging/slot_cursor.h"
#include "staging/staging_buffer.h"
#include "transfer/file_range.h"

namespace sluice::transfer {

// What a piece between a file and device memory goes through. Up to this length one read and one copy are the quickest
// for a thread that is alone; beyond it, doing both at once pays.
inline constexpr std::uint64_t largest_for_bounce_buffer = std::uint64_t{128} << 10U;
enum class Through : std::uint8_t { small_read, staging_buffer, bounce_buffer };
struct PieceShape {
  std::uint64_t length;
  bool cached_read;  // of what the page cache may have
  bool polled;       // a drive that is polled: plain reads of any size wait for an interrupt
};
constexpr Through way_of(const PieceShape& shape) noexcept {
  if (shape.length > largest_for_bounce_buffer) return Through::staging_buffer;
  if (shape.cached_read) return Through::small_read;
  return shape.polled ? Through::staging_buffer : Through::bounce_buffer;
}

// And a small read among others. The driver makes one copy after the other: there, kernels are quicker than the copies
// of all of them.
enum class SmallThrough : std::uint8_t { copy, mailbox, prompt_kernel };
struct SmallShape {
  std::uint64_t length;
  bool copies_wanted;   // sluice.small_reads
  bool kernels_wanted;  // also for a lone thread
  bool crowded;         // two are at it
  bool very_crowded;    // four
  bool streams_wait;    // for this transfer: its kernel would stand behind them, and hold it up until it is revoked
};
constexpr SmallThrough small_way_of(const SmallShape& shape) noexcept {
  if (shape.copies_wanted) return SmallThrough::copy;
  if (shape.length > gpu::mailbox_bytes) return shape.very_crowded ? SmallThrough::prompt_kernel : SmallThrough::copy;
  const bool kernels = !shape.streams_wait && (shape.kernels_wanted || shape.crowded);
  return kernels ? SmallThrough::mailbox : SmallThrough::copy;
}

// The read, and what goes on beside it.
struct ReadShape {
  base::FileOffset at;
  std::uint64_t length;
  std::uint32_t block;  // what O_DIRECT wants of offsets and lengths; 1 for a buffered descriptor
  std::uint32_t unit;   // chunks begin on multiples of it, but for the first one
  cuda::DevicePtr to;
  bool cached;             // no disk has to bring it first
  bool by_kernel;          // which carries what has been read; else the copy engine does
  unsigned others;         // requests that are under way
  bool workers_suffice;    // among them and this one
  unsigned workers;        // that there are
  unsigned extra_helpers;  // helpers that large reads have shown to be worth having (workers/helper_tuner.h)

  // A request in a crowd is one of three at least.
  bool in_crowd() const noexcept { return others + 1 >= 3; }
};

struct ReadPlan {
  std::uint64_t bytes;
  // Bytes before the range in chunk 0, so that all others begin on a page of the file, and this one is short where the
  // device waits for it.
  std::uint32_t skip;
  std::uint32_t chunk_bytes;
  std::uint32_t chunks;
  staging::SlotLayout slots;
  std::uint32_t stride;  // from one place to the next
  std::uint32_t shift;   // where the places begin, so that the kernel finds source and target alike aligned
  unsigned helpers;
  bool cached;
  bool in_crowd;
  bool tells;          // long enough, and alone, to tell whether its helpers were enough
  bool helpers_sleep;  // while their places are full
  // For the copy engine: so many chunks at a time, and fewer where it has nothing of this request to do.
  std::uint32_t chunks_a_copy;
  bool less_when_idle;
  // Of neighbours that a disk is asked for at once.
  std::uint32_t in_a_request = 1;
  // More helpers (workers/reserve.h).
  unsigned reserve = 0;
  bool is_lent = false;  // several devices carry it
};

ReadPlan plan_read(const ReadShape& shape) noexcept;

// What a disk has to bring first, kept on its way by one thread (source/ring.h).
ReadPlan plan_disk_read(const FileSpan& range, unsigned buffers = 1) noexcept;

// An array of so many drives wants more requests on their way than one staging buffer has places for: so many buffers.
inline constexpr unsigned most_array_buffers = 4;  // less than staging::MoreBuffers has
constexpr unsigned array_buffers(std::uint64_t length, unsigned drives, unsigned others) noexcept {
  if (drives < 2 || others > 1 || length <= staging::staging_bytes) return 1;
  return drives < most_array_buffers ? drives : most_array_buffers;
}

// The same of many reads that go together: their chunks and places.
inline constexpr std::uint32_t largest_disk_block = 4096;
inline constexpr std::size_t most_disk_items = 48;
inline constexpr std::size_t most_disk_slots = 64;
ReadPlan plan_disk_items(std::span<const ReadItem> items) noexcept;

// By several links at once, with so many staging buffers (sink/peer_gpu.h): chunks of what the page cache has stay in
// the processor's caches until they leave.
constexpr bool is_worth_lending(std::uint64_t length, unsigned others, std::uint64_t least) noexcept {
  return length >= (others > 0 ? least / 4 : least);
}
ReadPlan plan_lent_read(const FileSpan& range, unsigned buffers, unsigned workers, unsigned reserve) noexcept;
// The same by a kernel on each device (sink/link_kernels.h), in so much room for places. A buffered descriptor's.
ReadPlan plan_lent_kernel_read(const FileSpan& range, cuda::DevicePtr to, std::size_t room, unsigned workers,
                               unsigned reserve) noexcept;

// For a stream: by the caller and helpers, or by one thread and a ring, which asks for neighbours together.
inline constexpr std::uint32_t most_in_a_stream_request = 16;
ReadPlan plan_stream_read(const FileSpan& range, cuda::DevicePtr to) noexcept;
ReadPlan plan_stream_disk_read(const FileSpan& range) noexcept;

// May the gather kernel carry a read? Whether it is worth trying just now, the staging buffer tells.
struct KernelFacts {
  CopyEngine wanted;
  bool has_sentinel;  // without it no kernel may wait for storage
  bool cached;
  bool alike_aligned;  // the places and the target, on 16 bytes
  bool is_loaded;
};
constexpr bool kernel_may_carry(const KernelFacts& facts) noexcept {
  return facts.wanted != CopyEngine::engine && facts.has_sentinel &&
         (facts.cached || facts.wanted == CopyEngine::kernel) && facts.alike_aligned && facts.is_loaded;
}
// The kernel takes source and target alike aligned; O_DIRECT wants its places on a page.
constexpr bool can_be_gathered(const FileRange& range, cuda::DevicePtr to) noexcept {
  return range.block == 1 || (to - range.at.value % range.unit()) % 16 == 0;
}

// How long a launch may take to begin, among so many requests under way, before it is revoked. Beside others a kernel
// takes its time, and the copy engine gets little of a link that they fill: it is worth as long as its bytes would
// take.
std::chrono::microseconds gather_start_timeout(std::uint64_t bytes, unsigned jobs) noexcept;
std::chrono::microseconds scatter_start_timeout(std::uint64_t bytes, unsigned jobs) noexcept;

// Blocks of the gather kernel, for all requests that are under way together.
unsigned gather_blocks(const ReadPlan& plan, unsigned requests) noexcept;

// Many reads: as many of them as one launch takes, and the size of their chunks.
inline constexpr unsigned most_scatter_helpers = 11;
inline constexpr std::uint32_t most_scatter_chunks = staging::most_targets - most_scatter_helpers - 1;
constexpr std::uint32_t chunks_in(std::uint64_t length, std::uint32_t size) noexcept {
  return static_cast<std::uint32_t>((length + size - 1) / size);
}
struct LaunchCut {
  std::size_t items;
  std::uint32_t chunk_bytes;
};
LaunchCut cut_launch(std::span<const ReadItem> items) noexcept;

// The launch, with so many bytes of room in the staging buffer.
struct ScatterShape {
  std::uint64_t bytes;
  std::uint64_t room;
  std::uint32_t chunk_bytes;
  std::uint32_t chunks;
  bool alike_aligned;  // all targets, on 16 bytes
  bool by_kernel;
  unsigned others;  // requests that are under way
  unsigned workers;
};
ReadPlan plan_scatter(const ScatterShape& shape) noexcept;

// A write of one range: in chunks of which the first is short where writing is to begin soon, all others large, since
// each costs two calls of the driver, made by the calling thread, and a call of the file system's, whose price does not
// depend on the size alone: ext4 goes through all blocks of a folio with each write into it, and folios of up to 8 MiB
// are usual.
struct WriteShape {
  std::uint64_t length;
  std::uint32_t block;   // 1 for a buffered descriptor
  bool beside;           // others write to the same file
  bool may_prefetch;     // its place
  bool place_cached;     // the place is in the page cache where it begins and ends; asked where it may take turns
  unsigned others;       // requests that are under way
  bool workers_suffice;  // among them and this one
  unsigned workers;      // that there are
};
struct WritePlan {
  std::uint64_t first;           // chunk
  std::uint64_t whole;           // of all others
  unsigned helpers;              // besides the caller
  unsigned ahead = helpers + 2;  // so many chunks are on their way, or written, at a time
};
bool may_take_turns(const WriteShape& shape) noexcept;
WritePlan plan_write(const WriteShape& shape) noexcept;
// The same by several links at once: chunks that neighbours have room for, and as many on their way as there are
// places.
WritePlan plan_lent_write(const WritePlan& alone) noexcept;

}  // namespace sluice::transfer
