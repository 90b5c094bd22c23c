// SPDX-License-Identifier: Apache-2.0
// Plans: every byte of every range comes to its place and nothing else is touched, whatever the ranges are; and what is
// refused. What may be done to a plan whose files stand still: life_plan_test.cpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/planned.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr unsigned char kUntouched = 0x5a;

struct Piece {
  std::size_t file;  // by its number
  std::size_t at;
  std::size_t memory_at;
  std::size_t size;
};

class PlanOf : public CufileTest, public ::testing::WithParamInterface<MemoryKind> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    if (!available(GetParam())) GTEST_SKIP() << "no " << name_of(GetParam()) << " memory here";
  }

  // Reads the pieces with one plan and compares all of the memory.
  static void read_pieces(const std::vector<const ScratchFile*>& files, const std::vector<Piece>& pieces, int flags,
                          std::size_t memory_size) {
    std::vector<Fd> descriptors;
    std::vector<std::optional<Handle>> handles(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
      descriptors.push_back(files[i]->open(flags));
      handles[i].emplace(descriptors.back());
    }
    const Memory memory(GetParam(), memory_size);
    memory.fill(kUntouched);
    Planned plan;
    Bytes expected(memory_size, kUntouched);
    for (const Piece& piece : pieces) {
      plan.add(handles[piece.file]->get(), memory.at(piece.memory_at), piece.size, piece.at);
      const Bytes& content = files[piece.file]->content();
      const std::size_t there = piece.at < content.size() ? std::min(piece.size, content.size() - piece.at) : 0;
      std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(piece.at), there,
                  expected.begin() + static_cast<std::ptrdiff_t>(piece.memory_at));
    }
    const auto results = plan.run();
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::size_t length = files[pieces[i].file]->content().size();
      const std::size_t there = pieces[i].at < length ? std::min(pieces[i].size, length - pieces[i].at) : 0;
      EXPECT_EQ(results[i].state, SLUICE_ITEM_DONE) << i;
      EXPECT_EQ(results[i].error, 0) << i;
      EXPECT_EQ(results[i].bytes, there) << i;
    }
    EXPECT_TRUE(same_bytes(expected, memory.get()));
  }
};

TEST_P(PlanOf, RangesOfSeveralFilesComeToTheirPlaces) {
  const ScratchFile one(1'000'003);
  const ScratchFile other(700'001);
  std::vector<Piece> pieces;
  std::size_t memory_at = 1;
  for (std::size_t i = 0; i < 600; ++i) {
    const std::size_t file = i % 3 == 0 ? 1 : 0;
    const std::size_t length = file == 0 ? one.content().size() : other.content().size();
    const std::size_t size = 1 + i * 37 % 5000;
    pieces.push_back({file, i * 7919 % (length - size), memory_at, size});
    memory_at += size + i % 3;
  }
  for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) read_pieces({&one, &other}, pieces, flags, memory_at + 17);
}

TEST_P(PlanOf, NeighboursThatGoAsOneAreEachTold) {
  const ScratchFile file(3'000'000);
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < 2'999'000; at += 3000) pieces.push_back({0, at, at, 3000});
  std::reverse(pieces.begin(), pieces.end());
  read_pieces({&file}, pieces, O_RDONLY, 3'000'000);
}

TEST_P(PlanOf, RangesLargerThanATransferComeInPieces) {
  constexpr std::size_t size = (std::size_t{68} << 20U) + 12'345;
  const ScratchFile file(size);
  read_pieces({&file}, {{0, 4321, 77, size - 4321}}, O_RDONLY, size);
}

