// SPDX-License-Identifier: Apache-2.0
// Making and taking apart what the actors share.
#include "fuzz/world.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "support/cuda_driver.h"

namespace sluice::fuzz {
namespace {

constexpr std::size_t kTruthSize = 300001;
constexpr std::size_t kCells = 64;
constexpr std::size_t kMostComplaints = 20;

// What the operations of a user-space file system serve. They have no other place to find it: the handle that they get
// is cuFile's own.
const Bytes* served = nullptr;

ssize_t serve_read(void* /*handle*/, char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* /*info*/) {
  const std::size_t at = std::min(static_cast<std::size_t>(offset), served->size());
  const std::size_t count = std::min(size, served->size() - at);
  std::memcpy(buffer, served->data() + at, count);
  return static_cast<ssize_t>(count);
}

ssize_t swallow_write(void* /*handle*/, const char* /*buffer*/, size_t size, off_t /*offset*/,
                      cufileRDMAInfo_t* /*info*/) {
  return static_cast<ssize_t>(size);
}

const CUfileFSOps_t* operations() {
  static const CUfileFSOps_t table = [] {
    CUfileFSOps_t made{};
    made.read = serve_read;
    made.write = swallow_write;
    return made;
  }();
  return &table;
}

const char* name_of(int flags) {
  if ((flags & O_ACCMODE) == O_RDONLY) return (flags & O_DIRECT) != 0 ? "O_RDONLY|O_DIRECT" : "O_RDONLY";
  if ((flags & O_ACCMODE) == O_WRONLY) return (flags & O_DIRECT) != 0 ? "O_WRONLY|O_DIRECT" : "O_WRONLY";
  return (flags & O_DIRECT) != 0 ? "O_RDWR|O_DIRECT" : "O_RDWR";
}

}  // namespace

World::World(std::size_t actors, bool in_turn) : in_turn_(in_turn), cells_(kCells) {
  folder_ = support::disk_directory() + "/random-calls-" + std::to_string(getpid());
  std::filesystem::create_directory(folder_);
  add_places(actors);
  add_userspace();
  const support::MemoryKind kinds[] = {support::MemoryKind::plain, support::MemoryKind::pinned,
                                       support::MemoryKind::managed, support::MemoryKind::device};
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const support::MemoryKind kind = kinds[i % 4];
    cells_[i].memory =
        std::make_unique<support::Memory>(support::available(kind) ? kind : support::MemoryKind::plain, kCellSize);
  }
}

World::~World() {
  for (Entrance& entrance : entrances_) {
    if (const int fd = entrance.fd.exchange(-1); fd >= 0) close(fd);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  served = nullptr;
}

void World::add(std::string name, Nature nature, const support::ScratchFile& file, int flags) {
  const int fd = open(file.path().c_str(), flags | O_CLOEXEC);
  if (fd < 0) return;  // a file system may refuse O_DIRECT
  Entrance& entrance = entrances_.emplace_back();
  entrance.name = std::move(name) + ", " + name_of(flags);
  entrance.nature = nature;
  entrance.content = nature == Nature::truth ? &file.content() : nullptr;
  entrance.file = &file;
  entrance.flags = flags;
  entrance.readable = (flags & O_ACCMODE) != O_WRONLY;
  entrance.writable = (flags & O_ACCMODE) != O_RDONLY;
  entrance.fd = fd;
}

void World::add_places(std::size_t actors) {
  const std::string shm = "/dev/shm";
  for (const std::string& folder : {support::disk_directory(), shm}) {
    const std::string where = folder == shm ? "tmpfs" : "disk";
    files_.push_back(std::make_unique<support::ScratchFile>(support::random_bytes(kTruthSize, folder.size()), folder));
    for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT})
      add("truth on " + where, Nature::truth, *files_.back(), flags);
    for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) {
      add("fickle on " + where, Nature::fickle, *files_.back(), flags);
    }
    files_.push_back(std::make_unique<support::ScratchFile>(Bytes(actors * kSliceSize), folder));
    sliced_.push_back(files_.back().get());
    plain_fds_.push_back(files_.back()->open(O_RDONLY));
    for (const int flags : {O_RDWR, O_RDWR | O_DIRECT, O_WRONLY | O_DIRECT}) {
      add("slices on " + where, Nature::slices, *files_.back(), flags);
    }
  }
}

void World::add_userspace() {
  served = &files_.front()->content();
  add("truth by operations", Nature::truth, *files_.front(), O_RDWR);
  entrances_.back().operations = operations();
}

int World::plain_fd(const Entrance& entrance) const {
  const auto place = std::find(sliced_.begin(), sliced_.end(), entrance.file);
  return plain_fds_[static_cast<std::size_t>(place - sliced_.begin())].get();
}

void World::bury(CUfileHandle_t handle) {
  if (handle != nullptr) graveyard_[buried_++ % graveyard_.size()] = handle;
}

CUfileHandle_t World::dead_handle(std::uint64_t draw) const {
  return graveyard_[draw % graveyard_.size()];
}

std::optional<std::pair<Cell*, std::uint64_t>> World::take_cell(std::uint64_t draw) {
  const std::uint64_t token = ++tokens_;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    Cell& cell = cells_[(draw + i) % cells_.size()];
    std::uint64_t free = 0;
    if (cell.token.compare_exchange_strong(free, token)) return std::pair{&cell, token};
  }
  return std::nullopt;
}

bool World::give_back(Cell& cell, std::uint64_t token) {
  constexpr std::uint64_t on_its_way = ~std::uint64_t{0};
  if (token == 0 || token == on_its_way || !cell.token.compare_exchange_strong(token, on_its_way)) return false;
  cell.batch = nullptr;  // before it is free: the next one to take it must not find an old batch
  cell.token = 0;
  return true;
}

Cell* World::cell_of(void* cookie) {
  const auto known = std::find_if(cells_.begin(), cells_.end(), [&](const Cell& cell) { return &cell == cookie; });
  return known == cells_.end() ? nullptr : &*known;
}

void World::reclaim_cells() {
  for (Cell& cell : cells_) {
    const std::uint64_t token = cell.token;
    const CUfileBatchHandle_t batch = cell.batch;
    if (token == 0 || batch == nullptr) continue;
    const bool listed = std::any_of(batches_.begin(), batches_.end(), [&](const auto& slot) { return slot == batch; });
    // In this order: a thread that takes a batch off the list holds until the library has let go of its memory.
    if (!listed && holds_ == 0) give_back(cell, token);
  }
}

void World::complain(const std::string& sentence) {
  if (++complaints_ > kMostComplaints) return;
  std::fprintf(stderr, "random_calls: %s\n  again: SLUICE_TEST_SEED=%llu\n", sentence.c_str(),
               static_cast<unsigned long long>(support::run_seed()));
}

}  // namespace sluice::fuzz
