// SPDX-License-Identifier: Apache-2.0
// What the path `rdma` keeps with a session, a file, a buffer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paths/attachment.h"
#include "paths/path.h"
#include "rdma/choice.h"
#include "rdma/keys.h"

namespace sluice::paths {

// How near each slot of the board is to one device: as topology::preference_between() has it.
struct Nearness {
  std::uint32_t slots = 0;  // of which it is known
  std::array<int, verbs::most_slots> preference{};
};

class RdmaSession final : public SessionAttachment {
 public:
  // Null where nothing is known: all are alike. One load.
  const Nearness* nearness(int device) const noexcept;
  // Looks at the machine when slots have come since the last time. Control plane.
  void look(const verbs::Board& board, int device, const config::Config& config);

  void before_fork() override { rdma::control().lock(); }
  void after_fork() override { rdma::control().unlock(); }

 private:
  static constexpr std::size_t most_devices = 64;
  std::array<std::atomic<const Nearness*>, most_devices> known_{};
  std::mutex mutex_;
  std::vector<std::unique_ptr<Nearness>> all_;
};

class RdmaFile final : public Attachment {
 public:
  // `session` outlives it.
  RdmaFile(const File& file, RdmaSession& session);

  RdmaSession& session() const noexcept { return session_; }

  // RDMA is wanted for this file, by the file system, the configuration, or a link of this process.
  bool is_concerned(const File& file, const rdma::Client* client) const noexcept;
  // Slots with connected links that file system and configuration allow. What the file system allows is known once it
  // was asked: nothing else counts until then.
  std::uint32_t usable(const verbs::Board& board) const noexcept;
  bool must_ask(const File& file, const verbs::Board& board) const noexcept;
  // Asks the file system for its list. Control plane: its answer is taken anew when links have come or gone. One that
  // does not answer in time is left alone.
  void ask(const File& file, void* handle, const verbs::Board& board);

  // The file system has refused RDMA, or not answered: for a while it is not asked for it, each time for longer.
  bool is_left_alone() const noexcept;
  void leave_alone() noexcept;
  // The same, since this operation has not answered in time; the log tells.
  void leave_alone(const char* operation, std::uint32_t limit_ms) noexcept;
  void went_well() noexcept {
    if (until_.load(std::memory_order_relaxed) != 0) until_.store(0, std::memory_order_relaxed);
  }

 private:
  std::uint32_t allowed(const verbs::Board& board, const std::vector<std::string>& addresses) const noexcept;

  RdmaSession& session_;
  std::vector<std::string> configured_;  // addresses that hold for this file; empty: all
  // The file system's list as slots, in the lower half; the board's changes at that time and 1, in the upper.
  std::atomic<std::uint64_t> listed_{0};
  std::atomic<std::int64_t> until_{0};  // ns of the steady clock
  std::atomic<std::int64_t> pause_{0};
};

class RdmaBuffer final : public Attachment {
 public:
  RdmaBuffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts) noexcept
      : keys(address, size, facts) {}
  rdma::Keys keys;
};

inline RdmaFile* rdma_file_of(const File& file) noexcept {
  return static_cast<RdmaFile*>(file.attachments.of(SLUICE_PATH_RDMA));
}
inline RdmaBuffer* rdma_buffer_of(const Attachments* registered) noexcept {
  return registered != nullptr ? static_cast<RdmaBuffer*>(registered->of(SLUICE_PATH_RDMA)) : nullptr;
}

}  // namespace sluice::paths
