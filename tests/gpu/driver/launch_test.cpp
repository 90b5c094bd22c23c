// SPDX-License-Identifier: Apache-2.0
// Launching kernels: their order among other work, their parameters, graphs of them.
#include <unistd.h>

#include <array>

#include "loaded_kernel.h"
#include "shared_word.h"

namespace sluice::gpu_suite {
namespace {

class Launches : public Driver {};

TEST_F(Launches, ReachPinnedMemory) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  ASSERT_EQ(cuda::success, store.launch(stream.get(), word.at(), 0x11223344));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(0x11223344U, word.load());
}

TEST_F(Launches, ReachDeviceMemoryAndNothingBesideIt) {
  const StoreKernel store;
  const DeviceBuffer buffer(12);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(buffer.at(), 0xee, 12));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  const Stream stream;
  ASSERT_EQ(cuda::success, store.launch(stream.get(), buffer.at(4), 0x04030201));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ((std::vector<std::uint8_t>{0xee, 0xee, 0xee, 0xee, 1, 2, 3, 4, 0xee, 0xee, 0xee, 0xee}), buffer.bytes());
}

TEST_F(Launches, OfAKernelThatHoldsSayThatTheyBeganAndTouchNothingElse) {
  const HoldKernel hold;
  const PinnedBuffer buffer(64);
  std::fill_n(buffer.data(), 64, std::uint8_t{0xee});
  std::vector<std::uint8_t> expected(64, 0xee);
  for (const std::size_t byte : {std::size_t{16}, std::size_t{20}}) {  // the word, and the sign of life behind it
    for (std::size_t index = 0; index < 4; ++index) expected[byte + index] = static_cast<std::uint8_t>(index + 1);
  }
  auto& word = *reinterpret_cast<std::uint32_t*>(buffer.data() + 16);
  auto& begun = *reinterpret_cast<std::uint32_t*>(buffer.data() + 20);
  const Stream stream;
  ASSERT_EQ(cuda::success, hold.launch(stream.get(), buffer.at(16), 0x04030201));
  while (std::atomic_ref(begun).load() != 0x04030201U) {
    ASSERT_EQ(cuda::error_not_ready, cuStreamQuery(stream.get())) << "before it was let go";
  }
  std::atomic_ref(word).store(0x04030201);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(expected, std::vector<std::uint8_t>(buffer.data(), buffer.data() + 64));
}

TEST_F(Launches, ReachRegisteredMemory) {
  alignas(4096) static std::array<std::uint32_t, 1024> memory{};
  ASSERT_EQ(cuda::success, cuMemHostRegister_v2(memory.data(), sizeof memory, 0));
  {
    const StoreKernel store;
    const Stream stream;
    ASSERT_EQ(cuda::success, store.launch(stream.get(), reinterpret_cast<Ptr>(&memory[17]), 5));
    ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  }
  EXPECT_EQ(5U, std::atomic_ref(memory[17]).load());
  EXPECT_EQ(cuda::success, cuMemHostUnregister(memory.data()));
}

TEST_F(Launches, ComeBehindTheWorkBeforeThem) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  {
    Gate gate(stream.get());
    ASSERT_EQ(cuda::success, store.launch(stream.get(), word.at(), 1));
    EXPECT_EQ(0U, word.load());
    EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(stream.get()));
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(1U, word.load());
}

TEST_F(Launches, HoldTheWorkBehindThem) {
  const HoldKernel hold;
  const Shared<std::uint32_t> let_go(0);
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  ASSERT_EQ(cuda::success, hold.launch(stream.get(), let_go.at(), 1));
  ASSERT_EQ(cuda::success, cuStreamWriteValue32_v2(stream.get(), word.at(), 1, 0));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(stream.get()));
  EXPECT_EQ(0U, word.load());
  let_go.store(1);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(1U, word.load());
}

