// SPDX-License-Identifier: Apache-2.0
// One end of a reliable connection.
#pragma once

#include <chrono>

#include "net/socket.h"
#include "verbs/device.h"

namespace rdma_files {

using VerbsEvents = std::unique_ptr<ibv_comp_channel, Freed<&ibv_destroy_comp_channel>>;
using VerbsCompletions = std::unique_ptr<ibv_cq, Freed<&ibv_destroy_cq>>;
using VerbsQueuePair = std::unique_ptr<ibv_qp, Freed<&ibv_destroy_qp>>;

// What the other end may do with memory that was registered for it.
enum class Exposure { nothing, reads_and_writes };

class QueuePair {
 public:
  static constexpr std::uint8_t kReadsAtOnce = 4;

  QueuePair(std::shared_ptr<Device> device, unsigned depth, Exposure exposure);

  // What the other end has to know. `first_packet` is chosen by chance, so that packets of an earlier link are none of
  // this.
  Peer own() const noexcept;
  // Ready to send and receive. A pair that was linked before forgets that.
  void link(const Peer& other);
  // Nothing comes in and nothing goes out any more.
  void unlink() noexcept;
  // What was posted comes to its end by an error; another thread may be waiting for it.
  void break_off() noexcept;

  struct Move {
    ibv_wr_opcode operation = IBV_WR_RDMA_WRITE;  // or RDMA_READ
    void* local = nullptr;
    std::uint32_t local_key = 0;
    std::uint32_t length = 0;
    std::uint64_t remote = 0;
    std::uint32_t remote_key = 0;
  };
  void post(const Move& move);
  // The next one that was posted has come to its end. ETIMEDOUT; EACCES: its memory was refused; else ENOTCONN.
  void wait(Deadline deadline);

  const Device& device() const noexcept { return *device_; }

 private:
  void to_init();

  const std::shared_ptr<Device> device_;
  VerbsEvents events_;
  VerbsCompletions completions_;
  VerbsQueuePair pair_;
  const Exposure exposure_;
  std::uint32_t first_packet_;
};

}  // namespace rdma_files
