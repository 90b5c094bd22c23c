// SPDX-License-Identifier: Apache-2.0
// Random work in several streams against a model that does the same at once: each stream has its own part of the file
// and its own memory, so a stream's order alone decides what is where in the end. Work comes in bursts; between two of
// them the file is registered anew, and at any time streams are. No thread waits for a stream before all gates are
// open: one may stand behind another's gate, where they share a hardware queue.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>

#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/stream_gate.h"

namespace sluice::contract::stream_model_test {
namespace {

using namespace support;

constexpr std::size_t kPart = 400000;  // of the file, and of memory
constexpr std::size_t kStreams = 5;
constexpr int kRounds = 24;
constexpr int kBursts = 4;
constexpr int kSteps = 60;

struct Call {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t moved = -77;
  ssize_t expected = 0;
};

// One stream, what it works on, and what the model says of that.
class Actor {
 public:
  Actor(std::size_t number, const CUfileHandle_t& handle, const Bytes& file, Random& random)
      : begin_(number * kPart),
        handle_(handle),
        random_(random),
        file_(file.begin() + static_cast<long>(begin_), file.begin() + static_cast<long>(begin_ + kPart)) {
    memory_.fill(0);
    if (random_.below(2) == 1) turn_registration();
  }
  ~Actor() {
    if (registered_) cuFileStreamDeregister(stream_.get());
  }
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  void step() {
    switch (random_.below(14)) {
      case 0:
      case 1:
        return fill();
      case 2:
      case 3:
        return hold();
      case 4:
      case 5:
        return open();
      case 6:
      case 7:
        return write();
      case 8:
        return turn_registration();
      default:
        return read();
    }
  }
  void open() { gate_.open_to(gate_value_); }
  // With all gates open.
  void finish() {
    stream_.synchronize();
    for (const Call& call : calls_) EXPECT_EQ(call.moved, call.expected);
    calls_.clear();
    EXPECT_TRUE(same_bytes(expected_, memory_.get()));
  }
  const Bytes& file() const { return file_; }
  std::size_t begin() const { return begin_; }

 private:
  void fill() {
    const auto value = static_cast<unsigned char>(random_.below(256));
    EXPECT_EQ(cuda()->fill_async(reinterpret_cast<CudaAddress>(memory_.address()), value, kPart, stream_.get()), 0);
    expected_.assign(kPart, value);
  }
  void hold() { gate_.hold(stream_.get(), ++gate_value_); }
  // What stands in the stream keeps the terms that it was put there with.
  void turn_registration() {
    const auto flags = static_cast<unsigned>(random_.below(16));
    EXPECT_EQ(code(registered_ ? cuFileStreamDeregister(stream_.get()) : cuFileStreamRegister(stream_.get(), flags)),
              CU_FILE_SUCCESS);
    registered_ = !registered_;
  }

  Call& draw_call() {
    const std::size_t size = random_.below(3) == 0 ? random_.below(kPart) : random_.below(9000);
    Call& call = calls_.emplace_back();
    call.size = size;
    call.file_offset = static_cast<off_t>(begin_ + random_.below(kPart - size));
    call.buffer_offset = static_cast<off_t>(random_.below(kPart - size));
    call.expected = static_cast<ssize_t>(size);
    return call;
  }
  void read() {
    Call& call = draw_call();
    EXPECT_EQ(code(cuFileReadAsync(handle_, memory_.address(), &call.size, &call.file_offset, &call.buffer_offset,
                                   &call.moved, stream_.get())),
              CU_FILE_SUCCESS);
    std::copy_n(file_.begin() + (call.file_offset - static_cast<off_t>(begin_)), call.size,
                expected_.begin() + call.buffer_offset);
  }
  void write() {
    Call& call = draw_call();
    EXPECT_EQ(code(cuFileWriteAsync(handle_, memory_.address(), &call.size, &call.file_offset, &call.buffer_offset,
                                    &call.moved, stream_.get())),
              CU_FILE_SUCCESS);
    std::copy_n(expected_.begin() + call.buffer_offset, call.size,
                file_.begin() + (call.file_offset - static_cast<off_t>(begin_)));
  }

  const std::size_t begin_;
  const CUfileHandle_t& handle_;
  Random& random_;
  Bytes file_;
  Bytes expected_ = Bytes(kPart, 0);
  const Stream stream_;
  const Gate gate_;
  const Memory memory_{MemoryKind::device, kPart};
  bool registered_ = false;
  std::uint32_t gate_value_ = 0;
  std::deque<Call> calls_;  // stay where they are
};

class StreamModel : public DeviceTest {
 protected:
  static void expect_file(const Fd& fd, const std::deque<Actor>& actors) {
    for (const Actor& actor : actors) {
      Bytes found(kPart);
      ASSERT_EQ(::pread(fd.get(), found.data(), kPart, static_cast<off_t>(actor.begin())), static_cast<ssize_t>(kPart));
      EXPECT_TRUE(same_bytes(actor.file(), found));
    }
  }
};

TEST_F(StreamModel, DoesInEveryStreamWhatTheStreamWasGiven) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its stream";
  Random random(run_seed());
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    const ScratchFile file(kPart * kStreams);
    const Fd fd = file.open(O_RDWR);
    CUfileHandle_t handle = nullptr;
    ASSERT_EQ(register_fd(fd.get(), &handle), CU_FILE_SUCCESS);
    std::deque<Actor> actors;
    for (std::size_t i = 0; i < kStreams; ++i) actors.emplace_back(i, handle, file.content(), random);
    for (int burst = 0; burst < kBursts; ++burst) {
      SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << run_seed() << ", round " << round << ", burst "
                                        << burst);
      for (int step = 0; step < kSteps; ++step) actors[random.below(kStreams)].step();
      for (Actor& actor : actors) actor.open();
      // Work that is on its way is finished before its file goes.
      const bool at_once = random.below(2) == 0;
      if (at_once) cuFileHandleDeregister(handle);
      for (Actor& actor : actors) actor.finish();
      expect_file(fd, actors);
      if (!at_once) cuFileHandleDeregister(handle);
      ASSERT_EQ(register_fd(fd.get(), &handle), CU_FILE_SUCCESS);
    }
    cuFileHandleDeregister(handle);
  }
}

}  // namespace
}  // namespace sluice::contract::stream_model_test
