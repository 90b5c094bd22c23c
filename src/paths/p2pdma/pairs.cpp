// SPDX-License-Identifier: Apache-2.0
// Looking pairs up by device and storage.
#include "paths/p2pdma/pairs.h"

#include <utility>

#include "route/route.h"

namespace sluice::paths {

DirectPair* Pairs::find(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept {
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

DirectPair* PairsOfFile::with(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept {
  const auto slot = static_cast<std::size_t>(memory.device);
  if (slot >= known_.size()) return all_.find(file, memory);
  if (DirectPair* const known = known_[slot].load(std::memory_order_acquire)) return known;
  DirectPair* const found = all_.find(file, memory);
  known_[slot].store(found, std::memory_order_release);
  return found;
}

std::vector<PairReport> Pairs::reports() {
  const std::lock_guard lock(mutex_);
  std::vector<PairReport> reports;
  reports.reserve(pairs_.size());
  for (const DirectPair& pair : pairs_) {
    reports.push_back({SLUICE_PATH_P2PDMA, pair.device(), pair.storage(), route::reason_of(pair.reach()), pair.words(),
                       pair.transfers(), pair.polled(), pair.rerouted()});
  }
  return reports;
}

void Pairs::before_fork() {
  mutex_.lock();
  for (DirectPair& pair : pairs_) pair.before_fork();
}

void Pairs::after_fork() {
  for (DirectPair& pair : pairs_) pair.after_fork();
  mutex_.unlock();
}

}  // namespace sluice::paths
