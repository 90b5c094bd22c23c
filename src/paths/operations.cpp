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

OperationAnswer call(const CUfileFSOps_t& operations, void* handle, const Operation& operation, char* memory) noexcept {
  cufileRDMAInfo_t info{SLUICE_RDMA_TOKEN_VERSION, SLUICE_RDMA_TOKEN_LENGTH, operation.token};
  cufileRDMAInfo_t* const described = operation.token != nullptr ? &info : nullptr;
  const auto at = static_cast<off_t>(operation.at);
  errno = 0;
  const ssize_t count = operation.direction == base::Direction::read
                            ? operations.read(handle, memory, operation.size, at, described)
                            : operations.write(handle, memory, operation.size, at, described);
  return answer_of(count, errno, operation.size);
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
  OperationAnswer ask(const CUfileFSOps_t& operations, void* handle, const Operation& operation,
                      std::chrono::milliseconds limit) noexcept {
    const auto end = std::chrono::steady_clock::now() + limit;
    std::unique_lock lock(mutex_);
    operations_ = &operations;
    handle_ = handle;
    operation_ = operation;
    auto* const memory = reinterpret_cast<char*>(operation.address);  // NOLINT(performance-no-int-to-ptr)
    const bool writes = operation.direction == base::Direction::write;
    if (operation.token != nullptr) {
      std::memcpy(token_.data(), operation.token, token_.size());
      operation_.token = token_.data();
    } else {
      operation_.size = std::min(operation.size, most_in_host_memory);
      if (!bytes_) bytes_.reset(new (std::nothrow) char[most_in_host_memory]);
      if (!bytes_) return {-1, ENOMEM};
      if (writes) std::memcpy(bytes_.get(), memory, operation_.size);
    }
    state_ = State::idle;
    is_asked_ = true;
    changed_.notify_all();
    if (!changed_.wait_until(lock, end, [this] { return state_ == State::answered; })) {
      state_ = State::left;
      return {-1, ETIMEDOUT, true};
    }
    state_ = State::idle;
    if (operation.token == nullptr && !writes && answer_.count > 0) {
      std::memcpy(memory, bytes_.get(), static_cast<std::size_t>(answer_.count));
    }
    return answer_;
  }

 private:
  enum class State { idle, answered, left };

  void run() noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;
  State state_ = State::idle;
  const CUfileFSOps_t* operations_ = nullptr;
  void* handle_ = nullptr;
  Operation operation_{};
  std::array<char, SLUICE_RDMA_TOKEN_LENGTH + 1> token_{};
  std::unique_ptr<char[]> bytes_;
  OperationAnswer answer_{0};
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
    const Operation operation = operation_;
    // What has waited too long to begin is not begun.
    const bool is_wanted = state_ != State::left;
    lock.unlock();
    auto* const memory = operation.token != nullptr
                             ? reinterpret_cast<char*>(operation.address)  // NOLINT(performance-no-int-to-ptr)
                             : bytes_.get();
    const OperationAnswer answer =
        is_wanted ? call(*operations_, handle_, operation, memory) : OperationAnswer{-1, ECANCELED};
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

}  // namespace

OperationAnswer call_operation(const Ends& ends, const Operation& operation) noexcept {
  const CUfileFSOps_t& operations = *ends.file.operations;
  const std::uint32_t limit = ends.file.options.rdma.operation_limit_ms;
  if (limit == 0) {
    return call(operations, ends.handle, operation,
                reinterpret_cast<char*>(operation.address));  // NOLINT(performance-no-int-to-ptr)
  }
  CallThreads* const threads = CallThreads::of_this_process();
  CallThread* const thread = threads != nullptr ? threads->take() : nullptr;
  if (thread == nullptr) return {-1, EAGAIN};
  const OperationAnswer answer = thread->ask(operations, ends.handle, operation, std::chrono::milliseconds(limit));
  if (!answer.late) threads->give_back(*thread);
  return answer;
}

}  // namespace sluice::paths
