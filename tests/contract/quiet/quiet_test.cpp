// SPDX-License-Identifier: Apache-2.0
// The I/O path takes no lock and no memory: whatever a transfer needs, it had before. What the driver does is its own
// affair.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "contract/quiet/witness.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/planned.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;

struct Kind {
  const char* name;
  std::size_t size;
  off_t offset;
  int flags;
  MemoryKind memory;
  bool registered;
};

constexpr std::array kKinds{
    Kind{"Small", 4096, 0, O_RDWR, MemoryKind::device, true},
    Kind{"SmallOfAnUnregisteredBuffer", 4096, 0, O_RDWR, MemoryKind::device, false},
    Kind{"SmallPastThePageCache", 4096, 4096, O_RDWR | O_DIRECT, MemoryKind::device, true},
    Kind{"Ragged", 70001, 13, O_RDWR, MemoryKind::device, true},
    Kind{"OfAWholeSlab", 128 << 10, 0, O_RDWR, MemoryKind::device, true},
    Kind{"Large", 4 * kMebibyte, 0, O_RDWR, MemoryKind::device, true},
    Kind{"LargePastThePageCache", 4 * kMebibyte, 0, O_RDWR | O_DIRECT, MemoryKind::device, true},
    Kind{"OfPinnedHostMemory", 64 << 10, 0, O_RDWR, MemoryKind::pinned, true},
    Kind{"OfPlainHostMemory", 64 << 10, 5, O_RDWR, MemoryKind::plain, false},
};

void PrintTo(const Kind& kind, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << kind.name;
}

class Transfer : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!available(GetParam().memory)) GTEST_SKIP() << "no " << name_of(GetParam().memory) << " memory here";
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileSetStatsLevel(3)), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    cuFileStatsStop();
    cuFileSetStatsLevel(0);
    close_driver_fully();
  }

  // What `times` rounds of `once` ask for, after as many that may ask for anything.
  template <typename Once>
  static Asked after_first_calls(int times, Once&& once) {
    for (int i = 0; i < times; ++i) once();
    start_counting();
    for (int i = 0; i < times; ++i) once();
    return stop_counting();
  }
};

void expect_quiet(const Asked& asked) {
  EXPECT_EQ(asked.allocations, 0U) << asked.first;
  EXPECT_EQ(asked.locks, 0U) << asked.first;
}

// So many rounds in a row ask for no memory, once the few things that are made with their first use are there: which
// round that is depends on who comes when, and there are fewer of them than `things`. Answers how many rounds there
// were.
template <typename Round>
unsigned expect_no_memory_in_the_end(unsigned in_a_row, unsigned things, const Round& round) {
  unsigned rounds = 0;
  const auto some = [&] {
    for (unsigned i = 0; i < in_a_row; ++i) round();
    rounds += in_a_row;
  };
  some();
  Asked asked;
  for (unsigned made = 0; made <= things; ++made) {
    start_counting();
    some();
    asked = stop_counting();
    if (asked.allocations == 0) break;
  }
  EXPECT_EQ(asked.allocations, 0U) << asked.first;
  return rounds;
}

TEST_P(Transfer, TakesNoLockAndNoMemory) {
  const Kind& kind = GetParam();
  const ScratchFile scratch(kind.size + 65536);
  const Fd fd = scratch.open(kind.flags);
  const Handle handle(fd);
  const Memory memory(kind.memory, kind.size + 65536);
  if (kind.registered) {
    ASSERT_EQ(code(cuFileBufRegister(memory.address(), memory.size(), 0)), CU_FILE_SUCCESS);
  }
  const auto size = static_cast<ssize_t>(kind.size);
  ssize_t read = size;
  expect_quiet(after_first_calls(100, [&] {
    if (cuFileRead(handle.get(), memory.address(), kind.size, kind.offset, 0) != size) read = -1;
  }));
  EXPECT_EQ(read, size);
  ssize_t written = size;
  expect_quiet(after_first_calls(100, [&] {
    if (cuFileWrite(handle.get(), memory.address(), kind.size, kind.offset, 0) != size) written = -1;
  }));
  EXPECT_EQ(written, size);
  if (kind.registered) {
    EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
  }
}

