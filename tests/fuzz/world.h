// SPDX-License-Identifier: Apache-2.0
// What all actors share: files whose bytes are known, descriptors that come and go, handles, batches, and the memory
// of batch entries. Everything here may be used by any thread at any time; what belongs to one actor is in actor.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cufile.h"
#include "support/memory.h"
#include "support/random.h"
#include "support/scratch.h"

namespace sluice::fuzz {

using support::Bytes;

// What may be expected of a file.
enum class Nature : std::uint8_t {
  truth,   // its bytes never change, and its descriptor stays open: reads are checked
  slices,  // each actor has a part of it to itself, and the descriptor stays open: writes and reads are checked
  fickle,  // its descriptor is closed and opened again by any actor at any time: it is read, and nothing is checked
};

// One descriptor and the handle that it had last. The handle may be dead: handles are never given twice, so one that
// was ever given for this descriptor stands for its file or for nothing.
struct Entrance {
  std::string name;  // for messages: "truth on ext4, O_DIRECT"
  Nature nature = Nature::truth;
  const Bytes* content = nullptr;              // of truth
  const support::ScratchFile* file = nullptr;  // null: it lives in memory alone
  int flags = 0;
  bool readable = true;
  bool writable = false;
  const CUfileFSOps_t* operations = nullptr;
  std::atomic<int> fd{-1};
  std::atomic<CUfileHandle_t> handle{nullptr};
};

// Memory for one entry of a shared batch, from its submission until its event arrives or its batch is gone.
struct Cell {
  std::atomic<std::uint64_t> token{0};  // 0: free; else a thread that knows it may use the rest
  std::unique_ptr<support::Memory> memory;
  std::atomic<CUfileBatchHandle_t> batch{nullptr};
  const Bytes* content = nullptr;  // what will be read, from `offset`
  std::size_t offset = 0;
  std::size_t size = 0;
};

class World {
 public:
  static constexpr std::size_t kSliceSize = 24 * 1024 + 13;  // crooked: neighbours share blocks
  static constexpr std::size_t kCellSize = 16 * 1024;
  static constexpr std::size_t kBatches = 12;

  World(std::size_t actors, bool in_turn);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The actors take turns, and what they see may not depend on how quick the library's own threads are.
  bool is_in_turn() const { return in_turn_; }

  std::deque<Entrance>& entrances() { return entrances_; }
  // A plain descriptor of the sliced file behind an entrance, to know the truth.
  int plain_fd(const Entrance& entrance) const;
  std::array<std::atomic<CUfileBatchHandle_t>, kBatches>& batches() { return batches_; }

  // Handles that have been deregistered: they can never live again.
  void bury(CUfileHandle_t handle);
  CUfileHandle_t dead_handle(std::uint64_t draw) const;

  // A free cell of a random kind of memory and its token, or nothing.
  std::optional<std::pair<Cell*, std::uint64_t>> take_cell(std::uint64_t draw);
  // False when it has been given back before.
  static bool give_back(Cell& cell, std::uint64_t token);
  Cell* cell_of(void* cookie);

  // Held around every call that ends batches, from before its batch leaves the list until it has returned, and around
  // collecting events with what is done about them. While no actor holds, cells of a batch that is not listed are
  // no actor's.
  class Hold {
   public:
    explicit Hold(World& world) : world_(world) { ++world_.holds_; }
    ~Hold() { --world_.holds_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    World& world_;
  };
  void reclaim_cells();

  // The memory of all actors: any of them registers and deregisters it, its owner alone touches it. Known before the
  // first call.
  std::vector<const support::Memory*>& areas() { return areas_; }

  // Where topologies and logs may be written.
  const std::string& folder() const { return folder_; }

  void complain(const std::string& sentence);
  std::size_t complaints() const { return complaints_; }

 private:
  void add(std::string name, Nature nature, const support::ScratchFile& file, int flags);
  void add_places(std::size_t actors);
  void add_userspace();

  const bool in_turn_;
  std::vector<std::unique_ptr<support::ScratchFile>> files_;
  std::vector<support::Fd> plain_fds_;  // of the sliced files, in the order of sliced_
  std::vector<const support::ScratchFile*> sliced_;
  std::deque<Entrance> entrances_;
  std::array<std::atomic<CUfileBatchHandle_t>, kBatches> batches_{};
  std::array<std::atomic<CUfileHandle_t>, 64> graveyard_{};
  std::atomic<std::uint64_t> buried_{0};
  std::vector<Cell> cells_;
  std::atomic<std::uint64_t> tokens_{0};
  std::atomic<int> holds_{0};
  std::vector<const support::Memory*> areas_;
  std::string folder_;
  std::atomic<std::size_t> complaints_{0};
};

}  // namespace sluice::fuzz
