// SPDX-License-Identifier: Apache-2.0
// Streams that the library makes for itself: with some of them a driver waits until all streams of the context have
// come to rest (an H200's with the 36th, 79th, 122nd and so on), and takes no copies until then. So they are not made
// while a stream of the program's waits. Each case has a context of its own, in which the program has made three
// streams more than in the case before; a library that makes three or more of its own then comes upon one that the
// driver waits with.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/planned.h"
#include "support/stream_gate.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kRead = (std::size_t{3} << 20U) + 4097;

void require(int result) {
  if (result != 0) throw std::runtime_error("the driver refuses: " + std::to_string(result));
}

// A context with so many streams of the program's, current until the end of this.
class ContextWithStreams {
 public:
  explicit ContextWithStreams(std::size_t count) {
    require(cuda()->context_create(&context_, 0, 0));
    while (streams_.size() < count) require(cuda()->stream_create(&streams_.emplace_back(), 1));
    require(cuda()->allocate(&memory_, kRead));
    void* pinned = nullptr;
    require(cuda()->allocate_host(&pinned, kRead + 2 * sizeof(std::uint32_t), 0));
    bytes_ = static_cast<unsigned char*>(pinned);
    clear();
  }
  ~ContextWithStreams() { cuda()->context_destroy(context_); }
  ContextWithStreams(const ContextWithStreams&) = delete;
  ContextWithStreams& operator=(const ContextWithStreams&) = delete;

  CudaContext get() const { return context_; }
  CUstream stream(std::size_t number) const { return streams_[number]; }
  void* memory() const { return reinterpret_cast<void*>(memory_); }
  void clear() const {
    std::fill_n(bytes_, kRead, static_cast<unsigned char>(0));
    require(cuda()->fill(memory_, 0, kRead));
    require(cuda()->context_synchronize());  // a fill may end after its call
  }
  // Puts a copy of the memory into the stream.
  void bring(CUstream stream) const { require(cuda()->to_host_async(bytes_, memory_, kRead, stream)); }
  std::span<const unsigned char> brought() const { return {bytes_, kRead}; }

  void hold(CUstream stream) const {
    std::atomic_ref(*gate()).store(0, std::memory_order_release);
    using Wait = int(CUstream, CudaAddress, std::uint32_t, unsigned);
    require(cuda_function<Wait>("cuStreamWaitValue32_v2")(stream, reinterpret_cast<CudaAddress>(gate()), 1, 0));
  }
  void open() const { std::atomic_ref(*gate()).store(1, std::memory_order_release); }

 private:
  std::uint32_t* gate() const { return reinterpret_cast<std::uint32_t*>(bytes_ + (kRead + 3) / 4 * 4); }

  CudaContext context_ = nullptr;
  std::vector<CUstream> streams_;
  CudaAddress memory_ = 0;
  unsigned char* bytes_ = nullptr;
};

class OwnStreams : public DeviceTest, public ::testing::WithParamInterface<std::size_t> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (cuda() == nullptr) return;
    if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its stream";
    context_.emplace(kWaiting + GetParam());
    handle_.emplace(fd_);
    // Each registration waits for the kernels, but not for ever: beside other programs a device takes longer.
    for (int more = 0; more < 20; ++more) const Handle again(other_fd_);
  }
  void TearDown() override {
    handle_.reset();
    context_.reset();
    DeviceTest::TearDown();
  }

  static constexpr std::size_t kWaiting = 8;
  const ScratchFile file_{kRead};
  const Fd fd_ = file_.open(O_RDONLY);
  const ScratchFile other_{1};
  const Fd other_fd_ = other_.open(O_RDONLY);
  std::optional<ContextWithStreams> context_;
  std::optional<Handle> handle_;
};

TEST_P(OwnStreams, AreNotMadeWhileAStreamWaitsForAPlan) {
  for (int round = 0; round < 3; ++round) {
    context_->clear();
    Planned plan(CUFILE_READ, SLUICE_PLAN_FOR_STREAMS, 8);
    const CUstream stream = context_->stream(0);
    auto* const memory = static_cast<std::byte*>(context_->memory());
    for (std::size_t at = 0; at < kRead; at += 70'000) {
      plan.add(handle_->get(), memory + at, std::min<std::size_t>(70'000, kRead - at), at);
    }
    plan.submit();
    ASSERT_EQ(code(sluice_plan_wait_in_stream(plan.get(), plan.count(), stream)), CU_FILE_SUCCESS)
        << sluice_last_error();
    context_->bring(stream);
    ASSERT_EQ(cuda()->stream_synchronize(stream), 0);
    for (const sluice_item_result_t& result : plan.collect()) ASSERT_EQ(result.error, 0) << round;
    ASSERT_TRUE(same_bytes(file_.content(), context_->brought())) << round;
  }
}

TEST_P(OwnStreams, AreNotMadeWhileStreamsWaitForTheirReads) {
  struct Read {
    std::size_t size;
    off_t file_offset;
    off_t buffer_offset;
    ssize_t moved;
  };
  constexpr std::size_t part = kRead / kWaiting + 1;
  std::array<Read, kWaiting> reads{};
  for (std::size_t i = 0; i < kWaiting; ++i) {
    const std::size_t at = i * part;
    reads[i] = {std::min(part, kRead - at), static_cast<off_t>(at), static_cast<off_t>(at), -77};
    ASSERT_EQ(code(cuFileReadAsync(handle_->get(), context_->memory(), &reads[i].size, &reads[i].file_offset,
                                   &reads[i].buffer_offset, &reads[i].moved, context_->stream(i))),
              CU_FILE_SUCCESS);
  }
  for (std::size_t i = 0; i < kWaiting; ++i) {
    ASSERT_EQ(cuda()->stream_synchronize(context_->stream(i)), 0);
    EXPECT_EQ(reads[i].moved, static_cast<ssize_t>(reads[i].size)) << i;
  }
  context_->bring(context_->stream(0));
  ASSERT_EQ(cuda()->stream_synchronize(context_->stream(0)), 0);
  EXPECT_TRUE(same_bytes(file_.content(), context_->brought()));
}

// What the library has made ahead, when the file was registered, does for the first calls.
TEST_P(OwnStreams, AreThereForCallsBesideAStreamThatWaitsForTheProgram) {
  context_->hold(context_->stream(0));
  std::vector<std::thread> threads;
  constexpr std::size_t part = kRead / 4 + 1;
  for (std::size_t at = 0; at < kRead; at += part) {
    threads.emplace_back([=, this] {
      const ContextScope here(context_->get());
      const std::size_t size = std::min(part, kRead - at);
      EXPECT_EQ(read_file(handle_->get(), context_->memory(), size, static_cast<off_t>(at), static_cast<off_t>(at)),
                moved(static_cast<ssize_t>(size)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  context_->open();
  context_->bring(context_->stream(0));
  ASSERT_EQ(cuda()->stream_synchronize(context_->stream(0)), 0);
  EXPECT_TRUE(same_bytes(file_.content(), context_->brought()));
}

INSTANTIATE_TEST_SUITE_P(Beside, OwnStreams, ::testing::Range<std::size_t>(0, 36, 3));

}  // namespace
}  // namespace sluice::contract
