// SPDX-License-Identifier: Apache-2.0
// Failures of the file under transfers in streams: the count tells what was moved, or why nothing was, bytes behind it
// are as they were, and the stream goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "fault/interpose.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/deadline.h"
#include "support/stream_gate.h"

namespace sluice::fault::streams_test {
namespace {

using namespace support;
using support::Gate;

constexpr std::size_t kFileSize = 3'000'000;
constexpr unsigned char kUntouched = 0xa5;

struct Range {
  std::size_t size;
  std::size_t file_offset;
  std::size_t buffer_offset;
};
// One piece, several, so many that several threads read, and more than there are places for.
constexpr Range kSmall{4097, 8192, 3};
constexpr Range kAligned{65536, 8192, 4096};
constexpr Range kRagged{100003, 4097, 11};
constexpr Range kLarge{400001, 4097, 11};
constexpr Range kHuge{2'900'003, 4097, 11};
constexpr Range kAll[] = {kSmall, kAligned, kRagged, kLarge};

struct Call {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t moved = -77;
};

// Opening the file, the stream's flags (none: it is not registered), and what is done.
using Parameters = std::tuple<int, std::optional<unsigned>, Direction>;

class StreamFaults : public DeviceTest, public ::testing::WithParamInterface<Parameters> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(interposition_works()) << "the library does not call pread by way of the loader";
    handle_.emplace(fd_);
    stream_.emplace();
    memory_.emplace(MemoryKind::device, kFileSize);
    if (const auto flags = std::get<1>(GetParam())) {
      ASSERT_EQ(code(cuFileStreamRegister(stream_->get(), *flags)), CU_FILE_SUCCESS);
    }
  }
  void TearDown() override {
    if (stream_) stream_->synchronize();
    if (stream_ && std::get<1>(GetParam())) cuFileStreamDeregister(stream_->get());
    handle_.reset();
    DeviceTest::TearDown();
  }

  static bool direct() { return (std::get<0>(GetParam()) & O_DIRECT) != 0; }
  static Direction direction() { return std::get<2>(GetParam()); }

  void put(Call& call, const Range& range) const {
    call = {range.size, static_cast<off_t>(range.file_offset), static_cast<off_t>(range.buffer_offset), -77};
    auto* const entry = direction() == Direction::read ? &cuFileReadAsync : &cuFileWriteAsync;
    ASSERT_EQ(code(entry(handle_->get(), memory_->address(), &call.size, &call.file_offset, &call.buffer_offset,
                         &call.moved, stream_->get())),
              CU_FILE_SUCCESS);
  }

  // Runs one transfer under the plan, checks what must hold whatever happens, and answers the count.
  ssize_t run(const Range& range, std::vector<Step> steps) {
    const Bytes memory_before = direction() == Direction::read ? Bytes(kFileSize, kUntouched) : written_;
    const Bytes file_before = content_of(file_.path());
    memory_->put(0, memory_before);
    Call call;
    {
      const Plan plan(fd_.get(), direction(), std::move(steps));
      put(call, range);
      stream_->synchronize();
      calls_ = plan.calls();
    }
    EXPECT_GT(calls_, 0U) << "the plan was not asked";
    EXPECT_NE(call.moved, -77) << "the stream went on without a count";
    const auto count = static_cast<std::ptrdiff_t>(std::max<ssize_t>(call.moved, 0));
    Bytes memory_after = memory_before;
    Bytes file_after = file_before;
    const auto in_file = static_cast<std::ptrdiff_t>(range.file_offset);
    const auto in_memory = static_cast<std::ptrdiff_t>(range.buffer_offset);
    if (direction() == Direction::read) {
      std::copy_n(file_before.begin() + in_file, count, memory_after.begin() + in_memory);
    } else {
      std::copy_n(memory_before.begin() + in_memory, count, file_after.begin() + in_file);
    }
    EXPECT_TRUE(same_bytes(memory_after, memory_->get())) << "in memory, count " << call.moved;
    EXPECT_TRUE(same_bytes(file_after, content_of(file_.path()))) << "in the file, count " << call.moved;
    return call.moved;
  }
  static ssize_t whole(const Range& range) { return static_cast<ssize_t>(range.size); }

