// SPDX-License-Identifier: Apache-2.0
// The plan's steps for what goes by io_uring. The program defines syscall() and mmap() itself, so it sees where the
// library's queues lie, and what it asks for with each visit to the kernel. A request that is to fail becomes one that
// does nothing, which the kernel answers in the same visit; that answer is then rewritten before the library sees it.
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <initializer_list>
#include <mutex>
#include <numeric>
#include <span>
#include <vector>

#include "fault/interpose.h"
#include "support/calls.h"
#include "support/system_call.h"

namespace sluice::fault {
namespace {

constexpr unsigned kRegisterByNumber = 1U << 31;   // IORING_REGISTER_USE_REGISTERED_RING
constexpr unsigned kEnterByNumber = 1U << 4;       // IORING_ENTER_REGISTERED_RING
constexpr unsigned kRegistersByNumber = 1U << 13;  // IORING_FEAT_REG_REG_RING
constexpr unsigned kAnswersAsAsked = 1U << 13;     // IORING_SETUP_DEFER_TASKRUN

// A ring of this thread's.
struct Ring {
  bool known = false;
  int fd = -1;
  int number = -1;  // that the kernel keeps it by, once the descriptor is closed
  io_uring_params params{};
  std::byte* queues = nullptr;
  io_uring_sqe* entries = nullptr;

