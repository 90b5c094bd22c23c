// SPDX-License-Identifier: Apache-2.0
// The two queues of a ring, shared with the kernel.
//
// What must be seen when: the kernel reads an entry after it has seen our store to the submission tail, so that store
// is a release; we read an answer after we have seen the kernel's store to the completion tail, so that load is an
// acquire; our store to the completion head is a release, since the kernel may then write over the answers.
#include "io/uring.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "base/spin_backoff.h"
#include "base/thread_end.h"
#include "base/unique_fd.h"
#include "observe/probes.h"

namespace sluice::io {

namespace {

// A kernel thread that polls sleeps after so many milliseconds without work: an idle process uses no CPU.
constexpr unsigned polling_ends_after_ms = 5;

// What a thread with few requests would gain by registered memory is less than it costs.
constexpr unsigned requests_before_table = 64;
// Registered memory counts as locked, against a limit that all processes of a user share: where it is tight, others
// need it more. With CAP_IPC_LOCK it does not count.
constexpr rlim_t roomy_limit = rlim_t{256} << 20;

// The kernel asks for that capability there; what a container without root shows of its own says nothing.
bool is_in_the_first_user_namespace() noexcept {
  const base::UniqueFd map(::open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  unsigned long inside = 1;
  unsigned long outside = 1;
  unsigned long count = 0;
  return map && ::read(map.get(), text.data(), text.size() - 1) > 0 &&
         std::sscanf(text.data(), "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
         count == ~std::uint32_t{0};
}

bool may_lock_plenty() noexcept {
  struct rlimit locked {};
  if (::getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur >= roomy_limit) return true;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> ours{};
  return ::syscall(SYS_capget, &header, ours.data()) == 0 && (ours[0].effective & 1U << CAP_IPC_LOCK) != 0 &&
         is_in_the_first_user_namespace();
}

// How long requests of a ring that is gone are waited for.
constexpr int longest_wait_ms = 5000;

// Of kernels since 6.3, which headers may be older than.
constexpr unsigned feature_register_by_number = 1U << 13;  // IORING_FEAT_REG_REG_RING
constexpr unsigned register_by_number = 1U << 31;          // IORING_REGISTER_USE_REGISTERED_RING
constexpr unsigned enter_by_number = 1U << 4;              // IORING_ENTER_REGISTERED_RING
constexpr std::uint32_t any_number = ~std::uint32_t{0};

// Of kernels since 6.1: one thread alone submits and waits, and what has ended becomes an answer as it does. Otherwise
// each request that ends interrupts the thread for that, or wakes it, however many it waits for.
constexpr unsigned answers_as_asked = 1U << 12 | 1U << 13;  // IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_DEFER_TASKRUN

std::atomic<unsigned> forks_seen{0};

unsigned load(const unsigned* word, std::memory_order order) noexcept {
  return std::atomic_ref<unsigned>(*const_cast<unsigned*>(word)).load(order);
}

void store(unsigned* word, unsigned value) noexcept {
  std::atomic_ref<unsigned>(*word).store(value, std::memory_order_release);
}

unsigned* word_at(std::byte* base, std::uint32_t offset) noexcept {
  return reinterpret_cast<unsigned*>(base + offset);
}

// The program may have closed the descriptor, and opened a file of its own that got the number.
bool is_still_a_ring(int fd) noexcept {
  return ::syscall(SYS_io_uring_enter, fd, 0, 0, 0, nullptr, 0) == 0 || (errno != EOPNOTSUPP && errno != EBADF);
}

std::byte* map_shared(int fd, std::size_t size, std::uint64_t which) noexcept {
  void* const mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(which));
  if (mapped == MAP_FAILED) return nullptr;
  ::madvise(mapped, size, MADV_DONTFORK);
  return static_cast<std::byte*>(mapped);
}

}  // namespace

// The rings of one thread. Plain storage without a destructor: transfers of the thread's last destructors still use it.
struct ThreadUrings {
  std::array<Uring*, completion_modes> rings;
  std::array<int, completion_modes> refused;  // the error of a refusal that stays; 0: none
  unsigned born;
  bool ending;

  // What a parent made belongs to the parent: its queues are not even mapped here.
  void forget_the_parents() noexcept {
    const unsigned now = forks_seen.load(std::memory_order_relaxed);
    if (born == now) return;
    rings = {};
    refused = {};
    born = now;
  }

