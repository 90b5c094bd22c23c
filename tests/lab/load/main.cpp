// SPDX-License-Identifier: Apache-2.0
// lab_load: writes and reads a block device until its standard input ends, and verifies every byte.
//
//   lab_load CLIENT TARGET PROGRESS      CLIENT: pread or cufile (client.h)
//
// Each thread has a part of the target to itself, so it knows what every block must hold. PROGRESS is a file that holds
// the number of transfers that have ended, for the one that changes the world around the load. At the end the whole is
// read once more. Exit status 0: every byte was right. The last line of the output sums up, or tells what went wrong;
// before it stands how often the process got SIGPIPE. By cufile, one more thread makes other calls of the library
// meanwhile (bystander.h), counts them in PROGRESS-others, and a line tells whether the library's statistics agree.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lab/load/bystander.h"
#include "lab/load/client.h"
#include "lab/probe/device_memory.h"
#include "lab/probe/system.h"
#include "support/cuda_driver.h"

namespace sluice::lab {

namespace {

constexpr std::size_t kThreads = 3;
constexpr std::size_t kBlocks = 32;  // of each thread
constexpr std::size_t kBlock = std::size_t{64} << 10U;

class Load {
 public:
  Load(std::string client, std::string target, const std::string& progress)
      : client_(std::move(client)),
        target_(std::move(target)),
        others_(progress + "-others"),
        progress_(progress, O_RDWR | O_CREAT | O_TRUNC) {}

  // Returns when standard input has ended and the threads have; "" or what went wrong first.
  std::string run() {
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([this, thread] {
        guarded([this, thread] { change_and_check(thread, *make_client(client_, target_, kBlock)); });
      });
    }
    if (is_the_librarys()) threads.emplace_back([this] { guarded([this] { stand_by(others_, stopping_); }); });
    wait_for_end();
    stopping_ = true;
    for (std::thread& thread : threads) thread.join();
    return why_;
  }

  bool is_the_librarys() const { return client_ == "cufile"; }
  unsigned long transfers() const { return transfers_; }

 private:
  // Until the other end of standard input is closed, or a thread has failed.
  void wait_for_end() const {
    constexpr int kMilliseconds = 100;
    std::array<char, 16> bytes{};
    while (!stopping_) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (poll(&input, 1, kMilliseconds) > 0 && ::read(STDIN_FILENO, bytes.data(), bytes.size()) <= 0) return;
    }
  }

  // What a thread does; the first failure is kept, and ends them all.
  template <typename Work>
  void guarded(const Work& work) {
    try {
      // A device's memory is reached through a context, which each thread has to make its own.
      if (support::cuda() != nullptr) support::cuda()->context_set(support::primary_context(0));
      work();
    } catch (const std::exception& failure) {
      const std::lock_guard lock(mutex_);
      if (why_.empty()) why_ = failure.what();
      stopping_ = true;
    }
  }

  void change_and_check(std::size_t thread, Client& client) {
    const HostMemory memory(kBlock);
    const std::span<std::byte> bytes = memory.bytes(0, kBlock);
    std::array<std::uint64_t, kBlocks> seeds{};
    std::mt19937_64 draw(thread);
    std::uint64_t next_seed = 1 + thread;
    const auto write = [&](std::size_t block) {
      seeds[block] = next_seed;
      next_seed += kThreads;
      fill(bytes, seeds[block]);
      client.write(bytes, place(thread, block));
      ended();
    };
    const auto check = [&](std::size_t block) {
      client.read(bytes, place(thread, block));
      if (!holds(bytes, seeds[block])) {
        throw std::runtime_error("wrong bytes in the block at " + std::to_string(place(thread, block)));
      }
      ended();
    };
    for (std::size_t block = 0; block < kBlocks; ++block) write(block);
    while (!stopping_) {
      const std::size_t block = draw() % kBlocks;
      if (draw() % 3 == 0) write(block);
      check(draw() % kBlocks);
    }
    for (std::size_t block = 0; block < kBlocks; ++block) check(block);
  }

  static off_t place(std::size_t thread, std::size_t block) {
    return static_cast<off_t>((thread * kBlocks + block) * kBlock);
  }

  void ended() {
    // Under the lock the numbers only grow, so no text is shorter than the one it covers.
    const std::lock_guard lock(mutex_);
    const std::string text = std::to_string(++transfers_) + "\n";
    if (pwrite(progress_.get(), text.data(), text.size(), 0) < 0) throw std::runtime_error("the progress file is lost");
  }

  const std::string client_;
  const std::string target_;
  const std::string others_;
  const File progress_;
  std::atomic<bool> stopping_ = false;
  std::atomic<unsigned long> transfers_ = 0;
  std::mutex mutex_;
  std::string why_;
};

// The kernel's driver for NVMe/TCP sends SIGPIPE to the thread whose transfer it is sending when the connection goes.
std::atomic<unsigned> broken_pipes = 0;
extern "C" void count_broken_pipe(int /*signal*/) {
  ++broken_pipes;
}

}  // namespace

}  // namespace sluice::lab

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: lab_load pread|cufile TARGET PROGRESS\n");
    return 2;
  }
  std::signal(SIGPIPE, sluice::lab::count_broken_pipe);
  sluice::lab::Load load(argv[1], argv[2], argv[3]);
  const std::string why = load.run();
  if (!why.empty()) {
    std::printf("%s, after %lu transfers\n", why.c_str(), load.transfers());
    return 1;
  }
  if (load.is_the_librarys()) {
    const std::string statistics = sluice::lab::statistics_against(load.transfers(), sluice::lab::rounds_stood_by());
    std::printf("statistics: %s\n", statistics.c_str());
  }
  std::printf("SIGPIPE: %u\n", sluice::lab::broken_pipes.load());
  std::printf("%lu transfers, every byte verified\n", load.transfers());
  return 0;
}
