// SPDX-License-Identifier: Apache-2.0
// Batches whose entries stand still: what may be done to them meanwhile, and who waits for whom.
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract/life/child.h"
#include "contract/life/gated_file.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;
using life::GatedFile;
using life::in_child;

constexpr std::size_t kPiece = 4096;
constexpr unsigned kEntries = 64;
constexpr timespec kNoTime{0, 0};

using Events = std::map<std::size_t, CUfileIOEvents_t>;

// Entries that stand still in a file of their own, among others that do not.
class LifeBatch : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    gated_.emplace(kEntries * kPiece);
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch_, kEntries)), CU_FILE_SUCCESS);
    memory_.emplace(usual_memory(), kEntries * kPiece);
    memory_->fill(kUntouched);
  }
  void TearDown() override {
    gated_->open();
    if (batch_ != nullptr) cuFileBatchIODestroy(batch_);
    memory_.reset();
    gated_.reset();
    CufileTest::TearDown();
  }

  CUfileIOParams_t read_of(CUfileHandle_t handle, std::size_t number) const {
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.fh = handle;
    entry.opcode = CUFILE_READ;
    entry.cookie = reinterpret_cast<void*>(number);
    entry.u.batch.devPtr_base = memory_->address();
    entry.u.batch.file_offset = static_cast<off_t>(number * kPiece);
    entry.u.batch.devPtr_offset = static_cast<off_t>(number * kPiece);
    entry.u.batch.size = kPiece;
    return entry;
  }

  // Entries `first` to `end`, less one, of this file.
  void submit(CUfileHandle_t handle, std::size_t first, std::size_t end) const {
    std::vector<CUfileIOParams_t> entries;
    for (std::size_t number = first; number < end; ++number) entries.push_back(read_of(handle, number));
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch_, static_cast<unsigned>(entries.size()), entries.data(), 0)),
              CU_FILE_SUCCESS);
  }

  // One call; its events are added to those that are known.
  unsigned collect(Events& known, unsigned least, const timespec* timeout) const {
    std::vector<CUfileIOEvents_t> events(kEntries);
    unsigned count = kEntries;
    timespec limit = timeout != nullptr ? *timeout : timespec{};
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, least, &count, events.data(), timeout != nullptr ? &limit : nullptr)),
              CU_FILE_SUCCESS);
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_TRUE(known.emplace(reinterpret_cast<std::size_t>(events[i].cookie), events[i]).second) << "twice";
    }
    return count;
  }

  void expect_bytes(std::span<const unsigned char> content, std::size_t number) const {
    EXPECT_TRUE(same_bytes(content.subspan(number * kPiece, kPiece), memory_->get(number * kPiece, kPiece))) << number;
  }
  void expect_complete(const Events& events, std::size_t first, std::size_t end) const {
    for (std::size_t number = first; number < end; ++number) {
      const auto found = events.find(number);
      ASSERT_NE(found, events.end()) << number;
      EXPECT_EQ(found->second.status, CUFILE_COMPLETE) << number;
      EXPECT_EQ(found->second.ret, kPiece) << number;
    }
  }

  static constexpr unsigned char kUntouched = 0x5c;
  const ScratchFile file_{kEntries * kPiece};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<GatedFile> gated_;
  std::optional<Memory> memory_;
  CUfileBatchHandle_t batch_ = nullptr;
};

TEST_F(LifeBatch, SubmittingDoesNotWaitForTheFile) {
  submit(gated_->handle(), 0, 8);
  Events events;
  EXPECT_EQ(collect(events, 0, &kNoTime), 0U);
  EXPECT_EQ(collect(events, 8, &kNoTime), 0U);
  gated_->open();
  while (events.size() < 8) collect(events, 8, nullptr);
  expect_complete(events, 0, 8);
  for (std::size_t number = 0; number < 8; ++number) expect_bytes(gated_->content(), number);
}

TEST_F(LifeBatch, ATimeoutEndsTheWaiting) {
  submit(gated_->handle(), 0, 4);
  Events events;
  const timespec moment{0, 20'000'000};
  EXPECT_EQ(collect(events, 4, &moment), 0U);
  const timespec odd{-5, -5};
  EXPECT_EQ(collect(events, 4, &odd), 0U);
}

TEST_F(LifeBatch, WhatIsReadyIsToldWhileOthersStandStill) {
  const Handle handle(fd_);
  submit(gated_->handle(), 0, 1);
  gated_->wait_until_inside();
  submit(handle.get(), 1, 9);
  Events events;
  while (events.size() < 8) ASSERT_GT(collect(events, 1, nullptr), 0U);
  expect_complete(events, 1, 9);
  for (std::size_t number = 1; number < 9; ++number) expect_bytes(file_.content(), number);
  EXPECT_EQ(collect(events, 0, &kNoTime), 0U);
  gated_->open();
  EXPECT_EQ(collect(events, 1, nullptr), 1U);
  expect_complete(events, 0, 1);
}

