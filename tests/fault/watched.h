// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace sluice::fault {

// A thread of its own that can be asked whether it waits for something. It ends with the scope.
class Watched {
 public:
  explicit Watched(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          id_ = gettid();
          body();
          done_ = true;
        }) {}
  ~Watched() { join(); }

  // Returns when the body is done or seems to wait. Only what a test can find out depends on it, not whether it
  // passes: so a bound on the number of looks is enough.
  void wait_until_done_or_asleep() const {
    constexpr int most_looks = 20000;
    constexpr int asleep_enough = 200;
    int asleep = 0;
    for (int look = 0; look < most_looks && !done_ && asleep < asleep_enough; ++look) {
      asleep = id_ != 0 && sleeping() ? asleep + 1 : 0;
      std::this_thread::yield();
    }
  }
  bool is_done() const { return done_; }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  bool sleeping() const {
    std::ifstream status("/proc/self/task/" + std::to_string(id_) + "/stat");
    std::string line;
    std::getline(status, line);
    const std::size_t end_of_name = line.rfind(") ");
    return end_of_name != std::string::npos && line.compare(end_of_name + 2, 1, "S") == 0;
  }

  std::atomic<pid_t> id_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace sluice::fault
