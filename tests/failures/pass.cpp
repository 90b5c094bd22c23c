// SPDX-License-Identifier: Apache-2.0
#include "failures/pass.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "sluice.h"

namespace sluice::failures {

using namespace support;

namespace {

ssize_t negated(const Transfer& transfer) {
  return transfer.count >= 0 ? transfer.count : -transfer.error;
}

}  // namespace

// What a transfer has answered, and what is left of it.
void Pass::settle_read(const char* what, CUfileHandle_t handle, const Memory& memory, Range range, ssize_t count) {
  Verdict verdict = world_.judge_read(what, memory, range, count);
  if (verdict == Verdict::done || verdict == Verdict::bad) return;
  if (verdict == Verdict::short_but_true) {
    const auto read = static_cast<std::size_t>(count);
    range = {range.size - read, range.file_at + read, range.memory_at + read};
  }
  world_.soil(memory, range);
  const ssize_t again = negated(read_file(handle, memory.address(), range.size, static_cast<off_t>(range.file_at),
                                          static_cast<off_t>(range.memory_at)));
  verdict = world_.judge_read("the same read again", memory, range, again);
  if (verdict == Verdict::refused && trouble_ != Trouble::staying)
    world_.complain(what, range, again, "not even again");
  if (verdict == Verdict::short_but_true && again == 0)
    world_.complain(what, range, again, "no end of the file is here");
}

void Pass::settle_write(const char* what, CUfileHandle_t handle, const Memory& memory, Range range, ssize_t count) {
  Verdict verdict = world_.judge_write(what, range, count);
  if (verdict == Verdict::done || verdict == Verdict::bad) return;
  if (verdict == Verdict::short_but_true) {
    const auto written = static_cast<std::size_t>(count);
    range = {range.size - written, range.file_at + written, range.memory_at + written};
  }
  const ssize_t again = negated(write_file(handle, memory.address(), range.size, static_cast<off_t>(range.file_at),
                                           static_cast<off_t>(range.memory_at)));
  verdict = world_.judge_write("the same write again", range, again);
  const bool is_over = verdict == Verdict::done || verdict == Verdict::bad;
  if (!is_over && trouble_ != Trouble::staying) world_.complain(what, range, again, "not even again");
}

void Pass::read(const char* what, CUfileHandle_t handle, const Memory& memory, const Range& range) {
  world_.soil(memory, range);
  settle_read(what, handle, memory, range,
              negated(read_file(handle, memory.address(), range.size, static_cast<off_t>(range.file_at),
                                static_cast<off_t>(range.memory_at))));
}

void Pass::write(const char* what, CUfileHandle_t handle, const Memory& memory, const Range& range) {
  world_.fill(memory, range);
  settle_write(what, handle, memory, range,
               negated(write_file(handle, memory.address(), range.size, static_cast<off_t>(range.file_at),
                                  static_cast<off_t>(range.memory_at))));
}

void Pass::transfers(CUfileHandle_t handle) {
  for (std::size_t i = 0; i < World::memories; ++i) {
    const Memory& memory = world_.memory(i);
    read("a small read", handle, memory, {4096, 8192, 4096});
    read("a small ragged read", handle, memory, {100, 17, 3});
    read("a read", handle, memory, {1U << 20U, 1U << 20U, 0});
    read("a ragged read", handle, memory, {300'000, 4097, 12'345});
    read("a read across the end", handle, memory, {131'072, kFileSize - 12'345, 65'536});
    write("a small write", handle, memory, {4096, 20'480, 4096});
    write("a small ragged write", handle, memory, {100, 4'000, 5});
    write("a write", handle, memory, {1U << 20U, 1U << 20U, 4096});
    write("a ragged write", handle, memory, {70'000, 123'456, 100});
  }
  read("a read of the whole file", handle, world_.memory(registered_memory), {kFileSize, 0, 0});
  read("a read of the whole file", handle, world_.memory(device_memory), {kFileSize, 0, 0});
  write("a large ragged write", handle, world_.memory(device_memory), {2'000'001, 1'000'003, 7});
}

void Pass::vectors(CUfileHandle_t handle) {
  const Memory& memory = world_.memory(device_memory);
  // Parts that follow each other in memory: the whole is judged as one range.
  const Range range{200'000, 5'000, 64};
  const std::array<CUfileIOVec_t, 3> parts{
      CUfileIOVec_t{memory.at(64), 4096}, {memory.at(64 + 4096), 100'000}, {memory.at(64 + 104'096), 95'904}};
  if (auto* const readv = entry<decltype(cuFileReadv)>("cuFileReadv")) {
    world_.soil(memory, range);
    errno = 0;
    const ssize_t count = readv(handle, parts.data(), parts.size(), static_cast<off_t>(range.file_at), 0);
    const ssize_t answer = count < 0 ? -errno : count;
    // How many parts go together is up to the page cache. Of parts that go by themselves one fails, and those in front
    // of it are counted.
    const bool ends_with_a_part = answer == 4096 || answer == 104'096;
    const bool allowed = world_.let_reads_be_short(false);
    world_.let_reads_be_short(allowed || (ends_with_a_part && trouble_ != Trouble::none));
    settle_read("a vectored read", handle, memory, range, answer);
    world_.let_reads_be_short(allowed);
  }
  if (auto* const writev = entry<decltype(cuFileWritev)>("cuFileWritev")) {
    world_.fill(memory, range);
    errno = 0;
    const ssize_t count = writev(handle, parts.data(), parts.size(), static_cast<off_t>(range.file_at), 0);
    settle_write("a vectored write", handle, memory, range, count < 0 ? -errno : count);
  }
}

namespace {

// No two touch the same bytes, nor do two writes come from the same place of any memory: the model tells them apart by
// it.
constexpr std::array entries{
    Entry{CUFILE_READ, registered_memory, {131'072, 0, 0}},
    Entry{CUFILE_READ, registered_memory, {131'072, 131'072, 200'000}},
    Entry{CUFILE_READ, device_memory, {70'001, 300'003, 5}},
    Entry{CUFILE_READ, device_memory, {4096, 409'600, 131'072}},
    Entry{CUFILE_READ, pinned_memory, {65'536, 524'288, 0}},
    Entry{CUFILE_READ, plain_memory, {10'000, 600'001, 1}},
    Entry{CUFILE_WRITE, device_memory, {131'072, 1'048'576, 1'048'576}},
    Entry{CUFILE_WRITE, registered_memory, {70'000, 1'300'001, 1'200'000}},
    Entry{CUFILE_WRITE, plain_memory, {4096, 1'433'600, 1'300'000}},
    Entry{CUFILE_WRITE, device_memory, {12, 1'500'000, 1'600'000}},
};
using Params = std::array<CUfileIOParams_t, entries.size()>;
using Counts = std::array<ssize_t, entries.size()>;

Params params_for(const World& world, CUfileHandle_t handle) {
  Params params{};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    params[i].mode = CUFILE_BATCH;
    params[i].fh = handle;
    params[i].opcode = entry.opcode;
    params[i].cookie = reinterpret_cast<void*>(i);
    params[i].u.batch.devPtr_base = world.memory(entry.memory).address();
    params[i].u.batch.devPtr_offset = static_cast<off_t>(entry.range.memory_at);
    params[i].u.batch.file_offset = static_cast<off_t>(entry.range.file_at);
    params[i].u.batch.size = entry.range.size;
  }
  return params;
}

}  // namespace

// Before they begin: what is to be read is not there yet, what is to be written is new.
void Pass::prepare(std::span<const Entry> all) {
  for (const Entry& entry : all) {
    const Memory& memory = world_.memory(entry.memory);
    if (entry.opcode == CUFILE_READ) world_.soil(memory, entry.range);
    if (entry.opcode == CUFILE_WRITE) world_.fill(memory, entry.range);
  }
}

void Pass::run_batch(CUfileBatchHandle_t batch, CUfileHandle_t handle) {
  prepare(entries);
  Params params = params_for(world_, handle);
  const auto number = static_cast<unsigned>(params.size());
  const bool submitted =
      call("cuFileBatchIOSubmit", [&] { return cuFileBatchIOSubmit(batch, number, params.data(), 0); });
  Counts counts;
  counts.fill(submitted ? kNoEvent : -ENOMEM);
  std::array<CUfileIOEvents_t, entries.size()> events{};
  for (unsigned told = 0; submitted && told < number;) {
    unsigned now = number;
    const bool answered = call("cuFileBatchIOGetStatus", [&] {
      now = number;
      return cuFileBatchIOGetStatus(batch, number - told, &now, events.data(), nullptr);
    });
    if (!answered || now == 0) {
      if (answered) world_.complain("a batch", {}, told, "it is over before all of its events came");
      break;
    }
    for (const CUfileIOEvents_t& event : std::span(events).first(now)) {
      const auto count = static_cast<ssize_t>(event.ret);
      ssize_t& place = counts.at(reinterpret_cast<std::size_t>(event.cookie));
      if (place != kNoEvent) world_.complain("a batch", {}, count, "an event came twice");
      if ((event.status == CUFILE_COMPLETE) != (count >= 0)) {
        world_.complain("a batch", {}, count, "count and status do not go together");
      }
      place = count;
    }
    told += now;
  }
  settle("a batch's read", "a batch's write", handle, entries, counts);
}

// What has become of them all.
void Pass::settle(const char* read, const char* write, CUfileHandle_t handle, std::span<const Entry> all,
                  std::span<const ssize_t> counts) {
  // The others' ranges are as unknown as the one that is looked at: all that was written counts first.
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].opcode == CUFILE_WRITE) world_.expect(all[i].range, counts[i]);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Entry& entry = all[i];
    if (counts[i] == kNoEvent) continue;
    const Memory& memory = world_.memory(entry.memory);
    if (entry.opcode == CUFILE_READ) settle_read(read, handle, memory, entry.range, counts[i]);
    if (entry.opcode == CUFILE_WRITE) settle_write(write, handle, memory, entry.range, counts[i]);
  }
}

void Pass::batch(CUfileHandle_t handle) {
  CUfileBatchHandle_t batch = nullptr;
  const auto room = static_cast<unsigned>(entries.size());
  if (!call("cuFileBatchIOSetUp", [&] { return cuFileBatchIOSetUp(&batch, room); })) return;
  run_batch(batch, handle);
  cuFileBatchIODestroy(batch);
}

void Pass::in_stream(const char* what, CUfileOpcode_t opcode, CUfileHandle_t handle, const Memory& memory,
                     const Range& range) {
  const bool reads = opcode == CUFILE_READ;
  if (reads) world_.soil(memory, range);
  if (!reads) world_.fill(memory, range);
  std::size_t size = range.size;
  auto file_at = static_cast<off_t>(range.file_at);
  auto memory_at = static_cast<off_t>(range.memory_at);
  ssize_t count = kNoEvent;
  const bool called = call(what, [&] {
    return reads ? cuFileReadAsync(handle, memory.address(), &size, &file_at, &memory_at, &count, world_.stream())
                 : cuFileWriteAsync(handle, memory.address(), &size, &file_at, &memory_at, &count, world_.stream());
  });
  if (cuda()->stream_synchronize(world_.stream()) != 0) world_.complain(what, range, count, "the stream has an error");
  if (!called) return;
  if (count == kNoEvent) return world_.complain(what, range, count, "the stream is over, and no count has come");
  if (reads) settle_read(what, handle, memory, range, count);
  if (!reads) settle_write(what, handle, memory, range, count);
}

void Pass::streams(CUfileHandle_t handle) {
  for (const bool registered : {false, true}) {
    const bool known =
        registered && call("cuFileStreamRegister", [&] { return cuFileStreamRegister(world_.stream(), 0); });
    for (const std::size_t number : {registered_memory, device_memory, pinned_memory}) {
      const Memory& memory = world_.memory(number);
      in_stream("a stream's read", CUFILE_READ, handle, memory, {131'072, 131'072, 4096});
      in_stream("a stream's ragged read", CUFILE_READ, handle, memory, {70'001, 3, 11});
      in_stream("a stream's write", CUFILE_WRITE, handle, memory, {131'072, 262'144, 4096});
      in_stream("a stream's ragged write", CUFILE_WRITE, handle, memory, {70'000, 4095, 0});
    }
    in_stream("a stream's large read", CUFILE_READ, handle, world_.memory(device_memory), {kFileSize, 0, 0});
    if (known) call("cuFileStreamDeregister", [&] { return cuFileStreamDeregister(world_.stream()); });
  }
}

void Pass::questions(CUfileHandle_t handle) {
  CUfileDrvProps_t properties{};
  call("cuFileDriverGetProperties", [&] { return cuFileDriverGetProperties(&properties); });
  sluice_explanation_t explanation{};
  const Memory& memory = world_.memory(device_memory);
  call("sluice_explain",
       [&] { return sluice_explain(handle, memory.address(), 0, CUFILE_READ, 65'536, 0, &explanation); });
  call("sluice_explain_all", [&] {
    const auto visit = [](const sluice_explanation_t*, const char*, void*) {};
    return sluice_explain_all(handle, memory.address(), 0, CUFILE_READ, 65'536, 0, visit, nullptr);
  });
  call("sluice_configuration", [] { return sluice_configuration([](const sluice_setting_t*, void*) {}, nullptr); });
  call("cuFileStatsStart", [] { return cuFileStatsStart(); });
  read("a counted read", handle, memory, {4096, 0, 0});
  CUfileStatsLevel1_t counted{};
  call("cuFileGetStatsL1", [&] { return cuFileGetStatsL1(&counted); });
  call("cuFileStatsStop", [] { return cuFileStatsStop(); });
  std::array<char, 256> text{};
  call("cuFileGetParameterString",
       [&] { return cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text.data(), static_cast<int>(text.size())); });
}

void Pass::open_driver() {
  call("cuFileDriverOpen", [] { return cuFileDriverOpen(); });
  call("cuFileSetStatsLevel", [] { return cuFileSetStatsLevel(1); });
}

void Pass::work() {
  const Memory& registered = world_.memory(registered_memory);
  const bool known =
      call("cuFileBufRegister", [&] { return cuFileBufRegister(registered.address(), registered.size(), 0); });
  for (const bool direct : {false, true}) {
    CUfileHandle_t handle = nullptr;
    const bool made = call("cuFileHandleRegister", [&] {
      CUfileDescr_t description{};
      description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
      description.handle.fd = world_.descriptor(direct);
      return cuFileHandleRegister(&handle, &description);
    });
    if (!made) continue;
    transfers(handle);
    vectors(handle);
    batch(handle);
    plans(handle);
    streams(handle);
    questions(handle);
    cuFileHandleDeregister(handle);
  }
  if (known) call("cuFileBufDeregister", [&] { return cuFileBufDeregister(registered.address()); });
}

void Pass::close_driver() {
  call("cuFileDriverClose", [] { return cuFileDriverClose(); });
}

}  // namespace sluice::failures