TEST_P(PlanOf, EmptyRangesAndRangesBehindTheEndHaveNothing) {
  const ScratchFile file(10'000);
  read_pieces(
      {&file},
      {{0, 0, 0, 0}, {0, 9'000, 0, 4'000}, {0, 20'000, 5'000, 100}, {0, 13'000, 4'000, 1'000}, {0, 5, 6'000, 0}},
      O_RDONLY, 8'000);
}

TEST_P(PlanOf, WhatMayNotHaveEndedIsAPartOfNeighboursThatCameShort) {
  // 40 ranges of 1000 bytes, one behind the other, of which the file has 25 and a half.
  const ScratchFile file(25'500);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < 40; ++i) pieces.push_back({0, i * 1000, i * 1000, 1000});
  read_pieces({&file}, pieces, O_RDONLY, 40'000);
}

TEST_P(PlanOf, WritesComeToTheirPlaces) {
  const ScratchFile file(2'000'000);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(GetParam(), 1'500'000);
  const Bytes bytes = random_bytes(memory.size(), 11);
  memory.put(0, bytes);
  Planned plan(CUFILE_WRITE);
  Bytes expected = file.content();
  for (std::size_t i = 0; i < 100; ++i) {
    const std::size_t size = 500 + i * 101 % 9'000;
    plan.add(handle.get(), memory.at(i * 14'000), size, i * 19'000 + i);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * 14'000), size,
                expected.begin() + static_cast<std::ptrdiff_t>(i * 19'000 + i));
  }
  for (const sluice_item_result_t& result : plan.run()) EXPECT_EQ(result.state, SLUICE_ITEM_DONE) << result.error;
  EXPECT_TRUE(same_bytes(expected, content_of(file.path())));
}

TEST_P(PlanOf, RegisteredBuffersSideBySideAreEachHeld) {
  const ScratchFile file(400'000);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(GetParam(), 400'000);
  const Registration first(memory.address(), 200'000);
  const Registration second(memory.at(200'000), 200'000);
  Planned plan;
  for (std::size_t at = 0; at < 400'000; at += 100'000) plan.add(handle.get(), memory.at(at), 100'000, at);
  for (const sluice_item_result_t& result : plan.run()) EXPECT_EQ(result.bytes, 100'000U);
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlanOf,
                         ::testing::Values(MemoryKind::device, MemoryKind::managed, MemoryKind::pinned,
                                           MemoryKind::plain),
                         [](const auto& parameters) { return std::string(name_of(parameters.param)); });

class Plans : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    handle_.emplace(fd_);
    memory_.emplace(usual_memory(), kSize);
  }
  void TearDown() override {
    memory_.reset();
    handle_.reset();
    CufileTest::TearDown();
  }

  static constexpr std::size_t kSize = 100'000;
  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDONLY);
  std::optional<Handle> handle_;
  std::optional<Memory> memory_;
};

TEST_F(Plans, SeveralDevicesAndTheHostAreServedByOne) {
  std::vector<std::unique_ptr<Memory>> memories;
  memories.push_back(std::make_unique<Memory>(MemoryKind::plain, kSize));
  const int devices = cuda() != nullptr ? cuda()->devices : 0;
  for (int device = 0; device < devices; ++device) {
    memories.push_back(std::make_unique<Memory>(MemoryKind::device, kSize, device));
  }
  Planned plan;
  for (std::size_t at = 0; at < kSize; at += 1000) {
    for (const auto& memory : memories) plan.add(handle_->get(), memory->at(at), 1000, at);
  }
  for (const sluice_item_result_t& result : plan.run()) EXPECT_EQ(result.bytes, 1000U);
  for (const auto& memory : memories) EXPECT_TRUE(same_bytes(file_.content(), memory->get()));
}

// Ranges that touch in the file and in memory are carried as one, but not over the end of an allocation.
TEST_F(Plans, NeighboursInTwoAllocationsComeToEach) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "no CUDA device";
  constexpr std::size_t count = 32;
  constexpr std::size_t size = 1 << 20;
  const ScratchFile file(count * size);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Memory>> buffers;
    for (std::size_t i = 0; i < count; ++i) buffers.push_back(std::make_unique<Memory>(MemoryKind::device, size));
    std::ranges::sort(buffers, std::less<>(), [](const auto& buffer) { return buffer->address(); });
    const auto touches = [](const auto& one, const auto& next) { return one->at(size) == next->address(); };
    if (std::ranges::adjacent_find(buffers, touches) == buffers.end()) GTEST_SKIP() << "no two allocations touch here";
    Planned plan;
    for (std::size_t i = 0; i < count; ++i) plan.add(handle.get(), buffers[i]->address(), size, i * size);
    for (const sluice_item_result_t& result : plan.run()) ASSERT_EQ(result.bytes, size) << "round " << round;
    for (std::size_t i = 0; i < count; ++i) {
      const auto begin = file.content().begin() + static_cast<std::ptrdiff_t>(i * size);
      ASSERT_TRUE(same_bytes(Bytes(begin, begin + static_cast<std::ptrdiff_t>(size)), buffers[i]->get())) << i;
    }
  }
}

TEST_F(Plans, WhatCannotBeARangeIsRefusedByItsNumber) {
  const Fd write_only = file_.open(O_WRONLY);
  const Handle writes(write_only);
  const auto refused = [&](sluice_range_t range) {
    const sluice_range_t ranges[] = {{handle_->get(), 0, memory_->address(), 10}, range};
    sluice_plan_t plan = nullptr;
    const int answer = code(sluice_plan_create(ranges, 2, nullptr, &plan));
    EXPECT_EQ(plan, nullptr);
    EXPECT_NE(std::string(sluice_last_error()).find("range 1"), std::string::npos) << sluice_last_error();
    return answer;
  };
  void* const there = memory_->address();
  int garbage = 0;
  EXPECT_EQ(refused({handle_->get(), 0, nullptr, 10}), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(refused({handle_->get(), -1, there, 10}), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(refused({handle_->get(), 0, there, ~std::size_t{0}}), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(refused({handle_->get(), std::numeric_limits<off_t>::max() - 5, there, 10}), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(refused({nullptr, 0, there, 10}), CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(refused({&garbage, 0, there, 10}), CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(refused({writes.get(), 0, there, 10}), CU_FILE_INVALID_FILE_OPEN_FLAG);
}

TEST_F(Plans, OtherWrongArgumentsAreRefused) {
  const sluice_range_t range{handle_->get(), 0, memory_->address(), 10};
  sluice_plan_t plan = nullptr;
  EXPECT_EQ(code(sluice_plan_create(nullptr, 1, nullptr, &plan)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(sluice_plan_create(&range, 0, nullptr, &plan)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(sluice_plan_create(&range, 1, nullptr, nullptr)), CU_FILE_INVALID_VALUE);
  const sluice_plan_options_t bad[] = {{0, CUFILE_READ, 0, 0},
                                       {sizeof bad[0], static_cast<CUfileOpcode_t>(7), 0, 0},
                                       {sizeof bad[0], CUFILE_READ, 8, 0}};
  for (const sluice_plan_options_t& options : bad) {
    EXPECT_EQ(code(sluice_plan_create(&range, 1, &options, &plan)), CU_FILE_INVALID_VALUE);
  }
  ASSERT_EQ(code(sluice_plan_create(&range, 1, nullptr, &plan)), CU_FILE_SUCCESS);
  EXPECT_EQ(sluice_plan_wait(plan, 1, nullptr), -1) << "of a plan that was not submitted nothing ends";
  EXPECT_EQ(sluice_plan_wait_item(plan, 0, nullptr), -1);
  EXPECT_EQ(code(sluice_plan_submit(plan)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(sluice_plan_submit(plan)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(sluice_plan_wait(plan, 2, nullptr), -1);
  EXPECT_EQ(sluice_plan_wait_item(plan, 1, nullptr), -1);
  EXPECT_EQ(sluice_plan_wait(plan, 1, nullptr), 1);
  sluice_item_result_t results[2];
  EXPECT_EQ(code(sluice_plan_results(plan, 0, 2, results)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(sluice_plan_results(plan, 2, 0, results)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(sluice_plan_results(plan, 0, 1, nullptr)), CU_FILE_INVALID_VALUE);
  sluice_plan_counts_t counts{};
  EXPECT_EQ(code(sluice_plan_progress(plan, &counts)), CU_FILE_INVALID_VALUE) << "its size is not set";
  sluice_explanation_t explanation{};
  EXPECT_EQ(code(sluice_plan_explain(plan, 1, &explanation)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(sluice_plan_destroy(plan)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(sluice_plan_destroy(plan)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(sluice_plan_cancel(plan)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(sluice_plan_wait(plan, 0, nullptr), -1);
  EXPECT_EQ(sluice_plan_eventfd(plan), -1);
  EXPECT_EQ(code(sluice_plan_destroy(nullptr)), CU_FILE_INVALID_VALUE);
}

TEST_F(Plans, AFileThatWasDeregisteredBeforeItBeginsIsTold) {
  Planned plan;
  plan.add(handle_->get(), memory_->address(), 10, 0);
  plan.make();
  handle_->deregister();
  EXPECT_EQ(code(sluice_plan_submit(plan.get())), CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(plan.counts().state, SLUICE_PLAN_MADE);
}

TEST_F(Plans, OneThatIsCancelledBeforeItBeginsHasEnded) {
  memory_->fill(kUntouched);
  Planned plan;
  plan.add(handle_->get(), memory_->address(), kSize, 0);
  plan.make();
  ASSERT_EQ(code(sluice_plan_cancel(plan.get())), CU_FILE_SUCCESS);
  EXPECT_EQ(code(sluice_plan_submit(plan.get())), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(plan.collect().front().state, SLUICE_ITEM_CANCELLED);
  EXPECT_EQ(plan.counts().items_cancelled, 1U);
  EXPECT_TRUE(all_bytes(kUntouched, memory_->get()));
}

TEST_F(Plans, TheDescriptorTellsOfEveryItem) {
  Planned plan;
  for (std::size_t at = 0; at < kSize; at += 500) plan.add(handle_->get(), memory_->at(at), 500, at);
  plan.make();
  const int descriptor = sluice_plan_eventfd(plan.get());
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(sluice_plan_eventfd(plan.get()), descriptor);
  std::uint64_t more = 0;
  EXPECT_EQ(::read(descriptor, &more, sizeof more), -1) << "nothing has ended";
  EXPECT_EQ(errno, EAGAIN);
  plan.submit();
  for (std::uint64_t ended = 0; ended < plan.count(); ended += more) {
    pollfd waiting{descriptor, POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, 60'000), 1) << ended;
    ASSERT_EQ(::read(descriptor, &more, sizeof more), ssize_t{sizeof more});
  }
  EXPECT_EQ(plan.counts().items_ended, plan.count());
  EXPECT_EQ(plan.counts().bytes_in_place, kSize);
}

TEST_F(Plans, ADescriptorThatComesLateTellsOfWhatHasEnded) {
  Planned plan;
  plan.add(handle_->get(), memory_->address(), 500, 0);
  plan.run();
  std::uint64_t ended = 0;
  ASSERT_EQ(::read(sluice_plan_eventfd(plan.get()), &ended, sizeof ended), ssize_t{sizeof ended});
  EXPECT_EQ(ended, 1U);
}

TEST_F(Plans, AnItemIsExplainedAsACallWouldBe) {
  Planned plan;
  plan.add(handle_->get(), memory_->at(100), 4096, 8192);
  plan.make();
  sluice_explanation_t of_item{};
  sluice_explanation_t of_call{};
  ASSERT_EQ(code(sluice_plan_explain(plan.get(), 0, &of_item)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(sluice_explain(handle_->get(), memory_->at(100), 0, CUFILE_READ, 4096, 8192, &of_call)),
            CU_FILE_SUCCESS);
  EXPECT_EQ(of_item.path, of_call.path);
  EXPECT_EQ(of_item.reason, of_call.reason);
  const sluice_item_result_t result = plan.run().front();
  EXPECT_EQ(result.path, of_item.path);
  EXPECT_EQ(result.reason, of_item.reason);
}

TEST_F(Plans, AStreamGoesOnWithTheBytesInPlace) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "no CUDA device";
  const Memory copy(MemoryKind::pinned, kSize);
  for (int round = 0; round < 20; ++round) {
    copy.fill(kUntouched);
    memory_->fill(kUntouched);
    const Stream stream;
    Planned plan(CUFILE_READ, SLUICE_PLAN_FOR_STREAMS);
    for (std::size_t at = 0; at < kSize; at += 10'000) plan.add(handle_->get(), memory_->at(at), 10'000, at);
    plan.submit();
    ASSERT_EQ(code(sluice_plan_wait_in_stream(plan.get(), plan.count(), stream.get())), CU_FILE_SUCCESS)
        << sluice_last_error();
    ASSERT_EQ(
        cuda()->to_host_async(copy.address(), reinterpret_cast<CudaAddress>(memory_->address()), kSize, stream.get()),
        0);
    stream.synchronize();
    ASSERT_TRUE(same_bytes(file_.content(), copy.get())) << round;
  }
}

TEST_F(Plans, AStreamWaitsOnlyForAPlanThatSaysSo) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "no CUDA device";
  const Stream stream;
  Planned plan;
  plan.add(handle_->get(), memory_->address(), 500, 0);
  plan.submit();
  EXPECT_EQ(code(sluice_plan_wait_in_stream(plan.get(), 1, stream.get())), CU_FILE_INVALID_VALUE);
  Planned other(CUFILE_READ, SLUICE_PLAN_FOR_STREAMS);
  other.add(handle_->get(), memory_->address(), 500, 0);
  other.make();
  EXPECT_EQ(code(sluice_plan_wait_in_stream(other.get(), 1, stream.get())), CU_FILE_INVALID_VALUE) << "not submitted";
  other.submit();
  EXPECT_EQ(code(sluice_plan_wait_in_stream(other.get(), 2, stream.get())), CU_FILE_INVALID_VALUE);
}

TEST_F(Plans, AStreamThatIsCapturedDoesNotWait) {
  if (!available(MemoryKind::device) || cuda()->begin_capture == nullptr) GTEST_SKIP() << "no stream can be captured";
  const Stream stream;
  Planned plan(CUFILE_READ, SLUICE_PLAN_FOR_STREAMS);
  plan.add(handle_->get(), memory_->address(), 500, 0);
  plan.submit();
  constexpr int thread_local_capture = 1;
  ASSERT_EQ(cuda()->begin_capture(stream.get(), thread_local_capture), 0);
  EXPECT_EQ(code(sluice_plan_wait_in_stream(plan.get(), 1, stream.get())), CU_FILE_ASYNC_NOT_SUPPORTED);
  void* graph = nullptr;
  EXPECT_EQ(cuda()->end_capture(stream.get(), &graph), 0) << "the capture is intact";
  if (graph != nullptr) cuda()->graph_destroy(graph);
}

TEST_F(Plans, ManyAtATimeAreAllServed) {
  std::vector<std::unique_ptr<Planned>> plans;
  std::vector<std::unique_ptr<Memory>> memories;
  for (std::size_t i = 0; i < 24; ++i) {
    memories.push_back(std::make_unique<Memory>(i % 2 == 0 ? usual_memory() : MemoryKind::plain, kSize));
    plans.push_back(std::make_unique<Planned>(CUFILE_READ, 0, i % 5));
    for (std::size_t at = 0; at < kSize; at += 1000 + 500 * (i % 3)) {
      plans.back()->add(handle_->get(), memories.back()->at(at), std::min<std::size_t>(900, kSize - at), at);
    }
    plans.back()->submit();
  }
  for (const auto& plan : plans) {
    for (const sluice_item_result_t& result : plan->collect()) EXPECT_EQ(result.state, SLUICE_ITEM_DONE);
  }
}

}  // namespace
}  // namespace sluice::contract
