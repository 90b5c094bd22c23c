// SPDX-License-Identifier: Apache-2.0
// Batches: the transfers themselves and the events that tell of them.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kFileSize = 1000003;

void* cookie(std::size_t number) {
  return reinterpret_cast<void*>(number);
}

class BatchTransfer : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch_, 64)), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    cuFileBatchIODestroy(batch_);
    CufileTest::TearDown();
  }

  void add(CUfileHandle_t handle, CUfileOpcode_t opcode, void* base, std::size_t size, std::size_t file_offset,
           std::size_t buffer_offset = 0) {
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.fh = handle;
    entry.opcode = opcode;
    entry.cookie = cookie(entries_.size() + 1);
    entry.u.batch.devPtr_base = base;
    entry.u.batch.file_offset = static_cast<off_t>(file_offset);
    entry.u.batch.devPtr_offset = static_cast<off_t>(buffer_offset);
    entry.u.batch.size = size;
    entries_.push_back(entry);
  }

  // Submits what was added; the parameters are wiped at once, for the library must have taken its copy.
  void submit() {
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch_, static_cast<unsigned>(entries_.size()), entries_.data(), 0)),
              CU_FILE_SUCCESS);
    entries_.assign(entries_.size(), CUfileIOParams_t{});
  }

  // All events of what was submitted, by cookie; each must come once.
  std::map<void*, CUfileIOEvents_t> wait_for_all() {
    std::map<void*, CUfileIOEvents_t> all;
    while (all.size() < entries_.size()) {
      std::vector<CUfileIOEvents_t> events(64);
      unsigned count = 64;
      const auto missing = static_cast<unsigned>(entries_.size() - all.size());
      EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, missing, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
      if (count == 0) {
        ADD_FAILURE() << "only " << all.size() << " of " << entries_.size() << " events";
        break;
      }
      for (unsigned i = 0; i < count; ++i) {
        EXPECT_TRUE(all.emplace(events[i].cookie, events[i]).second) << "an event came twice";
      }
    }
    entries_.clear();
    return all;
  }

  static void expect_event(const std::map<void*, CUfileIOEvents_t>& events, std::size_t number, CUfileStatus_t status,
                           ssize_t result) {
    const auto found = events.find(cookie(number));
    ASSERT_NE(found, events.end()) << "no event " << number;
    EXPECT_EQ(found->second.status, status) << number;
    EXPECT_EQ(static_cast<ssize_t>(found->second.ret), result) << number;
  }

  std::span<const unsigned char> content(std::size_t offset, std::size_t size) const {
    return std::span<const unsigned char>(file_.content()).subspan(offset, size);
  }

  const ScratchFile file_{kFileSize};
  CUfileBatchHandle_t batch_ = nullptr;
  std::vector<CUfileIOParams_t> entries_;
};

TEST_F(BatchTransfer, ReadsEachEntryWhereItBelongs) {
  for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) {
    const Fd fd = file_.open(flags);
    const Handle handle(fd);
    const Memory memory(usual_memory(), 64 * 8192);
    for (std::size_t i = 0; i < 64; ++i) add(handle.get(), CUFILE_READ, memory.address(), 8192, i * 10007, i * 8192);
    submit();
    const auto events = wait_for_all();
    for (std::size_t i = 0; i < 64; ++i) {
      expect_event(events, i + 1, CUFILE_COMPLETE, 8192);
      EXPECT_TRUE(same_bytes(content(i * 10007, 8192), memory.get(i * 8192, 8192))) << i;
    }
  }
}

TEST_F(BatchTransfer, MixesKindsOfMemoryFilesAndDirections) {
  const ScratchFile other(300000);
  const Fd buffered = file_.open(O_RDONLY);
  const Fd direct = other.open(O_RDWR | O_DIRECT);
  const Handle reader(buffered);
  const Handle writer(direct);
  std::vector<std::unique_ptr<Memory>> memory;
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed, MemoryKind::device}) {
    if (available(kind)) memory.push_back(std::make_unique<Memory>(kind, 6144));
  }
  const Bytes written = random_bytes(6144, 1);
  const Memory source(usual_memory(), 6144);
  source.put(0, written);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    add(reader.get(), CUFILE_READ, memory[i]->address(), 6144, 100 + i);
    add(writer.get(), CUFILE_WRITE, source.address(), 6144, 4 + i * 10000);
  }
  const std::size_t count = entries_.size();
  submit();
  const auto events = wait_for_all();
  for (std::size_t i = 1; i <= count; ++i) expect_event(events, i, CUFILE_COMPLETE, 6144);
  Bytes expected = other.content();
  for (std::size_t i = 0; i < memory.size(); ++i) {
    EXPECT_TRUE(same_bytes(content(100 + i, 6144), memory[i]->get())) << i;
    std::copy(written.begin(), written.end(), expected.begin() + static_cast<std::ptrdiff_t>(4 + i * 10000));
  }
  EXPECT_TRUE(same_bytes(expected, content_of(other.path())));
}

