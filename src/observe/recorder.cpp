// SPDX-License-Identifier: Apache-2.0
// A thread claims a ring with its first event and gives it back when it ends; another thread may go on in it. The
// memory is made once and never unmapped: who still writes when recording ends writes where no reader looks.
#include "observe/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <mutex>
#include <system_error>

#include "base/thread_end.h"
#include "base/version.h"
#include "observe/log.h"
#include "observe/probe_switch.h"
#include "observe/shared_memory.h"

namespace sluice::observe {

namespace {

static_assert(sizeof(sluice_trace_event) == 40);
static_assert(sizeof(sluice_trace_head) <= SLUICE_TRACE_PAGE && sizeof(sluice_trace_ring_head) == 64);
constexpr std::uint32_t rings = SLUICE_TRACE_RING_COUNT;
constexpr std::uint64_t ring_events = SLUICE_TRACE_RING_EVENTS;
static_assert((ring_events & (ring_events - 1)) == 0);

// What this thread writes into.
struct Ring {
  sluice_trace_ring_head* head = nullptr;
  sluice_trace_event* events = nullptr;
  std::uint32_t number = 0;
  std::uint32_t generation = 0;  // of the memory that it lies in
  std::uint32_t requests = 0;    // that this thread has begun
};
constinit thread_local Ring own_ring;
constinit thread_local std::uint32_t at_hand = 0;

std::atomic<sluice_trace_head*> memory{nullptr};
std::atomic<std::uint32_t> generation{1};  // goes up in a child of fork: its threads' rings are its parent's
std::atomic<bool> is_refused{false};       // there is no memory, and it is not asked for again
std::atomic_flag is_being_made = ATOMIC_FLAG_INIT;
constinit std::array<char, sizeof(sockaddr_un::sun_path)> listener{};  // changed before recording begins
constinit Shown shown_rings{};

template <typename T>
std::atomic_ref<T> shared(T& there) noexcept {
  return std::atomic_ref<T>(there);
}

std::uint64_t monotonic_now() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// Pages that are not to be had later would end the process. Kernels before 5.14 cannot be asked about a mapping; there
// the descriptor is, as long as the program leaves it open.
bool have_pages(void* from, std::size_t size, std::size_t offset) noexcept {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  if (::madvise(from, size, populate_write) == 0) return true;
  if (errno != EINVAL || !shown_rings.is_still_ours()) return false;
  return ::fallocate(shown_rings.fd, 0, static_cast<off_t>(offset), static_cast<off_t>(size)) == 0;
}

// Only to this user or root: any process can listen at a name that was given up.
bool is_trusted(int fd) noexcept {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == ::geteuid() || peer.uid == 0);
}

// One message with the descriptor. No listener, or no room: then there is none to be told.
void offer(int memory_fd) noexcept {
  const std::size_t length = ::strnlen(listener.data(), listener.size() - 1);
  if (length == 0) return;
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, listener.data(), length);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 && is_trusted(fd)) {
    char byte = 1;
    iovec part{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &memory_fd, sizeof memory_fd);
    [[maybe_unused]] const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::close(fd);
}

sluice_trace_head* make_memory() noexcept {
  const int fd = create_shared_memory(SLUICE_TRACE_NAME, SLUICE_TRACE_SIZE, Pages::as_asked);
  if (fd < 0) return nullptr;
  shown_rings = shown_by(fd);
  void* const place = map_shared_memory(fd, SLUICE_TRACE_SIZE, nullptr);
  if (place == nullptr || !have_pages(place, sizeof(sluice_trace_head), 0)) {
    const int why = errno;
    ::close(fd);
    errno = why;
    return nullptr;
  }
  auto* const head = static_cast<sluice_trace_head*>(place);
  head->version = SLUICE_TRACE_VERSION;
  head->size = SLUICE_TRACE_SIZE;
  head->pid = static_cast<std::uint64_t>(::getpid());
  constexpr const char* text = SLUICE_VERSION_TEXT;
  std::memcpy(head->library, text, std::min(std::strlen(text), sizeof head->library - 1));
  const char* const program = ::program_invocation_short_name;
  std::memcpy(head->program, program, std::min(std::strlen(program), sizeof head->program - 1));
  shared(head->magic).store(SLUICE_TRACE_MAGIC, std::memory_order_release);
  seal_shared_memory(fd);
  const int kept = move_out_of_the_way(fd);
  shown_rings = shown_by(kept);
  offer(kept);
  return head;
}

// Null: there is none, or another thread makes it just now; the event is not recorded.
sluice_trace_head* rings_memory() noexcept {
  sluice_trace_head* there = memory.load(std::memory_order_acquire);
  if (there != nullptr || is_refused.load(std::memory_order_relaxed)) return there;
  if (is_being_made.test_and_set(std::memory_order_acquire)) return nullptr;
  there = memory.load(std::memory_order_acquire);
  if (there == nullptr) {
    const int before = errno;
    there = make_memory();
    is_refused.store(there == nullptr, std::memory_order_relaxed);
    errno = before;
    memory.store(there, std::memory_order_release);
  }
  is_being_made.clear(std::memory_order_release);
  return there;
}

sluice_trace_event* events_of(sluice_trace_head* head, std::uint32_t ring) noexcept {
  auto* const bytes = reinterpret_cast<std::byte*>(head) + SLUICE_TRACE_PAGE + ring * SLUICE_TRACE_RING_BYTES;
  return reinterpret_cast<sluice_trace_event*>(bytes);
}

