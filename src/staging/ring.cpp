// The rings stand in a row of slots; taking one is an exchange, and nobody waits.
#include "staging/ring.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

#include "base/pause.h"
#include "base/rest.h"
#include "base/thread_number.h"
#include "gpu/staging_memory.h"
#include "stream/channel/station.h"

namespace sluice::staging {

namespace {

constexpr std::size_t most_rings = 64;
constexpr unsigned most_in_a_context = 8;
// One of them has more room, for large batches, whose many hands would wait for places else. Lone reads are slower when
// they use so much, and in crowds no ring is full.
constexpr unsigned roomy_in_a_context = 1;
constexpr std::size_t roomy_bytes = std::size_t{8} << 20;
constexpr std::size_t words_bytes = 24576;
constexpr std::size_t spare_bytes = 65536;
static_assert(sizeof(RingWords) <= words_bytes);
static_assert(ring_bytes % gpu::huge_page_bytes == 0 && roomy_bytes % gpu::huge_page_bytes == 0);

}  // namespace

struct RingLoan::Ring {
  std::byte* memory = nullptr;
  std::size_t room = 0;  // for chunks
  gpu::Staging device;
  std::uint32_t next_number = 1;
  std::uint32_t serial = 0;
  std::uint32_t pending = 0;  // serial of the last launch that was called off; 0: none
  base::Rest rest;            // of the kernel, after a launch that was called off
  base::Rest crowd_rest;      // in crowds, after one that began late
  workers::Crews crews;
  bool condemned = false;
};

namespace {

using Ring = RingLoan::Ring;

using Clock = std::chrono::steady_clock;

std::array<std::atomic<Ring*>, most_rings> idle{};
std::atomic<std::size_t> made{0};
// A device that has no memory for a ring is not asked with every request: that takes a millisecond or so.
constexpr auto after_failed_attach = std::chrono::milliseconds(100);
std::atomic<Clock::rep> no_attach_before{0};

// How many rings a context has. Places are taken for good: contexts come and go, ids do not come again.
struct Share {
  std::atomic<cuda::Context> context{nullptr};
  std::atomic<unsigned long long> id{0};
  std::atomic<unsigned> rings{0};
};
std::array<Share, most_rings> shares{};
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

// One more ring of a context and of the process, given back unless it was made.
class Claim {
 public:
  explicit Claim(Share& share) noexcept
      : share_(share),
        before_(share.rings.fetch_add(1, std::memory_order_relaxed)),
        in_process_(made.fetch_add(1, std::memory_order_relaxed) < most_rings) {}
  ~Claim() {
    if (kept_) return;
    share_.rings.fetch_sub(1, std::memory_order_relaxed);
    made.fetch_sub(1, std::memory_order_relaxed);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  bool granted() const noexcept { return before_ < most_in_a_context && in_process_; }
  std::size_t room() const noexcept { return before_ < roomy_in_a_context ? roomy_bytes : ring_bytes; }
  void keep() noexcept { kept_ = true; }

 private:
  Share& share_;
  const unsigned before_;  // rings of the context
  const bool in_process_;
  bool kept_ = false;
};

constexpr gpu::StagingShape shape_of(std::size_t room) noexcept {
  return {.ahead = words_bytes, .bulk = room, .behind = spare_bytes};
}

// Null when this context has its share, or all there may be exist.
Ring* make_ring(cuda::Context context, unsigned long long id) noexcept {
  Share* const share = share_of(context, id);
  if (share == nullptr) return nullptr;
  Claim claim(*share);
  if (!claim.granted()) return nullptr;
  const gpu::StagingShape shape = shape_of(claim.room());
  std::byte* const memory = gpu::map_staging(shape);
  if (memory == nullptr) return nullptr;
  auto* const ring = new (std::nothrow) Ring;
  if (ring == nullptr) {
    gpu::unmap_staging(memory, shape);
    return nullptr;
  }
  ring->memory = memory;
  ring->room = claim.room();
  claim.keep();
  return ring;
}

RingWords& words_of(const Ring& ring) noexcept {
  return *reinterpret_cast<RingWords*>(ring.memory);
}

// Whoever holds the ring may ask.
bool pending(Ring& ring) noexcept {
  if (ring.pending != 0 && base::look(words_of(ring).launch.left) == ring.pending) ring.pending = 0;
  return ring.pending != 0;
}

void put_back(Ring* ring) noexcept {
  const std::size_t start = base::thread_number() % most_rings;
  for (std::size_t i = 0; i < most_rings; ++i) {
    Ring* none = nullptr;
    // Release: the next one to take it sees it as this one left it.
    if (idle[(start + i) % most_rings].compare_exchange_strong(none, ring, std::memory_order_release,
                                                               std::memory_order_relaxed)) {
      return;
    }
  }
}

enum class Whose : std::uint8_t {
  ours,     // of this context
  roomy,    // of this context, and the one with more room
  nobodys,  // of none: a device had no memory for it once
  any,      // of one that is gone, perhaps
};

bool may_be_taken(Ring& ring, cuda::Context context, unsigned long long id, Whose whose) noexcept {
  if (whose == Whose::nobodys) return ring.device.serves_nobody();
  if (whose == Whose::roomy && ring.room == ring_bytes) return false;
  return ring.device.serves(context, id) || (whose == Whose::any && !pending(ring));
}

// The one that this thread put back last comes first: its memory is in this core's cache.
Ring* take_idle(cuda::Context context, unsigned long long id, Whose whose) noexcept {
  const std::size_t start = base::thread_number() % most_rings;
  for (std::size_t i = 0; i < most_rings; ++i) {
    auto& slot = idle[(start + i) % most_rings];
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    Ring* const ring = slot.exchange(nullptr, std::memory_order_acquire);
    if (ring == nullptr) continue;
    if (may_be_taken(*ring, context, id, whose)) return ring;
    put_back(ring);
  }
  return nullptr;
}

}  // namespace

RingLoan RingLoan::take(const gpu::Session& session, std::uint64_t bytes) noexcept {
  if (session.status() != cuda::success) return RingLoan(nullptr);
  Ring* ring = nullptr;
  if (bytes > ring_bytes) ring = take_idle(session.context(), session.context_id(), Whose::roomy);
  if (ring == nullptr) ring = take_idle(session.context(), session.context_id(), Whose::ours);
  if (ring == nullptr) ring = take_idle(session.context(), session.context_id(), Whose::nobodys);
  if (ring == nullptr) ring = make_ring(session.context(), session.context_id());
  // Rings of contexts that are gone are used again when no more may be made.
  if (ring == nullptr && made.load(std::memory_order_relaxed) >= most_rings) {
    ring = take_idle(session.context(), session.context_id(), Whose::any);
  }
  if (ring == nullptr) return RingLoan(nullptr);
  // A device that refused something and lives on has nothing of ours under way but launches that were called off.
  // Taking such a ring from the driver to make it anew would wait for whatever keeps the device busy, and that may wait
  // for us.
  if (ring->device.serves(session.context(), session.context_id()) &&
      (!ring->condemned || ring->device.health() == cuda::success)) {
    if (ring->device.copy_urgently(gpu::serves_waiting_streams()) != cuda::success) {
      put_back(ring);
      return RingLoan(nullptr);
    }
    ring->condemned = false;
    stream::load_unless_streams_wait(ring->device.kernels());
    return RingLoan(ring);
  }
  if (Clock::now().time_since_epoch().count() < no_attach_before.load(std::memory_order_relaxed)) {
    put_back(ring);
    return RingLoan(nullptr);
  }
  const std::span<std::byte> memory{ring->memory, shape_of(ring->room).size()};
  *reinterpret_cast<RingWords*>(ring->memory) = {};
  if (ring->device.attach(session.context(), session.context_id(), memory) != cuda::success) {
    no_attach_before.store((Clock::now() + after_failed_attach).time_since_epoch().count(), std::memory_order_relaxed);
    put_back(ring);
    return RingLoan(nullptr);
  }
  Ring renewed;
  renewed.memory = ring->memory;
  renewed.room = ring->room;
  renewed.device = ring->device;
  *ring = renewed;
  stream::load_unless_streams_wait(ring->device.kernels());
  return RingLoan(ring);
}

RingLoan::RingLoan(RingLoan&& other) noexcept : ring_(std::exchange(other.ring_, nullptr)) {}

RingLoan::~RingLoan() {
  if (ring_ != nullptr) put_back(ring_);
}

std::span<std::byte> RingLoan::bytes() const noexcept {
  return {ring_->memory + words_bytes, ring_->room + spare_bytes};
}

RingWords& RingLoan::words() const noexcept {
  return words_of(*ring_);
}

gpu::Staging& RingLoan::device() const noexcept {
  return ring_->device;
}

std::uint32_t RingLoan::numbers(std::uint32_t count) noexcept {
  // Starting over needs places that remember nothing, but for what tells a launch that has yet to begin that it was
  // called off; a number must never look like that either.
  if (ring_->next_number > gpu::called_off - count - 1 || ring_->next_number + count < count) {
    const gpu::Ticket first_of_pending = words().tickets[0];
    words().tickets = {};
    words().drained = {};
    if (pending(*ring_)) words().tickets[0] = first_of_pending;
    ring_->next_number = 1;
  }
  const std::uint32_t first = ring_->next_number;
  ring_->next_number += count;
  return first;
}

std::uint32_t RingLoan::next_serial() noexcept {
  constexpr std::uint32_t largest = (1U << 30U) - 1;
  ring_->serial = ring_->serial == largest ? 1 : ring_->serial + 1;
  return ring_->serial;
}

void RingLoan::called_off(std::uint32_t serial) noexcept {
  constexpr std::uint32_t longest_rest = 1024;
  ring_->pending = serial;
  ring_->rest.begin(longest_rest);
}

bool RingLoan::kernel_worth_trying(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t one = std::uint64_t{2} << 20U;
  constexpr std::uint64_t most = 1024;
  return !pending(*ring_) &&
         ring_->rest.is_over(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bytes / one, 1, most)));
}

