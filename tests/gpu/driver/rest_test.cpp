// SPDX-License-Identifier: Apache-2.0
// Calls that wait until all streams of the context have come to rest: what other calls wait for that, and what goes on
// meanwhile. Streams that wait for a host which is kept by its driver never come to rest.
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "loaded_kernel.h"
#include "shared_word.h"

namespace sluice::gpu_suite {
namespace {

constexpr std::size_t kSize = 1 << 16;

enum class Waiting { freeing, freeing_pinned, unpinning, loading };

class Rest : public Driver, public ::testing::WithParamInterface<Waiting> {
 protected:
  // The call that waits is under way; most likely, for it cannot be seen whether a thread is inside.
  class Waiter {
   public:
    Waiter(cuda::Context context, Waiting call) {
      switch (call) {
        case Waiting::freeing:
          EXPECT_EQ(cuda::success, cuMemAlloc_v2(&device_, kSize));
          break;
        case Waiting::freeing_pinned:
          EXPECT_EQ(cuda::success, cuMemAllocHost_v2(&host_, kSize));
          break;
        case Waiting::unpinning:
          EXPECT_EQ(cuda::success, cuMemHostRegister_v2(pages_.data(), pages_.size(), 0));
          break;
        case Waiting::loading:
          break;
      }
      gate_ = std::make_unique<Gate>(stream_.get());
      thread_ = std::thread([this, context, call] {
        cuCtxSetCurrent(context);
        EXPECT_EQ(cuda::success, run(call));
        is_over_ = true;
      });
      ::usleep(20000);  // the longer, the surer that a driver which does not wait is found out
    }
    ~Waiter() { end(); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    bool is_over() const { return is_over_; }
    // Returns when it is over.
    void end() {
      gate_->open();
      if (thread_.joinable()) thread_.join();
    }

   private:
    cuda::Result run(Waiting call) {
      cuda::Module module = nullptr;
      switch (call) {
        case Waiting::freeing:
          return cuMemFree_v2(device_);
        case Waiting::freeing_pinned:
          return cuMemFreeHost(host_);
        case Waiting::unpinning:
          return cuMemHostUnregister(pages_.data());
        case Waiting::loading:
          break;
      }
      const cuda::Result result = cuModuleLoadData(&module, ptx::probe_store);
      if (result == cuda::success) cuModuleUnload(module);
      return result;
    }

    Ptr device_ = 0;
    void* host_ = nullptr;
    std::vector<std::uint8_t> pages_ = std::vector<std::uint8_t>(kSize);
    const Stream stream_;
    std::unique_ptr<Gate> gate_;
    std::atomic<bool> is_over_{false};
    std::thread thread_;
  };
};

TEST_P(Rest, IsWaitedFor) {
  Waiter waiter(context(), GetParam());
  EXPECT_FALSE(waiter.is_over());
}

TEST_P(Rest, IsWaitedForByCopiesLaunchesAndRecords) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const PinnedBuffer host(kSize);
  const DeviceBuffer device(kSize);
  const Stream other;
  const Event event;
  const cuda::Copy2D rows = two_rows(device.at(), host.data(), 2);
  const std::vector<std::pair<std::string, std::function<cuda::Result()>>> calls{
      {"to the device", [&] { return cuMemcpyHtoDAsync_v2(device.at(), host.data(), kSize, other.get()); }},
      {"a few bytes to the device", [&] { return cuMemcpyHtoDAsync_v2(device.at(), host.data(), 4, other.get()); }},
      {"two rows to the device", [&] { return cuMemcpy2DAsync_v2(&rows, other.get()); }},
      {"to the host", [&] { return cuMemcpyDtoHAsync_v2(host.data(), device.at(), kSize, other.get()); }},
      {"launch", [&] { return store.launch(other.get(), word.at(), 1); }},
      {"record", [&] { return cuEventRecord(event.get(), other.get()); }},
  };
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    Waiter waiter(context(), GetParam());
    std::atomic<bool> done{false};
    std::thread caller([&, &call = call] {
      cuCtxSetCurrent(context());
      EXPECT_EQ(cuda::success, call());
      done = true;
    });
    ::usleep(20000);
    EXPECT_FALSE(done);
    waiter.end();
    caller.join();
    EXPECT_EQ(cuda::success, cuStreamSynchronize(other.get()));
  }
}

TEST_P(Rest, IsNotWaitedForByQuestionsAndByValues) {
  const Shared<std::uint32_t> word(0);
  const DeviceBuffer device(kSize);
  const Stream other;
  const Event event;
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), other.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(other.get()));
  Waiter waiter(context(), GetParam());
  int type = 0;
  cuda::Context before = nullptr;
  EXPECT_EQ(cuda::success, cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, device.at()));
  EXPECT_EQ(cuda::success, cuCtxPushCurrent_v2(context()));
  EXPECT_EQ(cuda::success, cuCtxPopCurrent_v2(&before));
  EXPECT_EQ(cuda::success, cuStreamQuery(other.get()));
  EXPECT_EQ(cuda::success, cuEventQuery(event.get()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(other.get()));
  // When it is written is another matter: not before code is loaded.
  EXPECT_EQ(cuda::success, cuStreamWriteValue32_v2(other.get(), word.at(), 7, 0));
  EXPECT_FALSE(waiter.is_over());
  waiter.end();
  EXPECT_EQ(cuda::success, cuStreamSynchronize(other.get()));
  EXPECT_EQ(7U, word.load());
}

INSTANTIATE_TEST_SUITE_P(Of, Rest,
                         ::testing::Values(Waiting::freeing, Waiting::freeing_pinned, Waiting::unpinning,
                                           Waiting::loading),
                         [](const ::testing::TestParamInfo<Waiting>& call) -> std::string {
                           switch (call.param) {
                             case Waiting::freeing:
                               return "Freeing";
                             case Waiting::freeing_pinned:
                               return "FreeingPinned";
                             case Waiting::unpinning:
                               return "Unpinning";
                             case Waiting::loading:
                               break;
                           }
                           return "Loading";
                         });

}  // namespace
}  // namespace sluice::gpu_suite