TEST_F(LifeBatch, AnotherBatchGoesOnWhileOneStandsStill) {
  const Handle handle(fd_);
  CUfileBatchHandle_t still = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&still, 1)), CU_FILE_SUCCESS);
  CUfileIOParams_t entry = read_of(gated_->handle(), 0);
  ASSERT_EQ(code(cuFileBatchIOSubmit(still, 1, &entry, 0)), CU_FILE_SUCCESS);
  gated_->wait_until_inside();
  submit(handle.get(), 1, 33);
  Events events;
  // No thread of the program waits: the library's own threads do it.
  while (events.size() < 32) collect(events, 0, &kNoTime);
  expect_complete(events, 1, 33);
  gated_->open();
  cuFileBatchIODestroy(still);
}

TEST_F(LifeBatch, CancellingEndsWhatHasNotBegunAndLetsTheRestFinish) {
  submit(gated_->handle(), 0, kEntries);
  gated_->wait_until_inside();
  ASSERT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
  Events events;
  collect(events, 0, &kNoTime);
  EXPECT_TRUE(events.empty()) << "nothing had ended before";
  const long ended = sluice_batch_cancelled(batch_);
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, kEntries) << "what has begun keeps its memory";
  EXPECT_TRUE(all_bytes(kUntouched, memory_->get(0, kEntries * kPiece)));
  constexpr timespec moment{0, 1'000'000};
  collect(events, kEntries, &moment);
  EXPECT_EQ(sluice_batch_cancelled(batch_), ended) << "what has begun cannot have ended";
  gated_->open();
  collect(events, kEntries, nullptr);
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(sluice_batch_cancelled(batch_), kEntries) << "it returns when the last one has ended";
  long whole = 0;
  for (std::size_t number = 0; number < kEntries; ++number) {
    if (same_bytes({gated_->content().data() + number * kPiece, kPiece}, memory_->get(number * kPiece, kPiece))) {
      ++whole;
    } else {
      EXPECT_TRUE(all_bytes(kUntouched, memory_->get(number * kPiece, kPiece))) << number;
    }
  }
  EXPECT_EQ(whole, kEntries - ended) << "of those that had begun";
}

TEST_F(LifeBatch, WhatACancelHasLeftRunningKeepsItsRoom) {
  const Handle handle(fd_);
  submit(gated_->handle(), 0, kEntries);
  gated_->wait_until_inside();
  ASSERT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t number = 0; number < kEntries; ++number) entries.push_back(read_of(handle.get(), number));
  EXPECT_EQ(code(cuFileBatchIOSubmit(batch_, kEntries, entries.data(), 0)), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  gated_->open();
  Events events;
  collect(events, kEntries, nullptr);
  submit(handle.get(), 0, kEntries);
  collect(events, kEntries, nullptr);
  expect_complete(events, 0, kEntries);
}

TEST_F(LifeBatch, ACancelledBatchIsUsedAgain) {
  const Handle handle(fd_);
  long cancelled = 0;
  for (int round = 0; round < 20; ++round) {
    submit(handle.get(), 0, kEntries);
    ASSERT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
    Events events;
    collect(events, kEntries, nullptr);
    ASSERT_TRUE(events.empty());
    cancelled += kEntries;
    ASSERT_EQ(sluice_batch_cancelled(batch_), cancelled);
  }
}

TEST_F(LifeBatch, DestroyingWaitsForWhatHasBegun) {
  submit(gated_->handle(), 0, kEntries);
  gated_->wait_until_inside();
  std::atomic<bool> destroyed{false};
  CUfileBatchHandle_t const dying = std::exchange(batch_, nullptr);
  std::thread ending([&] {
    cuFileBatchIODestroy(dying);
    destroyed = true;
  });
  // It is dead for others as soon as its end waits.
  const auto lives = [&] {
    CUfileIOEvents_t event{};
    unsigned count = 1;
    timespec none{0, 0};
    return code(cuFileBatchIOGetStatus(dying, 0, &count, &event, &none)) == CU_FILE_SUCCESS;
  };
  while (lives()) std::this_thread::yield();
  EXPECT_FALSE(destroyed);
  gated_->open();
  ending.join();
  memory_->fill(kUntouched);
  EXPECT_TRUE(all_bytes(kUntouched, memory_->get()));
}

