// SPDX-License-Identifier: Apache-2.0
// Plans whose items stand still: what may be done to them meanwhile, and who waits for whom.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "contract/life/child.h"
#include "contract/life/gated_file.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/planned.h"

namespace sluice::contract::life_plan_test {
namespace {

using namespace support;
using life::GatedFile;
using life::in_child;

constexpr std::size_t kPiece = 4096;
constexpr std::size_t kItems = 64;
constexpr timespec kNoTime{0, 0};

class LifePlan : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    gated_.emplace(2 * kItems * kPiece);
    memory_.emplace(usual_memory(), 2 * kItems * kPiece);
    memory_->fill(kUntouched);
  }
  void TearDown() override {
    gated_->open();
    plan_.reset();
    memory_.reset();
    gated_.reset();
    CufileTest::TearDown();
  }

  // Items that do not touch: each stands still by itself.
  void add(CUfileHandle_t handle, std::size_t first, std::size_t end) {
    for (std::size_t number = first; number < end; ++number) {
      plan_->add(handle, memory_->at(2 * number * kPiece), kPiece, 2 * number * kPiece);
    }
  }
  void submit(unsigned flags = 0) {
    plan_.emplace(CUFILE_READ, flags);
    add(gated_->handle(), 0, kItems);
    plan_->submit();
  }
  void expect_bytes(std::size_t number) const {
    EXPECT_TRUE(same_bytes(std::span(gated_->content()).subspan(2 * number * kPiece, kPiece),
                           memory_->get(2 * number * kPiece, kPiece)))
        << number;
  }

  static constexpr unsigned char kUntouched = 0x5c;
  const ScratchFile file_{2 * kItems * kPiece};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<GatedFile> gated_;
  std::optional<Memory> memory_;
  std::optional<Planned> plan_;
};

TEST_F(LifePlan, SubmittingAndLookingDoNotWaitForTheFile) {
  submit();
  EXPECT_EQ(sluice_plan_wait(plan_->get(), kItems, &kNoTime), 0);
  EXPECT_EQ(sluice_plan_wait_item(plan_->get(), 3, &kNoTime), 0);
  EXPECT_EQ(plan_->counts().state, SLUICE_PLAN_RUNNING);
  for (const sluice_item_result_t& result : plan_->results()) EXPECT_EQ(result.state, SLUICE_ITEM_WAITING);
  gated_->open();
  plan_->collect();
  for (std::size_t number = 0; number < kItems; ++number) expect_bytes(number);
}

TEST_F(LifePlan, APrefixAndAnItemAreWaitedForByThemselves) {
  const Handle handle(fd_);
  plan_.emplace();
  add(handle.get(), 0, 8);
  add(gated_->handle(), 8, kItems);
  plan_->submit();
  EXPECT_EQ(sluice_plan_wait(plan_->get(), 8, nullptr), 8);
  EXPECT_EQ(sluice_plan_wait_item(plan_->get(), 5, nullptr), 1);
  EXPECT_EQ(sluice_plan_wait(plan_->get(), kItems, &kNoTime), 8);
  EXPECT_EQ(plan_->counts().items_in_front, 8U);
  constexpr timespec moment{0, 1'000'000};
  EXPECT_EQ(sluice_plan_wait_item(plan_->get(), kItems - 1, &moment), 0);
  gated_->open();
  EXPECT_EQ(sluice_plan_wait_item(plan_->get(), kItems - 1, nullptr), 1);
}

TEST_F(LifePlan, OnePlansStorageKeepsNoOtherWaiting) {
  submit();
  gated_->wait_until_inside();
  const Handle handle(fd_);
  const Memory memory(MemoryKind::plain, 2 * kItems * kPiece);
  Planned other;
  for (std::size_t at = 0; at < kItems; ++at) other.add(handle.get(), memory.at(at * kPiece), kPiece, at * kPiece);
  for (const sluice_item_result_t& result : other.run()) EXPECT_EQ(result.bytes, kPiece);
  EXPECT_EQ(plan_->counts().items_ended, 0U);
}