  const ScratchFile file_{kFileSize};
  const Fd fd_ = file_.open(O_RDWR | std::get<0>(GetParam()));
  const Bytes written_ = random_bytes(kFileSize, 0x33);
  std::optional<Handle> handle_;
  std::optional<Stream> stream_;
  std::optional<Memory> memory_;
  std::size_t calls_ = 0;
};

TEST_P(StreamFaults, ShortTransfersAreContinued) {
  for (const Range& range : {kSmall, kAligned, kRagged}) {
    for (const std::size_t length : {511U, 4096U, 16384U}) {
      SCOPED_TRACE(::testing::Message() << "size " << range.size << ", at most " << length << " a call");
      ASSERT_EQ(run(range, {shorten(length)}), whole(range));
    }
  }
  EXPECT_EQ(run(kLarge, {shorten(20000)}), whole(kLarge));
  EXPECT_EQ(run(kHuge, {shorten(20000)}), whole(kHuge));
  EXPECT_EQ(run(kHuge, {pass(), shorten(20000), pass()}), whole(kHuge));
}

TEST_P(StreamFaults, InterruptionsAreOutlasted) {
  for (const Range& range : kAll) {
    std::vector<Step> storm(100, fail(EINTR));
    storm.push_back(shorten(3000));
    storm.insert(storm.end(), 50, fail(EINTR));
    storm.push_back(pass());
    EXPECT_EQ(run(range, storm), whole(range)) << range.size;
  }
}

TEST_P(StreamFaults, AnErrorAtTheStartIsToldByTheCount) {
  for (const Range& range : kAll) {
    for (const int error : {EIO, ENOSPC, EROFS}) {
      EXPECT_EQ(run(range, {fail(error)}), -error) << range.size << ": " << strerrorname_np(error);
    }
  }
}

TEST_P(StreamFaults, AgainIsRetriedOrTold) {
  const ssize_t once = run(kAligned, {fail(EAGAIN), pass()});
  EXPECT_TRUE(once == whole(kAligned) || once == -EAGAIN) << once;
  EXPECT_EQ(run(kAligned, {fail(EAGAIN)}), -EAGAIN) << "for ever";
}

TEST_P(StreamFaults, AnErrorMidwayGivesWhatWasMoved) {
  for (const int error : {EIO, ENOSPC}) {
    for (const std::size_t before : {std::size_t{4096}, std::size_t{8192}, std::size_t{61440}}) {
      const ssize_t count = run(kAligned, {shorten(before), fail(error)});
      EXPECT_TRUE(count == -error || (count > 0 && count <= static_cast<ssize_t>(before)))
          << count << " after " << before << " and " << strerrorname_np(error);
    }
  }
}

// One request asks for many places, and fails for a bad one among them.
TEST_P(StreamFaults, WhatLiesInFrontOfABadPlaceOfADiskIsBrought) {
  const bool together = direct() && direction() == Direction::read && reads_disks_by_ring();
  const ssize_t count = run(kLarge, {fail(EIO), pass(), fail(EIO)});
  EXPECT_TRUE(count > 0 || (count == -EIO && !together)) << count;
}

TEST_P(StreamFaults, AnErrorAmongManyCallsCostsWhatLiesBehindIt) {
  for (const Range& range : {kRagged, kLarge, kHuge}) {
    for (const std::size_t good : {0U, 1U, 2U, 5U}) {
      for (const Step& step : {fail(EIO), nothing()}) {
        std::vector<Step> steps(good, pass());
        steps.push_back(step);
        steps.push_back(pass());
        const ssize_t count = run(range, steps);
        EXPECT_TRUE(count >= 0 || count == -EIO || count == -ENOSPC) << count << " behind " << good << " good calls";
      }
    }
  }
}