  // 0: there is a ring; else why not.
  int provide(CompletionMode completion) noexcept {
    forget_the_parents();
    const auto kind = static_cast<std::size_t>(completion);
    if (rings[kind] != nullptr && rings[kind]->lost_ && !rings[kind]->in_use_) {
      delete std::exchange(rings[kind], nullptr);
    }
    if (rings[kind] != nullptr) return 0;
    if (refused[kind] != 0 || ending) return refused[kind] != 0 ? refused[kind] : ENOMEM;
    auto* const made = new (std::nothrow) Uring;
    if (made == nullptr) return ENOMEM;
    if (made->open(completion)) {
      rings[kind] = made;
      return 0;
    }
    const int error = errno;
    delete made;
    // EMFILE and ENOMEM pass, a kernel or sandbox without io_uring stays so.
    if (error == ENOSYS || error == EPERM || error == EINVAL) refused[kind] = error;
    return error;
  }

  Uring::Use take(CompletionMode completion) noexcept {
    if (const int error = provide(completion); error != 0) return Uring::Use(nullptr, error);
    Uring* const ring = rings[static_cast<std::size_t>(completion)];
    if (ring->in_use_) return Uring::Use(nullptr);
    ring->in_use_ = true;
    ring->refusal_ = 0;  // if no caller has heard of it
    return Uring::Use(ring);
  }