TEST_F(LifePlan, CancellingEndsWhatHasNotBegunAndLetsTheRestFinish) {
  submit();
  gated_->wait_until_inside();
  ASSERT_EQ(code(sluice_plan_cancel(plan_->get())), CU_FILE_SUCCESS);
  const std::size_t cancelled = plan_->counts().items_ended;
  EXPECT_GT(cancelled, 0U);
  EXPECT_LT(cancelled, kItems) << "what has begun keeps its memory";
  constexpr timespec moment{0, 1'000'000};
  EXPECT_LT(sluice_plan_wait(plan_->get(), kItems, &moment), static_cast<long>(kItems));
  EXPECT_EQ(plan_->counts().items_ended, cancelled) << "what has begun cannot have ended";
  EXPECT_EQ(plan_->counts().state, SLUICE_PLAN_RUNNING);
  EXPECT_TRUE(all_bytes(kUntouched, memory_->get()));
  gated_->open();
  const auto results = plan_->collect();
  for (std::size_t number = 0; number < kItems; ++number) {
    if (results[number].state == SLUICE_ITEM_DONE) {
      expect_bytes(number);
    } else {
      EXPECT_EQ(results[number].state, SLUICE_ITEM_CANCELLED) << number;
      EXPECT_EQ(results[number].bytes, 0U) << number;
      EXPECT_TRUE(all_bytes(kUntouched, memory_->get(2 * number * kPiece, kPiece))) << number;
    }
  }
  EXPECT_EQ(plan_->counts().items_cancelled, cancelled);
}

TEST_F(LifePlan, DestroyingWaitsForWhatHasBegun) {
  submit();
  gated_->wait_until_inside();
  std::atomic<bool> destroyed{false};
  const sluice_plan_t dying = plan_->get();
  plan_->forget();
  std::thread ending([&] {
    EXPECT_EQ(code(sluice_plan_destroy(dying)), CU_FILE_SUCCESS);
    destroyed = true;
  });
  // It is dead for others as soon as its end waits.
  while (sluice_plan_wait(dying, 0, &kNoTime) >= 0) std::this_thread::yield();
  EXPECT_FALSE(destroyed);
  gated_->open();
  ending.join();
  memory_->fill(kUntouched);
  EXPECT_TRUE(all_bytes(kUntouched, memory_->get())) << "nothing of it comes any more";
}

TEST_F(LifePlan, ThoseThatWaitForAPlanHearOfItsEnd) {
  submit();
  gated_->wait_until_inside();
  const sluice_plan_t dying = plan_->get();
  plan_->forget();
  std::atomic<long> heard{-2};
  std::thread waiting([&] { heard = sluice_plan_wait(dying, kItems, nullptr); });
  std::thread ending([&] { sluice_plan_destroy(dying); });
  gated_->open();
  waiting.join();
  ending.join();
  // It came before the end, or behind it.
  EXPECT_TRUE(heard == static_cast<long>(kItems) || heard == -1) << heard;
}

TEST_F(LifePlan, DeregisteringAFileWaitsForItsItems) {
  submit();
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
  for (const sluice_item_result_t& result : plan_->collect()) EXPECT_EQ(result.bytes, kPiece);
}

