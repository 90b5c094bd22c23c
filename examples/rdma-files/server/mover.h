// SPDX-License-Identifier: Apache-2.0
// One link to a client: a queue pair, a thread that moves what waits for it, and the staging memory for that.
//
// A read is preads into the staging memory and RDMA WRITEs into the client's; a write is RDMA READs and pwrites. Both
// keep several chunks on their way. RDMA WRITEs may be acknowledged before the memory has them, and the answer goes by
// another way, TCP: a read ends with an RDMA READ of the last byte, which cannot overtake them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/counts.h"
#include "server/folder.h"
#include "verbs/queue_pair.h"

namespace rdma_files {

class Mover {
 public:
  static constexpr std::size_t kWaiting = 16;  // transfers
  static constexpr std::size_t kChunks = 4;
  static constexpr std::size_t kChunk = std::size_t{1} << 20U;

  struct Result {
    int error = 0;
    bool link_lost = false;
    std::uint64_t bytes = 0;
  };
  struct Job {
    Transfer transfer;
    std::shared_ptr<const ServedFile> file;
    std::function<void(const Result&)> done;  // called once, by the mover's thread
  };

  // `time`: without a completion for so long the link is given up.
  Mover(const std::shared_ptr<Device>& device, const Peer& client, std::chrono::milliseconds time, Counts& counts);
  ~Mover();  // the transfer under way is given up, those that wait are not begun
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  Peer own() const noexcept { return own_; }
  const Peer& client() const noexcept { return client_; }
  bool take(Job job);  // false: enough are waiting

 private:
  void run();
  Result move(const Job& job);
  Result read_into_client(const Job& job);
  Result write_from_client(const Job& job);
  void post(ibv_wr_opcode operation, std::size_t slot, std::uint64_t remote, std::uint64_t length, std::uint32_t key);
  void wait();

  const Peer client_;
  const std::chrono::milliseconds time_;
  Counts& counts_;
  std::vector<std::uint8_t> memory_;
  VerbsMemory region_;
  QueuePair pair_;
  Peer own_;
  std::size_t on_their_way_ = 0;  // posted, not waited for
  std::atomic<bool> lost_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace rdma_files
