// SPDX-License-Identifier: Apache-2.0
// Which of many items may go with others, and with which.
#pragma once

#include <cstdint>
#include <optional>

#include "process/process.h"
#include "request/queued.h"

namespace sluice::request {

// Looks at the items of one submission, and asks kernel and driver once for what holds for several.
class Classifier {
 public:
  Classifier(process::Process& process, std::size_t items) noexcept
      : process_(process), left_(static_cast<std::uint32_t>(items)) {}

  // The file of the item that is looked at next.
  process::FileTable::Pin file_of(void* handle) noexcept;

  // Pins the registration that the item's memory lies in, and decides its way where it may go with others.
  void look_at(Queued& queued) noexcept;

 private:
  // A range of plain device memory without a gap, of one allocation.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    facts::BufferFacts facts;

    bool covers(std::uint64_t address, std::uint64_t size) const noexcept {
      return address >= begin && address < end && size <= end - address;
    }
  };
  const facts::BufferFacts* memory_of(const Queued& queued, std::uint64_t address) noexcept;
  const facts::BufferFacts* memory_anew(std::uint64_t address, std::uint64_t size) noexcept;
  bool registration_allows(const Queued& queued, std::uint64_t address) const noexcept;
  std::optional<std::uint64_t> end_of(const process::File& file) noexcept;

  process::BufferTable::Pin registration_of(const Queued& queued, std::uint64_t address, bool& known) noexcept;
  bool is_alike(const Queued& queued) const noexcept;

  process::Process& process_;
  std::uint32_t left_;                 // items, with the one that is looked at
  const Queued* before_ = nullptr;     // most items have the file and the buffer of the one before
  process::FileTable::Pin file_pins_;  // for those, counted at once
  process::BufferTable::Pin registration_pins_;
  Range range_;
  // What was found of an item with a buffered file holds for all others of that file, direction and range, up to a
  // size.
  struct Alike {
    const process::File* file = nullptr;
    base::Direction direction = base::Direction::read;
    std::uint64_t largest = 0;
    Known known;
  } alike_;
  const process::File* file_ = nullptr;  // of which file_end_ is
  std::optional<std::uint64_t> file_end_;
};

}  // namespace sluice::request
