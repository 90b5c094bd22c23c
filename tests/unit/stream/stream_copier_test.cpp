// SPDX-License-Identifier: Apache-2.0
// A copier whose kernel another one keeps out, on a soft GPU that runs one kernel at a time (SLUICE_SOFTGPU_SMS=1).
#include "stream/channel/stream_copier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/spin_backoff.h"
#include "gpu/cuda_api.h"
#include "gpu/loading.h"
#include "gpu/stream_scope.h"
#include "observe/copy_counters.h"
#include "stream/channel/stream_channel.h"
#include "support/busy_device.h"
#include "support/cuda_driver.h"
#include "support/deadline.h"

namespace sluice::stream {
namespace {

using support::Deadline;

// A task that does what the test wants done with its copier.
class Given final : public StreamTask {
 public:
  explicit Given(std::function<void(StreamCopier&)> what) : what_(std::move(what)) { blocks = 1; }
  void run(StreamCopier& copier) noexcept override { what_(copier); }
  bool is_quick() noexcept override { return false; }
  void end() noexcept override { ended_.store(true); }
  void wait_for_end() const {
    for (const Deadline deadline; !ended_.load() && !deadline.has_passed();) std::this_thread::yield();
    ASSERT_TRUE(ended_.load()) << "the task is not run to its end";
  }

 private:
  std::function<void(StreamCopier&)> what_;
  std::atomic<bool> ended_{false};
};

class BusyCopier : public ::testing::Test {
 protected:
  void SetUp() override {
    const support::CudaDriver* const driver = support::cuda();
    if (driver == nullptr || gpu::load_driver() == nullptr) GTEST_SKIP() << "no CUDA device";
    if (!driver->soft || std::getenv("SLUICE_SOFTGPU_SMS") == nullptr) {
      GTEST_SKIP() << "needs a device that runs one kernel at a time";
    }
    context_.emplace(support::primary_context(0));
    ASSERT_EQ(driver->allocate(&memory_, size), 0);
    ASSERT_EQ(driver->fill(memory_, 0, size), 0);
    const gpu::StreamScope scope(static_cast<cuda::Context>(support::primary_context(0)));
    gpu::Kernels* const kernels = gpu::kernels_of(scope.context(), scope.context_id());
    ASSERT_NE(kernels, nullptr);
    load_unless_streams_wait(*kernels);
    ASSERT_TRUE(gpu::wait_for(*kernels, 60'000));
    channel_ = StreamChannel::take(scope.context(), scope.context_id());
    ASSERT_NE(channel_, nullptr);
    ASSERT_TRUE(channel_->has_kernel());
  }
  void TearDown() override {
    if (channel_ != nullptr) channel_->give_back();
    if (memory_ != 0) support::cuda()->release(memory_);
  }

  std::vector<unsigned char> in_memory() const {
    std::vector<unsigned char> bytes(size);
    EXPECT_EQ(support::cuda()->to_host(bytes.data(), memory_, bytes.size()), 0);
    return bytes;
  }

  static constexpr std::uint32_t size = 4096;
  std::optional<support::ContextScope> context_;
  support::CudaAddress memory_ = 0;
  StreamChannel* channel_ = nullptr;
};

// Once a kernel is revoked its places are free at once, and readers put later bytes there while the caller waits for
// one that is late.
TEST_F(BusyCopier, CopiesNothingAnewOutOfPlacesThatHaveOtherBytesByThen) {
  const support::Stream stream;
  bool was_free = false;
  bool has_settled = false;
  Given task([&](StreamCopier& copier) {
    const std::uint64_t before = observe::copy_counters().kernel_called_off;
    std::fill_n(reinterpret_cast<unsigned char*>(copier.slot().data()), size, 1);
    copier.send(0, size, memory_);
    base::SpinBackoff backoff;
    for (const Deadline deadline; observe::copy_counters().kernel_called_off == before && !deadline.has_passed();) {
      copier.wait_a_moment(backoff);
    }
    // The same place as that of the first.
    constexpr std::uint32_t behind = gpu::stream_copy_slots - 1;
    was_free = copier.is_free_ahead(behind);
    std::fill_n(reinterpret_cast<unsigned char*>(copier.slot_ahead(behind).data()), size, 2);
    for (int moment = 0; moment < 100; ++moment) copier.wait_a_moment(backoff);
    has_settled = copier.settle();
  });
  std::string why_not;
  const auto busy = support::BusyDevice::hold(&why_not);
  ASSERT_NE(busy, nullptr) << why_not;
  ASSERT_EQ(channel_->submit(stream.get(), task), cuda::success);
  task.wait_for_end();
  busy->let_go();
  stream.synchronize();
  EXPECT_TRUE(was_free);
  EXPECT_TRUE(has_settled);
  EXPECT_EQ(in_memory(), std::vector<unsigned char>(size, 1));
}

}  // namespace
}  // namespace sluice::stream
