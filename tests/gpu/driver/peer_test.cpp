// SPDX-License-Identifier: Apache-2.0
// Two devices. Skipped where there is one.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fixture.h"
#include "loaded_kernel.h"

namespace sluice::gpu_suite {
namespace {

// Contexts of both devices; that of device 0 is current.
class Peers : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    int count = 0;
    ASSERT_EQ(cuda::success, cuDeviceGetCount(&count));
    if (count < 2) GTEST_SKIP() << "needs two devices; this machine has one";
    ASSERT_EQ(cuda::success, cuDevicePrimaryCtxRetain(&other_, 1));
  }
  void TearDown() override {
    if (other_ != nullptr) cuDevicePrimaryCtxRelease_v2(1);
    Driver::TearDown();
  }
  cuda::Context other() const { return other_; }

  // Memory on device 1.
  Ptr allocate_there(std::size_t size) const {
    Ptr pointer = 0;
    EXPECT_EQ(cuda::success, cuCtxPushCurrent_v2(other_));
    EXPECT_EQ(cuda::success, cuMemAlloc_v2(&pointer, size));
    EXPECT_EQ(cuda::success, cuCtxPopCurrent_v2(nullptr));
    return pointer;
  }

 private:
  cuda::Context other_ = nullptr;
};

TEST_F(Peers, HaveDifferentContexts) {
  EXPECT_NE(context(), other());
}

TEST_F(Peers, MemoryKnowsItsDevice) {
  const Ptr there = allocate_there(4096);
  int ordinal = -1;
  ASSERT_EQ(cuda::success, cuPointerGetAttribute(&ordinal, cuda::pointer_attribute_device_ordinal, there));
  EXPECT_EQ(1, ordinal);
  EXPECT_EQ(cuda::success, cuMemFree_v2(there)) << "from whatever context";
}

TEST_F(Peers, CopiesBetweenDevicesAreRight) {
  const auto expected = pattern(100000, 1);
  const DeviceBuffer here(100000);
  const DeviceBuffer back(100000);
  const Ptr there = allocate_there(100000);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(here.at(), expected.data(), expected.size()));
  ASSERT_EQ(cuda::success, cuMemcpyPeer(there, other(), here.at(), context(), expected.size()));
  ASSERT_EQ(cuda::success, cuMemcpyPeer(back.at(), context(), there, other(), expected.size()));
  EXPECT_EQ(expected, back.bytes());
  ASSERT_EQ(cuda::success, cuMemcpy(back.at(), there, expected.size())) << "the addresses say enough";
  EXPECT_EQ(expected, back.bytes());
  EXPECT_EQ(cuda::success, cuMemFree_v2(there));
}