TEST_P(StreamFaults, WhatFollowsInTheStreamGoesOn) {
  const Gate gate;
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its stream";
  memory_->put(0, written_);
  std::deque<Call> calls(6);
  const auto address = reinterpret_cast<CudaAddress>(memory_->address());
  // Of the transfers that stand in the stream, those of one place in the file fail for as long as the plan does.
  {
    const Plan plan(fd_.get(), direction(), {fail(EIO)});
    gate.hold(stream_->get());
    for (std::size_t i = 0; i < 4; ++i) put(calls[i], kAll[i]);
    gate.open();
    stream_->synchronize();
    EXPECT_GT(plan.calls(), 0U);
  }
  ASSERT_EQ(cuda()->fill_async(address, 9, kFileSize, stream_->get()), 0);
  put(calls[4], kAligned);
  put(calls[5], kLarge);
  stream_->synchronize();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(calls[i].moved, -EIO) << i;
  EXPECT_EQ(calls[4].moved, whole(kAligned));
  EXPECT_EQ(calls[5].moved, whole(kLarge));
  const Bytes file = content_of(file_.path());
  EXPECT_TRUE(same_bytes(std::span(file).subspan(kLarge.file_offset, kLarge.size),
                         memory_->get(kLarge.buffer_offset, kLarge.size)));
}

TEST_P(StreamFaults, OneStreamsFileThatDoesNotAnswerHoldsNoOtherStreamUp) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its file";
  const ScratchFile file(kFileSize);
  const Fd fd = file.open(O_RDWR);
  const Handle other(fd);
  const Memory theirs(MemoryKind::device, kFileSize);
  memory_->put(0, written_);
  const Stream stream;
  Call still;
  Plan plan(fd_.get(), direction(), {block(), pass()});
  put(still, kRagged);
  plan.wait_until_blocked();
  for (const Range& range : kAll) {
    Call call{range.size, static_cast<off_t>(range.file_offset), static_cast<off_t>(range.buffer_offset), -77};
    ASSERT_EQ(code(cuFileReadAsync(other.get(), theirs.address(), &call.size, &call.file_offset, &call.buffer_offset,
                                   &call.moved, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_EQ(call.moved, whole(range));
  }
  EXPECT_EQ(still.moved, -77);
  plan.release();
  stream_->synchronize();
  EXPECT_EQ(still.moved, whole(kRagged));
}

TEST_P(StreamFaults, ARandomMixtureKeepsItsPromises) {
  Random random(run_seed());
  for (int round = 0; round < 20; ++round) {
    Range range{1 + random.below(150000), random.below(200000), random.below(200000)};
    if (round % 4 == 0) range = {300000 + random.below(100000), random.below(50000), random.below(50000)};
    if (round % 8 == 2) range = {1'000'000 + random.below(1'900'000), random.below(50000), random.below(50000)};
    std::vector<Step> steps;
    for (std::uint64_t i = random.below(12); i > 0; --i) {
      const std::uint64_t kind = random.below(4);
      if (kind == 0) steps.push_back(pass());
      if (kind == 1) steps.push_back(fail(EINTR));
      if (kind >= 2) steps.push_back(shorten(1 + random.below(40000)));
    }
    const bool fails = random.below(2) == 0;
    steps.push_back(fails ? fail(EIO) : pass());
    SCOPED_TRACE(::testing::Message() << "round " << round << ", SLUICE_TEST_SEED=" << run_seed() << ": size "
                                      << range.size << " at " << range.file_offset << ", buffer " << range.buffer_offset
                                      << (fails ? ", failing" : ", passing") << " at the end");
    const ssize_t count = run(range, steps);
    if (!fails) {
      ASSERT_EQ(count, whole(range));
    }
    ASSERT_TRUE(count > 0 || count == -EIO) << count;
    ASSERT_FALSE(HasFailure());
  }
}

class QuietStreams : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped()) memory_.emplace(MemoryKind::device, kFileSize);
  }

  int put(const Handle& from, Call& call, const Stream& where) {
    return code(cuFileReadAsync(from.get(), memory_->address(), &call.size, &call.file_offset, &call.buffer_offset,
                                &call.moved, where.get()));
  }
  // In a stream of its own, by whatever is left to serve it.
  void expect_served(const Handle& handle) {
    const Stream stream;
    for (const Range& range : kAll) {
      Call call{range.size};
      ASSERT_EQ(put(handle, call, stream), CU_FILE_SUCCESS);
      stream.synchronize();
      EXPECT_EQ(call.moved, static_cast<ssize_t>(range.size));
    }
  }

 private:
  std::optional<Memory> memory_;
};

