// Entries of a batch on their way together: reads and writes of plain device memory, many through one staging ring, and
// transfers between drives and device memory, of which many share one io_uring.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "batch/entry.h"
#include "observe/path_counters.h"
#include "paths/p2pdma_company.h"
#include "request/late.h"
#include "transfer/deep_read.h"
#include "transfer/gathered_write.h"
#include "transfer/scattered_read.h"

namespace sluice::batch {

inline constexpr unsigned most_in_a_batch = 256;

// How many go together at most.
constexpr unsigned most_together(Company company) noexcept {
  switch (company) {
    case Company::cached:
      return most_in_a_batch;
    case Company::disk:
      return transfer::most_disk_parcels;
    case Company::write:
      return transfer::most_out_parcels;
    default:
      return paths::DirectCompany::most;
  }
}

// Carries entries that go together; for one thread at a time. Large.
class Convoy {
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

  // All are begun, as they were submitted, and of one company. Writes how each ended; an entry whose status stays
  // CUFILE_WAITING was not carried, and is to be carried by others: its company has been changed.
  void carry(std::span<Entry* const> entries, std::span<Ending> endings, Listener& listener) noexcept;

  // The same of entries that are one transfer, in their order (transfer/bond.h; what a drive moves itself has no
  // order). Nobody is told, and nothing is counted: that is the caller's.
  void carry_as_one(std::span<Entry* const> entries, std::span<Ending> endings) noexcept;

 private:
  class FromDisk;
  class Written;
  class ByDrive;
  template <typename OutcomeOf>
  void tell(std::span<const std::uint16_t> numbers, OutcomeOf outcome_of, Listener& listener) noexcept;
  std::uint64_t bytes() const noexcept;  // of all entries
  void carry_by_staging(Listener& listener) noexcept;
  void carry_cached(staging::RingLoan& ring) noexcept;
  void carry_from_disk(staging::RingLoan& ring, Listener& listener) noexcept;
  void carry_written(staging::RingLoan& ring, Listener& listener) noexcept;
  void carry_direct(Listener& listener) noexcept;
  // Entries that follow each other in file and memory make one parcel.
  std::size_t pack() noexcept;
  void unpack() noexcept;
  void record(std::size_t number, std::int64_t milliseconds) noexcept;
  void count() noexcept;

  void carry_all(Listener& listener) noexcept;

  // Of the present run.
  transfer::Bond bond_ = transfer::Bond::none;
  std::span<Entry* const> entries_;
  std::span<Ending> endings_;
  const request::Watch* watch_ = nullptr;
  bool counting_ = false;
  std::chrono::steady_clock::time_point begun_;
  // Ended, and not counted yet: most go the same way.
  observe::Way way_{};
  observe::Tally tally_;

  std::array<transfer::Parcel, most_in_a_batch> parcels_;
  std::array<std::uint16_t, most_in_a_batch> members_;  // how many entries a parcel is made of
  std::size_t parcel_count_ = 0;
  std::unique_ptr<transfer::ScatteredRead> cached_;
  std::array<transfer::DiskParcel, most_together(Company::disk)> disk_parcels_;
  transfer::DeepRead disk_;
  std::array<transfer::OutParcel, most_together(Company::write)> out_parcels_;
  std::unique_ptr<transfer::GatheredWrite> written_;
  std::array<paths::DirectMember, paths::DirectCompany::most> direct_members_;
  paths::DirectCompany direct_;
};

}  // namespace sluice::batch
