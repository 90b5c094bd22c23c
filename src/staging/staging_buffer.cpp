// SPDX-License-Identifier: Apache-2.0
// The buffers stand in a row of slots; taking one is an exchange, and no thread waits.
#include "staging/staging_buffer.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

#include "base/cooldown.h"
#include "base/spin_backoff.h"
#include "base/thread_number.h"
#include "gpu/session.h"
#include "gpu/staging_memory.h"
#include "stream/channel/stream_channel.h"

namespace sluice::staging {

namespace {

constexpr std::size_t most_buffers = 64;
constexpr unsigned most_in_a_context = 8;
// One of them has more room, for large batches, whose many helpers would wait for places else. Lone reads are slower
// when they use so much, and in crowds no buffer is full.
constexpr unsigned large_in_a_context = 1;
constexpr std::size_t large_bytes = std::size_t{8} << 20;
constexpr std::size_t words_bytes = 24576;
constexpr std::size_t spare_bytes = 65536;
static_assert(sizeof(StagingWords) <= words_bytes);

}  // namespace

struct StagingLease::StagingBuffer {
  std::byte* memory = nullptr;
  std::size_t capacity = 0;  // for chunks
  gpu::Staging device;
  std::uint32_t next_number = 1;
  std::uint32_t launch_id = 0;
  std::uint32_t pending = 0;      // id of the last launch that was revoked; 0: none
  base::Cooldown cooldown;        // of the kernel, after a launch that was revoked
  base::Cooldown crowd_cooldown;  // in crowds, after one that began late
  workers::HelperTuners tuners;
  bool condemned = false;
};

namespace {

using StagingBuffer = StagingLease::StagingBuffer;

using Clock = std::chrono::steady_clock;

std::array<std::atomic<StagingBuffer*>, most_buffers> idle{};
std::atomic<std::size_t> made{0};
// A device that has no memory for a staging buffer is not asked with every request: that takes a millisecond or so.
constexpr auto after_failed_attach = std::chrono::milliseconds(100);

// How many buffers a context has. Slots are taken for good: contexts come and go, ids do not come again.
struct Share {
  std::atomic<cuda::Context> context{nullptr};
  std::atomic<unsigned long long> id{0};
  std::atomic<unsigned> buffers{0};
  std::atomic<Clock::rep> no_attach_before{0};  // what one device refuses is no other's affair
};
std::array<Share, most_buffers> shares{};
Share of_all_others;  // contexts that came when all were taken
std::mutex sharing;

Share* known_share(cuda::Context context, unsigned long long id) noexcept {
  for (Share& share : shares) {
    const cuda::Context there = share.context.load(std::memory_order_acquire);
    if (there == nullptr) return nullptr;
    if (there == context && share.id.load(std::memory_order_relaxed) == id) return &share;
  }
  return nullptr;
}

Share* share_of(cuda::Context context, unsigned long long id) noexcept {
  if (Share* const known = known_share(context, id)) return known;
  const std::lock_guard lock(sharing);
  if (Share* const known = known_share(context, id)) return known;
  for (Share& share : shares) {
    if (share.context.load(std::memory_order_relaxed) != nullptr) continue;
    share.id.store(id, std::memory_order_relaxed);
    share.context.store(context, std::memory_order_release);
    return &share;
  }
  return nullptr;
}

// One more buffer of a context and of the process, given back unless it was made.
class Claim {
 public:
  explicit Claim(Share& share) noexcept
      : share_(share),
        before_(share.buffers.fetch_add(1, std::memory_order_relaxed)),
        in_process_(made.fetch_add(1, std::memory_order_relaxed) < most_buffers) {}
  ~Claim() {
    if (kept_) return;
    share_.buffers.fetch_sub(1, std::memory_order_relaxed);
    made.fetch_sub(1, std::memory_order_relaxed);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  bool granted() const noexcept { return before_ < most_in_a_context && in_process_; }
  std::size_t capacity() const noexcept { return before_ < large_in_a_context ? large_bytes : staging_bytes; }
  void keep() noexcept { kept_ = true; }

 private:
  Share& share_;
  const unsigned before_;  // buffers of the context
  const bool in_process_;
  bool kept_ = false;
};

gpu::StagingShape shape_of(std::size_t capacity) noexcept {
  return gpu::StagingShape{.ahead = words_bytes, .bulk = capacity, .behind = spare_bytes}.in_pages();
}

// Null when this context has its share, or all there may be exist.
StagingBuffer* make_buffer(cuda::Context context, unsigned long long id) noexcept {
  Share* const share = share_of(context, id);
  if (share == nullptr) return nullptr;
  Claim claim(*share);
  if (!claim.granted()) return nullptr;
  const gpu::StagingShape shape = shape_of(claim.capacity());
  std::byte* const memory = gpu::map_staging(shape);
  if (memory == nullptr) return nullptr;
  auto* const buffer = new (std::nothrow) StagingBuffer;
  if (buffer == nullptr) {
    gpu::unmap_staging(memory, shape);
    return nullptr;
  }
  buffer->memory = memory;
  buffer->capacity = claim.capacity();
  claim.keep();
  return buffer;
}

StagingWords& words_of(const StagingBuffer& buffer) noexcept {
  return *reinterpret_cast<StagingWords*>(buffer.memory);
}

// The holder of the buffer may ask.
bool pending(StagingBuffer& buffer) noexcept {
  if (buffer.pending != 0 && base::load_acquire(words_of(buffer).launch.left) == buffer.pending) buffer.pending = 0;
  return buffer.pending != 0;
}

// There is a place for each, but not always the one that was passed by: another thread puts one back that is not its
// own.
void put_back(StagingBuffer* buffer) noexcept {
  const std::size_t start = base::thread_number() % most_buffers;
  for (std::size_t i = 0;; ++i) {
    StagingBuffer* none = nullptr;
    // Release: the next one to take it sees it as this one left it.
    if (idle[(start + i) % most_buffers].compare_exchange_strong(none, buffer, std::memory_order_release,
                                                                 std::memory_order_relaxed)) {
      return;
    }
  }
}

enum class Whose : std::uint8_t {
  ours,    // of this context
  large,   // of this context, and the one with more room
  unused,  // of no context: a device had no memory for it once
  any,     // of one that is gone, perhaps
};

bool may_be_taken(StagingBuffer& buffer, cuda::Context context, unsigned long long id, Whose whose) noexcept {
  if (whose == Whose::unused) return buffer.device.may_become(context, id);
  if (whose == Whose::large && buffer.capacity == staging_bytes) return false;
  if (whose == Whose::any) return !buffer.device.serves_no_context() && !pending(buffer);
  return buffer.device.serves(context, id);
}

// The one that this thread put back last comes first: its memory is in this core's cache.
StagingBuffer* take_idle(cuda::Context context, unsigned long long id, Whose whose) noexcept {
  const std::size_t start = base::thread_number() % most_buffers;
  for (std::size_t i = 0; i < most_buffers; ++i) {
    auto& slot = idle[(start + i) % most_buffers];
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    StagingBuffer* const buffer = slot.exchange(nullptr, std::memory_order_acquire);
    if (buffer == nullptr) continue;
    if (may_be_taken(*buffer, context, id, whose)) return buffer;
    put_back(buffer);
  }
  return nullptr;
}

}  // namespace

StagingLease StagingLease::take(const gpu::Session& session, std::uint64_t bytes) noexcept {
  if (session.status() != cuda::success) return StagingLease(nullptr);
  StagingBuffer* buffer = nullptr;
  if (bytes > staging_bytes) buffer = take_idle(session.context(), session.context_id(), Whose::large);
  if (buffer == nullptr) buffer = take_idle(session.context(), session.context_id(), Whose::ours);
  if (buffer == nullptr) buffer = take_idle(session.context(), session.context_id(), Whose::unused);
  if (buffer == nullptr) buffer = make_buffer(session.context(), session.context_id());
  // Staging buffers of contexts that are gone are used again when no more may be made.
  if (buffer == nullptr && made.load(std::memory_order_relaxed) >= most_buffers) {
    buffer = take_idle(session.context(), session.context_id(), Whose::any);
  }
  if (buffer == nullptr) return StagingLease(nullptr);
  // A device that refused something and lives on has nothing of ours under way but launches that were revoked.
  // Taking such a staging buffer from the driver to make it anew would wait for whatever keeps the device busy, and
  // that may wait for us.
  if (buffer->device.serves(session.context(), session.context_id()) &&
      (!buffer->condemned || buffer->device.health() == cuda::success)) {
    if (buffer->device.copy_urgently(gpu::serves_waiting_streams()) != cuda::success) {
      put_back(buffer);
      return StagingLease(nullptr);
    }
    buffer->condemned = false;
    stream::load_unless_streams_wait(buffer->device.kernels());
    return StagingLease(buffer);
  }
  Share* const known = share_of(session.context(), session.context_id());
  std::atomic<Clock::rep>& no_attach_before = (known != nullptr ? *known : of_all_others).no_attach_before;
  if (Clock::now().time_since_epoch().count() < no_attach_before.load(std::memory_order_relaxed)) {
    put_back(buffer);
    return StagingLease(nullptr);
  }
  const std::span<std::byte> memory{buffer->memory, shape_of(buffer->capacity).size()};
  *reinterpret_cast<StagingWords*>(buffer->memory) = {};
  buffer->pending = 0;
  if (buffer->device.attach(session.context(), session.context_id(), memory) != cuda::success) {
    no_attach_before.store((Clock::now() + after_failed_attach).time_since_epoch().count(), std::memory_order_relaxed);
    put_back(buffer);
    return StagingLease(nullptr);
  }
  StagingBuffer renewed;
  renewed.memory = buffer->memory;
  renewed.capacity = buffer->capacity;
  renewed.device = buffer->device;
  *buffer = renewed;
  stream::load_unless_streams_wait(buffer->device.kernels());
  return StagingLease(buffer);
}

StagingLease::StagingLease(StagingLease&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}

StagingLease::~StagingLease() {
  if (buffer_ != nullptr) put_back(buffer_);
}

std::span<std::byte> StagingLease::bytes() const noexcept {
  const gpu::StagingShape shape = shape_of(buffer_->capacity);
  return {buffer_->memory + shape.ahead, shape.bulk + shape.behind};
}

StagingWords& StagingLease::words() const noexcept {
  return words_of(*buffer_);
}

gpu::Staging& StagingLease::device() const noexcept {
  return buffer_->device;
}

std::uint32_t StagingLease::numbers(std::uint32_t count) noexcept {
  // Starting over needs places that remember nothing, but for what tells a launch that has yet to begin that it was
  // revoked; a number must never look like that either.
  if (buffer_->next_number > gpu::revoked_ticket - count - 1 || buffer_->next_number + count < count) {
    const gpu::Ticket first_of_pending = words().tickets[0];
    words().tickets = {};
    words().completed = {};
    if (pending(*buffer_)) words().tickets[0] = first_of_pending;
    buffer_->next_number = 1;
  }
  const std::uint32_t first = buffer_->next_number;
  buffer_->next_number += count;
  return first;
}

std::uint32_t StagingLease::next_launch_id() noexcept {
  constexpr std::uint32_t largest = (1U << 30U) - 1;
  buffer_->launch_id = buffer_->launch_id == largest ? 1 : buffer_->launch_id + 1;
  return buffer_->launch_id;
}

void StagingLease::revoked(std::uint32_t launch_id) noexcept {
  constexpr std::uint32_t longest_cooldown = 1024;
  buffer_->pending = launch_id;
  buffer_->cooldown.begin(longest_cooldown);
}

bool StagingLease::kernel_worth_trying(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t one = std::uint64_t{2} << 20U;
  constexpr std::uint64_t most = 1024;
  return !pending(*buffer_) &&
         buffer_->cooldown.is_over(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bytes / one, 1, most)));
}

