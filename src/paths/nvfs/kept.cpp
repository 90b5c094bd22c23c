// SPDX-License-Identifier: Apache-2.0
#include "paths/nvfs/kept.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdio>

#include "gpu/memory.h"

namespace sluice::paths {

NvfsSession::NvfsSession() {
  nvfs::client().attach(facts::Root{});
}

NvfsSession::~NvfsSession() {
  nvfs::client().detach();
}

NvfsPair* NvfsSession::find(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const auto [place, made] = known_.try_emplace({memory.device, storage_key(file)}, nullptr);
    if (made) place->second = &pairs_.emplace_back(memory.device, storage_name(file));
    return place->second;
  } catch (...) {
    return nullptr;
  }
}

facts::NvfsHooks NvfsSession::hooks_below(const facts::FileFacts& file) {
  const nvfs::Client& client = nvfs::client();
  return client.is_open() ? search_.hooks_below(file, client.facts()) : facts::NvfsHooks::unknown;
}

std::vector<PairReport> NvfsSession::reports() {
  const std::lock_guard lock(mutex_);
  std::vector<PairReport> reports;
  reports.reserve(pairs_.size());
  for (const NvfsPair& pair : pairs_) {
    const std::string writes = pair.writes.words();
    reports.push_back({SLUICE_PATH_NVFS, pair.reads.device(), pair.reads.storage(),
                       route::reason_of(pair.reads.reach()),
                       "nvidia-fs: " + pair.reads.words() + (writes.empty() ? "" : "; " + writes),
                       pair.reads.transfers(), 0, pair.reads.rerouted()});
  }
  return reports;
}

void NvfsSession::before_fork() {
  search_.before_fork();
  mutex_.lock();
  for (NvfsPair& pair : pairs_) {
    pair.reads.before_fork();
    pair.writes.before_fork();
  }
}

void NvfsSession::after_fork() {
  for (NvfsPair& pair : pairs_) {
    pair.writes.after_fork();
    pair.reads.after_fork();
  }
  mutex_.unlock();
  search_.after_fork();
}

NvfsFile::NvfsFile(NvfsSession& session, const File& file)
    : session_(session), hooks_(session.hooks_below(file.facts)) {
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) return;
  const dev_t device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  name_ = {file.descriptor(), status.st_ino, major(device), minor(device)};
}

route::NvfsStanding NvfsFile::standing() const noexcept {
  const nvfs::Client& client = nvfs::client();
  return {client.facts().loaded, client.facts().is_recent(), client.is_open(), hooks_};
}

NvfsPair* NvfsFile::with(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept {
  const auto slot = static_cast<std::size_t>(memory.device);
  if (slot >= known_.size()) return session_.find(file, memory);
  if (NvfsPair* const known = known_[slot].load(std::memory_order_acquire)) return known;
  NvfsPair* const found = session_.find(file, memory);
  known_[slot].store(found, std::memory_order_release);
  return found;
}

NvfsFile* nvfs_file_of(const File& file) noexcept {
  return static_cast<NvfsFile*>(file.storage.of(SLUICE_PATH_NVFS));
}

NvfsPair* nvfs_pair_of(const File& file, const facts::BufferFacts& memory) noexcept {
  NvfsFile* const kept = nvfs_file_of(file);
  if (kept == nullptr || memory.device < 0) return nullptr;
  if (route::kept_from_nvfs(file.facts, memory, kept->standing(), file.options.rules)) return nullptr;
  return kept->with(file.facts, memory);
}

std::uint64_t gpu_on_bus(int device) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  unsigned function = 0;
  const std::string address = gpu::pci_address(device);
  if (std::sscanf(address.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return 0;
  return std::uint64_t{domain} << 32U | bus << 8U | slot << 3U | function;
}

}  // namespace sluice::paths
