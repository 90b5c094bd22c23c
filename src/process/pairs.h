// SPDX-License-Identifier: Apache-2.0
// All pairs of device and storage that one life of the driver has come by.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "facts/file.h"
#include "paths/direct_pair.h"
#include "sluice.h"

namespace sluice::process {

// What one pair has come to, as people are told.
struct PairReport {
  int device;
  std::string storage;
  sluice_reason_t reason;
  std::string words;
  std::uint64_t transfers;
  std::uint64_t polled;
  std::uint64_t rerouted;
};

class Pairs {
 public:
  // The one for this file's storage and this memory's device; made when there is none yet. It lives as long as this
  // does. Null without memory for it. Not on the I/O path: files keep what they were answered.
  paths::DirectPair* find(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept;

  // Oldest first.
  std::vector<PairReport> reports();

  // No child inherits a lock held.
  void before_fork();
  void after_fork();

 private:
  std::mutex mutex_;
  std::deque<paths::DirectPair> pairs_;
  std::map<std::pair<int, std::string>, paths::DirectPair*> known_;
};

// What is tried once for all files on it: the file system, by its number; of a block device, its disk.
std::string storage_key(const facts::FileFacts& file);

}  // namespace sluice::process
