// SPDX-License-Identifier: Apache-2.0
// What a server has done, by all its sessions.
#pragma once

#include <atomic>
#include <cstdint>

namespace rdma_files {

struct Counts {
  std::atomic<std::uint64_t> sessions{0};
  std::atomic<std::uint64_t> refused_secrets{0};
  std::atomic<std::uint64_t> transfers{0};
  std::atomic<std::uint64_t> refused_keys{0};
  std::atomic<std::uint64_t> lost_links{0};
  std::atomic<std::uint64_t> bytes_read{0};     // of files, into clients
  std::atomic<std::uint64_t> bytes_written{0};  // from clients, into files
  std::atomic<std::uint64_t> rdma_writes{0};
  std::atomic<std::uint64_t> rdma_reads{0};
};

}  // namespace rdma_files
