// SPDX-License-Identifier: Apache-2.0
// Transfers in streams that have not got there yet: nothing waits, nothing is touched too early, everything has its
// order.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sluice.h"
#include "support/busy_device.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/kernel_wait.h"
#include "support/stream_gate.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kRoom = 4 << 20;
constexpr std::size_t kSize = 3000001;

// One call's arguments, where a stream can write them.
struct Call {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t moved = -77;

  int read(CUfileHandle_t handle, const Memory& memory, CUstream stream) {
    return code(cuFileReadAsync(handle, memory.address(), &size, &file_offset, &buffer_offset, &moved, stream));
  }
  int write(CUfileHandle_t handle, const Memory& memory, CUstream stream) {
    return code(cuFileWriteAsync(handle, memory.address(), &size, &file_offset, &buffer_offset, &moved, stream));
  }
};

bool waits_for_streams() {
  return std::getenv("SLUICE_MODE") != nullptr;
}

// What is put into a stream while this is open becomes a graph, to be replayed.
class Recording {
 public:
  explicit Recording(const Stream& stream) : stream_(stream.get()) {
    constexpr int thread_local_mode = 1;
    EXPECT_EQ(cuda()->begin_capture(stream_, thread_local_mode), 0);
  }
  ~Recording() {
    if (exec_ != nullptr) cuda_function<int(void*)>("cuGraphExecDestroy")(exec_);
    if (graph_ != nullptr) cuda()->graph_destroy(graph_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void close() {
    ASSERT_EQ(cuda()->end_capture(stream_, &graph_), 0);
    using Instantiate = int(void**, void*, unsigned long long);
    ASSERT_EQ(cuda_function<Instantiate>("cuGraphInstantiateWithFlags")(&exec_, graph_, 0), 0);
  }
  int replay() const { return cuda_function<int(void*, CUstream)>("cuGraphLaunch")(exec_, stream_); }

 private:
  CUstream stream_;
  void* graph_ = nullptr;
  void* exec_ = nullptr;
};

class GatedStreams : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (cuda() == nullptr) return;
    if (waits_for_streams()) GTEST_SKIP() << "in plain mode a call waits for its stream";
    ASSERT_EQ(register_fd(fd_.get(), &handle_), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    cuFileHandleDeregister(handle_);
    DeviceTest::TearDown();
  }
  void fill_file(unsigned char value, std::size_t size = kSize) const {
    const Bytes bytes(size, value);
    ASSERT_EQ(::pwrite(fd_.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
  }
  Bytes file_bytes(std::size_t size) const {
    Bytes bytes(size);
    EXPECT_EQ(::pread(fd_.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
    return bytes;
  }

  static constexpr std::size_t kPiece = 4096;
  static constexpr std::size_t kPieceApart = 5000;
  void read_piece(std::size_t number, Call& call, const Memory& memory, const Stream& stream) const {
    call = {kPiece, static_cast<off_t>(number * kPieceApart), static_cast<off_t>(number * kPiece)};
    EXPECT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  }
  void expect_pieces(std::span<const Call> calls, const Memory& memory) const {
    const Bytes found = memory.get();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(calls[i].moved, static_cast<ssize_t>(kPiece)) << i;
      EXPECT_TRUE(same_bytes({file_.content().data() + i * kPieceApart, kPiece}, {found.data() + i * kPiece, kPiece}))
          << i;
    }
  }

  // The program's own copy.
  static void copy_in(const Stream& stream, const Memory& to, std::size_t at, const void* from, std::size_t size) {
    using Copy = int(CudaAddress, const void*, std::size_t, CUstream);
    const auto address = reinterpret_cast<CudaAddress>(to.address()) + at;
    EXPECT_EQ(cuda_function<Copy>("cuMemcpyHtoDAsync_v2")(address, from, size, stream.get()), 0);
  }

  static sluice_carrier_counts_t carriers() {
    sluice_carrier_counts_t counts{};
    auto* const ask = entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters");
    if (ask != nullptr) ask(&counts);
    return counts;
  }
  // Until a kernel in the stream carries; else the driver has to copy.
  void wait_for_kernel() const {
    const char* const copy = std::getenv("SLUICE_COPY");
    if (copy != nullptr && std::string_view(copy) == "engine") GTEST_SKIP() << "this run asks for the copy engine";
    const Stream stream;
    const Memory memory(MemoryKind::device, kRoom);
    const std::uint64_t before = carriers().kernel;
    for (const KernelWait kernels; carriers().kernel == before;) {
      if (kernels.is_over()) return kernels.give_up("no kernel carries");
      Call call{kSize};
      ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
      stream.synchronize();
    }
  }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR);
  CUfileHandle_t handle_ = nullptr;
};

TEST_F(GatedStreams, ReadNoByteBeforeTheyGetThere) {
  for (const unsigned flags : {0U, 15U}) {
    for (const std::size_t size : {std::size_t{4096}, kSize}) {
      SCOPED_TRACE(::testing::Message() << "flags " << flags << ", size " << size);
      const Stream stream;
      const Gate gate;
      const Memory memory(MemoryKind::device, kRoom);
      memory.fill(6);
      fill_file(1);
      ASSERT_EQ(code(cuFileStreamRegister(stream.get(), flags)), CU_FILE_SUCCESS);
      Call call{size};
      gate.hold(stream.get());
      ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
      fill_file(2);
      EXPECT_EQ(call.moved, -77);
      gate.open();
      stream.synchronize();
      EXPECT_EQ(call.moved, static_cast<ssize_t>(size));
      EXPECT_TRUE(all_bytes(2, memory.get(0, size)));
      EXPECT_TRUE(all_bytes(6, memory.get(size, kRoom - size)));
      EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
    }
  }
}

// The run lets the driver refuse the first call of a kind that serving a stream takes. What was made until then is not
// given back: that would wait for the other stream, and that waits for what is behind these calls. The next one goes on
// with it.
TEST_F(GatedStreams, ThatAreRefusedAStepWaitForNoOtherAndAreServedLater) {
  const char* const fails = std::getenv("SLUICE_SOFTGPU_FAIL");
  const std::string_view rule = fails == nullptr ? "" : fails;
  if (rule != "cuMemcpyHtoDAsync_v2:1:2" && rule != "cuMemHostGetDevicePointer_v2:1:2") {
    GTEST_SKIP() << "no step is refused in this run: contract.copies_refused_in_a_stream does";
  }
  const Stream other;
  const Stream stream;
  const Gate gate;
  const Memory memory(MemoryKind::device, kRoom);
  fill_file(1);
  gate.hold(other.get());
  Call refused{kSize};
  EXPECT_EQ(refused.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(refused.moved, static_cast<ssize_t>(kSize));
  Call served{kSize};
  const Gate later;
  later.hold(stream.get());
  EXPECT_EQ(served.read(handle_, memory, stream.get()),
            CU_FILE_SUCCESS);  // one that is not served waits for the stream
  EXPECT_EQ(served.moved, -77);
  later.open();
  stream.synchronize();
  EXPECT_EQ(served.moved, static_cast<ssize_t>(kSize));
  gate.open();
  other.synchronize();
  EXPECT_TRUE(all_bytes(1, memory.get(0, kSize)));
}

TEST_F(GatedStreams, ReadWhatAnotherStreamWroteBeforeItsEvent) {
  const Stream writer;
  const Stream reader;
  const Gate gate;
  const Event written;
  const Memory source(MemoryKind::device, kRoom);
  const Memory target(MemoryKind::device, kRoom);
  source.fill(9);
  target.fill(6);
  Call write{kSize};
  Call read{kSize};
  gate.hold(writer.get());
  ASSERT_EQ(write.write(handle_, source, writer.get()), CU_FILE_SUCCESS);
  written.record(writer.get());
  written.hold(reader.get());
  ASSERT_EQ(read.read(handle_, target, reader.get()), CU_FILE_SUCCESS);
  gate.open();
  reader.synchronize();
  EXPECT_EQ(write.moved, static_cast<ssize_t>(kSize));
  EXPECT_EQ(read.moved, static_cast<ssize_t>(kSize));
  EXPECT_TRUE(all_bytes(9, target.get(0, kSize)));
}

TEST_F(GatedStreams, WriteWhatTheMemoryHoldsWhenTheyGetThere) {
  for (const unsigned flags : {0U, 15U}) {
    for (const std::size_t size : {std::size_t{4097}, std::size_t{1 << 20}, kSize}) {
      SCOPED_TRACE(::testing::Message() << "flags " << flags << ", size " << size);
      const Stream stream;
      const Gate gate;
      const Memory memory(MemoryKind::device, kRoom);
      memory.fill(1);
      fill_file(7);
      ASSERT_EQ(code(cuFileStreamRegister(stream.get(), flags)), CU_FILE_SUCCESS);
      Call call{size, 3, 5};
      gate.hold(stream.get());
      ASSERT_EQ(cuda()->fill_async(reinterpret_cast<CudaAddress>(memory.address()), 2, kRoom, stream.get()), 0);
      ASSERT_EQ(call.write(handle_, memory, stream.get()), CU_FILE_SUCCESS);
      ASSERT_EQ(cuda()->fill_async(reinterpret_cast<CudaAddress>(memory.address()), 3, kRoom, stream.get()), 0);
      EXPECT_TRUE(all_bytes(7, file_bytes(100)));
      gate.open();
      stream.synchronize();
      EXPECT_EQ(call.moved, static_cast<ssize_t>(size));
      const Bytes bytes = file_bytes(size + 3);
      EXPECT_TRUE(all_bytes(7, std::span(bytes).first(3)));
      EXPECT_TRUE(all_bytes(2, std::span(bytes).subspan(3)));
      EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
    }
  }
}

// Drivers that free memory wait for all streams, and copy and launch nothing before these have come to rest: nor for
// us.
class Freeing {
 public:
  Freeing() {
    const ContextScope context(primary_context(0));
    EXPECT_EQ(cuda()->allocate(&memory_, 1 << 20), 0);
    EXPECT_EQ(cuda()->allocate_host(&pinned_, 1 << 20, 0), 0);
  }
  ~Freeing() {
    if (thread_.joinable()) thread_.join();
  }
  Freeing(const Freeing&) = delete;
  Freeing& operator=(const Freeing&) = delete;
  // Returns when the driver has most likely been asked. The longer it waits, the surer that a stream which needs the
  // driver meanwhile is found out.
  void begin() {
    thread_ = std::thread([this] {
      const ContextScope context(primary_context(0));
      begun_ = true;
      EXPECT_EQ(cuda()->release_host(pinned_), 0);
      EXPECT_EQ(cuda()->release(memory_), 0);
    });
    while (!begun_) ::usleep(100);
    ::usleep(5000);
  }

 private:
  CudaAddress memory_ = 0;
  void* pinned_ = nullptr;
  std::atomic<bool> begun_{false};
  std::thread thread_;
};

TEST_F(GatedStreams, GoOnWhileTheProgramFreesMemory) {
  wait_for_kernel();
  if (IsSkipped() || HasFatalFailure()) return;
  for (const unsigned flags : {0U, 15U}) {
    for (const std::size_t size : {std::size_t{4097}, kSize}) {
      for (const MemoryKind kind : {MemoryKind::device, MemoryKind::managed, MemoryKind::pinned, MemoryKind::plain}) {
        SCOPED_TRACE(::testing::Message() << "flags " << flags << ", size " << size << ", " << name_of(kind));
        const Stream stream;
        const Gate gate;
        const Memory memory(kind, kRoom);
        memory.fill(6);
        fill_file(5);
        ASSERT_EQ(code(cuFileStreamRegister(stream.get(), flags)), CU_FILE_SUCCESS);
        Call read{size};
        Call write{size, static_cast<off_t>(kSize - size)};
        Freeing freeing;
        gate.hold(stream.get());
        ASSERT_EQ(read.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
        ASSERT_EQ(write.write(handle_, memory, stream.get()), CU_FILE_SUCCESS);
        freeing.begin();
        gate.open();
        stream.synchronize();
        EXPECT_EQ(read.moved, static_cast<ssize_t>(size));
        EXPECT_EQ(write.moved, static_cast<ssize_t>(size));
        EXPECT_TRUE(all_bytes(5, memory.get(0, size)));
        EXPECT_TRUE(all_bytes(6, memory.get(size, kRoom - size)));
        EXPECT_TRUE(all_bytes(5, file_bytes(kSize)));
        EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
      }
    }
  }
}

// What the driver has not copied by then, the kernel carries when it begins after all.
TEST_F(GatedStreams, GoOnWhileTheProgramFreesMemoryAndTheirKernelWasCalledOff) {
  wait_for_kernel();
  if (IsSkipped() || HasFatalFailure()) return;
  for (const std::size_t size : {std::size_t{4097}, kSize}) {
    for (const bool reads : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "size " << size << (reads ? ", read" : ", written"));
      const Memory memory(MemoryKind::device, kRoom);
      memory.fill(6);
      fill_file(5);
      const Stream stream;
      Call call{size};
      Freeing freeing;
      std::string why_not;
      const auto busy = BusyDevice::hold(&why_not);
      if (busy == nullptr) GTEST_SKIP() << why_not;
      const Gate gate;
      gate.hold(stream.get());
      ASSERT_EQ(reads ? call.read(handle_, memory, stream.get()) : call.write(handle_, memory, stream.get()),
                CU_FILE_SUCCESS);
      freeing.begin();
      const KernelWait kernels;
      gate.open();
      while (!kernels.some_were_called_off() && !kernels.is_over()) ::usleep(1000);
      ASSERT_FALSE(kernels.is_over()) << "the kernel was not revoked";
      busy->let_go();
      stream.synchronize();
      EXPECT_EQ(call.moved, static_cast<ssize_t>(size));
      EXPECT_TRUE(all_bytes(reads ? 5 : 6, reads ? memory.get(0, size) : file_bytes(size)));
      EXPECT_TRUE(all_bytes(6, memory.get(size, kRoom - size)));
    }
  }
}

// Between a call's gate and its kernel, too.
TEST_F(GatedStreams, GoOnWhileAThreadOfTheProgramFreesMemoryAllTheTime) {
  wait_for_kernel();
  if (IsSkipped() || HasFatalFailure()) return;
  std::atomic<bool> over{false};
  std::thread freeing([&] {
    const ContextScope context(primary_context(0));
    while (!over) {
      CudaAddress memory = 0;
      EXPECT_EQ(cuda()->allocate(&memory, 4096), 0);
      EXPECT_EQ(cuda()->release(memory), 0);
      ::usleep(20);
    }
  });
  std::vector<std::thread> readers;
  for (const std::size_t size : {std::size_t{4097}, std::size_t{200000}}) {
    readers.emplace_back([&, size] {
      const ContextScope context(primary_context(0));
      const Stream stream;
      const Memory memory(MemoryKind::device, size);
      for (int round = 0; round < 200; ++round) {
        Call call{size};
        ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
        stream.synchronize();
        ASSERT_EQ(call.moved, static_cast<ssize_t>(size));
      }
      EXPECT_TRUE(same_bytes({file_.content().data(), size}, memory.get()));
    });
  }
  for (std::thread& reader : readers) reader.join();
  over = true;
  freeing.join();
}

// As programs free what only the work before it needs.
class FreedBehindTheCall : public GatedStreams, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    GatedStreams::SetUp();
    if (IsSkipped() || cuda() == nullptr) return;
    if (cuda()->allocate_async == nullptr) GTEST_SKIP() << "no cuMemAllocAsync here";
    const char* const copy = std::getenv("SLUICE_COPY");
    if (copy != nullptr && std::string_view(copy) == "engine") GTEST_SKIP() << "a kernel finds such memory alone";
  }
  // The kernel that carries is in the stream; where it is revoked, the driver is asked to copy.
  static bool is_excused(const Call& call, const KernelWait& kernels) {
    return call.moved != static_cast<ssize_t>(call.size) && kernels.some_were_called_off();
  }
  void read(CudaAddress address, Call& call, CUstream stream) const {
    EXPECT_EQ(code(cuFileReadAsync(handle_, reinterpret_cast<void*>(address), &call.size, &call.file_offset,
                                   &call.buffer_offset, &call.moved, stream)),
              CU_FILE_SUCCESS);
  }
  void write(CudaAddress address, Call& call, CUstream stream) const {
    EXPECT_EQ(code(cuFileWriteAsync(handle_, reinterpret_cast<void*>(address), &call.size, &call.file_offset,
                                    &call.buffer_offset, &call.moved, stream)),
              CU_FILE_SUCCESS);
  }
  CudaAddress allocate(CUstream stream) const {
    CudaAddress address = 0;
    EXPECT_EQ(GetParam() ? cuda()->allocate_async(&address, kRoom, stream) : cuda()->allocate(&address, kRoom), 0);
    EXPECT_EQ(cuda()->stream_synchronize(stream), 0);
    return address;
  }
};

TEST_P(FreedBehindTheCall, MemoryIsReadIntoForTheWorkInBetween) {
  for (const unsigned flags : {0U, 15U}) {
    for (const std::size_t size : {std::size_t{4097}, std::size_t{100001}, kSize}) {
      SCOPED_TRACE(::testing::Message() << "flags " << flags << ", size " << size);
      const Stream stream;
      const Gate gate;
      const Memory host(MemoryKind::pinned, size);
      fill_file(5);
      ASSERT_EQ(code(cuFileStreamRegister(stream.get(), flags)), CU_FILE_SUCCESS);
      const CudaAddress address = allocate(stream.get());
      const KernelWait kernels;
      Call call{size};
      gate.hold(stream.get());
      read(address, call, stream.get());
      ASSERT_EQ(cuda()->to_host_async(host.address(), address, size, stream.get()), 0);
      ASSERT_EQ(cuda()->release_async(address, stream.get()), 0);
      gate.open();
      stream.synchronize();
      if (is_excused(call, kernels)) GTEST_SKIP() << kTooBusyForKernels;
      EXPECT_EQ(call.moved, static_cast<ssize_t>(size));
      EXPECT_TRUE(all_bytes(5, host.get(0, size)));
      EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
    }
  }
}

TEST_P(FreedBehindTheCall, MemoryIsWrittenFrom) {
  for (const unsigned flags : {0U, 15U}) {
    for (const std::size_t size : {std::size_t{4097}, kSize}) {
      SCOPED_TRACE(::testing::Message() << "flags " << flags << ", size " << size);
      const Stream stream;
      const Gate gate;
      fill_file(7);
      ASSERT_EQ(code(cuFileStreamRegister(stream.get(), flags)), CU_FILE_SUCCESS);
      const CudaAddress address = allocate(stream.get());
      const KernelWait kernels;
      Call call{size};
      gate.hold(stream.get());
      ASSERT_EQ(cuda()->fill_async(address, 3, size, stream.get()), 0);
      write(address, call, stream.get());
      ASSERT_EQ(cuda()->release_async(address, stream.get()), 0);
      gate.open();
      stream.synchronize();
      if (is_excused(call, kernels)) GTEST_SKIP() << kTooBusyForKernels;
      EXPECT_EQ(call.moved, static_cast<ssize_t>(size));
      EXPECT_TRUE(all_bytes(3, file_bytes(size)));
      EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
    }
  }
}

// Then neither a kernel reaches the memory nor, where it has forgotten it, the driver.
TEST_P(FreedBehindTheCall, MemoryHasItsBytesOrTheCallTellsWhyNotWhereTheDeviceBeginsNothingForLong) {
  for (const std::size_t size : {std::size_t{4097}, kSize}) {
    SCOPED_TRACE(size);
    const Stream stream;
    const Gate gate;
    const Memory host(MemoryKind::pinned, size);
    fill_file(5);
    const CudaAddress address = allocate(stream.get());
    Call call{size};
    std::string why_not;
    const auto busy = BusyDevice::hold(&why_not);
    if (busy == nullptr) GTEST_SKIP() << why_not;
    gate.hold(stream.get());
    read(address, call, stream.get());
    ASSERT_EQ(cuda()->to_host_async(host.address(), address, size, stream.get()), 0);
    ASSERT_EQ(cuda()->release_async(address, stream.get()), 0);
    const KernelWait kernels;
    gate.open();
    while (!kernels.some_were_called_off() && !kernels.is_over()) ::usleep(1000);
    ASSERT_FALSE(kernels.is_over()) << "the kernel was not revoked";
    busy->let_go();  // what was revoked has to leave, too
    stream.synchronize();
    if (call.moved < 0) {
      EXPECT_EQ(call.moved, -EPERM);
    } else {
      EXPECT_EQ(call.moved, static_cast<ssize_t>(size));
      EXPECT_TRUE(all_bytes(5, host.get(0, size)));
    }
    // What comes next in the stream is carried by the kernel again.
    const Memory memory(MemoryKind::device, size);
    const std::uint64_t before = carriers().kernel;
    for (const KernelWait next; carriers().kernel == before;) {
      if (next.is_over()) return next.give_up("no kernel carries for the stream any more");
      memory.fill(6);
      Call again{size};
      ASSERT_EQ(again.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
      stream.synchronize();
      ASSERT_EQ(again.moved, static_cast<ssize_t>(size));
      ASSERT_TRUE(all_bytes(5, memory.get()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gated, FreedBehindTheCall, ::testing::Bool(),
                         [](const auto& name) { return name.param ? "OfAPool" : "OfNoPool"; });

TEST_F(GatedStreams, TellTheCountToLaterWorkOfTheStream) {
  const Stream stream;
  const Gate gate;
  const Memory memory(MemoryKind::device, kRoom);
  const Memory pinned(MemoryKind::pinned, 4096);
  const Memory seen(MemoryKind::device, 4096);
  auto* const call = new (pinned.address()) Call{kSize};
  gate.hold(stream.get());
  ASSERT_EQ(call->read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  copy_in(stream, seen, 0, &call->moved, sizeof call->moved);
  gate.open();
  stream.synchronize();
  ssize_t moved = 0;
  const Bytes bytes = seen.get(0, sizeof moved);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<unsigned char*>(&moved));
  EXPECT_EQ(moved, static_cast<ssize_t>(kSize));
}

TEST_F(GatedStreams, MayBeAnyNumberThatGoInAnyOrder) {
  constexpr std::size_t count = 64;
  constexpr std::size_t size = 100001;
  struct One {
    Stream stream;
    Gate gate;
    Memory memory{MemoryKind::device, size};
    Call call{size};
  };
  std::deque<One> all(count);
  for (One& one : all) one.memory.fill(6);
  for (std::size_t i = 0; i < count; ++i) {
    One& one = all[i];
    one.call.file_offset = static_cast<off_t>(i * 1000);
    if (cuda()->soft && std::getenv("SLUICE_SOFTGPU_QUEUES") == nullptr) one.gate.hold(one.stream.get());
    ASSERT_EQ(one.call.read(handle_, one.memory, one.stream.get()), CU_FILE_SUCCESS);
    ASSERT_EQ(one.call.read(handle_, one.memory, one.stream.get()), CU_FILE_SUCCESS);
  }
  for (std::size_t i = 0; i < count; ++i) all[(i * 37 + 5) % count].gate.open();
  for (std::size_t i = 0; i < count; ++i) {
    all[i].stream.synchronize();
    ASSERT_EQ(all[i].call.moved, static_cast<ssize_t>(size)) << i;
    ASSERT_TRUE(same_bytes({file_.content().data() + i * 1000, size}, all[i].memory.get())) << i;
  }
}

TEST_F(GatedStreams, AreServedWhenAKernelThatWaitsForThemHoldsTheDevice) {
  for (const std::size_t size : {std::size_t{70001}, kSize}) {
    const Stream stream;
    const Memory memory(MemoryKind::device, kRoom);
    memory.fill(6);
    Call call{size, 11, 3};
    std::string why_not;
    const auto busy = BusyDevice::hold(&why_not);
    if (busy == nullptr) GTEST_SKIP() << why_not;
    ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
    const std::atomic_ref moved(call.moved);
    while (moved.load() == -77) ::usleep(100);
    EXPECT_EQ(call.moved, static_cast<ssize_t>(std::min(size, kSize - 11)));
    busy->let_go();
    stream.synchronize();
    EXPECT_TRUE(same_bytes({file_.content().data() + 11, static_cast<std::size_t>(call.moved)},
                           memory.get(3, static_cast<std::size_t>(call.moved))));
    EXPECT_TRUE(all_bytes(6, memory.get(0, 3)));
  }
}

// Eight of them, as many as a GPU has queues: what is copied in their place may stand behind the kernel that waits for
// it.
TEST_F(GatedStreams, AreServedWhereTheirCopiesStandBehindThem) {
  wait_for_kernel();
  if (IsSkipped() || HasFatalFailure()) return;
  std::array<Call, 16> calls;
  std::array<Stream, 8> streams;
  const Memory memory(MemoryKind::device, calls.size() * kPiece);
  for (int round = 0; round < 3; ++round) {
    memory.fill(6);
    std::string why_not;
    const auto busy = BusyDevice::hold(&why_not);
    if (busy == nullptr) GTEST_SKIP() << why_not;  // nothing is revoked where no kernel has to wait for another
    const KernelWait kernels;
    for (std::size_t i = 0; i < calls.size(); ++i) read_piece(i, calls[i], memory, streams[i % streams.size()]);
    kernels.want_one_called_off();
    busy->let_go();
    for (const Stream& stream : streams) stream.synchronize();
    expect_pieces(calls, memory);
  }
}

TEST_F(GatedStreams, CanBeNewWhereOthersHaveAllQueues) {
  wait_for_kernel();
  if (IsSkipped() || HasFatalFailure()) return;
  std::array<Call, 4> calls;
  const Memory memory(MemoryKind::device, calls.size() * kPiece);
  memory.fill(6);
  const std::array<Stream, 4> streams;
  const std::array<Stream, 32> waiting;
  const Gate gate;
  for (const Stream& stream : waiting) gate.hold(stream.get());
  for (std::size_t i = 0; i < calls.size(); ++i) read_piece(i, calls[i], memory, streams[i]);
  gate.open();
  for (const Stream& stream : streams) stream.synchronize();
  for (const Stream& stream : waiting) stream.synchronize();
  expect_pieces(calls, memory);
}

// A hardware queue gets another stream's kernel just before a copy would come, and that kernel has to wait for the
// copy's own stream to leave the device.
TEST_F(GatedStreams, AreServedWhereAKernelComesBetweenAQueueAndTheCopy) {
  wait_for_kernel();
  if (IsSkipped() || HasFatalFailure()) return;
  std::array<Call, 2> calls;
  std::array<Stream, 2> streams;
  const Stream waiting;
  const Memory memory(MemoryKind::device, calls.size() * kPiece);
  // The copy is asked for just after the first kernel was counted as revoked, which nothing tells of. A round whose
  // second call comes before that shows nothing; few do.
  for (int round = 0; round < 10; ++round) {
    memory.fill(6);
    std::string why_not;
    const auto busy = BusyDevice::hold(&why_not);
    if (busy == nullptr) GTEST_SKIP() << why_not;  // nothing is revoked where no kernel has to wait for another
    const Gate gate;
    gate.hold(waiting.get());
    const KernelWait first;
    read_piece(0, calls[0], memory, streams[0]);
    gate.hold(waiting.get());  // what finds no free queue goes where the last work went
    first.want_one_called_off();
    const KernelWait second;
    read_piece(1, calls[1], memory, streams[1]);
    gate.open();
    second.want_one_called_off();
    busy->let_go();
    for (const Stream& stream : streams) stream.synchronize();
    cuda_function<int()>("cuCtxSynchronize")();  // streams of the library's own, too: they would have a queue
    expect_pieces(calls, memory);
  }
}

// Four of the program's, which stand behind what their streams wait for: the fallback's copy would stand behind these.
// It waits until either the stream's own kernel begins or an engine comes.
TEST_F(GatedStreams, AreServedWhereCopiesOfTheProgramHaveAllEngines) {
  wait_for_kernel();
  if (IsSkipped() || HasFatalFailure()) return;
  constexpr std::size_t large = 65536;
  const Memory memory(MemoryKind::device, kPiece);
  const Memory to(MemoryKind::device, 4 * large);
  const Memory from(MemoryKind::pinned, large);
  std::array<Call, 1> call;
  const Stream stream;
  const std::array<Stream, 4> copying;
  for (const bool engine_comes : {false, true, false, true, false}) {
    SCOPED_TRACE(engine_comes);
    memory.fill(6);
    std::string why_not;
    const auto busy = BusyDevice::hold(&why_not);
    if (busy == nullptr) GTEST_SKIP() << why_not;  // nothing is revoked where no kernel has to wait for another
    const Gate gate;
    for (std::size_t i = 0; i < copying.size(); ++i) {
      gate.hold(copying[i].get());
      copy_in(copying[i], to, i * large, from.address(), large);
    }
    const KernelWait kernels;
    const std::uint64_t before = carriers().copy_engine;
    read_piece(0, call[0], memory, stream);
    kernels.want_one_called_off();
    if (engine_comes) {
      gate.open();
      const KernelWait copied;
      while (carriers().copy_engine == before && !copied.is_over()) std::this_thread::yield();
      expect_pieces(call, memory);
    }
    busy->let_go();
    stream.synchronize();
    expect_pieces(call, memory);
    gate.open();
    for (const Stream& one : copying) one.synchronize();
  }
}

// All hardware queues are theirs. Shorter reads share them.
TEST_F(GatedStreams, HoldUpNoCallOfMoreThan16KiB) {
  if (std::getenv("SLUICE_SOFTGPU_QUEUES") != nullptr && std::getenv("SLUICE_SOFTGPU_QUEUES_FOR_ALL") == nullptr) {
    GTEST_SKIP() << "in this run copy engines have no queues of their own";
  }
  wait_for_kernel();  // a driver that loads code waits for all streams, and takes no copies meanwhile
  if (IsSkipped() || HasFatalFailure()) return;
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  const std::array<Stream, 32> waiting;
  const Gate gate;
  for (const Stream& stream : waiting) gate.hold(stream.get());
  for (const std::size_t size : {20001UL, 70001UL}) {
    SCOPED_TRACE(size);
    EXPECT_EQ(cuFileRead(handle_, memory.address(), size, 0, 0), static_cast<ssize_t>(size));
    EXPECT_TRUE(same_bytes({file_.content().data(), size}, memory.get(0, size)));
  }
  for (const std::size_t size : {1UL, 4096UL, 70000UL, kSize - 1}) {
    SCOPED_TRACE(size);
    EXPECT_EQ(cuFileWrite(handle_, memory.address(), size, 0, 1), static_cast<ssize_t>(size));
    EXPECT_TRUE(same_bytes(memory.get(1, size), file_bytes(size)));
  }
  gate.open();
  for (const Stream& stream : waiting) stream.synchronize();
}

TEST_F(GatedStreams, LoseAHandleThatIsDeregisteredBeforeTheyGetThere) {
  const Stream stream;
  const Gate gate;
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  Call call{kSize};
  gate.hold(stream.get());
  ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  cuFileHandleDeregister(handle_);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(call.moved, -CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_TRUE(all_bytes(6, memory.get()));
}

TEST_F(GatedStreams, OutliveTheDriverAndTheirOwnDestruction) {
  const Gate gate;
  const Memory memory(MemoryKind::device, kRoom);
  CUstream stream{};
  ASSERT_EQ(cuda()->stream_create(&stream, 1), 0);
  Call call{kSize};
  gate.hold(stream);
  ASSERT_EQ(call.read(handle_, memory, stream), CU_FILE_SUCCESS);
  close_driver_fully();
  ASSERT_EQ(cuda()->stream_destroy(stream), 0);
  gate.open();
  ASSERT_EQ(cuda()->context_synchronize(), 0);
  EXPECT_EQ(call.moved, -CU_FILE_HANDLE_NOT_REGISTERED);
}

TEST_F(GatedStreams, FinishWhatTheirHandleIsDeregisteredBehind) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  Call call{kSize};
  ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  cuFileHandleDeregister(handle_);
  stream.synchronize();
  EXPECT_EQ(call.moved, static_cast<ssize_t>(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get(0, kSize)));
}

TEST_F(GatedStreams, ReplayAGraphThatReadsAndWritesEachTime) {
  if (cuda()->begin_capture == nullptr) GTEST_SKIP() << "no graphs here";
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const Memory copy(MemoryKind::device, kRoom);
  const auto address = reinterpret_cast<CudaAddress>(memory.address());
  ASSERT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_SUCCESS);
  Call read{100001};
  Call write{100001, 200000};
  Call again{100001, 200000};
  Recording recording(stream);
  ASSERT_EQ(read.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  ASSERT_EQ(write.write(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  ASSERT_EQ(cuda()->fill_async(address, 0, kRoom, stream.get()), 0);
  ASSERT_EQ(again.read(handle_, copy, stream.get()), CU_FILE_SUCCESS);
  ASSERT_NO_FATAL_FAILURE(recording.close());
  for (unsigned char round = 1; round <= 5; ++round) {
    fill_file(round, 100001);
    ASSERT_EQ(recording.replay(), 0);
    if (round % 2 == 0) {
      ASSERT_EQ(recording.replay(), 0);
    }
    stream.synchronize();
    EXPECT_EQ(read.moved, 100001);
    EXPECT_EQ(write.moved, 100001);
    EXPECT_EQ(again.moved, 100001);
    ASSERT_TRUE(all_bytes(round, copy.get(0, 100001)));
    ASSERT_TRUE(all_bytes(0, memory.get(0, 100001)));
  }
  EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
}

// The commands of a stream's transfers begin anew to count after some five of these.
TEST_F(GatedStreams, GoOnWhereTheirCommandsBeginAnewToCount) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  // Loads what carries: not while the stream is held.
  Call first{1};
  ASSERT_EQ(first.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  stream.synchronize();
  for (unsigned char round = 1; round <= 5; ++round) {
    SCOPED_TRACE(static_cast<int>(round));
    fill_file(round);
    memory.fill(0);
    std::array<Call, 4> calls{Call{kSize}, Call{100001, 5000}, Call{1, 100}, Call{kSize}};
    const Gate gate;
    gate.hold(stream.get());
    for (Call& call : calls) ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
    gate.open();
    stream.synchronize();
    for (const Call& call : calls) EXPECT_EQ(call.moved, static_cast<ssize_t>(call.size));
    ASSERT_TRUE(all_bytes(round, memory.get(0, kSize)));
    ASSERT_TRUE(all_bytes(0, memory.get(kSize, kRoom - kSize)));
  }
}

TEST_F(GatedStreams, ReplayAGraphWhoseCommandsBeginAnewToCount) {
  if (cuda()->begin_capture == nullptr) GTEST_SKIP() << "no graphs here";
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  ASSERT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_SUCCESS);
  Call read{kSize};
  Recording recording(stream);
  ASSERT_EQ(read.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  ASSERT_NO_FATAL_FAILURE(recording.close());
  for (unsigned char round = 1; round <= 4; ++round) {
    fill_file(round);
    memory.fill(0);
    for (int launch = 0; launch < 3; ++launch) ASSERT_EQ(recording.replay(), 0);
    stream.synchronize();
    EXPECT_EQ(read.moved, static_cast<ssize_t>(kSize));
    ASSERT_TRUE(all_bytes(round, memory.get(0, kSize)));
  }
  EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
}

TEST_F(GatedStreams, LeaveTheCaptureOfAnotherThreadAlone) {
  if (cuda()->begin_capture == nullptr) GTEST_SKIP() << "no graphs here";
  const Stream captured;
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  constexpr int global_mode = 0;
  ASSERT_EQ(cuda()->begin_capture(captured.get(), global_mode), 0);
  Call call{kSize};
  ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  const std::atomic_ref moved(call.moved);
  while (moved.load() == -77) ::usleep(100);
  void* graph = nullptr;
  EXPECT_EQ(cuda()->end_capture(captured.get(), &graph), 0) << "the capture was broken";
  if (graph != nullptr) cuda()->graph_destroy(graph);
  stream.synchronize();
  EXPECT_EQ(call.moved, static_cast<ssize_t>(kSize));
}

TEST_F(GatedStreams, ReadNothingEarlyAlsoWhereTheProgramWouldAllowIt) {
  const Stream stream;
  const Gate gate;
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  fill_file(1);
  EXPECT_EQ(code(sluice_stream_read_early(stream.get(), 1)), CU_FILE_INVALID_VALUE) << "it is not registered";
  ASSERT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(sluice_stream_read_early(stream.get(), 1)), CU_FILE_SUCCESS);
  Call call{65536};
  gate.hold(stream.get());
  ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  fill_file(2);
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(all_bytes(2, memory.get(0, 65536))) << "it was read before the stream got there";
  EXPECT_EQ(call.moved, 65536);
  EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
}

// What a thread that attends to streams has done so far. One that spins never goes to sleep; on a busy machine it may
// have to wait for a processor all the time.
struct StreamWorker {
  std::string sleeps;          // how often it has gone to sleep
  std::uint64_t run_time = 0;  // in nanoseconds; 0 where the system does not tell
  bool runs = false;           // or would, if it had a processor

  bool was_awake_since(const StreamWorker& before) const {
    return runs || sleeps != before.sleeps || run_time != before.run_time;
  }
};

// By their threads' numbers.
std::map<std::string, StreamWorker> stream_workers_so_far() {
  std::map<std::string, StreamWorker> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    StreamWorker worker;
    bool attends = false;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:")) attends = line.ends_with("sluice-streams");
      if (line.starts_with("State:")) worker.runs = line.ends_with("(running)");
      if (line.starts_with("voluntary_ctxt_switches:")) worker.sleeps = line;
    }
    if (!attends) continue;
    std::ifstream(task.path() / "schedstat") >> worker.run_time;
    found[task.path().filename()] = worker;
  }
  return found;
}

TEST_F(GatedStreams, AreWatchedByOneThreadAloneWhenTheyWaitForLong) {
  const Stream stream;
  const Gate gate;
  const Memory memory(MemoryKind::device, kRoom);
  std::deque<Call> calls(20, Call{kSize});
  for (Call& call : calls) ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  stream.synchronize();
  gate.hold(stream.get());
  Call call{kSize};
  ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
  // A worker that is awake now has some time to find out that there is nothing to do. From then on nothing wakes it,
  // however busy the machine is.
  constexpr int most_looks = 100;
  constexpr int quiet_looks = 3;
  int quiet = 0;  // looks in a row
  for (int looks = 0; looks < most_looks && quiet < quiet_looks; ++looks) {
    const auto before = stream_workers_so_far();
    ::usleep(200000);  // what is looked for is who wakes in so long; nothing waits for its end
    int awake = 0;
    for (const auto& [thread, worker] : stream_workers_so_far()) {
      if (!before.contains(thread) || worker.was_awake_since(before.at(thread))) ++awake;
    }
    quiet = awake <= 1 ? quiet + 1 : 0;
  }
  EXPECT_EQ(quiet, quiet_looks) << "threads have nothing to do and do not sleep";
  gate.open();
  stream.synchronize();
  EXPECT_EQ(call.moved, static_cast<ssize_t>(kSize));
}

TEST_F(GatedStreams, CanBeManyOneAfterTheOther) {
  const Memory memory(MemoryKind::device, 8192);
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    const Stream stream;
    Call call{8191, round};
    ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
    ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
    stream.synchronize();
    ASSERT_EQ(call.moved, 8191);
    ASSERT_TRUE(same_bytes({file_.content().data() + round, 8191}, memory.get(0, 8191))) << round;
  }
}

// Everything that one stream may be given, in any order.
TEST_F(GatedStreams, MayBeGivenEveryKindOfTransferInTurn) {
  constexpr std::size_t room = 128 << 10;  // of one transfer
  constexpr std::size_t together = 30;
  constexpr int bursts = 60;
  constexpr off_t written_from = 2 << 20;  // nothing behind this is read
  const Stream stream;
  const Gate gate;
  const Memory memory(MemoryKind::device, room * together);
  Bytes file = file_.content();
  Random random(run_seed());
  for (int burst = 0; burst < bursts; ++burst) {
    SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << run_seed() << ", burst " << burst);
    gate.open_to(0);
    memory.fill(6);
    Bytes expected(memory.size(), 6);
    std::deque<Call> calls;
    std::deque<std::size_t> sizes;
    const std::size_t held_at = random.below(2 * together);
    for (std::size_t place = 0; place < together; ++place) {
      if (place == held_at) gate.hold(stream.get());
      const std::size_t kind = random.below(8);
      const std::size_t most = kind == 0 ? room : 9000;
      const std::size_t size = 1 + random.below(most);
      sizes.push_back(size);
      Call& call = calls.emplace_back(
          Call{size, static_cast<off_t>(random.below(written_from - room)), static_cast<off_t>(place * room)});
      const bool registered = kind != 1;
      if (registered) {
        ASSERT_EQ(code(cuFileStreamRegister(stream.get(), kind == 2 ? 0 : 15)), CU_FILE_SUCCESS);
      }
      if (kind == 4 && place > 0) {
        call.buffer_offset = static_cast<off_t>((place - 1) * room);
        call.file_offset = static_cast<off_t>(written_from + place * 9000);
        ASSERT_EQ(call.write(handle_, memory, stream.get()), CU_FILE_SUCCESS);
        std::copy_n(expected.begin() + call.buffer_offset, size, file.begin() + call.file_offset);
      } else {
        ASSERT_EQ(call.read(handle_, memory, stream.get()), CU_FILE_SUCCESS);
        // What is not fixed is looked at when the stream gets there.
        if (kind == 2 && place >= held_at) call.size = sizes.back() = 1 + size / 2;
        std::copy_n(file.begin() + call.file_offset, sizes.back(), expected.begin() + static_cast<long>(place * room));
      }
      if (registered) {
        ASSERT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
      }
    }
    gate.open();
    stream.synchronize();
    for (std::size_t i = 0; i < calls.size(); ++i) ASSERT_EQ(calls[i].moved, static_cast<ssize_t>(sizes[i])) << i;
    ASSERT_TRUE(same_bytes(expected, memory.get()));
    ASSERT_TRUE(same_bytes(file, file_bytes(file.size())));
  }
}

TEST_F(GatedStreams, CanBeEightThatReadThousandsOfTimes) {
  constexpr std::size_t size = 4096;
  constexpr std::size_t rounds = 1500;
  std::array<Stream, 8> streams;
  const Memory memory(MemoryKind::device, 2 * streams.size() * size);
  std::array<Call, 16> calls;
  for (const Stream& stream : streams) ASSERT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_SUCCESS);
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      calls[i] = {size, static_cast<off_t>(round * 1000 + i * 77777), static_cast<off_t>(i * size)};
      ASSERT_EQ(calls[i].read(handle_, memory, streams[i % streams.size()].get()), CU_FILE_SUCCESS);
    }
    for (const Stream& stream : streams) stream.synchronize();
    const Bytes found = memory.get();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      ASSERT_EQ(calls[i].moved, static_cast<ssize_t>(size)) << "round " << round;
      ASSERT_TRUE(same_bytes({file_.content().data() + calls[i].file_offset, size}, {found.data() + i * size, size}))
          << "round " << round;
    }
  }
  for (const Stream& stream : streams) EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
}

