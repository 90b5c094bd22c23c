// SPDX-License-Identifier: Apache-2.0
// All pairs of device and storage that one life of the driver has come by.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "facts/buffer.h"
#include "facts/file.h"
#include "paths/attachment.h"
#include "paths/p2pdma/direct_pair.h"

namespace sluice::paths {

class Pairs final : public SessionAttachment {
 public:
  // The one for this file's storage and this memory's device; made when there is none yet. It lives as long as this
  // does. Null without memory for it. Not on the I/O path: files keep what they were answered.
  DirectPair* find(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept;

  std::vector<PairReport> reports() override;
  void before_fork() override;
  void after_fork() override;

 private:
  std::mutex mutex_;
  std::deque<DirectPair> pairs_;
  std::map<std::pair<int, std::string>, DirectPair*> known_;
};

// Those of one file's storage and each device that the file has met.
class PairsOfFile final : public Attachment {
 public:
  // `all` outlives it.
  explicit PairsOfFile(Pairs& all) noexcept : all_(all) {}
  DirectPair* with(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept;

 private:
  Pairs& all_;
  std::array<std::atomic<DirectPair*>, 8> known_{};  // by device; further ones are looked up each time
};

}  // namespace sluice::paths