INSTANTIATE_TEST_SUITE_P(Quiet, Transfer, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<Kind>& kind) { return std::string(kind.param.name); });

// So many small reads at once that the library makes their copies together.
TEST(QuietCrowd, TakesNoLockAndNoMemory) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "no device memory here";
  constexpr unsigned count = 8;
  constexpr int rounds = 300;
  const ScratchFile scratch(count * 4096);
  const Fd fd = scratch.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, count * 4096);
  std::atomic<unsigned> wrong{0};
  std::barrier all_there(count + 1);
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      const auto offset = static_cast<off_t>(number * 4096);
      for (unsigned turn = 0; turn < count; ++turn) {  // alone, for what a thread then needs
        if (turn == number && cuFileRead(handle.get(), memory.address(), 4096, offset, offset) != 4096) ++wrong;
        all_there.arrive_and_wait();
      }
      for (int part = 0; part < 2; ++part) {
        all_there.arrive_and_wait();
        // At first for long enough that all of them have been in a crowd.
        for (int i = 0; i < (part == 0 ? 20 * rounds : rounds); ++i) {
          if (cuFileRead(handle.get(), memory.address(), 4096, offset, offset) != 4096) ++wrong;
        }
        all_there.arrive_and_wait();
      }
      all_there.arrive_and_wait();
    });
  }
  for (unsigned step = 0; step < count + 2; ++step) all_there.arrive_and_wait();  // what may ask for anything
  start_counting();
  all_there.arrive_and_wait();
  all_there.arrive_and_wait();
  const Asked asked = stop_counting();
  all_there.arrive_and_wait();  // only now the threads may end
  expect_quiet(asked);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
}

// A batch has a lock of its own, which its steps take. Its memory it has from the start, but for a few things that are
// made when a lane or a team of entries first needs them, and kept: after some rounds, depending on who came when.
class QuietBatch : public testing::TestWithParam<MemoryKind> {};

TEST_P(QuietBatch, TakesNoMemory) {
  if (!available(GetParam())) GTEST_SKIP() << "no " << name_of(GetParam()) << " memory here";
  constexpr unsigned count = 32;
  constexpr std::size_t piece = 4096;
  const ScratchFile scratch(count * piece);
  for (const int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
    const Fd fd = scratch.open(flags);
    const Handle handle(fd);
    const Memory memory(GetParam(), count * piece);
    CUfileBatchHandle_t batch = nullptr;
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, count)), CU_FILE_SUCCESS);
    std::array<CUfileIOParams_t, count> entries{};
    std::array<CUfileIOEvents_t, count> events{};
    for (std::size_t i = 0; i < count; ++i) {
      entries[i].mode = CUFILE_BATCH;
      entries[i].fh = handle.get();
      entries[i].opcode = i % 5 == 0 ? CUFILE_WRITE : CUFILE_READ;
      entries[i].u.batch.devPtr_base = memory.address();
      entries[i].u.batch.devPtr_offset = static_cast<off_t>(i * piece);
      entries[i].u.batch.file_offset = static_cast<off_t>((count - 1 - i) * piece);
      entries[i].u.batch.size = piece;
    }
    unsigned complete = 0;
    const auto round = [&] {
      if (code(cuFileBatchIOSubmit(batch, count, entries.data(), 0)) != CU_FILE_SUCCESS) return;
      for (unsigned found = 0; found < count;) {
        unsigned room = count;
        if (code(cuFileBatchIOGetStatus(batch, count, &room, events.data(), nullptr)) != CU_FILE_SUCCESS) return;
        for (unsigned i = 0; i < room; ++i) complete += events[i].ret == piece ? 1 : 0;
        found += room;
      }
    };
    const unsigned rounds = expect_no_memory_in_the_end(100, 64, round);
    EXPECT_EQ(complete, rounds * count);
    cuFileBatchIODestroy(batch);
  }
  close_driver_fully();
}

