// SPDX-License-Identifier: Apache-2.0
// Reads of a batch that go together: cached files, device memory. Every byte is right whatever carries it, wherever
// files end and however targets lie, and the counters tell who did.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sluice.h"
#include "support/busy_device.h"
#include "support/calls.h"
#include "support/kernel_wait.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kKiB = 1024;
constexpr unsigned kMost = 128;
constexpr unsigned char kUntouched = 0x5a;

sluice_carrier_counts_t counts_by_carrier() {
  sluice_carrier_counts_t counts{};
  auto* const ask = entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters");
  if (ask != nullptr) ask(&counts);
  return counts;
}

bool environment_says(const char* name, const char* value) {
  const char* const given = std::getenv(name);
  return given != nullptr && std::string(given) == value;
}

struct Range {
  std::size_t file;
  std::size_t memory;
  std::size_t size;
};

class BatchTogether : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch_, kMost)), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    if (batch_ != nullptr) cuFileBatchIODestroy(batch_);
    DeviceTest::TearDown();
  }

  // Only where entries do go together is there something to count. Those that a drive may write go one by one.
  static bool counts() {
    return entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters") != nullptr &&
           std::getenv("SLUICE_SOFTGPU_BACKING") == nullptr && !environment_says("SLUICE_MODE", "plain") &&
           !environment_says("SLUICE_VERIFY", "1");
  }

  // A group whose launch was revoked, and whose copies the driver refuses, goes one by one.
  static bool counts_for_certain() { return counts() && std::getenv("SLUICE_SOFTGPU_FAIL") == nullptr; }

  // Entries that have, until now.
  static std::uint64_t went_together() {
    const auto counts = counts_by_carrier();
    return counts.scatter_kernel + counts.many_copies + counts.copy_engine;
  }

  static CUfileIOParams_t read_of(CUfileHandle_t handle, const Memory& memory, const Range& range, std::size_t number) {
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.fh = handle;
    entry.opcode = CUFILE_READ;
    entry.cookie = reinterpret_cast<void*>(number);
    entry.u.batch.devPtr_base = memory.address();
    entry.u.batch.file_offset = static_cast<off_t>(range.file);
    entry.u.batch.devPtr_offset = static_cast<off_t>(range.memory);
    entry.u.batch.size = range.size;
    return entry;
  }

  // All in one submission; the events by the numbers of the entries.
  std::vector<CUfileIOEvents_t> run(std::vector<CUfileIOParams_t> entries) {
    std::vector<CUfileIOEvents_t> by_number(entries.size());
    const auto count = static_cast<unsigned>(entries.size());
    EXPECT_EQ(code(cuFileBatchIOSubmit(batch_, count, entries.data(), 0)), CU_FILE_SUCCESS);
    std::vector<CUfileIOEvents_t> events(kMost);
    for (unsigned found = 0; found < count;) {
      unsigned room = kMost;
      EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, kMost, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
      if (room == 0) {
        ADD_FAILURE() << "only " << found << " of " << count << " events";
        break;
      }
      for (unsigned i = 0; i < room; ++i) by_number.at(reinterpret_cast<std::size_t>(events[i].cookie)) = events[i];
      found += room;
    }
    return by_number;
  }

  std::vector<CUfileIOEvents_t> read(CUfileHandle_t handle, const Memory& memory, const std::vector<Range>& ranges) {
    std::vector<CUfileIOParams_t> entries;
    for (std::size_t i = 0; i < ranges.size(); ++i) entries.push_back(read_of(handle, memory, ranges[i], i));
    return run(std::move(entries));
  }

  // Reads, and looks at every byte of the memory.
  void read_and_check(CUfileHandle_t handle, const Bytes& content, const Memory& memory,
                      const std::vector<Range>& ranges) {
    memory.fill(kUntouched);
    Bytes expected(memory.size(), kUntouched);
    const auto events = read(handle, memory, ranges);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto& [at, to, size] = ranges[i];
      const std::size_t there = std::min(size, content.size() - std::min(content.size(), at));
      EXPECT_EQ(events[i].status, CUFILE_COMPLETE) << i;
      EXPECT_EQ(events[i].ret, there) << i;
      std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(std::min(at, content.size())), there,
                  expected.begin() + static_cast<std::ptrdiff_t>(to));
    }
    EXPECT_TRUE(same_bytes(expected, memory.get()));
  }

  // `count` pieces that touch neither in the file nor in memory.
  static std::vector<Range> apart(std::size_t count, std::size_t size) {
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < count; ++i) ranges.push_back({(count - 1 - i) * size, i * (size + 4096), size});
    return ranges;
  }

  CUfileBatchHandle_t batch_ = nullptr;
};