TEST_F(BatchTransfer, TellsOfAShortCountAtTheEndOfTheFile) {
  const Fd fd = file_.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 16384);
  const std::size_t last_block = kFileSize / 4096 * 4096;
  add(handle.get(), CUFILE_READ, memory.address(), 8192, last_block);
  submit();
  const auto events = wait_for_all();
  expect_event(events, 1, CUFILE_COMPLETE, static_cast<ssize_t>(kFileSize - last_block));
  EXPECT_TRUE(same_bytes(content(last_block, kFileSize - last_block), memory.get(0, kFileSize - last_block)));
}

TEST_F(BatchTransfer, EndsShortAtTheEndOfTheFile) {
  const Fd fd = file_.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 3 * 8192);
  memory.fill(5);
  add(handle.get(), CUFILE_READ, memory.address(), 8192, kFileSize - 1000);
  add(handle.get(), CUFILE_READ, memory.address(), 8192, kFileSize, 8192);
  add(handle.get(), CUFILE_READ, memory.address(), 8192, kFileSize + 100000, 16384);
  submit();
  const auto events = wait_for_all();
  expect_event(events, 1, CUFILE_COMPLETE, 1000);
  expect_event(events, 2, CUFILE_COMPLETE, 0);
  expect_event(events, 3, CUFILE_COMPLETE, 0);
  EXPECT_TRUE(same_bytes(content(kFileSize - 1000, 1000), memory.get(0, 1000)));
  EXPECT_TRUE(all_bytes(5, memory.get(1000, memory.size() - 1000)));
}

TEST_F(BatchTransfer, HasNoEventsForEntriesOfSizeZeroAndWaitsForNone) {
  const Fd fd = file_.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 8192);
  std::array<CUfileIOEvents_t, 8> events{};
  const auto collected = [&](unsigned least) {
    unsigned count = 8;
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, least, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
    return count;
  };
  add(handle.get(), CUFILE_READ, memory.address(), 4096, 0);
  add(handle.get(), CUFILE_READ, memory.address(), 0, 0);
  add(handle.get(), CUFILE_READ, memory.address(), 4096, 0, 4096);
  submit();
  unsigned found = 0;
  while (found < 2) {
    const unsigned fresh = collected(2 - found);
    for (unsigned i = 0; i < fresh; ++i) EXPECT_NE(events[i].cookie, cookie(2));
    ASSERT_GT(fresh, 0U);
    found += fresh;
  }
  EXPECT_EQ(collected(1), 0U) << "and it does not wait for the one that is not there";
  for (const CUfileHandle_t nobody_looks : {handle.get(), CUfileHandle_t{nullptr}}) {
    entries_.clear();
    add(nobody_looks, CUFILE_READ, memory.address(), 0, 0);
    submit();
    EXPECT_EQ(collected(1), 0U);
  }
}

TEST_F(BatchTransfer, TellsOfAFailedEntryWithItsCause) {
  const ScratchFile other(8192);
  const Fd fd = file_.open(O_RDONLY);
  Fd closed = other.open(O_RDONLY);
  const Handle good(fd);
  const Handle bad(closed);
  const Memory memory(usual_memory(), 8192);
  closed.reset();
  add(good.get(), CUFILE_READ, memory.address(), 4096, 0);
  add(bad.get(), CUFILE_READ, memory.address(), 4096, 0, 4096);
  submit();
  const auto events = wait_for_all();
  expect_event(events, 1, CUFILE_COMPLETE, 4096);
  expect_event(events, 2, CUFILE_FAILED, -EBADF);
}

TEST_F(BatchTransfer, CanBeSubmittedAndDrainedAgainAndAgain) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 32 * 4096);
  for (std::size_t round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < 32; ++i) {
      add(handle.get(), CUFILE_READ, memory.address(), 4096, round * 1000 + i * 4096, i * 4096);
    }
    submit();
    const auto events = wait_for_all();
    for (std::size_t i = 1; i <= 32; ++i) expect_event(events, i, CUFILE_COMPLETE, 4096);
    ASSERT_TRUE(same_bytes(content(round * 1000, 32 * 4096), memory.get()));
  }
}

TEST_F(BatchTransfer, SeveralSubmissionsShareABatch) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 64 * 4096);
  std::vector<CUfileIOParams_t> submitted;
  for (std::size_t i = 0; i < 64; ++i) {
    add(handle.get(), CUFILE_READ, memory.address(), 4096, i * 5000, i * 4096);
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch_, 1, &entries_.back(), 0)), CU_FILE_SUCCESS);
  }
  const auto events = wait_for_all();
  for (std::size_t i = 1; i <= 64; ++i) expect_event(events, i, CUFILE_COMPLETE, 4096);
}

