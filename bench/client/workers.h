// SPDX-License-Identifier: Apache-2.0
// Threads that live as long as the client, as those of a real program do: what a library keeps for a thread is made
// once and not in each measurement.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "client/gpu.h"

namespace sluice::bench {

class Workers {
 public:
  explicit Workers(const Gpu& gpu) : gpu_(&gpu) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  // Runs task(0) .. task(count - 1), each on a thread of its own with the GPU's context current, and returns when all
  // are done. Throws the first exception of theirs. By the thread that made this, one call at a time.
  void run(unsigned count, const std::function<void(unsigned)>& task);

 private:
  void live(unsigned index);

  const Gpu* gpu_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(unsigned)>* task_ = nullptr;
  unsigned wanted_ = 0;  // threads that have a part in the task
  unsigned open_ = 0;    // of these, how many have not finished
  unsigned round_ = 0;   // grows with each task
  bool leave_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace sluice::bench