TEST_F(BatchTogether, SmallCachedReadsAreCarriedByTheScatterKernel) {
  if (!counts()) GTEST_SKIP() << "nothing goes together in this run";
  if (environment_says("SLUICE_COPY", "engine")) GTEST_SKIP() << "this run asks for the copy engine";
  const ScratchFile file(64 * 4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 64 * 8192);
  const Registration registration(memory);
  // The kernel is loaded in the background, with the first use of a ring in a context.
  const KernelWait waiting;
  const auto before = counts_by_carrier();
  while (counts_by_carrier().scatter_kernel == before.scatter_kernel) {
    if (waiting.is_over()) return waiting.give_up("the kernel has carried nothing");
    read_and_check(handle.get(), file.content(), memory, apart(64, 4096));
    if (HasFailure()) return;
    std::this_thread::yield();
  }
}

TEST_F(BatchTogether, SmallCachedReadsAreCarriedByTheCopyEngineWhereThatIsAskedFor) {
  if (!counts()) GTEST_SKIP() << "nothing goes together in this run";
  if (!environment_says("SLUICE_COPY", "engine")) GTEST_SKIP() << "this run asks for no copy engine";
  const ScratchFile file(64 * 4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 64 * 8192);
  const auto before = counts_by_carrier();
  read_and_check(handle.get(), file.content(), memory, apart(64, 4096));
  const auto after = counts_by_carrier();
  EXPECT_EQ(after.many_copies + after.copy_engine, before.many_copies + before.copy_engine + 64);
  EXPECT_EQ(after.scatter_kernel, before.scatter_kernel);
}

TEST_F(BatchTogether, NeighboursGoAsOne) {
  if (!counts()) GTEST_SKIP() << "nothing goes together in this run";
  const ScratchFile file(32 * 4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 32 * 4096);
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < 32; ++i) ranges.push_back({i * 4096, i * 4096, 4096});
  const auto before = counts_by_carrier();
  read_and_check(handle.get(), file.content(), memory, ranges);
  const auto after = counts_by_carrier();
  EXPECT_EQ(after.scatter_kernel + after.many_copies + after.copy_engine,
            before.scatter_kernel + before.many_copies + before.copy_engine + 1);
}

// What lies side by side in the file and in memory may still be two allocations, and no copy reaches over the end of
// one.
TEST_F(BatchTogether, NeighboursInTwoAllocationsComeToEach) {
  constexpr std::size_t count = 24;
  constexpr std::size_t size = 1 << 20;
  const ScratchFile file(count * size);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  std::vector<std::unique_ptr<Memory>> buffers;
  for (std::size_t i = 0; i < count; ++i) buffers.push_back(std::make_unique<Memory>(MemoryKind::device, size));
  std::ranges::sort(buffers, {},
                    [](const auto& buffer) { return reinterpret_cast<std::uintptr_t>(buffer->address()); });
  const auto touches = [](const auto& one, const auto& next) {
    return static_cast<char*>(one->address()) + size == next->address();
  };
  if (std::ranges::adjacent_find(buffers, touches) == buffers.end()) GTEST_SKIP() << "no two allocations touch here";
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < count; ++i) entries.push_back(read_of(handle.get(), *buffers[i], {i * size, 0, size}, i));
  for (const auto opcode : {CUFILE_READ, CUFILE_WRITE}) {
    for (CUfileIOParams_t& entry : entries) entry.opcode = opcode;
    for (const CUfileIOEvents_t& event : run(entries)) {
      EXPECT_EQ(event.status, CUFILE_COMPLETE);
      EXPECT_EQ(event.ret, size);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = file.content().begin() + static_cast<std::ptrdiff_t>(i * size);
    EXPECT_TRUE(same_bytes(Bytes(begin, begin + static_cast<std::ptrdiff_t>(size)), buffers[i]->get())) << i;
  }
  EXPECT_TRUE(same_bytes(file.content(), content_of(file.path())));
}

