// Entries of a batch that go together: reads into plain device memory, of which many share one staging ring. Those that
// the page cache has share one launch; those that wait for a disk are on their way at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/driver.h"
#include "core/entry.h"
#include "engine/deep_read.h"
#include "engine/scattered_read.h"

namespace sluice::core {

// Looks at the entries of one submission, and asks kernel and driver once for what holds for several.
class Survey {
 public:
  explicit Survey(Driver& driver) noexcept : driver_(driver) {}

  // Pins the registration that the entry's memory lies in, and tells with whom the entry goes.
  void look_at(Entry& entry) noexcept;

 private:
  // A stretch of plain device memory without a gap, of one allocation.
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    facts::BufferFacts facts;
  };
  const facts::BufferFacts* memory_at(std::uint64_t address, std::uint64_t size) noexcept;
  bool registration_allows(const Entry& entry, std::uint64_t address) const noexcept;
  std::uint64_t size_of(File& file) noexcept;

  Driver& driver_;
  Stretch stretch_;
  File* file_ = nullptr;  // of which file_size_ is
  std::uint64_t file_size_ = 0;
};

// Whether two entries of the same company may go with each other.
bool go_together(const Entry& one, const Entry& other) noexcept;

// Carries entries that go together; for one thread at a time.
class Convoy {
 public:
  explicit Convoy(unsigned capacity);

  // All are begun, and of one company. Writes how each ended; an entry whose status stays CUFILE_WAITING was not
  // carried, and is to be carried by others: its company has been changed.
  void carry(std::span<Entry* const> entries, std::span<Ending> endings) noexcept;

 private:
  void carry_cached(std::span<Entry* const> entries, std::span<Ending> endings, engine::RingLoan& ring) noexcept;
  void carry_from_disk(std::span<Entry* const> entries, std::span<Ending> endings, engine::RingLoan& ring) noexcept;
  // Entries that follow each other in file and memory make one parcel.
  std::size_t pack(std::span<Entry* const> entries) noexcept;
  void unpack(std::span<Entry* const> entries, std::span<Ending> endings) noexcept;

  std::vector<engine::DiskParcel> disk_parcels_;
  std::vector<engine::Parcel> parcels_;
  std::vector<std::uint16_t> members_;  // how many entries a parcel is made of
  std::size_t parcel_count_ = 0;
  std::unique_ptr<engine::ScatteredRead> cached_;
  engine::DeepRead disk_;
};

}  // namespace sluice::core
