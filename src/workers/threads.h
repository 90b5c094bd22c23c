// SPDX-License-Identifier: Apache-2.0
// How many processors the process may use, and threads that may use them all.
#pragma once

#include <signal.h>

#include <atomic>
#include <mutex>

namespace sluice::workers {

// By the affinity of its threads and the cgroup's quota; asked once.
unsigned processor_count() noexcept;

// Threads of one kind, which live as long as the process.
struct Threads {
  const char* name;  // of each, before its number; as it is told of in the log
  void (*run)(unsigned number) noexcept;
  std::mutex starting{};
  std::atomic<unsigned> tried{0};    // that were started, or could not be
  std::atomic<unsigned> running{0};  // of these, those that were

  // As many as `wanted`, with the first work for them. After a failure none is tried again.
  void start(unsigned wanted) noexcept;
  // The child of a fork has none of them.
  void forget() noexcept {
    tried.store(0, std::memory_order_relaxed);
    running.store(0, std::memory_order_relaxed);
  }
};

}  // namespace sluice::workers