TEST_F(Launches, OnDifferentStreamsRunTogether) {
  const HoldKernel hold;
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const Stream first;
  const Stream second;
  ASSERT_EQ(cuda::success, hold.launch(first.get(), word.at(), 7));
  ASSERT_EQ(cuda::success, store.launch(second.get(), word.at(), 7));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(first.get())) << "the second kernel lets the first one go";
}

TEST_F(Launches, SeeWhatTheHostWroteBeforehand) {
  const HoldKernel hold;
  const Shared<std::uint32_t> word(3);
  const Stream stream;
  ASSERT_EQ(cuda::success, hold.launch(stream.get(), word.at(), 3));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
}

TEST_F(Launches, SeeWhatACopyBeforeThemWrote) {
  const HoldKernel hold;
  const DeviceBuffer word(8);
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemsetD32Async(word.at(), 9, 1, stream.get()));
  ASSERT_EQ(cuda::success, hold.launch(stream.get(), word.at(), 9));
  EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
}

TEST_F(Launches, AreSeenByTheCopyBehindThem) {
  const StoreKernel store;
  const DeviceBuffer word(4);
  const PinnedBuffer back(4);
  const Stream stream;
  ASSERT_EQ(cuda::success, store.launch(stream.get(), word.at(), 0x01010101));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), word.at(), 4, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(1, back.data()[3]);
}

TEST_F(Launches, WaitForAnEventOfAnotherStream) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const Stream first;
  const Stream second;
  const Event event;
  {
    Gate gate(first.get());
    ASSERT_EQ(cuda::success, cuEventRecord(event.get(), first.get()));
    ASSERT_EQ(cuda::success, cuStreamWaitEvent(second.get(), event.get(), 0));
    ASSERT_EQ(cuda::success, store.launch(second.get(), word.at(), 1));
    EXPECT_EQ(0U, word.load());
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(second.get()));
  EXPECT_EQ(1U, word.load());
}

TEST_F(Launches, WaitForAValue) {
  const StoreKernel store;
  const Shared<std::uint32_t> gate(0);
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  ASSERT_EQ(cuda::success, cuStreamWaitValue32_v2(stream.get(), gate.at(), 1, cuda::wait_value_geq));
  ASSERT_EQ(cuda::success, store.launch(stream.get(), word.at(), 1));
  EXPECT_EQ(0U, word.load());
  gate.store(1);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(1U, word.load());
}

TEST_F(Launches, TakeTheirParametersAtTheCall) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const Shared<std::uint32_t> other(0);
  const Stream stream;
  Ptr address = word.at();
  std::uint32_t value = 1;
  {
    Gate gate(stream.get());
    void* parameters[] = {&address, &value};
    ASSERT_EQ(cuda::success, cuLaunchKernel(store.function(), 1, 1, 1, 1, 1, 1, 0, stream.get(), parameters, nullptr));
    address = other.at();
    value = 2;
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(1U, word.load());
  EXPECT_EQ(0U, other.load());
}

TEST_F(Launches, TakeTheirParametersFromABuffer) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  struct {
    Ptr address;
    std::uint32_t value;
  } buffer{word.at(), 6};
  std::size_t size = 12;
  void* extra[] = {reinterpret_cast<void*>(cuda::launch_parameters_buffer), &buffer,
                   reinterpret_cast<void*>(cuda::launch_parameters_size), &size,
                   reinterpret_cast<void*>(cuda::launch_parameters_end)};
  const Stream stream;
  ASSERT_EQ(cuda::success, cuLaunchKernel(store.function(), 1, 1, 1, 1, 1, 1, 0, stream.get(), nullptr, extra));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(6U, word.load());
}

TEST_F(Launches, GoByAConfiguration) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  Ptr address = word.at();
  std::uint32_t value = 8;
  void* parameters[] = {&address, &value};
  const cuda::LaunchConfig config{2, 1, 1, 32, 1, 1, 0, stream.get(), nullptr, 0};
  ASSERT_EQ(cuda::success, cuLaunchKernelEx(&config, store.function(), parameters, nullptr));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(8U, word.load());
}