TEST_F(QuietStreams, HaveSomebodyElseToServeThemWhenTheOneThatWatchedGetsStuck) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its file";
  const ScratchFile file(kFileSize);
  const Fd stuck_fd = file.open(O_RDWR);
  const Fd fd = file.open(O_RDWR);
  const Fd third_fd = file.open(O_RDWR);
  const Handle stuck_handle(stuck_fd);
  const Handle handle(fd);
  const Stream held;
  const Gate gate;
  // Of a size that the watcher takes for quick.
  Call stuck{kSmall.size};
  Call lost{kSmall.size};
  gate.hold(held.get());
  ASSERT_EQ(put(stuck_handle, stuck, held), CU_FILE_SUCCESS);
  {
    const Handle third(third_fd);
    ASSERT_EQ(put(third, lost, held), CU_FILE_SUCCESS);
    // Ending it waits for what stands in the stream, some seconds at most: so long nothing happens.
  }
  Plan plan(stuck_fd.get(), Direction::read, {block(), pass()});
  gate.open();
  plan.wait_until_blocked();
  expect_served(handle);
  EXPECT_EQ(stuck.moved, -77);
  plan.release();
  held.synchronize();
  EXPECT_EQ(stuck.moved, static_cast<ssize_t>(kSmall.size));
  EXPECT_EQ(lost.moved, -CU_FILE_HANDLE_NOT_REGISTERED);
}

TEST_F(QuietStreams, HaveAThirdWorkerToServeThemWhenThePollerAndItsSuccessorGetStuckAtOnce) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its file";
  const ScratchFile stuck_file(kFileSize);
  const ScratchFile file(kFileSize);
  const Fd stuck_fd = stuck_file.open(O_RDWR);
  const Fd third_fd = stuck_file.open(O_RDWR);
  const Fd fd = file.open(O_RDWR);
  const Handle stuck_handle(stuck_fd);
  const Handle handle(fd);
  std::array<Stream, 2> held;
  const Gate gate;
  std::array<Call, 2> stuck{Call{kSmall.size}, Call{kSmall.size}};
  Call lost{kSmall.size};
  for (std::size_t i = 0; i < held.size(); ++i) {
    gate.hold(held[i].get());
    ASSERT_EQ(put(stuck_handle, stuck[i], held[i]), CU_FILE_SUCCESS);
  }
  {
    const Handle third(third_fd);
    ASSERT_EQ(put(third, lost, held[0]), CU_FILE_SUCCESS);
    // Ending it waits for what stands in the stream, some seconds at most: so long nothing happens.
  }
  Plan plan(stuck_fd.get(), Direction::read, {block(), block(), pass()});
  gate.open();
  plan.wait_until_blocked();
  for (const Deadline deadline; plan.calls() < 2 && !deadline.has_passed();) std::this_thread::yield();
  EXPECT_EQ(plan.calls(), 2u);
  expect_served(handle);
  plan.release();
  for (const Stream& one : held) one.synchronize();
  for (const Call& call : stuck) EXPECT_EQ(call.moved, static_cast<ssize_t>(kSmall.size));
  EXPECT_EQ(lost.moved, -CU_FILE_HANDLE_NOT_REGISTERED);
}