// Each has a hardware queue, so there is none for copies that share these.
TEST_F(GatedStreams, CanBeEightWithTransfersOfEverySize) {
  constexpr std::size_t apart = 370000;
  const Memory memory(MemoryKind::device, 8 * apart);
  const std::array<Stream, 8> streams;
  for (const std::size_t size : {2UL, 3UL, 4095UL, 4096UL, 24577UL, 32767UL, 70001UL, apart - 1}) {
    SCOPED_TRACE(size);
    memory.fill(6);
    const Bytes content = file_bytes(kSize);
    std::array<Call, 8> calls;
    const auto all_at_once = [&](auto call_at) {
      const Gate gate;
      for (const Stream& stream : streams) gate.hold(stream.get());
      for (std::size_t i = 0; i < calls.size(); ++i) call_at(i);
      gate.open();
      for (const Stream& stream : streams) stream.synchronize();
      for (const Call& call : calls) EXPECT_EQ(call.moved, static_cast<ssize_t>(size));
    };
    all_at_once([&](std::size_t i) {
      calls[i] = {size, static_cast<off_t>(i * 1001), static_cast<off_t>(i * apart)};
      EXPECT_EQ(calls[i].read(handle_, memory, streams[i].get()), CU_FILE_SUCCESS);
    });
    for (std::size_t i = 0; i < calls.size(); ++i) {
      ASSERT_TRUE(same_bytes({content.data() + i * 1001, size}, memory.get(i * apart, size))) << i;
      ASSERT_TRUE(all_bytes(6, memory.get(i * apart + size, 1))) << i;
    }
    all_at_once([&](std::size_t i) {
      calls[i] = {size, static_cast<off_t>(i * apart), static_cast<off_t>(i * apart)};
      EXPECT_EQ(calls[i].write(handle_, memory, streams[i].get()), CU_FILE_SUCCESS);
    });
    const Bytes written = file_bytes(kSize);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      ASSERT_TRUE(same_bytes({content.data() + i * 1001, size}, {written.data() + i * apart, size})) << i;
      ASSERT_EQ(written[i * apart + size], content[i * apart + size]) << i;
    }
  }
}

}  // namespace
}  // namespace sluice::contract