TEST_F(Launches, OfManyThreadsAndBlocksDoWhatOneDoes) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  Ptr address = word.at();
  std::uint32_t value = 4;
  void* parameters[] = {&address, &value};
  ASSERT_EQ(cuda::success, cuLaunchKernel(store.function(), 8, 2, 2, 16, 4, 2, 0, stream.get(), parameters, nullptr));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(4U, word.load());
}

TEST_F(Launches, OnTheDefaultStreamHoldBlockingStreams) {
  const HoldKernel hold;
  const StoreKernel store;
  const Shared<std::uint32_t> let_go(0);
  const Shared<std::uint32_t> word(0);
  const Stream blocking(0);
  ASSERT_EQ(cuda::success, hold.launch(nullptr, let_go.at(), 1));
  ASSERT_EQ(cuda::success, store.launch(blocking.get(), word.at(), 1));
  EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(blocking.get()));
  EXPECT_EQ(0U, word.load());
  let_go.store(1);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(blocking.get()));
  EXPECT_EQ(1U, word.load());
}

TEST_F(Launches, OnTheThreadsDefaultStreamGoByTheirOwn) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  Ptr address = word.at();
  std::uint32_t value = 3;
  void* parameters[] = {&address, &value};
  ASSERT_EQ(cuda::success, cuLaunchKernel_ptsz(store.function(), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(per_thread_stream()));
  EXPECT_EQ(3U, word.load());
}

TEST_F(Launches, OfAShapeThatThereIsNotAreInvalid) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  Ptr address = word.at();
  std::uint32_t value = 1;
  void* parameters[] = {&address, &value};
  const auto launch = [&](unsigned grid, unsigned block_x, unsigned block_z, unsigned shared) {
    return cuLaunchKernel(store.function(), grid, 1, 1, block_x, 1, block_z, shared, nullptr, parameters, nullptr);
  };
  EXPECT_EQ(cuda::error_invalid_value, launch(0, 1, 1, 0));
  EXPECT_EQ(cuda::error_invalid_value, launch(1, 0, 1, 0));
  EXPECT_EQ(cuda::error_invalid_value, launch(1, 1025, 1, 0));
  EXPECT_EQ(cuda::error_invalid_value, launch(1, 1, 65, 0));
  EXPECT_EQ(cuda::error_invalid_value, launch(1, 512, 4, 0));
  EXPECT_EQ(cuda::error_invalid_value, launch(1, 1, 1, 1U << 30U));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  EXPECT_EQ(0U, word.load()) << "none of them ran";
}

