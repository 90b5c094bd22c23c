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
  // Items that are like the one before have its number, from `numbers` on, one an item at most. What is submitted to
  // meet others has numbers of its own.
  Classifier(process::Process& process, std::size_t items, std::uint64_t numbers = 1) noexcept
      : process_(process), left_(static_cast<std::uint32_t>(items)), next_number_(numbers) {}

  // The file of the item that is looked at next.
  process::FileTable::Pin file_of(void* handle) noexcept {
    return handle == handle_ && file_pins_ ? file_pins_.split() : file_anew(handle);
  }

  // Pins the registration that the item's memory lies in, and decides its way where it may go with others: then the
  // registration holds all of it.
  void look_at(Queued& queued) noexcept;

 private:
  struct Span {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    bool covers(std::uint64_t address, std::uint64_t size) const noexcept {
      return address >= begin && address < end && size <= end - address;
    }
  };
  process::FileTable::Pin file_anew(void* handle) noexcept;
  const facts::BufferFacts* memory_of(const Queued& queued, std::uint64_t address) noexcept;
  const facts::BufferFacts* memory_anew(std::uint64_t address, std::uint64_t size) noexcept;
  bool registration_allows(const Queued& queued, std::uint64_t address) const noexcept;
  std::optional<std::uint64_t> end_of(const process::File& file) noexcept;
  void decide(Queued& queued, std::uint64_t address) noexcept;

  process::BufferTable::Pin registration_anew(const Call& call, std::uint64_t address, bool& known) noexcept;

  process::Process& process_;
  std::uint32_t left_;  // items, with the one that is looked at
  std::uint64_t next_number_;
  // Most items have the file and the buffer of the one before: pins for those, counted at once, by the handle and by
  // the pointer that was registered.
  void* handle_ = nullptr;
  process::FileTable::Pin file_pins_;
  std::uint64_t base_ = 0;
  process::BufferTable::Pin registration_pins_;
  // Plain device memory without a gap, of one allocation.
  Span range_;
  facts::BufferFacts memory_;
  // What was found of an item with a buffered file holds for all others of that file, direction and range, up to a
  // size.
  struct Alike {
    const process::File* file = nullptr;
    base::Direction direction = base::Direction::read;
    std::uint64_t largest = 0;
    Span range;  // what the registration holds of it
    Known known;

    bool is_of(const process::File* other, const Call& call) const noexcept {
      return file == other && direction == call.direction && call.size <= largest;
    }
  } alike_;
  const process::File* file_ = nullptr;  // of which file_end_ is
  std::optional<std::uint64_t> file_end_;
};

}  // namespace sluice::request