void StagingLease::kernel_did_well() noexcept {
  buffer_->cooldown.forget();
}

bool StagingLease::kernel_worth_trying_in_crowd() noexcept {
  return buffer_->crowd_cooldown.is_over();
}

bool StagingLease::has_prompt_kernel() noexcept {
  return device().can_gather() && kernel_worth_trying(0) && kernel_worth_trying_in_crowd();
}

void StagingLease::kernel_began(bool late) noexcept {
  constexpr std::uint32_t longest_cooldown = 256;
  if (late) {
    buffer_->crowd_cooldown.begin(longest_cooldown);
  } else {
    buffer_->crowd_cooldown.forget();
  }
}

workers::HelperTuner& StagingLease::tuner_for(std::uint64_t bytes) noexcept {
  return buffer_->tuners.for_requests_of(bytes);
}

bool StagingLease::has_copied(std::uint32_t mark) const noexcept {
  return static_cast<std::int32_t>(base::load_acquire(words().copied) - mark) >= 0;
}

cuda::Result StagingLease::await_copied(std::uint32_t count, base::WaitMode waiting) const noexcept {
  base::SpinBackoff backoff;
  while (base::load_acquire(words().copied) < count) {
    backoff.wait(waiting);
    if (!backoff.long_since()) continue;
    if (const cuda::Result result = device().health(); result != cuda::success) return result;
  }
  return cuda::success;
}

void StagingLease::condemn() noexcept {
  buffer_->condemned = true;
}

void StagingLease::give_up() noexcept {
  device().finish_copies();
  condemn();
}

std::size_t staging_buffer_count() noexcept {
  return made.load(std::memory_order_relaxed);
}

void staging_after_fork_in_child() noexcept {
  for (Share& share : shares) share.buffers.store(0, std::memory_order_relaxed);
  for (auto& slot : idle) slot.store(nullptr, std::memory_order_relaxed);
  made.store(0, std::memory_order_relaxed);
}

}  // namespace sluice::staging
