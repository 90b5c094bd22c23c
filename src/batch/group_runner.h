// SPDX-License-Identifier: Apache-2.0
// Entries of a batch on their way together: reads and writes of plain device memory, many through one staging buffer,
// and transfers between drives and device memory, of which many share one io_uring.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "batch/entry.h"
#include "observe/path_counters.h"
#include "paths/p2pdma/group.h"
#include "request/slow_log.h"
#include "transfer/deep_read.h"
#include "transfer/gathered_write.h"
#include "transfer/scattered_read.h"

namespace sluice::batch {

inline constexpr unsigned most_in_a_batch = 256;

// How many are coalesced at most.
constexpr unsigned most_in_a_group(BatchClass batch_class) noexcept {
  switch (batch_class) {
    case BatchClass::cached:
      return most_in_a_batch;
    case BatchClass::disk:
      return transfer::most_disk_items;
    case BatchClass::write:
      return transfer::most_write_items;
    default:
      return paths::DirectGroup::most;
  }
}

// Carries coalesced entries; for one thread at a time. Large.
class GroupRunner {
 public:
  // Told of entries that have ended while others are on their way: their numbers among those that are carried.
  class Listener {
   public:
    virtual void ended(std::span<const std::uint16_t> numbers) noexcept = 0;

   protected:
    ~Listener() = default;
  };

  // What was found when they were submitted may be a while ago. An entry whose descriptor belongs to another file by
  // now, or whose memory is another allocation or none, comes behind the others, with its slot, and goes by itself: a
  // transfer tells what is wrong. Answers how many are as they were submitted, and notes where their files end.
  static std::size_t part_as_submitted(std::span<Entry*> entries, std::span<std::uint16_t> slots) noexcept;

  // All are begun, as they were submitted, and of one class. Writes how each ended; an entry whose status stays
  // CUFILE_WAITING was not carried, and is to be carried by others: its class has been changed.
  void carry(std::span<Entry* const> entries, std::span<Ending> endings, Listener& listener) noexcept;

  // The same of entries that are one transfer, in their order (transfer/bond.h; what a drive moves itself has no
  // order). Nobody is told, and nothing is counted: that is the caller's.
  void carry_as_one(std::span<Entry* const> entries, std::span<Ending> endings) noexcept;

 private:
  class FromDisk;
  class Written;
  class ByDrive;
  template <typename OutcomeOf>
  void notify(std::span<const std::uint16_t> numbers, OutcomeOf outcome_of, Listener& listener) noexcept;
  std::uint64_t bytes() const noexcept;  // of all entries
  void carry_by_staging(Listener& listener) noexcept;
  void run_cached_reads(staging::StagingLease& lease) noexcept;
  void carry_from_disk(staging::StagingLease& lease, Listener& listener) noexcept;
  void carry_written(staging::StagingLease& lease, Listener& listener) noexcept;
  void carry_direct(Listener& listener) noexcept;
  // Entries that follow each other in file and memory make one item.
  std::size_t pack() noexcept;
  void unpack() noexcept;
  void record(std::size_t number, std::int64_t milliseconds) noexcept;
  void count() noexcept;

  void carry_all(Listener& listener) noexcept;

  // Of the present run.
  transfer::Bond bond_ = transfer::Bond::none;
  std::span<Entry* const> entries_;
  std::span<Ending> endings_;
  const request::TransferTimer* timer_ = nullptr;
  bool counting_ = false;
  std::chrono::steady_clock::time_point begun_;
  // Ended, and not counted yet: most go the same way.
  observe::Way way_{};
  observe::Tally tally_;

  std::array<transfer::ReadItem, most_in_a_batch> items_;
  std::array<std::uint16_t, most_in_a_batch> members_;  // how many entries an item is made of
  std::size_t item_count_ = 0;
  std::unique_ptr<transfer::ScatteredRead> cached_;
  std::array<transfer::DiskReadItem, most_in_a_group(BatchClass::disk)> disk_items_;
  transfer::DeepRead disk_;
  std::array<transfer::WriteItem, most_in_a_group(BatchClass::write)> write_items_;
  std::unique_ptr<transfer::GatheredWrite> written_;
  std::array<paths::DirectMember, paths::DirectGroup::most> direct_members_;
  paths::DirectGroup direct_;
};

}  // namespace sluice::batch
