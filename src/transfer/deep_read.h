// SPDX-License-Identifier: Apache-2.0
// Reads into device memory that wait for a disk: one thread keeps many of them on their way, and copies each to its
// place when it has come.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "io/uring.h"
#include "staging/staging_buffer.h"
#include "transfer/bond.h"
#include "transfer/file_range.h"
#include "transfer/layout.h"
#include "transfer/plan.h"

namespace sluice::transfer {

// One of the reads, by any descriptor; at most most_in_a_read_item bytes.
struct DiskReadItem {
  ReadItem item;
  std::uint32_t block = 1;  // what O_DIRECT wants of offsets and lengths: at most largest_disk_block; 1 without it
};

// The state of such reads, for one run at a time.
class DeepRead {
 public:
  // Told of items that are through while others are not.
  class Listener {
   public:
    virtual void through(std::span<const std::uint16_t> items) noexcept = 0;

   protected:
    ~Listener() = default;
  };

  // With the buffer's context current, to which all items' memory belongs; at most most_disk_items. What the disk's
  // ring refuses is left, and not told of.
  void run(std::span<DiskReadItem> items, staging::StagingLease& lease, io::Uring& disk, Listener& listener,
           Bond bond = Bond::none) noexcept;

 private:
  class Telling;
  std::array<ReadItem, most_disk_items> items_;
  ManyTargets chunks_;
};

}  // namespace sluice::transfer