void give_back_ring(void* /*armed*/) noexcept {
  if (own_ring.head == nullptr || own_ring.generation != generation.load(std::memory_order_relaxed)) return;
  shared(own_ring.head->thread).store(0, std::memory_order_release);
  own_ring.head = nullptr;
}
constinit base::ThreadEnd at_end(give_back_ring);

// Generation as a word of the thread's own: of a ring that it could not have.
bool has_been_refused(std::uint32_t now_generation) noexcept {
  return own_ring.events == nullptr && own_ring.generation == now_generation;
}

void write(const Event& event, std::uint32_t request) noexcept {
  const std::uint64_t number = shared(own_ring.head->next).fetch_add(1, std::memory_order_relaxed);
  sluice_trace_event& place = own_ring.events[number & (ring_events - 1)];
  shared(place.serial).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // a reader that sees anything of the new one sees no serial
  shared(place.time).store(monotonic_now(), std::memory_order_relaxed);
  shared(place.request).store(request, std::memory_order_relaxed);
  shared(place.kind).store(static_cast<std::uint8_t>(event.kind), std::memory_order_relaxed);
  shared(place.phase).store(static_cast<std::uint8_t>(event.phase), std::memory_order_relaxed);
  shared(place.detail).store(event.detail, std::memory_order_relaxed);
  shared(place.fd).store(event.fd, std::memory_order_relaxed);
  shared(place.a).store(event.a, std::memory_order_relaxed);
  shared(place.b).store(event.b, std::memory_order_relaxed);
  shared(place.serial).store(static_cast<std::uint32_t>(number + 1), std::memory_order_release);
}

// The thread's ring from now on. False: it has none, which is counted once.
[[gnu::noinline]] bool claim_ring(std::uint32_t now_generation) noexcept {
  if (has_been_refused(now_generation)) return false;
  sluice_trace_head* const head = rings_memory();
  if (head == nullptr) return false;
  const int before = errno;
  const auto thread = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  own_ring.generation = now_generation;
  own_ring.events = nullptr;
  for (std::uint32_t i = 0; i < rings; ++i) {
    std::uint64_t none = 0;
    sluice_trace_ring_head& ring = head->rings[i];
    if (shared(ring.thread).load(std::memory_order_relaxed) != 0 ||
        !shared(ring.thread).compare_exchange_strong(none, thread, std::memory_order_acquire)) {
      continue;
    }
    sluice_trace_event* const events = events_of(head, i);
    if (!have_pages(events, SLUICE_TRACE_RING_BYTES, SLUICE_TRACE_PAGE + i * SLUICE_TRACE_RING_BYTES)) {
      shared(ring.thread).store(0, std::memory_order_release);
      break;
    }
    ::prctl(PR_GET_NAME, ring.name);
    own_ring.head = &ring;
    own_ring.events = events;
    own_ring.number = i;
    at_end.arm();
    std::array<std::uint64_t, 2> name{};
    std::memcpy(name.data(), ring.name, sizeof name);
    write({.kind = SLUICE_TRACE_THREAD, .fd = static_cast<std::int32_t>(thread), .a = name[0], .b = name[1]}, 0);
    errno = before;
    return true;
  }
  own_ring.head = nullptr;
  shared(head->threads_without_ring).fetch_add(1, std::memory_order_relaxed);
  errno = before;
  return false;
}

bool has_ring() noexcept {
  const std::uint32_t current = generation.load(std::memory_order_relaxed);
  return (own_ring.head != nullptr && own_ring.generation == current) || claim_ring(current);
}

}  // namespace

void record(const Event& event) noexcept {
  if (has_ring()) write(event, at_hand);
}

std::uint32_t request_at_hand() noexcept {
  return at_hand;
}

void set_request_at_hand(std::uint32_t request) noexcept {
  at_hand = request;
}

// The ring's number, and a count of its own threads' requests: 16 million until one comes back.
std::uint32_t new_request_number() noexcept {
  constexpr std::uint32_t counted = (1U << 24U) - 1;
  if (!has_ring()) return 0;
  own_ring.requests = own_ring.requests % counted + 1;
  return own_ring.number << 24U | own_ring.requests;
}

void start_recorder(const std::string& where) noexcept {
  if (where.empty()) return;
  if (where != "on" && where.size() < listener.size() - 1 && memory.load(std::memory_order_acquire) == nullptr) {
    std::memcpy(listener.data(), where.data(), where.size());
    listener[where.size()] = '\0';
  }
  if (rings_memory() == nullptr && is_refused.load(std::memory_order_relaxed)) {
    log(config::LogLevel::warn, "trace",
        "this process cannot be traced: the memory for it cannot be shared (" +
            std::error_code(errno, std::generic_category()).message() + ")");
    return;
  }
  Watchers::add(Watchers::one_recorder);
}

void recorder_after_fork_in_child() noexcept {
  memory.store(nullptr, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_relaxed);
  is_refused.store(false, std::memory_order_relaxed);
  is_being_made.clear(std::memory_order_relaxed);
  at_hand = 0;
  // The parent's leaves the child's table; its mapping stays, untouched.
  if (shown_rings.is_still_ours()) ::close(shown_rings.fd);
  shown_rings = {};
}

}  // namespace sluice::observe