  unsigned& word(unsigned offset) const { return *reinterpret_cast<unsigned*>(queues + offset); }
};

// Without a destructor: the thread's last destructors still give their rings up.
constinit thread_local std::array<Ring, 8> rings{};

// Null where there is none.
Ring* find(int fd, bool by_number) {
  const auto found = std::find_if(rings.begin(), rings.end(), [&](const Ring& ring) {
    return ring.known && (by_number ? ring.number == fd : ring.number < 0 && ring.fd == fd);
  });
  return found == rings.end() ? nullptr : &*found;
}

void remember(int fd, const io_uring_params& params) {
  Ring* place = find(fd, false);
  if (place == nullptr) place = std::find_if(rings.begin(), rings.end(), [](const Ring& ring) { return !ring.known; });
  if (place == rings.end()) std::abort();
  *place = {.known = true, .fd = fd, .number = -1, .params = params, .queues = nullptr, .entries = nullptr};
}

struct Rewritten {
  std::uint64_t tag;
  std::int32_t result;
};

void become_nothing(io_uring_sqe& entry, std::int32_t result, std::vector<Rewritten>& rewritten) {
  rewritten.push_back({entry.user_data, result});
  const std::uint64_t tag = entry.user_data;
  entry = {};
  entry.opcode = IORING_OP_NOP;
  entry.fd = -1;
  entry.user_data = tag;
}

bool has_vectors(const io_uring_sqe& entry) {
  return entry.opcode == IORING_OP_READV || entry.opcode == IORING_OP_WRITEV;
}

std::span<const iovec> vectors_of(const io_uring_sqe& entry) {
  return {reinterpret_cast<const iovec*>(entry.addr), entry.len};
}

std::size_t length_of(const io_uring_sqe& entry) {
  if (!has_vectors(entry)) return entry.len;
  const auto vectors = vectors_of(entry);
  return std::accumulate(vectors.begin(), vectors.end(), std::size_t{0},
                         [](std::size_t sum, const iovec& one) { return sum + one.iov_len; });
}

// The kernel has taken a copy of vectors when the visit ends.
thread_local std::deque<std::vector<iovec>> short_vectors;

void cut(io_uring_sqe& entry, std::size_t length) {
  if (!has_vectors(entry)) {
    entry.len = static_cast<std::uint32_t>(length);
    return;
  }
  std::vector<iovec>& kept = short_vectors.emplace_back();
  for (const iovec& one : vectors_of(entry)) {
    if (length == 0) break;
    kept.push_back({one.iov_base, std::min(length, one.iov_len)});
    length -= kept.back().iov_len;
  }
  entry.addr = reinterpret_cast<std::uint64_t>(kept.data());
  entry.len = static_cast<std::uint32_t>(kept.size());
}

// What becomes of it is 16, which is also POLLHUP, or 0, since there is nothing but the end to be read.
void wait_for(int descriptor, bool says_some, io_uring_sqe& entry) {
  static std::byte never_written;
  const std::uint64_t tag = entry.user_data;
  entry = {};
  entry.fd = descriptor;
  entry.user_data = tag;
  if (says_some) {
    entry.opcode = IORING_OP_POLL_ADD;
    entry.poll32_events = POLLIN;
  } else {
    entry.opcode = IORING_OP_READ;
    entry.addr = reinterpret_cast<std::uint64_t>(&never_written);
    entry.len = 1;
  }
}

void apply(const Step& step, io_uring_sqe& entry, std::vector<Rewritten>& rewritten) {
  switch (step.kind) {
    case Step::Kind::shorten:
      cut(entry, shortened(entry.fd, length_of(entry), step.length));
      break;
    case Step::Kind::fail:
      become_nothing(entry, -step.error, rewritten);
      break;
    case Step::Kind::nothing:
      become_nothing(entry, 0, rewritten);
      break;
    case Step::Kind::lose:
      become_nothing(entry, static_cast<std::int32_t>(length_of(entry)), rewritten);
      break;
    case Step::Kind::hold:
      wait_for(step.released_by, step.length > 0, entry);
      break;
    case Step::Kind::detour:
      entry.flags |= IOSQE_ASYNC;
      break;
    default:
      break;
  }
}

bool is_one_of(const io_uring_sqe& entry, std::initializer_list<int> operations) {
  return std::find(operations.begin(), operations.end(), entry.opcode) != operations.end();
}

std::atomic<std::size_t> at_hand_seen{0};

// What the next visit hands over: the kernel takes the queue's entries from its head on.
std::vector<Rewritten> prepare(const Ring& ring, unsigned count) {
  std::vector<Rewritten> rewritten;
  if (count == 0) return rewritten;
  const unsigned mask = ring.word(ring.params.sq_off.ring_mask);
  const unsigned head = std::atomic_ref(ring.word(ring.params.sq_off.head)).load(std::memory_order_acquire);
  for (unsigned i = 0; i < count; ++i) {
    const unsigned slot = ring.word(ring.params.sq_off.array + ((head + i) & mask) * sizeof(unsigned));
    io_uring_sqe& entry = ring.entries[slot];
    if (entry.opcode == IORING_OP_READ_FIXED || entry.opcode == IORING_OP_WRITE_FIXED) ++at_hand_seen;
    const bool reads = is_one_of(entry, {IORING_OP_READ, IORING_OP_READ_FIXED, IORING_OP_READV});
    if (!reads && !is_one_of(entry, {IORING_OP_WRITE, IORING_OP_WRITE_FIXED, IORING_OP_WRITEV})) continue;
    const Direction direction = reads ? Direction::read : Direction::write;
    apply(step_for_request(entry.fd, direction), entry, rewritten);
  }
  return rewritten;
}

void rewrite(const Ring& ring, const std::vector<Rewritten>& rewritten) {
  if (rewritten.empty()) return;
  const auto& offsets = ring.params.cq_off;
  auto* const answers = reinterpret_cast<io_uring_cqe*>(ring.queues + offsets.cqes);
  const unsigned mask = ring.word(offsets.ring_mask);
  const unsigned tail = std::atomic_ref(ring.word(offsets.tail)).load(std::memory_order_acquire);
  for (unsigned i = ring.word(offsets.head); i != tail; ++i) {
    io_uring_cqe& answer = answers[i & mask];
    for (const Rewritten& one : rewritten) {
      if (one.tag == answer.user_data) answer.res = one.result;
    }
  }
}

std::atomic<int> refusal{0};  // 0: no visit is refused
std::atomic<std::size_t> first_refused{0};
std::atomic<std::size_t> refused{0};
std::atomic<std::size_t> visits_seen{0};
std::atomic<bool> all_visits{false};

// A kernel that takes no requests still gives the answers that it has; where these come with a visit, it is to be let.
bool may_be_refused(const Ring& ring, const long* arguments) {
  return all_visits || arguments[1] > 0 || (ring.params.flags & kAnswersAsAsked) == 0;
}

long visit(const Ring& ring, long* arguments) {
  const std::size_t number = visits_seen++;
  const int error = refusal;
  const bool asked = error != 0 && number >= first_refused && number - first_refused < refused;
  if (asked && may_be_refused(ring, arguments)) return -error;
  const std::vector<Rewritten> rewritten = prepare(ring, static_cast<unsigned>(arguments[1]));
  const long answer = support::system_call(SYS_io_uring_enter, arguments);
  short_vectors.clear();
  rewrite(ring, rewritten);
  return answer;
}

std::atomic<int> ring_refusal{0};  // 0: rings are to be had
std::atomic<std::size_t> rings_refused{0};
std::mutex setup_mutex;
std::vector<unsigned> setups_seen;  // flags

long set_up(long* arguments) {
  const bool is_new = (reinterpret_cast<io_uring_params*>(arguments[1])->flags & kAnswersAsAsked) != 0;
  if (is_new && std::getenv("SLUICE_TEST_OLD_RINGS") != nullptr) return -EINVAL;
  const int error = ring_refusal;
  const long answer = error != 0 ? -error : support::system_call(SYS_io_uring_setup, arguments);
  if (answer < 0) {
    if (!is_new || answer != -EINVAL) ++rings_refused;  // what is too new is asked for otherwise
    return answer;
  }
  auto& params = *reinterpret_cast<io_uring_params*>(arguments[1]);
  if (std::getenv("SLUICE_TEST_OLD_RINGS") != nullptr) params.features &= ~kRegistersByNumber;
  remember(static_cast<int>(answer), params);
  const std::lock_guard lock(setup_mutex);
  setups_seen.push_back(params.flags);
  return answer;
}

long call(long number, long* arguments) {
  if (number == SYS_io_uring_setup) return set_up(arguments);
  if (number == SYS_io_uring_enter) {
    const bool by_number = (static_cast<unsigned>(arguments[3]) & kEnterByNumber) != 0;
    const Ring* const ring = find(static_cast<int>(arguments[0]), by_number);
    if (ring != nullptr && ring->entries != nullptr) return visit(*ring, arguments);
  }
  const long answer = support::system_call(number, arguments);
  if (number == SYS_io_uring_register && answer == 1 && arguments[1] == IORING_REGISTER_RING_FDS) {
    const auto& update = *reinterpret_cast<io_uring_rsrc_update*>(arguments[2]);
    if (Ring* const ring = find(static_cast<int>(arguments[0]), false)) ring->number = static_cast<int>(update.offset);
  }
  if (number == SYS_io_uring_register &&
      static_cast<unsigned>(arguments[1]) == (IORING_UNREGISTER_RING_FDS | kRegisterByNumber)) {
    if (Ring* const ring = find(static_cast<int>(arguments[0]), true)) *ring = {};
  }
  return answer;
}

}  // namespace

bool reads_disks_by_ring() {
  io_uring_params params{};
  long arguments[6] = {1, reinterpret_cast<long>(&params)};
  const support::Fd ring(static_cast<int>(support::system_call(SYS_io_uring_setup, arguments)));
  return ring.get() >= 0 && std::getenv("SLUICE_DISK_READS") == nullptr && std::getenv("SLUICE_MODE") == nullptr;
}

RefusedVisits::RefusedVisits(std::size_t skip, std::size_t count, int error, Which which) {
  all_visits = which == Which::all;
  visits_seen = 0;
  first_refused = skip;
  refused = count;
  refusal = error;
}

RefusedVisits::~RefusedVisits() {
  refusal = 0;
}

std::size_t RefusedVisits::visits() const {
  return visits_seen;
}

RingsSeen::RingsSeen() {
  const std::lock_guard lock(setup_mutex);
  setups_seen.clear();
  rings_refused = 0;
  at_hand_seen = 0;
}

std::size_t RingsSeen::made() const {
  return made_with(0, 0);
}

std::size_t RingsSeen::made_with(unsigned flags, unsigned mask) const {
  const std::lock_guard lock(setup_mutex);
  return static_cast<std::size_t>(
      std::count_if(setups_seen.begin(), setups_seen.end(), [&](unsigned seen) { return (seen & mask) == flags; }));
}

std::size_t RingsSeen::refused() const {
  return rings_refused;
}

std::size_t RingsSeen::requests_at_hand() const {
  return at_hand_seen;
}

RefusedRings::RefusedRings(int error) {
  rings_refused = 0;
  ring_refusal = error;
}

RefusedRings::~RefusedRings() {
  ring_refusal = 0;
}

std::size_t RefusedRings::count() const {
  return rings_refused;
}

}  // namespace sluice::fault

