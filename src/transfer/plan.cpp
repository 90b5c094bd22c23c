// SPDX-License-Identifier: Apache-2.0
#include "transfer/plan.h"

#include <algorithm>
#include <array>

#include "gpu/stream_copy.h"
#include "io/uring.h"
#include "staging/neighbour.h"
#include "staging/staging_buffer.h"
#include "workers/helper_tuner.h"

namespace sluice::transfer {

namespace {

struct Size {
  std::uint64_t up_to;
  std::uint32_t chunk_bytes;
  unsigned helpers;
};

// Measured on H200s and H100s. Smaller chunks start the device sooner, larger ones cost less; more helpers are quicker
// and cost more processor time, unless they sleep.
constexpr std::array kernel_sizes{Size{224 << 10, 16 << 10, 3}, Size{384 << 10, 32 << 10, 3},
                                  Size{2 << 20, 32 << 10, 6},   Size{4 << 20, 32 << 10, 9},
                                  Size{8 << 20, 64 << 10, 9},   Size{workers::HelperTuners::limits[0], 64 << 10, 7},
                                  Size{~0ULL, 64 << 10, 10}};
// Requests that are no longer come here from many threads at once, which need no help.
constexpr Size many_small{128 << 10, 16 << 10, 0};
constexpr std::array engine_sizes{Size{384 << 10, 32 << 10, 3}, Size{2 << 20, 32 << 10, 7}, Size{~0ULL, 32 << 10, 11}};
constexpr std::array disk_sizes{Size{1 << 20, 256 << 10, 3}, Size{4 << 20, 512 << 10, 5}, Size{~0ULL, 1 << 20, 7}};
constexpr std::array stream_sizes{Size{512 << 10, 16 << 10, 5}, Size{2 << 20, gpu::stream_copy_bytes, 7},
                                  Size{~0ULL, gpu::stream_copy_bytes, 11}};

// Cached reads of a crowd by the copy engine: it has enough to do, and large pieces keep it at that. Where workers do
// not go round, each request has one reader, its caller.
constexpr Size helped_in_crowd{~0ULL, 64 << 10, 3};
constexpr Size alone_in_crowd{~0ULL, 256 << 10, 0};

// Each copy by the copy engine costs two calls of the driver: while it is busy, it is given so much at least.
constexpr std::uint32_t worth_a_copy = 256 << 10;
constexpr std::uint32_t worth_a_copy_in_crowd = 1 << 20;

// Chunks of many reads that go together.
constexpr std::uint32_t smallest_scattered = 4096;
constexpr std::uint32_t usual_scattered = 16 << 10;
constexpr std::uint32_t largest_scattered = 64 << 10;

// So many have places of their own: fewer gain nothing by it.
constexpr unsigned fewest_helpers_apart = 4;
// Beside others so many threads are to be there for each: four reads at a time gained by it with twelve threads.
constexpr unsigned fewest_threads_apart = 3;

// A helper that comes back to the same slot so often learns whether the device or the readers are the slower ones.
constexpr std::uint32_t times_around = 3;

// Of shorter ones a sleep is too large a part: at 16 MiB sleeps saved nothing.
constexpr std::uint64_t longest_without_sleep = workers::HelperTuners::limits[0];

template <typename Sizes>
const Size& size_for(const Sizes& sizes, std::uint64_t length) {
  return *std::find_if(sizes.begin(), sizes.end(), [&](const Size& size) { return length <= size.up_to; });
}

const Size& size_of(const ReadShape& shape, bool in_copying_crowd) {
  if (!shape.cached) return size_for(disk_sizes, shape.length);
  if (shape.by_kernel) return shape.length <= many_small.up_to ? many_small : size_for(kernel_sizes, shape.length);
  if (in_copying_crowd) return shape.workers_suffice ? helped_in_crowd : alone_in_crowd;
  return size_for(engine_sizes, shape.length);
}

}  // namespace

ReadPlan plan_read(const ReadShape& shape) noexcept {
  std::uint64_t skip = shape.at.value % shape.unit;
  std::uint64_t total = skip + shape.length;
  const bool in_copying_crowd =
      shape.cached && !shape.by_kernel && shape.in_crowd() && shape.length >= worth_a_copy_in_crowd;
  const Size& size = size_of(shape, in_copying_crowd);
  // O_DIRECT reads whole blocks, the copy engine begins when it is told to, and a lone reader gains nothing.
  if (shape.by_kernel && shape.block == 1 && size.helpers > 0) {
    const std::uint32_t spared = size.chunk_bytes - std::min(staging::first_chunk_bytes, size.chunk_bytes / 2);
    skip += spared;
    total += spared;
  }
  ReadPlan made{};
  made.bytes = shape.length;
  made.stride = size.chunk_bytes;
  made.skip = static_cast<std::uint32_t>(skip);
  made.chunk_bytes = size.chunk_bytes;
  made.chunks = static_cast<std::uint32_t>((total + size.chunk_bytes - 1) / size.chunk_bytes);
  const std::uint32_t slots = std::min<std::uint32_t>(staging::staging_bytes / size.chunk_bytes, staging::most_slots);
  const bool large = shape.by_kernel && made.chunks >= times_around * slots;
  made.helpers = std::min(size.helpers + (large ? shape.extra_helpers : 0), made.chunks - 1);
  // The copy engine takes neighbours in one copy, and beside many requests each has few helpers.
  const bool alone = shape.others == 0;
  const bool apart = shape.by_kernel && made.helpers >= fewest_helpers_apart &&
                     (alone || (shape.workers + 1) / (shape.others + 1) >= fewest_threads_apart);
  made.slots =
      apart ? staging::SlotLayout::of_their_own(slots, shape.workers + 1) : staging::SlotLayout{.count = slots};
  made.tells = large && apart && alone;
  made.helpers_sleep = made.tells && shape.length > longest_without_sleep;
  made.cached = shape.cached;
  made.in_crowd = shape.in_crowd();
  made.chunks_a_copy = std::max(1U, (in_copying_crowd ? worth_a_copy_in_crowd : worth_a_copy) / size.chunk_bytes);
  made.less_when_idle = !in_copying_crowd;
  made.shift = shape.block == 1 ? static_cast<std::uint32_t>((shape.to - skip) % 16) : 0;
  return made;
}

// Chunks small enough that a request alone keeps a disk busy, large enough that each read is worth its interrupt.
ReadPlan plan_disk_read(const FileSpan& range, unsigned buffers) noexcept {
  ReadPlan made{};
  made.bytes = range.length;
  made.skip = static_cast<std::uint32_t>(range.at.value % range.unit());
  const std::uint64_t total = made.skip + range.length;
  const std::uint32_t usual = total <= 512 << 10 ? 128 << 10 : 512 << 10;
  made.chunk_bytes = made.stride = std::max(usual, range.block);
  made.chunks = chunks_in(total, made.chunk_bytes);
  const auto places = static_cast<std::uint32_t>(staging::staging_bytes / made.chunk_bytes);
  made.slots.count = std::min<std::uint32_t>(buffers * places, io::Uring::depth);
  made.cached = true;  // where it waits for the device, all of it has come
  made.chunks_a_copy = 1;
  return made;
}

ReadPlan plan_lent_read(const FileSpan& range, unsigned buffers, unsigned workers, unsigned reserve) noexcept {
  constexpr std::uint32_t cached_chunk = 256 << 10;
  constexpr std::uint64_t large = 256 << 20;  // pieces may be large, too
  constexpr std::uint32_t disk_chunk = 512 << 10;
  ReadPlan made{};
  made.bytes = range.length;
  made.skip = static_cast<std::uint32_t>(range.at.value % range.unit());
  made.chunk_bytes = made.stride = std::max(range.block == 1 ? cached_chunk : disk_chunk, range.block);
  made.chunks = chunks_in(made.skip + range.length, made.chunk_bytes);
  made.slots.count = static_cast<std::uint32_t>(staging::staging_bytes / made.chunk_bytes) * buffers;
  made.helpers = std::min(workers, made.chunks - 1);
  made.reserve = range.block == 1 ? std::min(reserve, made.chunks - 1 - made.helpers) : 0;
  made.cached = true;
  const std::uint32_t piece = range.length >= large ? 2U << 20U : 1U << 20U;
  made.chunks_a_copy = std::max(1U, piece / made.chunk_bytes);
  return made;
}

// Each kernel is told of every chunk: larger ones where there are many. The first one is short, as for a kernel alone.
ReadPlan plan_lent_kernel_read(const FileSpan& range, cuda::DevicePtr to, std::size_t room, unsigned workers,
                               unsigned reserve) noexcept {
  // Tried on two H200s: 512 KiB and 32 blocks give 90 GiB/s of 1 GiB where 256 KiB and 16 blocks give 80; of 64 MiB 67
  // and 60, with chunks of 128 KiB as with these.
  constexpr std::uint64_t large = 64 << 20;
  ReadPlan made{};
  made.bytes = range.length;
  made.chunk_bytes = made.stride = range.length >= large ? 512 << 10 : 128 << 10;
  made.is_lent = true;
  made.skip = static_cast<std::uint32_t>(range.at.value % range.unit()) + made.chunk_bytes - staging::first_chunk_bytes;
  made.shift = static_cast<std::uint32_t>((to - made.skip) % 16);
  made.chunks = chunks_in(made.skip + range.length, made.chunk_bytes);
  made.slots.count = std::min(static_cast<std::uint32_t>((room - made.shift) / made.stride), staging::most_slots);
  made.helpers = std::min(workers, made.chunks - 1);
  made.reserve = std::min(reserve, made.chunks - 1 - made.helpers);
  made.cached = true;
  made.chunks_a_copy = 1;
  return made;
}

ReadPlan plan_disk_items(std::span<const ReadItem> items) noexcept {
  constexpr std::uint64_t largest_slot = 512 << 10;
  std::uint64_t longest = 0;
  for (const ReadItem& item : items) longest = std::max(longest, item.at.value % item.block + item.length);
  ReadPlan made{};
  made.chunk_bytes = made.stride = static_cast<std::uint32_t>(
      std::min(largest_slot, std::uint64_t{chunks_in(longest, largest_disk_block)} * largest_disk_block));
  made.slots.count = static_cast<std::uint32_t>(std::min(most_disk_slots, staging::staging_bytes / made.chunk_bytes));
  return made;
}

namespace {

ReadPlan stream_chunks(const FileSpan& range, std::uint32_t chunk_bytes) noexcept {
  ReadPlan made{};
  made.bytes = range.length;
  made.skip = static_cast<std::uint32_t>(range.at.value % range.block);
  made.chunk_bytes = chunk_bytes;
  made.stride = gpu::stream_copy_slot_bytes;
  made.chunks = chunks_in(made.skip + range.length, chunk_bytes);
  made.slots.count = gpu::stream_copy_slots;
  return made;
}

}  // namespace

ReadPlan plan_stream_read(const FileSpan& range, cuda::DevicePtr to) noexcept {
  const Size& size = size_for(stream_sizes, range.length);
  ReadPlan made = stream_chunks(range, size.chunk_bytes);
  made.helpers = std::min(size.helpers, made.chunks - 1);
  // Where nothing else is aligned, source and target of the kernel's copies are alike.
  made.shift = range.block == 1 ? static_cast<std::uint32_t>(to % 16) : 0;
  return made;
}

// As long as the places last, one request costs less than two; beyond it, half of them are filled while the other half
// is emptied.
ReadPlan plan_stream_disk_read(const FileSpan& range) noexcept {
  ReadPlan made = stream_chunks(range, gpu::stream_copy_bytes);
  made.in_a_request = made.chunks <= 2 * gpu::stream_copy_slots ? most_in_a_stream_request : 8;
  return made;
}

std::chrono::microseconds gather_start_timeout(std::uint64_t bytes, unsigned jobs) noexcept {
  using std::chrono::microseconds;
  constexpr std::uint64_t bytes_a_microsecond = 8192;
  if (jobs <= 1) return staging::lone_kernel_start_timeout(bytes);
  return std::clamp(microseconds(bytes / bytes_a_microsecond), microseconds(400), microseconds(3000));
}

// Kernels of our own end soon.
std::chrono::microseconds scatter_start_timeout(std::uint64_t bytes, unsigned jobs) noexcept {
  return jobs > 1 ? std::chrono::microseconds(3000) : staging::lone_kernel_start_timeout(bytes);
}

// Enough to keep the link busy; more only take processors from the program's own kernels. Of small chunks each block is
// on its way to the next one more often, and what goes over NVLink is longer on its way.
unsigned gather_blocks(const ReadPlan& plan, unsigned requests) noexcept {
  constexpr unsigned fewest_blocks = 4;
  const unsigned for_all = plan.chunk_bytes < (64U << 10U) || plan.is_lent ? 32 : 16;
  return std::max(fewest_blocks, for_all / std::max(1U, requests));
}

// Small chunks start the device sooner, large ones cost less.
LaunchCut cut_launch(std::span<const ReadItem> items) noexcept {
  LaunchCut made{};
  std::uint32_t large_chunks = 0;
  std::uint32_t usual_chunks = 0;
  std::uint64_t longest = 0;
  for (; made.items < items.size(); ++made.items) {
    const std::uint64_t length = items[made.items].length;
    if (large_chunks + chunks_in(length, largest_scattered) > most_scatter_chunks) break;
    large_chunks += chunks_in(length, largest_scattered);
    usual_chunks += chunks_in(length, usual_scattered);
    longest = std::max(longest, length);
  }
  const std::uint32_t whole = chunks_in(longest, smallest_scattered) * smallest_scattered;
  made.chunk_bytes = std::min(usual_chunks <= most_scatter_chunks ? usual_scattered : largest_scattered, whole);
  return made;
}

// Where all targets lie alike, neighbours in the staging buffer touch, and the copy engine takes them in one piece.
ReadPlan plan_scatter(const ScatterShape& shape) noexcept {
  ReadPlan made{};
  made.bytes = shape.bytes;
  made.chunk_bytes = shape.chunk_bytes;
  made.chunks = shape.chunks;
  made.stride = shape.alike_aligned ? shape.chunk_bytes : shape.chunk_bytes + 64;
  made.helpers = std::min(most_scatter_helpers, shape.chunks - 1);
  made.cached = true;
  made.chunks_a_copy = 1;
  const auto slots = std::min(staging::most_slots, static_cast<std::uint32_t>((shape.room - 16) / made.stride));
  const bool apart = shape.by_kernel && shape.chunk_bytes >= usual_scattered && shape.chunks > most_scatter_helpers &&
                     shape.others == 0;
  made.slots =
      apart ? staging::SlotLayout::of_their_own(slots, shape.workers + 1) : staging::SlotLayout{.count = slots};
  return made;
}

namespace {

constexpr WritePlan buffered_alone{128 << 10, 2 << 20, 0};
constexpr WritePlan direct_writes{1 << 20, 1 << 20, 0};
// Where others are at work and workers do not go round: the file system may keep us waiting, and each call more is one
// turn more to wait for.
constexpr WritePlan writes_in_crowd{1 << 20, 2 << 20, 0};
// Beside others that write to the same file: a chunk and its place fit into the cache of one processor.
constexpr WritePlan beside_others{1 << 20, 1 << 20, 0};
constexpr WritePlan in_turns{512 << 10, 512 << 10, 1};
constexpr WritePlan in_turns_of_three{512 << 10, 512 << 10, 2};
// Measured on an H200: a third writer makes 16 MiB a sixth quicker and costs a third more processor time.
constexpr std::uint64_t smallest_for_turns = 1 << 20;
constexpr std::uint64_t smallest_for_three = 33 << 20;

constexpr bool fits_the_buffer(const WritePlan& plan) {
  return staging::staging_bytes % plan.whole == 0 && staging::staging_bytes >= (plan.helpers + 2) * plan.whole &&
         plan.first <= plan.whole;
}
static_assert(fits_the_buffer(buffered_alone) && fits_the_buffer(direct_writes) && fits_the_buffer(writes_in_crowd) &&
              fits_the_buffer(beside_others) && fits_the_buffer(in_turns) && fits_the_buffer(in_turns_of_three));

bool is_crowded(const WriteShape& shape) noexcept {
  return shape.beside || (shape.others > 0 && !shape.workers_suffice);
}

}  // namespace

bool may_take_turns(const WriteShape& shape) noexcept {
  return shape.block == 1 && !is_crowded(shape) && shape.length >= smallest_for_turns && shape.workers > 0;
}

WritePlan plan_write(const WriteShape& shape) noexcept {
  if (shape.block > 1) return direct_writes;
  if (shape.beside && shape.may_prefetch) return beside_others;
  if (is_crowded(shape)) return writes_in_crowd;
  if (!may_take_turns(shape) || !shape.place_cached) return buffered_alone;
  return shape.length < smallest_for_three ? in_turns : in_turns_of_three;
}

WritePlan plan_lent_write(const WritePlan& alone) noexcept {
  constexpr std::uint64_t most = staging::NeighbourLease::largest_piece;
  WritePlan plan{.first = std::min(alone.first, most), .whole = std::min(alone.whole, most), .helpers = alone.helpers};
  plan.ahead = static_cast<unsigned>(staging::staging_bytes / plan.whole);
  return plan;
}

}  // namespace sluice::transfer
