// SPDX-License-Identifier: Apache-2.0
// Batches: an actor's own, where every event is known, and those that all share, where any actor submits, collects,
// cancels and destroys.
#include <time.h>

#include <algorithm>
#include <array>
#include <vector>

#include "fuzz/enumerators.h"
#include "fuzz/families.h"

namespace sluice::fuzz {
namespace {

constexpr unsigned kMostEntries = 16;

Entrance& truth_of(Actor& actor) {
  auto& all = actor.world().entrances();
  for (;;) {
    Entrance& drawn = actor.any(all);
    if (drawn.nature == Nature::truth && drawn.operations == nullptr) return drawn;
  }
}

CUfileIOParams_t entry_of(CUfileHandle_t handle, void* base, std::size_t size, std::size_t offset, void* cookie) {
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.fh = handle;
  entry.opcode = CUFILE_READ;
  entry.cookie = cookie;
  entry.u.batch.devPtr_base = base;
  entry.u.batch.size = size;
  entry.u.batch.file_offset = static_cast<off_t>(offset);
  return entry;
}

// Complains about an event of a read that was to bring the bytes of `content` from `offset` to `memory`.
void check_event(Actor& actor, const CUfileIOEvents_t& event, const Bytes& content, std::size_t offset,
                 std::size_t size, const support::Memory& memory, std::size_t at) {
  const auto result = static_cast<ssize_t>(event.ret);
  if (event.status == CUFILE_CANCELED) return;
  if (event.status != CUFILE_COMPLETE) {
    actor.require(event.status == CUFILE_FAILED && result < 0,
                  joined("status ", static_cast<int>(event.status), " with ", result));
    // Only what others may do to it: a range that they registered and that this leaves.
    actor.require(result == -CU_FILE_INVALID_MAPPING_RANGE || result == -CU_FILE_HANDLE_NOT_REGISTERED,
                  joined("an entry failed with ", result));
    return;
  }
  const std::size_t left = content.size() - std::min(content.size(), offset);
  const std::size_t wanted = std::min(left, size);
  actor.require(result == static_cast<ssize_t>(wanted), joined(result, " bytes, not ", wanted));
  const Bytes found = memory.get(at, wanted);
  actor.require(
      std::equal(found.begin(), found.end(), content.begin() + static_cast<std::ptrdiff_t>(content.size() - left)),
      "an entry brought wrong bytes");
}

// Waits for nothing longer than its events: some timeouts are none, some have passed already.
timespec* any_timeout(Actor& actor, timespec& room) {
  switch (actor.draw(3)) {
    case 0:
      return nullptr;
    case 1:
      room = {0, 0};
      return &room;
    default:
      room = {0, static_cast<long>(actor.draw(2000000))};
      return &room;
  }
}

CUfileBatchHandle_t garbage_batch(Actor& actor) {
  return reinterpret_cast<CUfileBatchHandle_t>(actor.any_number() | 1U << 31U);
}

}  // namespace

// Set up, submitted, drained and destroyed by one actor. Others may close the driver in between: then the rest is
// refused.
void use_own_batch(Actor& actor) {
  CUfileBatchHandle_t batch = nullptr;
  const unsigned room = 1 + static_cast<unsigned>(actor.draw(kMostEntries));
  const CUfileError_t made =
      actor.call("cuFileBatchIOSetUp", joined("&, ", room), [&] { return cuFileBatchIOSetUp(&batch, room); });
  actor.expect(made, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
  if (made.err != CU_FILE_SUCCESS) return;

  const support::Memory& memory = actor.memory();
  const Entrance& entrance = truth_of(actor);
  const CUfileHandle_t handle = entrance.handle;
  struct Wanted {
    std::size_t offset, size, at;
  };
  std::vector<Wanted> wanted;
  std::vector<CUfileIOParams_t> entries;
  const unsigned count = 1 + static_cast<unsigned>(actor.draw(room));
  for (unsigned i = 0; i < count; ++i) {
    wanted.push_back({actor.draw(310000), 1 + actor.draw(30000), i * 30001});
    entries.push_back(entry_of(handle, memory.at(wanted[i].at), wanted[i].size, wanted[i].offset,
                               reinterpret_cast<void*>(std::uintptr_t{i} + 1)));
  }
  const CUfileError_t submitted = actor.call("cuFileBatchIOSubmit", joined(count, " of ", entrance.name),
                                             [&] { return cuFileBatchIOSubmit(batch, count, entries.data(), 0); });
  actor.expect(submitted, {CU_FILE_SUCCESS, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR});
  unsigned left = submitted.err == CU_FILE_SUCCESS ? count : 0;
  std::vector<bool> seen(count, false);
  while (left > 0) {
    std::array<CUfileIOEvents_t, kMostEntries> events{};
    unsigned found = kMostEntries;
    const CUfileError_t collected = actor.call("cuFileBatchIOGetStatus", joined(left, ", no timeout"), [&] {
      return cuFileBatchIOGetStatus(batch, left, &found, events.data(), nullptr);
    });
    actor.expect(collected, {CU_FILE_SUCCESS, CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR});
    if (collected.err != CU_FILE_SUCCESS) break;
    actor.require(found == left, joined(found, " events of ", left));
    for (unsigned i = 0; i < std::min(found, kMostEntries); ++i) {
      const auto index = reinterpret_cast<std::uintptr_t>(events[i].cookie) - 1;
      actor.require(index < count && !seen[index], "an event that was not due");
      if (index >= count) continue;
      seen[index] = true;
      check_event(actor, events[i], *entrance.content, wanted[index].offset, wanted[index].size, memory,
                  wanted[index].at);
    }
    if (found == 0) break;
    left -= std::min(left, found);
  }
  actor.call_only("cuFileBatchIODestroy", "own", [&] { cuFileBatchIODestroy(batch); });
}

void set_up_batch(Actor& actor) {
  auto& slot = actor.any(actor.world().batches());
  if (slot.load() != nullptr) return;
  CUfileBatchHandle_t batch = nullptr;
  const unsigned room = actor.one_of({1U, 4U, 64U, 128U});
  const CUfileError_t answer =
      actor.call("cuFileBatchIOSetUp", joined("&, ", room), [&] { return cuFileBatchIOSetUp(&batch, room); });
  actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
  if (answer.err != CU_FILE_SUCCESS) return;
  CUfileBatchHandle_t none = nullptr;
  if (!slot.compare_exchange_strong(none, batch)) {
    actor.call_only("cuFileBatchIODestroy", "no actor's", [&] { cuFileBatchIODestroy(batch); });
  }
}

void submit_batch(Actor& actor) {
  World& world = actor.world();
  const CUfileBatchHandle_t batch = actor.any(world.batches());
  if (batch == nullptr) return;
  std::vector<std::pair<Cell*, std::uint64_t>> cells;
  std::vector<CUfileIOParams_t> entries;
  const std::size_t count = 1 + actor.draw(8);
  for (std::size_t i = 0; i < count; ++i) {
    const auto taken = world.take_cell(actor.draw(1000));
    if (!taken) break;
    Cell& cell = *taken->first;
    const Entrance& entrance = truth_of(actor);
    cell.content = entrance.content;
    cell.offset = actor.draw(310000);
    cell.size = 1 + actor.draw(World::kCellSize);
    cells.push_back(*taken);
    entries.push_back(entry_of(entrance.handle, cell.memory->address(), cell.size, cell.offset, &cell));
    cell.batch = batch;  // if that has ended by now, the cell may be another thread's from here on
  }
  if (entries.empty()) {
    world.reclaim_cells();
    return;
  }
  if (actor.one_in(6)) {
    CUfileIOParams_t& bad = actor.any(entries);
    switch (actor.draw(5)) {
      case 0:
        bad.opcode = number_as<CUfileOpcode_t>(2 + static_cast<int>(actor.draw(1000)));
        break;
      case 1:
        bad.mode = number_as<CUfileBatchMode_t>(0);
        break;
      case 2:
        bad.fh = actor.world().dead_handle(actor.draw(64));
        break;
      case 3:
        bad.u.batch.file_offset = -1;
        break;
      default:
        bad.opcode = CUFILE_WRITE;  // to a file that is open for reading alone
    }
  }
  const auto number = static_cast<unsigned>(entries.size());
  const CUfileError_t answer = actor.call("cuFileBatchIOSubmit", joined("shared, ", number),
                                          [&] { return cuFileBatchIOSubmit(batch, number, entries.data(), 0); });
  actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR});
  if (answer.err != CU_FILE_SUCCESS) {
    for (const auto& [cell, token] : cells) World::give_back(*cell, token);
  }
}