TEST_F(BatchTogether, EveryByteIsRightWhereverThePiecesLie) {
  const ScratchFile file(2 << 20);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 4 << 20);
  Random random(run_seed());
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    const std::size_t longest = std::array<std::size_t, 4>{40, 5000, 30000, 200000}[random.below(4)];
    std::vector<Range> ranges;
    for (std::size_t to = random.below(100); ranges.size() < 1 + random.below(kMost) + 1 && ranges.size() < kMost;) {
      const std::size_t size = 1 + random.below(longest);
      if (to + size > memory.size()) break;
      // Some follow each other in the file, too; some lie behind its end.
      const bool follows = !ranges.empty() && random.below(2) == 0;
      ranges.push_back({follows ? ranges.back().file + ranges.back().size : random.below((2 << 20) + 3000), to, size});
      to += size + (follows && random.below(2) == 0 ? 0 : random.below(3) * 17);
    }
    read_and_check(handle.get(), file.content(), memory, ranges);
    if (HasFailure()) return;
  }
}

TEST_F(BatchTogether, MoreBytesThanOneLaunchTakesArrive) {
  const ScratchFile file(96 * 512 * kKiB + 333);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 97 * (512 * kKiB + 4096));
  auto ranges = apart(96, 512 * kKiB);
  ranges.push_back({96 * 512 * kKiB, 96 * (512 * kKiB + 4096) + 7, 4096});
  read_and_check(handle.get(), file.content(), memory, ranges);
}

// So many bytes are cut into large chunks, and the first pieces begin with a short one: sizes and ends of the file just
// below it, at it, and behind it; and what the page cache does not have.
TEST_F(BatchTogether, EveryByteIsRightWhereTheFirstChunksAreShort) {
  constexpr std::size_t kFirst = 16 * kKiB;
  constexpr std::size_t kEnd = 1024 * kKiB + 333;
  const ScratchFile file(kEnd);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 24 << 20);
  Random random(run_seed());
  constexpr std::array sizes{kFirst - 1, kFirst,  kFirst + 1,  std::size_t{1}, 5 * kFirst - 1,
                             5 * kFirst, 80000UL, kEnd - 4096, 900 * kKiB};
  constexpr std::array before_the_end{std::size_t{0}, std::size_t{1}, kFirst - 1,    kFirst,
                                      kFirst + 1,     5 * kFirst,     5 * kFirst + 7};
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    if (round % 4 == 3) {
      ASSERT_EQ(fsync(fd.get()), 0);
      ASSERT_EQ(posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
      plain_read(fd.get(), 4096, 3 * kFirst);
    }
    std::vector<Range> ranges;
    for (std::size_t to = random.below(100); ranges.size() < kMost;) {
      // In the end some large ones, so that the whole is large enough.
      const bool among_the_first = ranges.size() < 4 + random.below(20);
      const std::size_t size = among_the_first ? sizes[random.below(sizes.size())] : 512 * kKiB;
      if (to + size > memory.size()) break;
      const bool ends_short = random.below(3) == 0;
      ranges.push_back({ends_short ? kEnd - before_the_end[random.below(before_the_end.size())]
                                   : random.below(kEnd - std::min(kEnd - 1, size)),
                        to, size});
      to += size + random.below(3) * 17;
    }
    read_and_check(handle.get(), file.content(), memory, ranges);
    if (HasFailure()) return;
  }
}

TEST_F(BatchTogether, NeighboursBehindTheEndOfTheFileReadNothing) {
  const ScratchFile file(10 * 4096 + 100);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 20 * 4096);
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < 20; ++i) ranges.push_back({i * 4096, i * 4096, 4096});
  read_and_check(handle.get(), file.content(), memory, ranges);
}

TEST_F(BatchTogether, WhatIsNotCachedArrivesAsWell) {
  const ScratchFile file(64 * 8192);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 64 * 12288);
  for (const std::size_t kept : std::array<std::size_t, 3>{0, 1, 3}) {
    ASSERT_EQ(fsync(fd.get()), 0);
    ASSERT_EQ(posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    for (std::size_t i = 0; kept != 0 && i < 64; i += kept) plain_read(fd.get(), i * 8192 + 4096, 100);
    read_and_check(handle.get(), file.content(), memory, apart(64, 8192));
  }
}

