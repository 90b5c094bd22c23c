// SPDX-License-Identifier: Apache-2.0
// Reads into device memory that wait for a disk: one thread keeps many of them on their way, and copies each to its
// place when it has come.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "io/uring.h"
#include "staging/staging_buffer.h"
#include "transfer/bond.h"
#include "transfer/scattered_read.h"

namespace sluice::transfer {

// One of the reads, by any descriptor; at most most_in_a_read_item bytes.
struct DiskReadItem {
  ReadItem item;
  std::uint32_t block = 1;  // what O_DIRECT wants of offsets and lengths: at most largest_disk_block; 1 without it
};

inline constexpr std::uint32_t largest_disk_block = 4096;
inline constexpr std::size_t most_disk_items = 48;

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
  // ring refuses is left; nobody is told of it.
  void run(std::span<DiskReadItem> items, staging::StagingLease& lease, io::Uring& disk, Listener& listener,
           Bond bond = Bond::none) noexcept;

 private:
  static constexpr std::size_t largest_slot = std::size_t{512} << 10U;
  static constexpr std::size_t most_disk_slots = 64;
  // A visit to the kernel waits for one in so many of what is on its way: visits, and copies, are cheaper together.
  static constexpr unsigned part_awaited = 3;
  // But not for long: it may be that nothing more comes, and events of what has come wait meanwhile.
  static constexpr auto longest_gathering = std::chrono::milliseconds(4);

  // How an item stands. It is read in pieces, and these are copied in the order of the file: what lies behind its end,
  // or behind an error, never reaches the device.
  struct Progress {
    std::uint64_t asked = 0;   // for bytes in front of it
    std::uint64_t copied = 0;  // bytes that have been given to the copy engine
    std::uint32_t copy = 0;    // the number of the last copy
    std::uint32_t pieces = 0;  // on their way, or waiting for others in front of them
    bool over = false;         // nothing more is wanted of it
    bool notified = false;
  };

  // A place of the staging buffer, and the piece that has it.
  enum class State : std::uint8_t { free, reading, arrived };
  struct Slot {
    State state = State::free;
    std::uint16_t item = 0;
    int refusals = 0;
    int error = 0;
    std::uint32_t copy = 0;    // the number of the copy that empties it
    std::uint64_t offset = 0;  // into the item, where the piece starts
    std::uint64_t length = 0;  // of the piece
    std::uint64_t begin = 0;   // in the file, where a block begins
    std::uint64_t skip = 0;    // bytes from there that belong to no piece
    std::uint64_t whole = 0;
    std::uint64_t done = 0;
    std::uint64_t from = 0;  // where the present request starts, at most `done`
  };

  void begin(std::span<DiskReadItem> items, staging::StagingLease& lease, io::Uring& disk) noexcept;
  std::span<std::byte> bytes_of(std::size_t slot) const noexcept;
  bool has_been_copied(std::uint32_t number) const noexcept;
  bool has_more() noexcept;
  void start_more() noexcept;
  void start(std::size_t slot) noexcept;
  void submit(std::size_t slot) noexcept;
  void settle(const io::UringCompletion& answer) noexcept;
  void arrive(std::size_t slot, int error) noexcept;
  void pass_on(std::uint16_t item) noexcept;
  void pass_on_in_order() noexcept;
  void end_behind(std::uint16_t item) noexcept;
  Slot* next_of(std::uint16_t item) noexcept;
  void pass_on(Slot& slot) noexcept;
  void copy(Slot& slot, std::uint64_t count) noexcept;
  void give_copies() noexcept;
  void mark_copies() noexcept;
  void wait_for_copies() noexcept;
  bool is_through(std::size_t item) const noexcept;
  void notify(Listener& listener) noexcept;
  int await_completions(std::span<io::UringCompletion, io::Uring::depth> answers) noexcept;
  void lose_disk() noexcept;

  std::span<DiskReadItem> items_;
  staging::StagingLease* lease_ = nullptr;
  io::Uring* disk_ = nullptr;
  std::size_t slot_bytes_ = 0;
  std::size_t slot_count_ = 0;
  std::size_t next_ = 0;             // the first item that is not asked for as a whole
  std::size_t first_free_ = 0;       // a place where a free one may be looked for first
  std::size_t notified_before_ = 0;  // items before it are told, or left
  unsigned reading_ = 0;
  bool quiet_ = false;                              // nothing came for a while, and nobody waits to hear of anything
  std::array<gpu::Copy, most_disk_slots> waiting_;  // copies that the device has not been given yet
  std::size_t waiting_count_ = 0;
  std::uint32_t copies_ = 0;
  std::uint32_t marked_ = 0;
  int failure_ = 0;
  Bond bond_ = Bond::none;
  bool counted_ = false;    // of one transfer: the carrier
  std::uint16_t turn_ = 0;  // of one transfer: items before it have been handed on whole
  std::array<Progress, most_disk_items> progress_;
  std::array<Slot, most_disk_slots> slots_;
};

}  // namespace sluice::transfer