TEST_F(QuietStreams, LeaveTheDeviceToOthersWhileTheirFileDoesNotAnswer) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its file";
  if (!cuda()->soft || std::getenv("SLUICE_SOFTGPU_SMS") == nullptr) {
    GTEST_SKIP() << "needs a device that runs one kernel at a time";
  }
  const ScratchFile still_file(kFileSize);
  const ScratchFile file(kFileSize);
  const Fd still_fd = still_file.open(O_RDWR | O_DIRECT);
  const Fd fd = file.open(O_RDWR);
  const Handle still_handle(still_fd);
  const Handle handle(fd);
  auto* const query = cuda_function<int(CUstream)>("cuStreamQuery");
  // A call that is kept from the processor while it puts its work into the stream is taken for one that the driver
  // keeps, and its kernel is let come before the file was asked: then again.
  for (int attempt = 0; attempt < 5; ++attempt) {
    const Stream waiting;
    const Stream stream;
    Call still{kAligned.size};
    Call call{kAligned.size};
    Plan plan(still_fd.get(), Direction::read, {block(), pass()});
    ASSERT_EQ(put(still_handle, still, waiting), CU_FILE_SUCCESS);
    plan.wait_until_blocked();
    ASSERT_EQ(put(handle, call, stream), CU_FILE_SUCCESS);
    // Its kernel, which no one else's keeps out, comes and leaves.
    const Deadline deadline(std::chrono::seconds(5));
    while (query(stream.get()) != 0 && !deadline.has_passed()) std::this_thread::yield();
    const bool has_left = query(stream.get()) == 0;
    EXPECT_EQ(still.moved, -77);
    plan.release();
    waiting.synchronize();
    stream.synchronize();
    EXPECT_EQ(still.moved, static_cast<ssize_t>(kAligned.size));
    EXPECT_EQ(call.moved, static_cast<ssize_t>(kAligned.size));
    if (has_left || HasFailure()) return;
  }
  FAIL() << "a kernel that has nothing to do yet holds the device";
}

std::string name_of_parameters(const ::testing::TestParamInfo<Parameters>& info) {
  const auto& [flags, stream, direction] = info.param;
  return std::string((flags & O_DIRECT) != 0 ? "direct_" : "buffered_") +
         (stream ? "registered" + std::to_string(*stream) : "unregistered") +
         (direction == Direction::read ? "_read" : "_write");
}

INSTANTIATE_TEST_SUITE_P(Each, StreamFaults,
                         ::testing::Combine(::testing::Values(0, O_DIRECT),
                                            ::testing::Values(std::optional<unsigned>(), std::optional<unsigned>(15)),
                                            ::testing::Values(Direction::read, Direction::write)),
                         name_of_parameters);

// What the system refuses behind bytes that are in the file already: the count tells of these, as a call's does, and
// who goes on behind them hears why.
TEST(RefusedTails, OfStreamWritesAreToldAsThoseOfCalls) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const ContextScope context(primary_context(0));
  constexpr std::size_t size = 70'000;
  constexpr std::size_t whole_pages = size / 4096 * 4096;
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDWR | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, size);
  const Stream stream;
  const auto write_in_stream = [&](std::size_t begin) {
    Call call{size - begin, static_cast<off_t>(begin), static_cast<off_t>(begin), -77};
    EXPECT_EQ(code(cuFileWriteAsync(handle.get(), memory.address(), &call.size, &call.file_offset, &call.buffer_offset,
                                    &call.moved, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    return call.moved;
  };
  {
    const Plan plan(fd.get(), Direction::write, {pass(), fail(EPERM)});
    EXPECT_EQ(write_file(handle.get(), memory.address(), size), moved(whole_pages));
  }
  {
    const Plan plan(fd.get(), Direction::write, {pass(), fail(EPERM)});
    const ssize_t count = write_in_stream(0);  // how many pages go with one call is the library's to choose
    EXPECT_GT(count, 0);
    EXPECT_LE(count, static_cast<ssize_t>(whole_pages));
    EXPECT_EQ(count % 4096, 0);
    const auto told = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    EXPECT_TRUE(same_bytes(memory.get(0, told), plain_read(file.open(O_RDONLY).get(), 0, told)));
  }
  const Plan plan(fd.get(), Direction::write, {fail(EPERM)});
  EXPECT_EQ(write_in_stream(whole_pages), -EPERM);
}

}  // namespace
}  // namespace sluice::fault::streams_test
