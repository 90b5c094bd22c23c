// SPDX-License-Identifier: Apache-2.0
// Threads that are joined at the end of their scope, whatever ends it, and a start that may fail: the system has a
// limit of processes, which counts threads, too.
#pragma once

#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::tools {

// What helps where a thread cannot be started. Its cause, EAGAIN, does not tell which limit it was.
constexpr const char* remedy_for_threads =
    "Raise the limit of processes (ulimit -u, the container's pids limit) or of memory, or use fewer threads.";

class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup() { join(); }

  // False: there is no thread for it, and nothing has begun.
  template <typename Function>
  bool start(Function function) {
    try {
      threads_.emplace_back(std::move(function));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace sluice::tools
