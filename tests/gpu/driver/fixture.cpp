// SPDX-License-Identifier: Apache-2.0
// Set-up and clean-up of the tests of the driver.
#include "fixture.h"

namespace sluice::gpu_suite {

namespace {

// Kept for the whole run: making a context takes a real driver a good part of a second. The copy and the fill make it
// load what it needs for them, so that no test triggers this behind a closed gate.
cuda::Context the_primary_context() {
  static const cuda::Context context = [] {
    cuda::Context made = nullptr;
    EXPECT_EQ(cuda::success, cuDevicePrimaryCtxRetain(&made, 0));
    EXPECT_EQ(cuda::success, cuCtxPushCurrent_v2(made));
    {
      const DeviceBuffer warm(4096);
      const DeviceBuffer other(4096);
      EXPECT_EQ(cuda::success, cuMemsetD8_v2(warm.at(), 1, warm.size()));
      EXPECT_EQ(cuda::success, cuMemsetD16_v2(warm.at(), 1, warm.size() / 2));
      EXPECT_EQ(cuda::success, cuMemsetD32_v2(warm.at(), 1, warm.size() / 4));
      EXPECT_EQ(cuda::success, cuMemcpyDtoD_v2(other.at(), warm.at(), warm.size()));
      EXPECT_EQ(cuda::success, cuCtxSynchronize());
    }
    cuCtxPopCurrent_v2(nullptr);
    return made;
  }();
  return context;
}

}  // namespace

void Driver::SetUp() {
  context_ = the_primary_context();
  ASSERT_EQ(cuda::success, cuCtxPushCurrent_v2(context_));
}

void Driver::TearDown() {
  EXPECT_EQ(cuda::success, cuCtxSynchronize());
  cuda::Context popped = nullptr;
  EXPECT_EQ(cuda::success, cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(context_, popped) << "the test left the stack of contexts changed";
}

DeviceBuffer::DeviceBuffer(std::size_t size) : size_(size) {
  EXPECT_EQ(cuda::success, cuMemAlloc_v2(&address_, size));
}

DeviceBuffer::~DeviceBuffer() {
  EXPECT_EQ(cuda::success, cuMemFree_v2(address_));
}

std::vector<std::uint8_t> DeviceBuffer::bytes() const {
  std::vector<std::uint8_t> copy(size_);
  EXPECT_EQ(cuda::success, cuMemcpyDtoH_v2(copy.data(), address_, size_));
  return copy;
}

PinnedBuffer::PinnedBuffer(std::size_t size, unsigned flags) : size_(size) {
  void* memory = nullptr;
  EXPECT_EQ(cuda::success, cuMemHostAlloc(&memory, size, flags));
  data_ = static_cast<std::uint8_t*>(memory);
}

PinnedBuffer::~PinnedBuffer() {
  EXPECT_EQ(cuda::success, cuMemFreeHost(data_));
}

Stream::Stream(unsigned flags) {
  EXPECT_EQ(cuda::success, cuStreamCreate(&stream_, flags));
}

Stream::~Stream() {
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream_));
  EXPECT_EQ(cuda::success, cuStreamDestroy_v2(stream_));
}

Event::Event(unsigned flags) {
  EXPECT_EQ(cuda::success, cuEventCreate(&event_, flags));
}

Event::~Event() {
  EXPECT_EQ(cuda::success, cuEventDestroy_v2(event_));
}

Gate::Gate(cuda::Stream stream) : open_(std::make_shared<std::atomic<bool>>(false)) {
  // The function owns a share, so the gate may be gone before the stream gets there.
  const auto wait_until_open = [](void* data) {
    const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> open(
        static_cast<std::shared_ptr<std::atomic<bool>>*>(data));
    (*open)->wait(false);
  };
  EXPECT_EQ(cuda::success, cuLaunchHostFunc(stream, wait_until_open, new std::shared_ptr<std::atomic<bool>>(open_)));
}

Gate::~Gate() {
  open();
}

void Gate::open() {
  open_->store(true);
  open_->notify_all();
}

std::vector<std::uint8_t> pattern(std::size_t size, unsigned seed) {
  std::vector<std::uint8_t> bytes(size);
  std::uint32_t state = seed * 2654435761U + 1;
  for (auto& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::uint8_t>(state >> 24U);
  }
  return bytes;
}

}  // namespace sluice::gpu_suite