using namespace sluice;

#pragma GCC visibility push(default)
extern "C" {

// It looks for six arguments whatever the caller passed: the rest is read from behind the caller's frame, and not used.
[[gnu::no_sanitize_address]] long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const long answer = fault::call(number, arguments);
  if (answer >= 0 || answer < -4095) return answer;
  errno = static_cast<int>(-answer);
  return -1;
}

// ThreadSanitizer's own first mappings come by here, before it knows a thread.
[[gnu::no_sanitize_thread]] void* mmap(void* address, size_t length, int protection, int flags, int fd,
                                       off_t offset) noexcept {
  long arguments[6] = {reinterpret_cast<long>(address), static_cast<long>(length), protection, flags, fd, offset};
  const long answer = support::system_call(SYS_mmap, arguments);
  if (answer < 0 && answer >= -4095) {
    errno = static_cast<int>(-answer);
    return MAP_FAILED;
  }
  auto* const mapped = reinterpret_cast<std::byte*>(answer);
  if (fd >= 0) {
    if (fault::Ring* const ring = fault::find(fd, false)) {
      if (offset == IORING_OFF_SQ_RING) ring->queues = mapped;
      if (offset == IORING_OFF_SQES) ring->entries = reinterpret_cast<io_uring_sqe*>(mapped);
    }
  }
  return mapped;
}

}  // extern "C"
#pragma GCC visibility pop