// Some in one piece, some in several, some too large to go with others; ends of the file in any of the pieces.
TEST_F(BatchTogether, DirectReadsAreRightWhereverThePiecesLie) {
  constexpr std::size_t content = 9'000'123;
  const ScratchFile file(content);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 24 << 20);
  const Registration registration(memory);
  Random random(run_seed());
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    const std::size_t longest = std::array<std::size_t, 4>{9000, 700'000, 2'000'000, 5'000'000}[random.below(4)];
    const std::size_t grain = std::array<std::size_t, 3>{1, 512, 4096}[random.below(3)];
    std::vector<Range> ranges;
    for (std::size_t to = random.below(100); ranges.size() < kMost; to += random.below(3) * 17) {
      const std::size_t size = 1 + random.below(longest);
      if (to + size > memory.size()) break;
      ranges.push_back({random.below(content + 3000) / grain * grain, to, size});
      to += size;
    }
    read_and_check(handle.get(), file.content(), memory, ranges);
    if (HasFailure()) return;
  }
}

TEST_F(BatchTogether, ADirectReadInSeveralPiecesCountsAsOne) {
  if (!counts()) GTEST_SKIP() << "nothing goes together in this run";
  const ScratchFile file(16 * 1024 * kKiB);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 16 * (1024 * kKiB + 4096));
  const auto before = counts_by_carrier();
  read_and_check(handle.get(), file.content(), memory, apart(16, 1024 * kKiB));
  const auto after = counts_by_carrier();
  // Where calls of the driver fail on request, others carry, too.
  if (std::getenv("SLUICE_SOFTGPU_FAIL") == nullptr) {
    EXPECT_EQ(after.many_copies + after.copy_engine, before.many_copies + before.copy_engine + 16);
  }
}

TEST_F(BatchTogether, AFailedEntryAmongOthersFailsAlone) {
  const ScratchFile file(32 * 4096);
  const ScratchFile other(4096);
  const Fd fd = file.open(O_RDONLY);
  Fd gone = other.open(O_RDONLY);
  const Handle handle(fd);
  const Handle closed(gone);
  gone.reset();
  const Memory memory(MemoryKind::device, 33 * 4096);
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < 33; ++i) {
    entries.push_back(
        read_of(i == 16 ? closed.get() : handle.get(), memory, {i % 32 * 4096, (32 - i) * 4096, 4096}, i));
  }
  const std::uint64_t before = went_together();
  const auto events = run(std::move(entries));
  if (counts_for_certain()) {
    EXPECT_EQ(went_together() - before, 32U);
  }
  for (std::size_t i = 0; i < 33; ++i) {
    EXPECT_EQ(events[i].status, i == 16 ? CUFILE_FAILED : CUFILE_COMPLETE) << i;
    EXPECT_EQ(static_cast<ssize_t>(events[i].ret), i == 16 ? -EBADF : 4096) << i;
    if (i == 16) continue;
    EXPECT_TRUE(same_bytes(std::span(file.content()).subspan(i % 32 * 4096, 4096), memory.get((32 - i) * 4096, 4096)));
  }
}

// What a registration tells of its memory may be long past.
TEST_F(BatchTogether, MemoryThatWentUnderItsRegistrationIsNotReadInto) {
  const ScratchFile file(64 * kKiB);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  Memory memory(MemoryKind::device, 64 * kKiB);
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < 16; ++i) {
    entries.push_back(read_of(handle.get(), memory, {i * 4096, (15 - i) * 4096, 4096}, i));
  }
  const void* const base = memory.address();
  ASSERT_EQ(code(cuFileBufRegister(base, memory.size(), 0)), CU_FILE_SUCCESS);
  // While it is there, it is read into; and the library allocates nothing more that could come to its address.
  for (const CUfileIOEvents_t& event : run(entries)) {
    EXPECT_EQ(static_cast<ssize_t>(event.ret), 4096);
  }
  memory.free();
  for (const CUfileIOEvents_t& event : run(std::move(entries))) {
    EXPECT_EQ(event.status, CUFILE_FAILED);
    EXPECT_EQ(static_cast<ssize_t>(event.ret), -EPERM);
  }
  EXPECT_EQ(code(cuFileBufDeregister(base)), CU_FILE_SUCCESS);
}