void collect_batch(Actor& actor) {
  World& world = actor.world();
  auto& slot = actor.any(world.batches());
  CUfileBatchHandle_t batch = slot;
  if (batch == nullptr) return;
  const World::Hold hold(world);
  std::array<CUfileIOEvents_t, 8> events{};
  auto count = static_cast<unsigned>(actor.draw(events.size() + 1));
  auto least = static_cast<unsigned>(actor.draw(events.size() + 2));
  const unsigned room = count;
  timespec limit{};
  timespec* timeout = any_timeout(actor, limit);
  if (world.is_in_turn() && least <= room) {
    least = room;  // all that fit, however long they take
    timeout = nullptr;
  }
  const auto collect = [&] {
    return actor.call("cuFileBatchIOGetStatus", joined("shared, ", least, " of ", room),
                      [&] { return cuFileBatchIOGetStatus(batch, least, &count, events.data(), timeout); });
  };
  CUfileError_t answer = collect();
  // More than a batch holds are refused; this one may hold 1 or 4.
  for (const unsigned fewer : {4U, 1U}) {
    if (answer.err != CU_FILE_INVALID_VALUE || least > room || least <= fewer) continue;
    least = fewer;
    count = room;
    answer = collect();
  }
  if (answer.err == CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR) slot.compare_exchange_strong(batch, nullptr);
  if (answer.err != CU_FILE_SUCCESS) {
    actor.expect(answer, {CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR, CU_FILE_INVALID_VALUE});
    actor.require(answer.err != CU_FILE_INVALID_VALUE || least > room || room == 0, "nothing is wrong with that");
    return;
  }
  actor.require(count <= room, "more events than there is room for");
  for (unsigned i = 0; i < std::min(count, room); ++i) {
    Cell* const cell = world.cell_of(events[i].cookie);
    actor.require(cell != nullptr, "an event with a cookie of no cell");
    if (cell == nullptr) continue;
    const std::uint64_t token = cell->token;
    actor.require(token != 0, "an event came twice");
    if (token == 0) continue;
    check_event(actor, events[i], *cell->content, cell->offset, cell->size, *cell->memory, 0);
    actor.require(World::give_back(*cell, token), "an event came twice");
  }
}