TEST_F(LifePlan, DeregisteringABufferWaitsForItsItems) {
  ASSERT_EQ(code(cuFileBufRegister(memory_->address(), memory_->size(), 0)), CU_FILE_SUCCESS);
  submit();
  gated_->wait_until_inside();
  std::atomic<bool> gone{false};
  std::atomic<bool> opened{false};
  std::thread ending([&] {
    EXPECT_EQ(code(cuFileBufDeregister(memory_->address())), CU_FILE_SUCCESS);
    EXPECT_TRUE(opened);
    gone = true;
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(gone);
  opened = true;
  gated_->open();
  ending.join();
  for (const sluice_item_result_t& result : plan_->collect()) EXPECT_EQ(result.bytes, kPiece);
}

TEST_F(LifePlan, ClosingTheDriverEndsPlans) {
  submit();
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
  EXPECT_EQ(sluice_plan_wait(plan_->get(), kItems, nullptr), -1);
  EXPECT_EQ(code(sluice_plan_destroy(plan_->get())), CU_FILE_INVALID_VALUE);
  plan_->forget();
  memory_->fill(kUntouched);
  EXPECT_TRUE(all_bytes(kUntouched, memory_->get()));
}

TEST_F(LifePlan, AChildOfForkHasNoPlansAndItsParentKeepsThem) {
  submit();
  gated_->wait_until_inside();
  const sluice_plan_t plan = plan_->get();
  EXPECT_EQ(in_child([&]() -> std::string {
              if (sluice_plan_wait(plan, kItems, nullptr) != -1) return "the child waits for its parent's plan";
              if (code(sluice_plan_destroy(plan)) != CU_FILE_INVALID_VALUE) return "the child ends its parent's plan";
              if (!life::children_may_start_threads) return "";
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              const Memory memory(MemoryKind::plain, kPiece);
              Planned own;
              own.add(handle.get(), memory.address(), kPiece, 0);
              return answer_of(own.run().front()) == ssize_t{kPiece} ? "" : "a plan of the child's own fails";
            }),
            "");
  gated_->open();
  plan_->collect();
  for (std::size_t number = 0; number < kItems; ++number) expect_bytes(number);
}

class LifePlanStreams : public LifePlan {
 protected:
  void SetUp() override {
    LifePlan::SetUp();
    if (!available(MemoryKind::device)) GTEST_SKIP() << "no CUDA device";
    copy_.emplace(MemoryKind::pinned, memory_->size());
    stream_.emplace();
  }
  void TearDown() override {
    gated_->open();
    stream_.reset();
    copy_.reset();
    LifePlan::TearDown();
  }
  void wait_and_copy(std::size_t items) {
    ASSERT_EQ(code(sluice_plan_wait_in_stream(plan_->get(), items, stream_->get())), CU_FILE_SUCCESS)
        << sluice_last_error();
    ASSERT_EQ(cuda()->to_host_async(copy_->address(), reinterpret_cast<CudaAddress>(memory_->address()),
                                    memory_->size(), stream_->get()),
              0);
  }

  std::optional<Memory> copy_;
  std::optional<Stream> stream_;
};

TEST_F(LifePlanStreams, AStreamWaitsAndItsProgramDoesNot) {
  submit(SLUICE_PLAN_FOR_STREAMS);
  gated_->wait_until_inside();
  copy_->fill(0);
  wait_and_copy(kItems);
  EXPECT_TRUE(all_bytes(0, copy_->get())) << "nothing has ended";
  gated_->open();
  stream_->synchronize();
  for (std::size_t number = 0; number < kItems; ++number) {
    EXPECT_TRUE(same_bytes(std::span(gated_->content()).subspan(2 * number * kPiece, kPiece),
                           copy_->get(2 * number * kPiece, kPiece)))
        << number;
  }
}

TEST_F(LifePlanStreams, AStreamThatWaitsForAPrefixGoesOnBeforeTheRest) {
  const Handle handle(fd_);
  plan_.emplace(CUFILE_READ, SLUICE_PLAN_FOR_STREAMS);
  add(handle.get(), 0, 8);
  add(gated_->handle(), 8, kItems);
  plan_->submit();
  wait_and_copy(8);
  stream_->synchronize();
  EXPECT_TRUE(same_bytes(std::span(file_.content()).first(kPiece), copy_->get(0, kPiece)));
  EXPECT_EQ(plan_->counts().state, SLUICE_PLAN_RUNNING);
}

TEST_F(LifePlanStreams, AStreamThatWaitsForAPlanOutlivesIt) {
  submit(SLUICE_PLAN_FOR_STREAMS);
  gated_->wait_until_inside();
  wait_and_copy(kItems);
  const sluice_plan_t dying = plan_->get();
  plan_->forget();
  std::thread ending([&] { EXPECT_EQ(code(sluice_plan_destroy(dying)), CU_FILE_SUCCESS); });
  while (sluice_plan_wait(dying, 0, &kNoTime) >= 0) std::this_thread::yield();
  gated_->open();
  ending.join();
  stream_->synchronize();
}

}  // namespace
}  // namespace sluice::contract::life_plan_test