  void end() noexcept {
    ending = true;
    forget_the_parents();
    for (Uring*& ring : rings) delete std::exchange(ring, nullptr);
  }
};

namespace {

constinit thread_local ThreadUrings thread_rings{};

constinit base::ThreadEnd uring_thread_end{[](void*) { thread_rings.end(); }};

}  // namespace

Uring::Use Uring::of_this_thread(CompletionMode completion) noexcept {
  uring_thread_end.arm();
  return thread_rings.take(completion);
}

// Only where the ring can be hidden: whose descriptor the program may close gets its answers without visits, too.
bool Uring::set_up_as_asked(struct io_uring_params& params) noexcept {
  struct io_uring_params more = params;
  more.flags |= answers_as_asked;
  const int fd = static_cast<int>(::syscall(SYS_io_uring_setup, depth, &more));
  if (fd < 0) return false;
  if ((more.features & feature_register_by_number) == 0) {
    ::close(fd);
    return false;
  }
  params = more;
  fd_ = fd;
  return true;
}

bool Uring::open(CompletionMode completion) noexcept {
  struct io_uring_params params {};
  params.flags = IORING_SETUP_CLAMP;
  if (is_polled(completion)) params.flags |= IORING_SETUP_IOPOLL;
  if (completion == CompletionMode::polled_by_kernel) {
    params.flags |= IORING_SETUP_SQPOLL;
    params.sq_thread_idle = polling_ends_after_ms;
    by_kernel_ = true;
  }
  if (completion != CompletionMode::interrupt || !set_up_as_asked(params)) {
    fd_ = static_cast<int>(::syscall(SYS_io_uring_setup, depth, &params));
  }
  if (fd_ < 0) return false;
  // Both queues in one mapping, and no answer ever lost: kernels since 5.4 and 5.5.
  if ((params.features & IORING_FEAT_SINGLE_MMAP) == 0 || (params.features & IORING_FEAT_NODROP) == 0) {
    errno = ENOSYS;
    return false;
  }
  if (!map(params)) return false;
  takes_limits_ = (params.features & IORING_FEAT_EXT_ARG) != 0;
  hide(params);
  return true;
}

// The kernel keeps the ring by a number that is this thread's alone. No descriptor is left that the program could close
// (daemons close all that they did not open), take for its own, or give to a child. Older kernels leave us the
// descriptor.
void Uring::hide(const struct io_uring_params& params) noexcept {
  if ((params.features & feature_register_by_number) == 0) return;
  struct io_uring_rsrc_update number {};
  number.offset = any_number;
  number.data = static_cast<__u64>(fd_);
  if (::syscall(SYS_io_uring_register, fd_, IORING_REGISTER_RING_FDS, &number, 1) != 1) return;
  ::close(fd_);
  fd_ = static_cast<int>(number.offset);
  hidden_ = true;
}

bool Uring::map(const struct io_uring_params& params) noexcept {
  const std::size_t submissions = params.sq_off.array + params.sq_entries * sizeof(unsigned);
  const std::size_t completions = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
  queues_size_ = submissions > completions ? submissions : completions;
  queues_ = map_shared(fd_, queues_size_, IORING_OFF_SQ_RING);
  entries_size_ = params.sq_entries * sizeof(io_uring_sqe);
  entries_ = reinterpret_cast<io_uring_sqe*>(map_shared(fd_, entries_size_, IORING_OFF_SQES));
  if (queues_ == nullptr || entries_ == nullptr) return false;
  sq_tail_ = word_at(queues_, params.sq_off.tail);
  sq_flags_ = word_at(queues_, params.sq_off.flags);
  sq_array_ = word_at(queues_, params.sq_off.array);
  sq_mask_ = *word_at(queues_, params.sq_off.ring_mask);
  cq_head_ = word_at(queues_, params.cq_off.head);
  cq_tail_ = word_at(queues_, params.cq_off.tail);
  cq_mask_ = *word_at(queues_, params.cq_off.ring_mask);
  cqes_ = reinterpret_cast<io_uring_cqe*>(queues_ + params.cq_off.cqes);
  return true;
}

Uring::~Uring() {
  if (queues_ != nullptr) ::munmap(queues_, queues_size_);
  if (entries_ != nullptr) ::munmap(entries_, entries_size_);
  if (hidden_) {
    struct io_uring_rsrc_update number {};
    number.offset = static_cast<std::uint32_t>(fd_);
    ::syscall(SYS_io_uring_register, fd_, IORING_UNREGISTER_RING_FDS | register_by_number, &number, 1);
  } else if (fd_ >= 0 && is_still_a_ring(fd_)) {
    ::close(fd_);
  }
}

int Uring::control(unsigned operation, void* argument, unsigned count) const noexcept {
  const unsigned how = hidden_ ? operation | register_by_number : operation;
  return static_cast<int>(::syscall(SYS_io_uring_register, fd_, how, argument, count));
}

bool Uring::make_table() noexcept {
  if (table_ != Table::untried) return table_ == Table::made;
  table_ = Table::refused;
  if (!may_lock_plenty()) return false;
  struct io_uring_rsrc_register empty {};
  empty.nr = static_cast<__u32>(registered_.size());
  empty.flags = IORING_RSRC_REGISTER_SPARSE;
  if (control(IORING_REGISTER_BUFFERS2, &empty, sizeof empty) == 0) table_ = Table::made;
  return table_ == Table::made;
}

void Uring::register_buffer(std::span<std::byte> memory) noexcept {
  if (served_ < requests_before_table || registered_count_ == registered_.size()) return;
  for (std::size_t i = 0; i < registered_count_; ++i) {
    if (registered_[i].data() == memory.data()) return;
  }
  if (!make_table()) return;
  struct iovec where {
    memory.data(), memory.size()
  };
  struct io_uring_rsrc_update2 entry {};
  entry.offset = static_cast<__u32>(registered_count_);
  entry.data = reinterpret_cast<std::uint64_t>(&where);
  entry.nr = 1;
  if (control(IORING_REGISTER_BUFFERS_UPDATE, &entry, sizeof entry) != 1) {
    table_ = Table::refused;
    return;
  }
  registered_[registered_count_++] = memory;
}

// -1: none.
int Uring::buffer_of(const UringRequest& request) const noexcept {
  for (std::size_t i = 0; i < registered_count_; ++i) {
    const std::span<std::byte> memory = registered_[i];
    if (request.address >= memory.data() && request.address + request.length <= memory.data() + memory.size()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void Uring::add(const UringRequest& request) noexcept {
  if (lost_) return;
  const unsigned tail = *sq_tail_;  // ours alone to write
  const unsigned slot = tail & sq_mask_;
  io_uring_sqe& entry = entries_[slot];
  std::memset(&entry, 0, sizeof entry);
  const bool reads = request.direction == base::Direction::read;
  if (!request.vectors.empty()) {
    entry.opcode = reads ? IORING_OP_READV : IORING_OP_WRITEV;
  } else if (const int buffer = buffer_of(request); buffer >= 0) {
    entry.opcode = reads ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
    entry.buf_index = static_cast<__u16>(buffer);
  } else {
    entry.opcode = reads ? IORING_OP_READ : IORING_OP_WRITE;
  }
  if (served_ < requests_before_table) ++served_;
  entry.fd = request.fd;
  if (request.vectors.empty()) {
    entry.addr = reinterpret_cast<std::uint64_t>(request.address);
    entry.len = request.length;
  } else {
    entry.addr = reinterpret_cast<std::uint64_t>(request.vectors.data());
    entry.len = static_cast<std::uint32_t>(request.vectors.size());
  }
  entry.off = request.at.value;
  entry.user_data = request.tag;
  sq_array_[slot] = slot;
  store(sq_tail_, tail + 1);
  ++added_;
}

unsigned Uring::take_completions(std::span<UringCompletion, depth> completions) noexcept {
  unsigned head = *cq_head_;  // ours alone to write
  const unsigned tail = load(cq_tail_, std::memory_order_acquire);
  unsigned taken = 0;
  while (head != tail && taken < depth) {
    const io_uring_cqe& answer = cqes_[head & cq_mask_];
    completions[taken++] = {answer.user_data, answer.res};
    ++head;
  }
  store(cq_head_, head);
  in_flight_ -= std::min(in_flight_, taken);
  return taken;
}

// One visit to the kernel: submits what was added and waits for an answer. What it took is counted. A wait that has
// come to its limit is an error (ETIME) only where nothing was submitted.
long Uring::enter(unsigned least, const std::chrono::microseconds* at_most) noexcept {
  unsigned flags = IORING_ENTER_GETEVENTS | (hidden_ ? enter_by_number : 0);
  if (by_kernel_) {
    // The store to the tail comes before the look at the flag: else the kernel's thread falls asleep in between.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if ((load(sq_flags_, std::memory_order_relaxed) & IORING_SQ_NEED_WAKEUP) != 0) flags |= IORING_ENTER_SQ_WAKEUP;
    in_flight_ += std::exchange(added_, 0);
  }
  struct __kernel_timespec limit {};
  struct io_uring_getevents_arg more {};
  if (at_most != nullptr) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*at_most);
    limit.tv_sec = seconds.count();
    limit.tv_nsec = std::chrono::nanoseconds(*at_most - seconds).count();
    more.ts = reinterpret_cast<std::uint64_t>(&limit);
    flags |= IORING_ENTER_EXT_ARG;
  }
  const long taken = at_most != nullptr ? ::syscall(SYS_io_uring_enter, fd_, added_, least, flags, &more, sizeof more)
                                        : ::syscall(SYS_io_uring_enter, fd_, added_, least, flags, nullptr, 0);
  if (taken > 0 && !by_kernel_) {
    added_ -= static_cast<unsigned>(taken);
    in_flight_ += static_cast<unsigned>(taken);
  }
  return taken;
}

// The kernel reads the tail with its next visit only; but where a thread of its own does, that may have them already.
void Uring::take_back_added() noexcept {
  const unsigned added = std::exchange(added_, 0);
  if (by_kernel_) {
    in_flight_ += added;
  } else {
    store(sq_tail_, *sq_tail_ - added);
  }
}

int Uring::wait_a_while(std::span<UringCompletion, depth> completions, unsigned least,
                        std::chrono::microseconds at_most) noexcept {
  return submit_and_wait(completions, least, takes_limits_ ? &at_most : nullptr);
}

int Uring::submit_and_wait(std::span<UringCompletion, depth> completions, unsigned least,
                           const std::chrono::microseconds* at_most) noexcept {
  if (lost_) return -EIO;
  observe::PhaseProbe phase(SLUICE_TRACE_STORAGE_WAIT, in_flight_ + added_, added_);
  int refusals = 0;
  while (refusal_ == 0) {
    if (added_ == 0 || refusals > 0) {
      if (const unsigned taken = take_completions(completions); taken > 0) return phase.ends(static_cast<int>(taken));
    }
    if (enter(least, at_most) >= 0 || errno == ETIME) {
      refusals = 0;
      if (at_most != nullptr && added_ == 0) return phase.ends(static_cast<int>(take_completions(completions)));
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    // Short of something for a moment. While requests are on their way, their end may change that.
    const bool passing = error == EAGAIN || error == EBUSY || error == ENOMEM;
    if (!passing || ++refusals >= base::most_refusals_in_a_row) refusal_ = error;
  }
  take_back_added();
  if (const unsigned taken = take_late_completions(completions, at_most); taken > 0 || in_flight_ > 0) {
    return static_cast<int>(taken);
  }
  waited_ms_ = 0;
  return -std::exchange(refusal_, 0);
}

// The kernel takes nothing more although requests are on their way. Their memory is in use until there are answers, and
// these come with a call that submits nothing. Where even that is refused (the program closed the ring's descriptor,
// where it is not hidden; a sandbox), most rings' answers still come into the queue that is mapped here. When they do
// not, the ring is given up, and nothing counts as being on its way any more.
unsigned Uring::take_late_completions(std::span<UringCompletion, depth> completions,
                                      const std::chrono::microseconds* at_most) noexcept {
  constexpr timespec pause{0, 1'000'000};
  while (in_flight_ > 0) {
    if (const unsigned taken = take_completions(completions); taken > 0) return taken;
    if (enter(1, at_most) >= 0 || errno == EINTR) continue;
    if (errno == ETIME) return take_completions(completions);
    ::nanosleep(&pause, nullptr);
    if (++waited_ms_ >= longest_wait_ms) {
      in_flight_ = 0;
      lost_ = true;
    } else if (at_most != nullptr) {
      return take_completions(completions);
    }
  }
  return 0;
}

void rings_after_fork(bool in_child) noexcept {
  if (in_child) forks_seen.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sluice::io
