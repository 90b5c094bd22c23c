// SPDX-License-Identifier: Apache-2.0
#include "paths/operations.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "sluice_rdma.h"

namespace sluice::paths {

namespace {

constexpr std::size_t most_in_host_memory = std::size_t{1} << 20U;
constexpr unsigned most_threads = 256;

OperationAnswer answer_of(ssize_t count, int error, std::size_t size) noexcept {
  // An errno of 0 would read as success: it is an I/O error.
  if (count < 0) return {-1, error > 0 ? error : EIO};
  return {static_cast<ssize_t>(std::min(static_cast<std::size_t>(count), size))};
}

// One call of a file system's, and what it answers.
struct Call {
  enum class Kind : std::uint8_t { move, device_list, device_priority };
  Kind kind = Kind::move;
  CUfileFSOps_t operations{};  // a copy: a call may begin when its handle is gone
  void* handle = nullptr;
  Operation operation{};  // of a priority: the range
  sockaddr_t port{};      // of a priority
};
struct CallAnswer {
  OperationAnswer moved{0};
  ListAnswer list{};
  PriorityAnswer priority{};
  bool late = false;
};

CallAnswer late_answer() noexcept {
  CallAnswer answer;
  answer.moved = {-1, ETIMEDOUT, true};
  answer.list.late = answer.priority.late = answer.late = true;
  return answer;
}
CallAnswer failed_answer(int error) noexcept {
  CallAnswer answer;
  answer.moved = {-1, error};
  return answer;
}

OperationAnswer moved_by(const Call& asked, char* memory) noexcept {
  const Operation& operation = asked.operation;
  cufileRDMAInfo_t info{SLUICE_RDMA_TOKEN_VERSION, SLUICE_RDMA_TOKEN_LENGTH, operation.token};
  cufileRDMAInfo_t* const described = operation.token != nullptr ? &info : nullptr;
  const auto at = static_cast<off_t>(operation.at);
  errno = 0;
  const ssize_t count = operation.direction == base::Direction::read
                            ? asked.operations.read(asked.handle, memory, operation.size, at, described)
                            : asked.operations.write(asked.handle, memory, operation.size, at, described);
  return answer_of(count, errno, operation.size);
}

CallAnswer make_call(const Call& asked, char* memory) noexcept {
  CallAnswer answer;
  switch (asked.kind) {
    case Call::Kind::move:
      answer.moved = moved_by(asked, memory);
      break;
    case Call::Kind::device_list: {
      sockaddr_t* addresses = nullptr;
      answer.list.count = asked.operations.getRDMADeviceList(asked.handle, &addresses);
      answer.list.addresses = addresses;
      break;
    }
    case Call::Kind::device_priority: {
      sockaddr_t port = asked.port;
      answer.priority.priority = asked.operations.getRDMADevicePriority(asked.handle, memory, asked.operation.size,
                                                                        static_cast<off_t>(asked.operation.at), &port);
      break;
    }
  }
  return answer;
}

char* memory_of(const Operation& operation) noexcept {
  return reinterpret_cast<char*>(operation.address);  // NOLINT(performance-no-int-to-ptr)
}

// One call at a time. The caller may leave; the thread then goes back to the others once the operation has returned.
class CallThread {
 public:
  CallThread* next_idle = nullptr;

  // False: there is no thread.
  bool begin() noexcept {
    try {
      sigset_t all;
      sigset_t before;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
      std::thread thread;
      try {
        thread = std::thread([this] { run(); });
      } catch (...) {  // NOLINT(bugprone-empty-catch): told below
      }
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      if (!thread.joinable()) return false;
      ::pthread_setname_np(thread.native_handle(), "sluice-fs-call");
      thread.detach();
      return true;
    } catch (...) {
      return false;
    }
  }

  // Answers late when the operation has not returned by then: then it is not the caller's any more.
  CallAnswer ask(const Call& wanted, std::chrono::milliseconds limit) noexcept {
    const auto end = std::chrono::steady_clock::now() + limit;
    std::unique_lock lock(mutex_);
    asked_ = wanted;
    if (wanted.kind == Call::Kind::move && !takes_over(wanted.operation)) return failed_answer(ENOMEM);
    state_ = State::idle;
    is_asked_ = true;
    changed_.notify_all();
    if (!changed_.wait_until(lock, end, [this] { return state_ == State::answered; })) {
      state_ = State::left;
      return late_answer();
    }
    state_ = State::idle;
    if (has_own_memory() && wanted.operation.direction == base::Direction::read && answer_.moved.count > 0) {
      std::memcpy(memory_of(wanted.operation), bytes_.get(), static_cast<std::size_t>(answer_.moved.count));
    }
    return answer_;
  }