TEST_F(LifeBatch, DeregisteringAFileWaitsForItsEntries) {
  submit(gated_->handle(), 0, 8);
  gated_->wait_until_inside();
  CUfileHandle_t const handle = gated_->handle();
  std::atomic<bool> gone{false};
  std::thread ending([&] {
    gated_->deregister();
    gone = true;
  });
  const Memory other(MemoryKind::plain, 1);
  while (read_file(handle, other.address(), 0) != failed(CU_FILE_HANDLE_NOT_REGISTERED)) std::this_thread::yield();
  EXPECT_FALSE(gone);
  gated_->open();
  ending.join();
  Events events;
  // All eight are through by now.
  EXPECT_EQ(collect(events, 8, nullptr), 8U);
  expect_complete(events, 0, 8);
}

TEST_F(LifeBatch, DeregisteringABufferWaitsForItsEntries) {
  ASSERT_EQ(code(cuFileBufRegister(memory_->address(), memory_->size(), 0)), CU_FILE_SUCCESS);
  submit(gated_->handle(), 0, 8);
  std::atomic<bool> gone{false};
  std::thread ending([&] {
    EXPECT_EQ(code(cuFileBufDeregister(memory_->address())), CU_FILE_SUCCESS);
    gone = true;
  });
  gated_->wait_until_inside();
  EXPECT_FALSE(gone);
  gated_->open();
  ending.join();
  Events events;
  EXPECT_EQ(collect(events, 8, nullptr), 8U);
  expect_complete(events, 0, 8);
}

TEST_F(LifeBatch, ClosingTheDriverWaitsForWhatHasBegun) {
  submit(gated_->handle(), 0, kEntries);
  gated_->wait_until_inside();
  std::atomic<bool> closed{false};
  std::thread ending([&] {
    EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
    closed = true;
  });
  while (cuFileUseCount() > 0) std::this_thread::yield();
  EXPECT_FALSE(closed);
  gated_->open();
  ending.join();
  memory_->fill(kUntouched);
  EXPECT_TRUE(all_bytes(kUntouched, memory_->get()));
  batch_ = nullptr;
}

// What one thread ends is no more for the others, but its bytes may still be on their way: who is refused its end, as
// it has one already, is told so behind them.
class LifeBatchEndedByOthers : public LifeBatch {
 protected:
  // Makes the call while another thread closes the driver and waits for entries; true when it came back too early.
  template <typename Call>
  bool comes_back_before_the_entries(const Call& call) {
    submit(gated_->handle(), 0, 8);
    gated_->wait_until_inside();
    std::thread closing([] { EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS); });
    while (cuFileUseCount() > 0) std::this_thread::yield();
    std::atomic<bool> called{false};
    std::atomic<bool> opened{false};
    std::atomic<bool> early{false};
    std::thread calling([&] {
      called = true;
      call();
      early = !opened;
    });
    while (!called) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    opened = true;
    gated_->open();
    calling.join();
    closing.join();
    if (other_.joinable()) other_.join();
    batch_ = nullptr;
    return early;
  }

  std::thread other_;
};

TEST_F(LifeBatchEndedByOthers, DestroyingItWaitsForItsEntries) {
  EXPECT_FALSE(comes_back_before_the_entries([&] { cuFileBatchIODestroy(batch_); }));
}

TEST_F(LifeBatchEndedByOthers, DeregisteringABufferWaitsForItsEntries) {
  ASSERT_EQ(code(cuFileBufRegister(memory_->address(), memory_->size(), 0)), CU_FILE_SUCCESS);
  EXPECT_FALSE(comes_back_before_the_entries(
      [&] { EXPECT_EQ(code(cuFileBufDeregister(memory_->address())), CU_FILE_DRIVER_CLOSING); }));
}

TEST_F(LifeBatchEndedByOthers, DeregisteringABufferThatNobodyUsesWaitsForNothing) {
  const Memory other(usual_memory(), kPiece);
  ASSERT_EQ(code(cuFileBufRegister(other.address(), other.size(), 0)), CU_FILE_SUCCESS);
  submit(gated_->handle(), 0, 8);
  gated_->wait_until_inside();
  std::thread closing([] { EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS); });
  while (cuFileUseCount() > 0) std::this_thread::yield();
  EXPECT_EQ(code(cuFileBufDeregister(other.address())), CU_FILE_DRIVER_CLOSING);
  gated_->open();
  closing.join();
  batch_ = nullptr;
}

TEST_F(LifeBatchEndedByOthers, DeregisteringAFileWaitsForItsEntries) {
  EXPECT_FALSE(comes_back_before_the_entries([&] { gated_->deregister(); }));
}

TEST_F(LifeBatchEndedByOthers, DeregisteringAFileOnceMoreWaitsForItsEntries) {
  CUfileHandle_t const handle = gated_->handle();
  EXPECT_FALSE(comes_back_before_the_entries([&] {
    other_ = std::thread([handle] { cuFileHandleDeregister(handle); });
    const Memory memory(MemoryKind::plain, 1);
    while (read_file(handle, memory.address(), 0) != failed(CU_FILE_HANDLE_NOT_REGISTERED)) std::this_thread::yield();
    gated_->deregister();
  }));
}