void cancel_batch(Actor& actor) {
  const CUfileBatchHandle_t batch = actor.one_in(3) ? garbage_batch(actor) : actor.any(actor.world().batches()).load();
  actor.expect(actor.call("cuFileBatchIOCancel", "", [&] { return cuFileBatchIOCancel(batch); }), {CU_FILE_SUCCESS});
}

void destroy_batch(Actor& actor) {
  {
    const World::Hold hold(actor.world());
    const CUfileBatchHandle_t batch = actor.any(actor.world().batches()).exchange(nullptr);
    actor.call_only("cuFileBatchIODestroy", batch != nullptr ? "shared" : "NULL", [&] { cuFileBatchIODestroy(batch); });
    if (actor.one_in(4)) {
      actor.call_only("cuFileBatchIODestroy", "the same again", [&] { cuFileBatchIODestroy(batch); });
    }
  }
  actor.world().reclaim_cells();
}

void use_wrong_batch(Actor& actor) {
  CUfileBatchHandle_t batch = actor.one_in(2) ? nullptr : garbage_batch(actor);
  std::array<CUfileIOEvents_t, 2> events{};
  unsigned count = 2;
  CUfileIOParams_t entry =
      entry_of(actor.world().dead_handle(actor.draw(64)), actor.garbage_address(), 4096, 0, nullptr);
  switch (actor.draw(6)) {
    case 0: {
      const auto room = actor.one_of({0U, 257U, 1000000U, ~0U});
      actor.expect(
          actor.call("cuFileBatchIOSetUp", joined("&, ", room), [&] { return cuFileBatchIOSetUp(&batch, room); }),
          {CU_FILE_INVALID_VALUE});
      break;
    }
    case 1:
      actor.expect(actor.call("cuFileBatchIOSetUp", "NULL, 4", [] { return cuFileBatchIOSetUp(nullptr, 4); }),
                   {CU_FILE_INVALID_VALUE});
      break;
    case 2: {
      CUfileIOParams_t* const entries = actor.one_in(2) ? nullptr : &entry;
      const auto number = static_cast<unsigned>(actor.draw(2));
      actor.expect(
          actor.call("cuFileBatchIOSubmit", "no batch", [&] { return cuFileBatchIOSubmit(batch, number, entries, 0); }),
          {CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR});
      break;
    }
    case 3:
      actor.expect(actor.call("cuFileBatchIOGetStatus", "no batch",
                              [&] { return cuFileBatchIOGetStatus(batch, 1, &count, events.data(), nullptr); }),
                   {CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR});
      break;
    case 4: {
      unsigned* const where = actor.one_in(2) ? nullptr : &count;
      actor.expect(actor.call("cuFileBatchIOGetStatus", "NULL",
                              [&] {
                                return cuFileBatchIOGetStatus(batch, 0, where,
                                                              where == nullptr ? events.data() : nullptr, nullptr);
                              }),
                   {CU_FILE_INVALID_VALUE});
      break;
    }
    default:
      actor.call_only("cuFileBatchIODestroy", "no batch", [&] { cuFileBatchIODestroy(batch); });
  }
}

}  // namespace sluice::fuzz