TEST_F(BatchTogether, MemoryThatWentHoldsNobodyElseUp) {
  const ScratchFile file(32 * 4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  Memory gone(MemoryKind::device, 4096);
  const Memory memory(MemoryKind::device, 32 * 8192);
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < 33; ++i) {
    entries.push_back(i == 5 ? read_of(handle.get(), gone, {0, 0, 4096}, i)
                             : read_of(handle.get(), memory, {i % 32 * 4096, i % 32 * 8192, 4096}, i));
  }
  const void* const base = gone.address();
  ASSERT_EQ(code(cuFileBufRegister(base, gone.size(), 0)), CU_FILE_SUCCESS);
  EXPECT_EQ(static_cast<ssize_t>(run(entries)[5].ret), 4096);
  gone.free();
  const std::uint64_t before = went_together();
  const auto events = run(std::move(entries));
  if (counts_for_certain()) {
    EXPECT_EQ(went_together() - before, 32U);
  }
  for (std::size_t i = 0; i < 33; ++i) {
    EXPECT_EQ(static_cast<ssize_t>(events[i].ret), i == 5 ? -EPERM : 4096) << i;
    if (i == 5) continue;
    const auto expected = std::span(file.content()).subspan(i % 32 * 4096, 4096);
    EXPECT_TRUE(same_bytes(expected, memory.get(i % 32 * 8192, 4096))) << i;
  }
  EXPECT_EQ(code(cuFileBufDeregister(base)), CU_FILE_SUCCESS);
}

TEST_F(BatchTogether, FilesAndBuffersInTurnsGetTheirOwnBytes) {
  const std::array files{ScratchFile(random_bytes(24 * 4096, 1)), ScratchFile(random_bytes(24 * 4096, 2))};
  const std::array fds{files[0].open(O_RDONLY), files[1].open(O_RDONLY)};
  const std::array<Handle, 2> handles{Handle(fds[0]), Handle(fds[1])};
  const std::array memories{Memory(MemoryKind::device, 24 * 4096), Memory(MemoryKind::device, 24 * 4096),
                            Memory(MemoryKind::device, 24 * 4096)};
  const Registration one(memories[0]);
  const Registration other(memories[1]);
  const auto at = [](std::size_t i) { return (23 - i) * 4096; };
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < 24; ++i) {
    entries.push_back(read_of(handles.at(i / 2 % 2).get(), memories.at(i % 3), {at(i), i * 4096, 4096}, i));
  }
  run(std::move(entries));
  for (std::size_t i = 0; i < 24; ++i) {
    const auto expected = std::span(files.at(i / 2 % 2).content()).subspan(at(i), 4096);
    EXPECT_TRUE(same_bytes(expected, memories.at(i % 3).get(i * 4096, 4096))) << i;
  }
}

TEST_F(BatchTogether, MemoryThatCameUnderARegistrationIsReadInto) {
  const ScratchFile file(64 * kKiB);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  Memory old(MemoryKind::device, 64 * kKiB);
  const void* const base = old.address();
  ASSERT_EQ(code(cuFileBufRegister(base, old.size(), 0)), CU_FILE_SUCCESS);
  old.free();
  const Memory fresh(MemoryKind::device, 64 * kKiB);
  if (fresh.address() == base) read_and_check(handle.get(), file.content(), fresh, apart(8, 4096));
  EXPECT_EQ(code(cuFileBufDeregister(base)), CU_FILE_SUCCESS);
  if (fresh.address() != base) GTEST_SKIP() << "the driver did not give the same address again";
}

TEST_F(BatchTogether, ADeviceThatIsBusyIsLeftToTheCopyEngine) {
  if (!counts()) GTEST_SKIP() << "nothing goes together in this run";
  const ScratchFile file(64 * 4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 64 * 8192);
  const auto ranges = apart(64, 4096);
  std::string why_not;
  const auto busy = BusyDevice::hold(&why_not);
  if (busy == nullptr) GTEST_SKIP() << why_not;
  const auto before = counts_by_carrier();
  for (int round = 0; round < 20; ++round) {
    for (const CUfileIOEvents_t& event : read(handle.get(), memory, ranges)) EXPECT_EQ(event.ret, 4096U);
  }
  const auto after = counts_by_carrier();
  // Where calls of the driver fail on request, others carry, too.
  if (std::getenv("SLUICE_SOFTGPU_FAIL") == nullptr) {
    EXPECT_EQ(after.many_copies + after.copy_engine + after.scatter_kernel,
              before.many_copies + before.copy_engine + before.scatter_kernel + 20 * 64);
    EXPECT_GT(after.many_copies + after.copy_engine, before.many_copies + before.copy_engine);
  }
  busy->let_go();
  read_and_check(handle.get(), file.content(), memory, ranges);
}

}  // namespace
}  // namespace sluice::contract
