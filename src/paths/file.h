// SPDX-License-Identifier: Apache-2.0
// A registered file, as paths see it.
#pragma once

#include <cstdint>
#include <utility>

#include "cufile.h"
#include "facts/file.h"
#include "io/disk_queue.h"
#include "io/private_files.h"
#include "paths/attachment.h"
#include "paths/options.h"

namespace sluice::paths {

// Where the bytes of a file are: behind a descriptor, or in what a path has attached to the file.
class StorageRef {
 public:
  StorageRef(int descriptor, const Attachments& attachments) noexcept
      : descriptor_(descriptor), attachments_(attachments) {}
  int descriptor() const noexcept { return descriptor_; }
  Attachment* of(sluice_path_t path) const noexcept { return attachments_.of(path); }

 private:
  const int descriptor_;
  const Attachments& attachments_;
};

// Lives as long as its registration and what has a pin of it.
struct File {
  // `wanted` outlives it.
  File(int descriptor, facts::FileFacts&& known, const Options& wanted, const CUfileFSOps_t* own_operations)
      : storage(descriptor, attachments),
        operations(own_operations),
        facts(std::move(known)),
        options(wanted),
        buffered(descriptor, facts.device, facts.inode, facts.sync_flags),
        disk(wanted.disk_way) {}

  int descriptor() const noexcept { return storage.descriptor(); }

  const StorageRef storage;
  const CUfileFSOps_t* const operations;  // null unless the handle came with some
  const facts::FileFacts facts;
  const Options& options;
  io::PrivateFile buffered;  // the same file without O_DIRECT
  io::DiskQueue disk;        // how reads that a disk has to bring are kept on their way
  Attachments attachments;
  std::uint32_t lines = ~0U;  // of the table, whose paths it concerns; a bit each
};

}  // namespace sluice::paths
