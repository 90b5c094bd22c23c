// SPDX-License-Identifier: Apache-2.0
// Looking pairs up by device and storage.
#include "process/pairs.h"

#include <utility>

#include "route/route.h"

namespace sluice::process {

namespace {

// For people.
std::string storage_name(const facts::FileFacts& file) {
  if (file.kind == facts::FileKind::regular && !file.mount_point.empty()) return file.mount_point;
  return file.block.name.empty() ? "an unknown device" : file.block.name;
}

}  // namespace

std::string storage_key(const facts::FileFacts& file) {
  if (file.kind == facts::FileKind::regular) return "file system " + std::to_string(file.device);
  if (!file.block.name.empty()) return "disk " + file.block.name;
  return "node " + std::to_string(file.device) + " " + std::to_string(file.inode);
}

paths::DirectPair* Pairs::find(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept {
  try {
    std::pair<int, std::string> key(memory.device, storage_key(file));
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = known_.find(key); known != known_.end()) return known->second;
    }
    // Without the lock: a provider may take its time to tell.
    gpu::Provider* const provider = gpu::provider();
    const std::string refusal = provider == nullptr ? "there is no driver" : provider->refusal(memory.device);
    const std::lock_guard lock(mutex_);
    const auto [place, made] = known_.try_emplace(std::move(key), nullptr);
    if (made) place->second = &pairs_.emplace_back(provider, memory.device, storage_name(file), refusal);
    return place->second;
  } catch (...) {
    return nullptr;
  }
}

std::vector<PairReport> Pairs::reports() {
  const std::lock_guard lock(mutex_);
  std::vector<PairReport> reports;
  reports.reserve(pairs_.size());
  for (const paths::DirectPair& pair : pairs_) {
    reports.push_back({pair.device(), pair.storage(), route::reason_of(pair.reach()), pair.words(), pair.transfers(),
                       pair.polled(), pair.rerouted()});
  }
  return reports;
}

void Pairs::before_fork() {
  mutex_.lock();
  for (paths::DirectPair& pair : pairs_) pair.before_fork();
}

void Pairs::after_fork() {
  for (paths::DirectPair& pair : pairs_) pair.after_fork();
  mutex_.unlock();
}

}  // namespace sluice::process