TEST_F(Peers, CopiesBetweenDevicesKeepTheOrderOfTheirStream) {
  const auto expected = pattern(100000, 2);
  const PinnedBuffer from(100000);
  const PinnedBuffer back(100000);
  const DeviceBuffer here(100000);
  const Ptr there = allocate_there(100000);
  std::copy(expected.begin(), expected.end(), from.data());
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(here.at(), from.data(), expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyPeerAsync(there, other(), here.at(), context(), expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(here.at(), 0, expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyPeerAsync(here.at(), context(), there, other(), expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), here.at(), expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(expected, std::vector<std::uint8_t>(back.data(), back.data() + back.size()));
  EXPECT_EQ(cuda::success, cuMemFree_v2(there));
}

TEST_F(Peers, AccessIsEnabledOnce) {
  int can = 0;
  ASSERT_EQ(cuda::success, cuDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) GTEST_SKIP() << "these devices cannot reach each other";
  ASSERT_EQ(cuda::success, cuCtxEnablePeerAccess(other(), 0));
  EXPECT_EQ(cuda::error_peer_access_already_enabled, cuCtxEnablePeerAccess(other(), 0));
  ASSERT_EQ(cuda::success, cuCtxDisablePeerAccess(other()));
  EXPECT_EQ(cuda::error_peer_access_not_enabled, cuCtxDisablePeerAccess(other()));
}

// One word on device 1, by a kernel of device 0.
TEST_F(Peers, KernelsReachMemoryOfAContextThatAccessWasEnabledTo) {
  const cuda::Result enabled = cuCtxEnablePeerAccess(other(), 0);
  if (enabled == cuda::error_peer_access_unsupported) GTEST_SKIP() << "these devices cannot reach each other";
  ASSERT_EQ(cuda::success, enabled);
  {
    const StoreKernel store;
    const Ptr there = allocate_there(4);
    const Stream stream;
    ASSERT_EQ(cuda::success, store.launch(stream.get(), there, 0x01020304));
    ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
    std::uint32_t word = 0;
    ASSERT_EQ(cuda::success, cuMemcpyDtoH_v2(&word, there, sizeof word));
    EXPECT_EQ(0x01020304U, word);
    EXPECT_EQ(cuda::success, cuMemFree_v2(there));
  }
  ASSERT_EQ(cuda::success, cuCtxDisablePeerAccess(other()));
}

// Streams of both devices wait, perhaps for this thread, and each of these calls comes back: memory is lent and given
// back, and a context held, beside work of the program's that may last.
TEST_F(Peers, MappingMemoryAndHoldingContextsWaitForNoStream) {
  const cuda::AllocationProperties there{
      cuda::allocation_pinned, cuda::handle_type_none, {cuda::location_device, 1}, nullptr, 0, 0, 0, {}};
  std::size_t size = 0;
  ASSERT_EQ(cuda::success, cuMemGetAllocationGranularity(&size, &there, cuda::granularity_minimum));
  const Stream stream;
  ASSERT_EQ(cuda::success, cuCtxPushCurrent_v2(other()));
  auto stream_there = std::make_unique<Stream>();
  auto gate_there = std::make_unique<Gate>(stream_there->get());
  ASSERT_EQ(cuda::success, cuCtxPopCurrent_v2(nullptr));
  auto gate = std::make_unique<Gate>(stream.get());
  cuda::AllocationHandle memory = 0;
  Ptr at = 0;
  unsigned flags = 0;
  int active = 0;
  cuda::Context held = nullptr;
  const std::array<cuda::AccessDescription, 2> both{
      cuda::AccessDescription{{cuda::location_device, 1}, cuda::access_read_write},
      cuda::AccessDescription{{cuda::location_device, 0}, cuda::access_read_write}};
  const std::vector<std::pair<std::string, std::function<cuda::Result()>>> calls{
      {"hold", [&] { return cuDevicePrimaryCtxRetain(&held, 1); }},
      {"state", [&] { return cuDevicePrimaryCtxGetState(1, &flags, &active); }},
      {"create", [&] { return cuMemCreate(&memory, size, &there, 0); }},
      {"reserve", [&] { return cuMemAddressReserve(&at, size, 0, 0, 0); }},
      {"map", [&] { return cuMemMap(at, size, 0, memory, 0); }},
      {"let in", [&] { return cuMemSetAccess(at, size, both.data(), both.size()); }},
      {"release", [&] { return cuMemRelease(memory); }},
      {"hold again", [&] { return cuDevicePrimaryCtxRetain(&held, 1); }},
      {"hold once", [&] { return cuDevicePrimaryCtxRelease_v2(1); }},
      // Given back by a thread that has none.
      {"leave the context", [&] { return cuCtxSetCurrent(nullptr); }},
      {"unmap", [&] { return cuMemUnmap(at, size); }},
      {"free", [&] { return cuMemAddressFree(at, size); }},
      {"hold no more", [&] { return cuDevicePrimaryCtxRelease_v2(1); }},
  };
  std::atomic<std::size_t> done{0};
  std::promise<void> all_done;
  std::thread caller([&] {
    cuCtxSetCurrent(context());
    for (const auto& [name, call] : calls) {
      EXPECT_EQ(cuda::success, call()) << name;
      ++done;
    }
    all_done.set_value();
  });
  EXPECT_EQ(std::future_status::ready, all_done.get_future().wait_for(std::chrono::seconds(30)));
  EXPECT_EQ(done, calls.size()) << "waits: " << calls[std::min(done.load(), calls.size() - 1)].first;
  gate->open();
  gate_there->open();
  caller.join();
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  ASSERT_EQ(cuda::success, cuCtxPushCurrent_v2(other()));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream_there->get()));
  stream_there.reset();
  EXPECT_EQ(cuda::success, cuCtxPopCurrent_v2(nullptr));
}

// What must hold of a kernel that stores where it has no access, told by its first failure; in a process of its own,
// since it costs contexts.
int store_gone_wrong() {
  cuda::Context here = nullptr;
  cuda::Context there = nullptr;
  Ptr pointer = 0;
  std::uint32_t word = 1;
  if (cuInit(0) != cuda::success || cuDevicePrimaryCtxRetain(&there, 1) != cuda::success) return 1;
  if (cuCtxSetCurrent(there) != cuda::success || cuMemAlloc_v2(&pointer, 4) != cuda::success) return 2;
  if (cuMemcpyHtoD_v2(pointer, &word, sizeof word) != cuda::success) return 3;
  if (cuDevicePrimaryCtxRetain(&here, 0) != cuda::success || cuCtxSetCurrent(here) != cuda::success) return 4;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  std::uint32_t value = 2;
  void* parameters[] = {&pointer, &value};
  if (cuModuleLoadData(&module, ptx::probe_store) != cuda::success) return 5;
  if (cuModuleGetFunction(&function, module, "sluice_probe_store") != cuda::success) return 6;
  if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) != cuda::success) return 7;
  if (cuCtxSynchronize() != cuda::error_illegal_address) return 8;
  if (cuCtxSetCurrent(there) != cuda::success) return 9;
  const cuda::Result copied = cuMemcpyDtoH_v2(&word, pointer, sizeof word);
  // Driver 580 on two H200s: it has ended the context of that device, too. The soft GPU ends its own alone.
  if (copied == cuda::error_illegal_address) return 0;
  if (copied != cuda::success) return 10;
  return word == 1 ? 0 : 11;
}

TEST(Processes, AKernelThatHasNoAccessToAnotherDeviceFaultsAndStoresNothing) {
  int count = 0;
  ASSERT_EQ(cuda::success, cuInit(0));
  ASSERT_EQ(cuda::success, cuDeviceGetCount(&count));
  if (count < 2) GTEST_SKIP() << "needs two devices; this machine has one";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(store_gone_wrong()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::gpu_suite
