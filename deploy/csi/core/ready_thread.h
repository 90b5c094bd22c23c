// SPDX-License-Identifier: Apache-2.0
// A thread that sleeps until a descriptor can be read, and acts then: of a listening socket, or of a watch on a folder.
#pragma once

#include <functional>
#include <thread>

#include "base/unique_fd.h"

namespace sluice::csi {

class ReadyThread {
 public:
  // `first` is done by the thread before it sleeps; the descriptor stays the caller's. Neither may throw.
  ReadyThread(int descriptor, std::function<void()> first, std::function<void()> when_ready);
  // Waits for an action that is under way.
  ~ReadyThread();
  ReadyThread(const ReadyThread&) = delete;
  ReadyThread& operator=(const ReadyThread&) = delete;

 private:
  void run(int descriptor);

  std::function<void()> first_;
  std::function<void()> when_ready_;
  base::UniqueFd stop_;
  std::thread thread_;
};

}  // namespace sluice::csi
