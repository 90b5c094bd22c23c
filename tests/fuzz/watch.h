// SPDX-License-Identifier: Apache-2.0
// Who is in which call, and an end for a run that hangs: when one call has not returned for a long time, what every
// actor is doing is printed and the process aborts, so that a core or a debugger shows where.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice::fuzz {

class Watch {
 public:
  // `patience` is no expectation of speed: it only has to be longer than any call can take on a busy machine.
  Watch(std::size_t seats, std::chrono::seconds patience);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // A seat belongs to one actor. `call` is the call with its arguments.
  void enter(std::size_t seat, std::string call);
  void leave(std::size_t seat);

 private:
  struct Seat {
    std::mutex mutex;
    std::string call;          // "" outside of any
    std::uint64_t number = 0;  // of the call, from 1
  };

  void look_again_and_again();
  [[noreturn]] void give_up(std::size_t stuck);

  const std::chrono::seconds patience_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace sluice::fuzz