 private:
  enum class State { idle, answered, left };

  void run() noexcept;

  // The text, or the bytes: nothing of the caller's is needed afterwards. False: there is no memory.
  bool takes_over(const Operation& operation) noexcept {
    if (operation.token != nullptr) {
      std::memcpy(token_.data(), operation.token, token_.size());
      asked_.operation.token = token_.data();
      return true;
    }
    asked_.operation.size = std::min(operation.size, most_in_host_memory);
    if (!bytes_) bytes_.reset(new (std::nothrow) char[most_in_host_memory]);
    if (!bytes_) return false;
    if (operation.direction == base::Direction::write) {
      std::memcpy(bytes_.get(), memory_of(operation), asked_.operation.size);
    }
    return true;
  }
  // Where the caller's memory may not be touched late, the thread's is.
  bool has_own_memory() const noexcept { return asked_.kind == Call::Kind::move && asked_.operation.token == nullptr; }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;
  State state_ = State::idle;
  Call asked_{};
  std::array<char, SLUICE_RDMA_TOKEN_LENGTH + 1> token_{};
  std::unique_ptr<char[]> bytes_;
  CallAnswer answer_{};
};

// All threads of one process; a child of fork has none and begins anew. Never destroyed.
struct CallThreads {
  const pid_t process = ::getpid();
  std::mutex mutex;
  CallThread* idle = nullptr;
  unsigned count = 0;

  CallThread* take() noexcept {
    {
      const std::lock_guard lock(mutex);
      if (idle != nullptr) return std::exchange(idle, idle->next_idle);
      if (count == most_threads) return nullptr;
      ++count;
    }
    auto* const made = new (std::nothrow) CallThread;
    if (made != nullptr && made->begin()) return made;
    delete made;
    const std::lock_guard lock(mutex);
    --count;
    return nullptr;
  }
  void give_back(CallThread& thread) noexcept {
    const std::lock_guard lock(mutex);
    thread.next_idle = std::exchange(idle, &thread);
  }

  static CallThreads* of_this_process() noexcept {
    static std::atomic<CallThreads*> current{nullptr};
    CallThreads* known = current.load(std::memory_order_acquire);
    if (known != nullptr && known->process == ::getpid()) return known;
    auto* const made = new (std::nothrow) CallThreads;
    if (made == nullptr || current.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
    delete made;
    return current.load(std::memory_order_acquire);
  }
};

void CallThread::run() noexcept {
  for (;;) {
    std::unique_lock lock(mutex_);
    // With a time, since wait() without one is a function of libstdc++ that those of before 2022 lack.
    while (!is_asked_) changed_.wait_for(lock, std::chrono::hours(1));
    is_asked_ = false;
    const Call asked = asked_;
    char* const memory = has_own_memory() ? bytes_.get() : memory_of(asked.operation);
    // What has waited too long to begin is not begun.
    const bool is_wanted = state_ != State::left;
    lock.unlock();
    const CallAnswer answer = is_wanted ? make_call(asked, memory) : failed_answer(ECANCELED);
    lock.lock();
    answer_ = answer;
    if (state_ == State::left) {
      state_ = State::idle;
      lock.unlock();
      CallThreads::of_this_process()->give_back(*this);
      continue;
    }
    state_ = State::answered;
    changed_.notify_all();
  }
}

// By a thread where there is a limit. `none`: what a call is answered that gets no thread.
CallAnswer call(const Call& asked, const Options& options, const CallAnswer& none) noexcept {
  const std::uint32_t limit = options.rdma.operation_limit_ms;
  if (limit == 0) return make_call(asked, memory_of(asked.operation));
  CallThreads* const threads = CallThreads::of_this_process();
  CallThread* const thread = threads != nullptr ? threads->take() : nullptr;
  if (thread == nullptr) return none;
  const CallAnswer answer = thread->ask(asked, std::chrono::milliseconds(limit));
  if (!answer.late) threads->give_back(*thread);
  return answer;
}

}  // namespace

OperationAnswer call_operation(const Ends& ends, const Operation& operation) noexcept {
  const File& file = ends.file;
  return call({Call::Kind::move, *file.operations, ends.handle, operation, {}}, file.options, failed_answer(EAGAIN))
      .moved;
}

ListAnswer call_device_list(const File& file, void* handle) noexcept {
  return call({Call::Kind::device_list, *file.operations, handle, {}, {}}, file.options, late_answer()).list;
}

PriorityAnswer call_device_priority(const Ends& ends, const Operation& range, const sockaddr_t& port) noexcept {
  const File& file = ends.file;
  return call({Call::Kind::device_priority, *file.operations, ends.handle, range, port}, file.options, late_answer())
      .priority;
}

}  // namespace sluice::paths
