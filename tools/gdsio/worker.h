// SPDX-License-Identifier: Apache-2.0
// One thread of a job: its memory, its way through its files, and the loop that is measured.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/gpu.h"
#include "common/latencies.h"
#include "gdsio/mover.h"
#include "gdsio/settings.h"
#include "gdsio/target.h"
#include "gdsio/walk.h"

namespace sluice::tools {

// What threads of a run tell each other.
struct Shared {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<bool> stop{false};
};

class Worker {
 public:
  // `index` and `count`: which of how many threads of the job; it has `targets` open. `gpu` may be nullptr where none
  // is used. All of them outlive this.
  Worker(const Settings& settings, const JobSettings& job, const std::vector<std::unique_ptr<Target>>& targets,
         const Gpu* gpu, unsigned index, unsigned count, unsigned number);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // On the thread that is to work, in this order. They throw ToolError.
  void prepare();
  void work(Shared& shared, std::chrono::steady_clock::time_point deadline);
  // On the same thread: gives memory and streams back.
  void finish();

  const Latencies& latencies() const noexcept { return latencies_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t ops() const noexcept { return latencies_.count(); }
  const JobSettings& job() const noexcept { return *job_; }

 private:
  struct Way {
    const Target* target;
    Walk walk;
  };

  void plan_ways(const std::vector<std::unique_ptr<Target>>& targets, unsigned index, unsigned count);
  void fill_once();
  bool gather();
  bool wants_write();
  void fill(const Piece& piece);
  // Throws what hindered the piece, which has not moved as a whole.
  [[noreturn]] void fail(const Piece& piece);
  void account(const Piece& piece, Shared& shared);
  void verify(const Piece& piece);

  const Settings* settings_;
  const JobSettings* job_;
  const Gpu* gpu_;
  unsigned number_;  // over all jobs: "Tid"
  unsigned depth_;
  std::size_t slot_;  // memory of one piece
  std::vector<Way> ways_;
  std::unique_ptr<TransferMemory> memory_;
  bool registered_ = false;
  std::unique_ptr<Mover> mover_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> scratch_;
  std::uint64_t noise_;
  Latencies latencies_;
  std::uint64_t bytes_ = 0;
};

}  // namespace sluice::tools