TEST_F(Launches, OfNoFunctionAreRefused) {
  Ptr address = 0;
  std::uint32_t value = 0;
  void* parameters[] = {&address, &value};
  EXPECT_EQ(cuda::error_invalid_handle, cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
}

TEST_F(Launches, WithoutTheirParametersAreInvalid) {
  const StoreKernel store;
  EXPECT_EQ(cuda::error_invalid_value,
            cuLaunchKernel(store.function(), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

TEST_F(Launches, BecomeNodesOfAGraph) {
  const StoreKernel store;
  const Shared<std::uint32_t> word(0);
  const Stream stream;
  ASSERT_EQ(cuda::success, cuStreamBeginCapture_v2(stream.get(), cuda::capture_thread_local));
  ASSERT_EQ(cuda::success, store.launch(stream.get(), word.at(), 5));
  cuda::Graph graph = nullptr;
  ASSERT_EQ(cuda::success, cuStreamEndCapture(stream.get(), &graph));
  std::size_t nodes = 0;
  ASSERT_EQ(cuda::success, cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(1U, nodes);
  EXPECT_EQ(0U, word.load()) << "a capture does nothing";
  cuda::GraphExec exec = nullptr;
  ASSERT_EQ(cuda::success, cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int replay = 0; replay < 3; ++replay) {
    word.store(0);
    ASSERT_EQ(cuda::success, cuGraphLaunch(exec, stream.get()));
    ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
    EXPECT_EQ(5U, word.load()) << "with the parameters that it was captured with";
  }
  EXPECT_EQ(cuda::success, cuGraphExecDestroy(exec));
  EXPECT_EQ(cuda::success, cuGraphDestroy(graph));
}

TEST_F(Launches, InAGraphKeepTheirOrderAmongOtherNodes) {
  const StoreKernel store;
  const HoldKernel hold;
  const DeviceBuffer device(8);
  const PinnedBuffer back(4);
  const Stream stream;
  ASSERT_EQ(cuda::success, cuStreamBeginCapture_v2(stream.get(), cuda::capture_thread_local));
  ASSERT_EQ(cuda::success, cuMemsetD32Async(device.at(), 1, 1, stream.get()));
  ASSERT_EQ(cuda::success, hold.launch(stream.get(), device.at(), 1));
  ASSERT_EQ(cuda::success, store.launch(stream.get(), device.at(), 0x02020202));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), device.at(), 4, stream.get()));
  cuda::Graph graph = nullptr;
  ASSERT_EQ(cuda::success, cuStreamEndCapture(stream.get(), &graph));
  cuda::GraphExec exec = nullptr;
  ASSERT_EQ(cuda::success, cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_EQ(cuda::success, cuGraphLaunch(exec, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(2, back.data()[0]);
  EXPECT_EQ(cuda::success, cuGraphExecDestroy(exec));
  EXPECT_EQ(cuda::success, cuGraphDestroy(graph));
}

// An address where nothing lies.
Ptr unused_address() {
  return 0x1000;
}

// Behind the end of what is mapped, in the same reservation.
Ptr unmapped_address() {
  const cuda::AllocationProperties properties{
      cuda::allocation_pinned, cuda::handle_type_none, {cuda::location_device, 0}, nullptr, 0, 0, 0, {}};
  const cuda::AccessDescription access{{cuda::location_device, 0}, cuda::access_read_write};
  const std::size_t size = std::size_t{2} << 20U;
  cuda::AllocationHandle memory = 0;
  Ptr start = 0;
  const bool mapped = cuMemAddressReserve(&start, 2 * size, 0, 0, 0) == cuda::success &&
                      cuMemCreate(&memory, size, &properties, 0) == cuda::success &&
                      cuMemMap(start, size, 0, memory, 0) == cuda::success &&
                      cuMemSetAccess(start, size, &access, 1) == cuda::success;
  return mapped ? start + size : 0;
}

// What a store to such an address leads to, told by the first thing that is not so; in a process of its own, since the
// context is lost.
int stray_store_gone_wrong(Ptr (*find_address)()) {
  cuda::Context context = nullptr;
  if (cuInit(0) != cuda::success || cuDevicePrimaryCtxRetain(&context, 0) != cuda::success) return 1;
  if (cuCtxSetCurrent(context) != cuda::success) return 2;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  if (cuModuleLoadData(&module, ptx::probe_store) != cuda::success) return 3;
  if (cuModuleGetFunction(&function, module, "sluice_probe_store") != cuda::success) return 4;
  Ptr address = find_address();
  if (address == 0) return 10;
  std::uint32_t value = 1;
  void* parameters[] = {&address, &value};
  if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) != cuda::success) return 5;
  if (cuCtxSynchronize() != cuda::error_illegal_address) return 6;
  Ptr pointer = 0;
  if (cuMemAlloc_v2(&pointer, 64) != cuda::error_illegal_address) return 7;
  cuda::Stream stream = nullptr;
  if (cuStreamCreate(&stream, 0) != cuda::error_illegal_address) return 8;
  return cuCtxSynchronize() == cuda::error_illegal_address ? 0 : 9;
}

TEST(Processes, AStrayStoreOfAKernelEndsTheContext) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(stray_store_gone_wrong(unused_address)), ::testing::ExitedWithCode(0), "");
}

TEST(Processes, AStoreOfAKernelBehindTheEndOfAMappingEndsTheContext) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(stray_store_gone_wrong(unmapped_address)), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::gpu_suite