TEST_F(LifeBatchEndedByOthers, ClosingTheDriverWaitsForABatchThatIsBeingDestroyed) {
  submit(gated_->handle(), 0, 8);
  gated_->wait_until_inside();
  CUfileBatchHandle_t const dying = std::exchange(batch_, nullptr);
  std::thread ending([&] { cuFileBatchIODestroy(dying); });
  CUfileIOEvents_t event{};
  unsigned count = 1;
  timespec none{0, 0};
  while (code(cuFileBatchIOGetStatus(dying, 0, &count, &event, &none)) == CU_FILE_SUCCESS) std::this_thread::yield();
  std::atomic<bool> opened{false};
  std::thread closing([&] {
    EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
    EXPECT_TRUE(opened);
  });
  while (cuFileUseCount() > 0) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  opened = true;
  gated_->open();
  closing.join();
  ending.join();
}

TEST_F(LifeBatch, SeveralThreadsMayWaitForMoreThanEachCanGet) {
  submit(gated_->handle(), 0, kEntries);
  std::atomic<unsigned> found{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::vector<CUfileIOEvents_t> events(kEntries);
      unsigned count = kEntries;
      EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, kEntries, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
      found += count;
    });
  }
  gated_->open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, kEntries);
}

TEST_F(LifeBatch, AnEntrysOwnCallbackMayUseOtherBatches) {
  const Handle handle(fd_);
  std::atomic<int> failures{0};
  gated_->set_visitor([&](const void*) {
    const Memory other(MemoryKind::plain, kPiece);
    CUfileBatchHandle_t inner = nullptr;
    if (code(cuFileBatchIOSetUp(&inner, 1)) != CU_FILE_SUCCESS) ++failures;
    CUfileIOParams_t entry = read_of(handle.get(), 0);
    entry.u.batch.devPtr_base = other.address();
    CUfileIOEvents_t event{};
    unsigned count = 1;
    if (code(cuFileBatchIOSubmit(inner, 1, &entry, 0)) != CU_FILE_SUCCESS) ++failures;
    if (code(cuFileBatchIOGetStatus(inner, 1, &count, &event, nullptr)) != CU_FILE_SUCCESS || count != 1) ++failures;
    cuFileBatchIODestroy(inner);
  });
  gated_->open();
  submit(gated_->handle(), 0, 16);
  Events events;
  while (events.size() < 16) ASSERT_GT(collect(events, 16, nullptr), 0U);
  expect_complete(events, 0, 16);
  EXPECT_EQ(failures, 0);
}

TEST_F(LifeBatch, AChildOfForkDoesNotHaveItsParentsBatches) {
  if (!life::children_may_start_threads) GTEST_SKIP() << "ThreadSanitizer knows no threads of a child's own";
  submit(gated_->handle(), 0, kEntries);
  gated_->wait_until_inside();
  EXPECT_EQ(in_child([&]() -> std::string {
              CUfileIOEvents_t event{};
              unsigned count = 1;
              if (code(cuFileBatchIOGetStatus(batch_, 1, &count, &event, nullptr)) !=
                  CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR) {
                return "the parent's batch is still there";
              }
              CUfileBatchHandle_t own = nullptr;
              if (code(cuFileBatchIOSetUp(&own, 4)) != CU_FILE_SUCCESS) return "no batch of its own";
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              const Memory memory(MemoryKind::plain, kPiece);
              CUfileIOParams_t entry{};
              entry.mode = CUFILE_BATCH;
              entry.fh = handle.get();
              entry.opcode = CUFILE_READ;
              entry.u.batch.devPtr_base = memory.address();
              entry.u.batch.size = kPiece;
              if (code(cuFileBatchIOSubmit(own, 1, &entry, 0)) != CU_FILE_SUCCESS) return "it takes no entry";
              timespec none{0, 0};
              for (count = 0; count == 0;) {
                count = 1;
                if (code(cuFileBatchIOGetStatus(own, 0, &count, &event, &none)) != CU_FILE_SUCCESS) return "no status";
              }
              if (event.status != CUFILE_COMPLETE || event.ret != kPiece) return "a wrong event";
              cuFileBatchIODestroy(own);
              return same_bytes({file_.content().data(), kPiece}, memory.get()) ? "" : "wrong bytes";
            }),
            "");
  gated_->open();
  Events events;
  while (events.size() < kEntries) ASSERT_GT(collect(events, kEntries, nullptr), 0U);
  expect_complete(events, 0, kEntries);
}

TEST_F(LifeBatch, AChildMayEndByExitWhileItsParentsBatchStandsStill) {
  submit(gated_->handle(), 0, kEntries);
  gated_->wait_until_inside();
  EXPECT_EQ(in_child([]() -> std::string { std::exit(0); }), "");
}

}  // namespace
}  // namespace sluice::contract