TEST_F(BatchTransfer, DeliversEventsInSmallHelpings) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  for (std::size_t i = 0; i < 10; ++i) add(handle.get(), CUFILE_READ, memory.address(), 4096, i * 4096);
  submit();
  std::size_t total = 0;
  for (int helping = 0; helping < 10 && total < 10; ++helping) {
    CUfileIOEvents_t events[3] = {};
    unsigned count = 3;
    ASSERT_EQ(code(cuFileBatchIOGetStatus(batch_, 1, &count, events, nullptr)), CU_FILE_SUCCESS);
    ASSERT_GE(count, 1U);
    ASSERT_LE(count, 3U);
    total += count;
  }
  EXPECT_EQ(total, 10U);
}

TEST_F(BatchTransfer, TellsOfNoEntryAfterACancel) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 64 * 8192);
  for (std::size_t i = 0; i < 64; ++i) add(handle.get(), CUFILE_READ, memory.address(), 8192, i * 8192, i * 8192);
  submit();
  EXPECT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
  std::array<CUfileIOEvents_t, 64> events{};
  unsigned count = 64;
  ASSERT_EQ(code(cuFileBatchIOGetStatus(batch_, 64, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 0U);
  auto* const cancelled = entry<decltype(sluice_batch_cancelled)>("sluice_batch_cancelled");
  if (cancelled != nullptr) {
    EXPECT_EQ(cancelled(batch_), 64);
    EXPECT_EQ(cancelled(nullptr), -1);
  }
}

class BatchOfAllEvents : public BatchTransfer {
 protected:
  void SetUp() override {
    setenv("SLUICE_BATCH_ALL_EVENTS", "1", 1);
    BatchTransfer::SetUp();
  }
  void TearDown() override {
    unsetenv("SLUICE_BATCH_ALL_EVENTS");
    BatchTransfer::TearDown();
  }
};

TEST_F(BatchTransfer, TellsOfNoEntryAfterACancelNotEvenOfThoseThatHadEnded) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 3 * 8192);
  for (std::size_t i = 0; i < 3; ++i) add(handle.get(), CUFILE_READ, memory.address(), 8192, i * 8192, i * 8192);
  submit();
  std::array<CUfileIOEvents_t, 3> events{};
  unsigned count = 1;
  ASSERT_EQ(code(cuFileBatchIOGetStatus(batch_, 1, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
  count = 3;
  ASSERT_EQ(code(cuFileBatchIOGetStatus(batch_, 3, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 0U);
}

TEST_F(BatchOfAllEvents, TellsOfEntriesOfSizeZero) {
  const Fd fd = file_.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 8192);
  add(handle.get(), CUFILE_READ, memory.address(), 4096, 0);
  add(handle.get(), CUFILE_READ, memory.address(), 0, 0);
  submit();
  const auto events = wait_for_all();
  expect_event(events, 1, CUFILE_COMPLETE, 4096);
  expect_event(events, 2, CUFILE_COMPLETE, 0);
}

TEST_F(BatchOfAllEvents, TellsOfEveryEntryAfterACancel) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 64 * 8192);
  for (std::size_t i = 0; i < 64; ++i) add(handle.get(), CUFILE_READ, memory.address(), 8192, i * 8192, i * 8192);
  submit();
  EXPECT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
  for (const auto& [number, event] : wait_for_all()) {
    EXPECT_TRUE(event.status == CUFILE_CANCELED || (event.status == CUFILE_COMPLETE && event.ret == 8192))
        << number << ": status " << event.status << ", ret " << event.ret;
  }
  EXPECT_EQ(sluice_batch_cancelled(batch_), 0);
}

TEST_F(BatchTransfer, TouchesNothingOnceTheBatchIsDestroyed) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 64 * 8192);
  for (int round = 0; round < 20; ++round) {
    CUfileBatchHandle_t batch = nullptr;
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 64)), CU_FILE_SUCCESS);
    for (std::size_t i = 0; i < 64; ++i) add(handle.get(), CUFILE_READ, memory.address(), 8192, i * 8192, i * 8192);
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 64, entries_.data(), 0)), CU_FILE_SUCCESS);
    entries_.clear();
    cuFileBatchIODestroy(batch);
    memory.fill(3);
    const Memory other(usual_memory(), 8192);
    ASSERT_EQ(read_file(handle.get(), other.address(), 8192), moved(8192));
    ASSERT_TRUE(all_bytes(3, memory.get())) << "round " << round;
  }
}

}  // namespace
}  // namespace sluice::contract
