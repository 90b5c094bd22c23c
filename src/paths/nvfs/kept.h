// SPDX-License-Identifier: Apache-2.0
// What the path `nvfs` keeps with a session, a file, a buffer.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "facts/nvfs.h"
#include "nvfs/client.h"
#include "nvfs/windows.h"
#include "paths/attachment.h"
#include "paths/file.h"
#include "paths/tried_pair.h"
#include "route/route.h"

namespace sluice::paths {

class NvfsTried final : public TriedPair {
 public:
  using TriedPair::TriedPair;
};

// Of one device and one storage. A read that arrives shows nothing of writes: what the module takes from, where a
// driver has no hooks, is its shadow buffer.
struct NvfsPair {
  NvfsPair(int device, const std::string& storage) : reads(device, storage), writes(device, storage) {}
  NvfsTried reads;
  NvfsTried writes;
};

class NvfsSession final : public SessionAttachment {
 public:
  NvfsSession();
  ~NvfsSession() override;

  // The one for this file's storage and this memory's device; made when there is none yet. It lives as long as this
  // does. Null without memory for it.
  NvfsPair* find(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept;
  facts::NvfsHooks hooks_below(const facts::FileFacts& file);

  std::vector<PairReport> reports() override;
  void before_fork() override;
  void after_fork() override;

 private:
  facts::NvfsHookSearch search_{facts::Root{}};
  std::mutex mutex_;
  std::deque<NvfsPair> pairs_;
  std::map<std::pair<int, std::string>, NvfsPair*> known_;
};

class NvfsFile final : public Attachment {
 public:
  // `session` outlives it.
  NvfsFile(NvfsSession& session, const File& file);

  const nvfs::FileName& name() const noexcept { return name_; }
  route::NvfsStanding standing() const noexcept;
  NvfsPair* with(const facts::FileFacts& file, const facts::BufferFacts& memory) noexcept;

 private:
  NvfsSession& session_;
  nvfs::FileName name_;
  facts::NvfsHooks hooks_;
  std::array<std::atomic<NvfsPair*>, 8> known_{};  // by device; further ones are looked up each time
};

class NvfsBuffer final : public Attachment {
 public:
  // The memory begins at `address`, which modules of the kernel know as `there`.
  NvfsBuffer(std::uint64_t address, std::uint64_t there, std::uint64_t size, std::uint64_t gpu_on_bus)
      : windows_(nvfs::client().mappings(), there, size, gpu_on_bus), offset_(there - address) {}

  nvfs::Windows& windows() noexcept { return windows_; }
  std::uint64_t there(std::uint64_t address) const noexcept { return address + offset_; }

 private:
  nvfs::Windows windows_;
  const std::uint64_t offset_;  // wraps
};

NvfsFile* nvfs_file_of(const File& file) noexcept;
// Null where the path is out of the question whatever a trial says.
NvfsPair* nvfs_pair_of(const File& file, const facts::BufferFacts& memory) noexcept;

// A GPU's place on the bus, as the module is told it.
std::uint64_t gpu_on_bus(int device);

}  // namespace sluice::paths