INSTANTIATE_TEST_SUITE_P(Kinds, QuietBatch, testing::Values(MemoryKind::device, MemoryKind::pinned, MemoryKind::plain),
                         [](const testing::TestParamInfo<MemoryKind>& kind) {
                           return std::string(name_of(kind.param));
                         });

// A plan asks for memory when it is made and submitted; how much it moves changes nothing.
TEST(QuietPlan, AsksForNoMoreMemoryForMoreBytes) {
  constexpr std::size_t ranges = 3;
  constexpr std::size_t most = std::size_t{24} << 20U;
  const ScratchFile scratch(ranges * most);
  const Fd fd = scratch.open(O_RDONLY);
  const Handle handle(fd);
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::plain}) {
    if (!available(kind)) continue;
    const Memory memory(kind, ranges * most + 4096);
    // The fewest of some plans: things that are made with their first use are there by then.
    const auto fewest_for = [&](std::size_t size) {
      std::size_t fewest = ~std::size_t{0};
      for (int round = 0; round < 12; ++round) {
        start_counting();
        {
          Planned plan(CUFILE_READ, 0, 1);  // one at a time: what is made for each is made once
          for (std::size_t i = 0; i < ranges; ++i) plan.add(handle.get(), memory.at(i * size + i), size, i * size);
          plan.submit();
          EXPECT_EQ(sluice_plan_wait(plan.get(), ranges, nullptr), long{ranges});
        }
        fewest = std::min(fewest, stop_counting().allocations);
      }
      return fewest;
    };
    const std::size_t for_large = fewest_for(most);
    EXPECT_EQ(fewest_for(most / 4), for_large) << name_of(kind);
    EXPECT_GT(for_large, 0U) << "nothing was counted";
  }
  close_driver_fully();
}

// What a stream's transfers need goes from one to the next.
class QuietStream : public testing::TestWithParam<int> {};

TEST_P(QuietStream, TakesNoMemory) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "no device memory here";
  constexpr std::size_t size = 4096;
  const ScratchFile scratch(size);
  const Fd fd = scratch.open(GetParam());
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, size);
  const Stream stream;
  ASSERT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_SUCCESS);
  std::size_t wanted = size;
  off_t at_start = 0;
  ssize_t read = 0;
  ssize_t written = 0;
  unsigned complete = 0;
  const auto round = [&] {
    const CUfileError_t in =
        cuFileReadAsync(handle.get(), memory.address(), &wanted, &at_start, &at_start, &read, stream.get());
    stream.synchronize();
    const CUfileError_t out =
        cuFileWriteAsync(handle.get(), memory.address(), &wanted, &at_start, &at_start, &written, stream.get());
    stream.synchronize();
    const bool well = code(in) == CU_FILE_SUCCESS && code(out) == CU_FILE_SUCCESS;
    complete += well && read == size && written == size ? 1 : 0;
  };
  const unsigned rounds = expect_no_memory_in_the_end(200, 16, round);
  EXPECT_EQ(complete, rounds);
  EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
  close_driver_fully();
}

INSTANTIATE_TEST_SUITE_P(Files, QuietStream, testing::Values(O_RDWR, O_RDWR | O_DIRECT),
                         [](const testing::TestParamInfo<int>& flags) {
                           return std::string((flags.param & O_DIRECT) != 0 ? "PastThePageCache" : "Cached");
                         });

// The witness itself is of use: registering does take a lock, and memory.
TEST(QuietWitness, SeesWhatTheControlPlaneAsksFor) {
  const ScratchFile scratch(4096);
  const Fd fd = scratch.open(O_RDWR);
  start_counting();
  { const Handle handle(fd); }
  const Asked asked = stop_counting();
  EXPECT_GT(asked.allocations, 0U);
  EXPECT_GT(asked.locks, 0U);
}

}  // namespace
}  // namespace sluice::contract