void RingLoan::kernel_did_well() noexcept {
  ring_->rest.forget();
}

bool RingLoan::kernel_worth_trying_in_crowd() noexcept {
  return ring_->crowd_rest.is_over();
}

bool RingLoan::has_prompt_kernel() noexcept {
  return device().can_gather() && kernel_worth_trying(0) && kernel_worth_trying_in_crowd();
}

void RingLoan::kernel_began(bool late) noexcept {
  constexpr std::uint32_t longest_rest = 256;
  if (late) {
    ring_->crowd_rest.begin(longest_rest);
  } else {
    ring_->crowd_rest.forget();
  }
}

workers::Crew& RingLoan::crew_of(std::uint64_t bytes) noexcept {
  return ring_->crews.of_requests_of(bytes);
}

int RingLoan::await_copied(std::uint32_t count, base::Waiting waiting) const noexcept {
  base::Patience patience;
  while (base::look(words().copied) < count) {
    patience.wait(waiting);
    if (!patience.long_since()) continue;
    if (const int result = device().health(); result != cuda::success) return result;
  }
  return cuda::success;
}

void RingLoan::condemn() noexcept {
  ring_->condemned = true;
}

void RingLoan::give_up() noexcept {
  device().finish_copies();
  condemn();
}

std::size_t ring_count() noexcept {
  return made.load(std::memory_order_relaxed);
}

void staging_after_fork_in_child() noexcept {
  for (Share& share : shares) share.rings.store(0, std::memory_order_relaxed);
  for (auto& slot : idle) slot.store(nullptr, std::memory_order_relaxed);
  made.store(0, std::memory_order_relaxed);
}

}  // namespace sluice::staging
