// SPDX-License-Identifier: Apache-2.0
// Large transfers of device memory go through a staging buffer, and the counters tell what carried them. Every byte is
// right whatever does, wherever the file ends and however the ends are aligned.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <string>
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

sluice_carrier_counts_t carriers() {
  sluice_carrier_counts_t counts{};
  auto* const ask = entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters");
  if (ask != nullptr) ask(&counts);
  return counts;
}

// What the environment of this run asks for, where it asks.
bool is_set(const char* name, const char* value) {
  const char* const given = std::getenv(name);
  return given != nullptr && std::string(given) == value;
}

bool refuses_a_step() {
  return is_set("SLUICE_SOFTGPU_FAIL", "cuMemcpy2DAsync_v2:1:2,cuMemcpyHtoDAsync_v2:1:2") ||
         is_set("SLUICE_SOFTGPU_FAIL", "cuMemHostGetDevicePointer_v2:1:2");
}

class Staging : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters") == nullptr) {
      GTEST_SKIP() << "this libcufile does not count carriers";
    }
    if (is_set("SLUICE_MODE", "plain")) GTEST_SKIP() << "plain mode has no staging buffers";
    if (is_set("SLUICE_COPY", "engine")) GTEST_SKIP() << "this run asks for the copy engine";
  }
};

// The kernel is loaded in the background, with the first large read of a context. Where it does not come the test is
// over, skipped or failed.
void wait_for_kernel(CUfileHandle_t handle, const Bytes& content, const Memory& memory) {
  constexpr std::size_t size = 262144;
  const KernelWait waiting;
  const sluice_carrier_counts_t before = carriers();
  while (carriers().kernel == before.kernel && !waiting.is_over()) {
    ASSERT_EQ(read_file(handle, memory.address(), size), moved(size));
    std::this_thread::yield();
  }
  ASSERT_TRUE(same_bytes(std::span(content).first(size), memory.get(0, size)));
  if (carriers().kernel == before.kernel) waiting.give_up("the kernel has carried nothing");
}

bool test_is_over() {
  return testing::Test::IsSkipped() || testing::Test::HasFatalFailure();
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST_F(Staging, CachedReadsAreCarriedByTheKernel) {
  const ScratchFile file(3 * kMiB);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 3 * kMiB);
  wait_for_kernel(handle.get(), file.content(), memory);
  if (test_is_over()) return;
  // Each is carried once. A kernel does it, but on a busy machine: it may not begin soon, and a reader that stands
  // still for some milliseconds is taken for stuck, so that the copy engine has the rest.
  const KernelWait waiting;
  sluice_carrier_counts_t before{};
  sluice_carrier_counts_t after{};
  do {
    memory.fill(0x5a);
    before = carriers();
    ASSERT_EQ(read_file(handle.get(), memory.address(), 3 * kMiB), moved(3 * kMiB));
    after = carriers();
    ASSERT_TRUE(same_bytes(file.content(), memory.get()));
    ASSERT_EQ(after.kernel + after.copy_engine, before.kernel + before.copy_engine + 1);
  } while (after.kernel == before.kernel && !waiting.is_over());
  if (after.kernel == before.kernel) waiting.give_up("the kernel has carried no read of this size");
}

TEST_F(Staging, SmallReadsGoThroughASlab) {
  const ScratchFile file(65536);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 65536);
  const sluice_carrier_counts_t before = carriers();
  ASSERT_EQ(read_file(handle.get(), memory.address(), 65536), moved(65536));
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
  EXPECT_EQ(carriers().slab, before.slab + 1);
}

TEST_F(Staging, WritesAreCarriedByTheCopyEngine) {
  const ScratchFile file(0);
  const Bytes content = random_bytes(3 * kMiB + 77, 5);
  const Memory memory(MemoryKind::device, content.size());
  memory.put(0, content);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const sluice_carrier_counts_t before = carriers();
  ASSERT_EQ(write_file(handle.get(), memory.address(), content.size()), moved(content.size()));
  EXPECT_TRUE(same_bytes(content, content_of(file.path())));
  EXPECT_EQ(carriers().copy_engine, before.copy_engine + 1);
}

// Odd lengths, odd places: around chunks, around the ring's end, around the file's end.
// The run lets the first registration of pinned memory fail, which is that of device 0's staging memory.
TEST_F(Staging, ADeviceThatHasNoneIsNoReasonForAnother) {
  if (!is_set("SLUICE_SOFTGPU_FAIL", "cuMemHostRegister:1:2") || cuda()->devices < 2) {
    GTEST_SKIP() << "wants SLUICE_SOFTGPU_FAIL=cuMemHostRegister:1:2, and two devices";
  }
  const ScratchFile file(3 * kMiB);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const auto by_staging = [&](int device) {
    const Memory memory(MemoryKind::device, 3 * kMiB, device);
    const sluice_carrier_counts_t before = carriers();
    EXPECT_EQ(read_file(handle.get(), memory.address(), 3 * kMiB), moved(3 * kMiB));
    EXPECT_TRUE(same_bytes(file.content(), memory.get()));
    const sluice_carrier_counts_t after = carriers();
    return after.kernel + after.copy_engine - before.kernel - before.copy_engine;
  };
  EXPECT_EQ(by_staging(0), 0u);
  EXPECT_EQ(by_staging(1), 1u);
}

// The run lets the driver refuse the first call of a kind that making a staging buffer takes. What was made until then
// is not given back: that would wait for the stream, and the stream waits for what is behind these reads. The next try
// goes on with it; another device has its own.
TEST_F(Staging, OneThatIsRefusedAStepWaitsForNoStreamAndIsMadeLater) {
  if (!refuses_a_step()) GTEST_SKIP() << "no step is refused in this run: contract.copies_refused_beside_a_stream does";
  const ScratchFile file(3 * kMiB);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 3 * kMiB, 0);
  const Memory elsewhere(MemoryKind::device, 3 * kMiB, 1);
  const Gate gate;
  const Stream stream;
  gate.hold(stream.get());
  const auto by_staging = [&](const Memory& target) {
    const sluice_carrier_counts_t before = carriers();
    EXPECT_EQ(read_file(handle.get(), target.address(), 3 * kMiB), moved(3 * kMiB));
    const sluice_carrier_counts_t after = carriers();
    return after.kernel + after.copy_engine > before.kernel + before.copy_engine;
  };
  EXPECT_FALSE(by_staging(memory));
  EXPECT_TRUE(by_staging(elsewhere));
  const KernelWait waiting;  // it is not tried again with every read
  while (!by_staging(memory) && !waiting.is_over()) std::this_thread::yield();
  EXPECT_TRUE(by_staging(memory));
  EXPECT_EQ(carriers().rings, 2u);
  gate.open();
  EXPECT_EQ(cuda()->stream_synchronize(stream.get()), 0);
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
  EXPECT_TRUE(same_bytes(file.content(), elsewhere.get()));
}

TEST_F(Staging, EveryByteIsRightAtRaggedEdges) {
  const std::size_t length = 9 * kMiB + 12345;
  const ScratchFile file(length);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, length + 8192);
  struct Range {
    std::size_t file, buffer, size;
  };
  const std::array ranges{Range{0, 0, length},           Range{1, 0, 4 * kMiB},       Range{4095, 13, 4 * kMiB + 1},
                          Range{4096, 16, 262144},       Range{12345, 7, 131073},     Range{17, 17, 5 * kMiB},
                          Range{kMiB, 3, length - kMiB}, Range{8191, 4097, 2 * kMiB}, Range{5, 4, 8 * kMiB - 3}};
  for (const Range& range : ranges) {
    SCOPED_TRACE(testing::Message() << "file " << range.file << " buffer " << range.buffer << " size " << range.size);
    memory.fill(0x5a);
    ASSERT_EQ(read_file(handle.get(), memory.address(), range.size, static_cast<off_t>(range.file),
                        static_cast<off_t>(range.buffer)),
              moved(range.size));
    EXPECT_TRUE(
        same_bytes(std::span(file.content()).subspan(range.file, range.size), memory.get(range.buffer, range.size)));
    EXPECT_TRUE(all_bytes(0x5a, memory.get(0, range.buffer)));
    EXPECT_TRUE(all_bytes(0x5a, memory.get(range.buffer + range.size, 4096)));
  }
}

TEST_F(Staging, NothingBehindTheEndOfTheFileIsTouched) {
  for (const std::size_t length : {std::size_t{1}, std::size_t{4096}, 200001 * std::size_t{1}, kMiB, 4 * kMiB + 5}) {
    const ScratchFile file(length);
    const Fd fd = file.open(O_RDONLY);
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, 6 * kMiB);
    memory.fill(0x5a);
    ASSERT_EQ(read_file(handle.get(), memory.address(), 6 * kMiB), moved(length));
    EXPECT_TRUE(same_bytes(file.content(), memory.get(0, length)));
    EXPECT_TRUE(all_bytes(0x5a, memory.get(length, 6 * kMiB - length)));
  }
}

// Long enough for hands that sleep while they are ahead of the device, and the end comes while they do.
TEST_F(Staging, NothingBehindTheEndOfTheFileIsTouchedByAVeryLargeRead) {
  constexpr std::size_t size = 48 * kMiB;
  for (const std::size_t length : {5 * kMiB + 7, 33 * kMiB + 4096, size - 1}) {
    const ScratchFile file(length);
    const Fd fd = file.open(O_RDONLY);
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, size);
    memory.fill(0x5a);
    ASSERT_EQ(read_file(handle.get(), memory.address(), size), moved(length));
    EXPECT_TRUE(same_bytes(file.content(), memory.get(0, length)));
    EXPECT_TRUE(all_bytes(0x5a, memory.get(length, size - length)));
  }
}

TEST_F(Staging, MoreThreadsThanRingsReadAtOnce) {
  const ScratchFile file(2 * kMiB);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&] {
      const Memory memory(MemoryKind::device, 2 * kMiB);
      for (int round = 0; round < 3; ++round) {
        memory.fill(0);
        EXPECT_EQ(read_file(handle.get(), memory.address(), 2 * kMiB), moved(2 * kMiB));
        EXPECT_TRUE(same_bytes(file.content(), memory.get()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// More requests than there are helpers. Whatever carries the bytes: the copy engine takes them in large pieces then.
class Crowd : public DeviceTest {};

TEST_F(Crowd, HasEveryByteRightAtRaggedEdges) {
  constexpr std::size_t length = 7 * kMiB + 12345;
  constexpr std::size_t guard = 4096;
  const ScratchFile file(length);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 10; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same ranges with every run
      const Memory memory(MemoryKind::device, length + 2 * guard);
      for (int round = 0; round < 6; ++round) {
        const std::size_t from = random() % (2 * kMiB);
        const std::size_t size = 1 + random() % length;
        const std::size_t buffer = random() % guard;
        const std::size_t there = std::min(size, length - from);
        memory.fill(0x5a);
        EXPECT_EQ(read_file(handle.get(), memory.address(), size, static_cast<off_t>(from), static_cast<off_t>(buffer)),
                  moved(there));
        EXPECT_TRUE(same_bytes(std::span(file.content()).subspan(from, there), memory.get(buffer, there)));
        EXPECT_TRUE(all_bytes(0x5a, memory.get(0, buffer)));
        EXPECT_TRUE(all_bytes(0x5a, memory.get(buffer + there, guard)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Staging, ABusyDeviceHasItsLaunchCalledOffAndTheBytesAreRight) {
  const ScratchFile file(3 * kMiB);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 3 * kMiB);
  wait_for_kernel(handle.get(), file.content(), memory);
  if (test_is_over()) return;
  memory.fill(0x5a);
  std::string why_not;
  const auto busy = BusyDevice::hold(&why_not);
  if (busy == nullptr) GTEST_SKIP() << why_not;
  const sluice_carrier_counts_t before = carriers();
  // After other launches that were revoked, the kernel may rest for up to a thousand requests.
  int reads = 0;
  for (; reads < 1100 && carriers().kernel_called_off == before.kernel_called_off; ++reads) {
    ASSERT_EQ(read_file(handle.get(), memory.address(), 262144), moved(262144));
  }
  // Until what keeps the device busy had begun itself, the kernel may have had its turn.
  const sluice_carrier_counts_t called_off = carriers();
  EXPECT_EQ(called_off.kernel_called_off, before.kernel_called_off + 1);
  EXPECT_EQ(called_off.copy_engine + called_off.kernel,
            before.copy_engine + before.kernel + static_cast<std::uint64_t>(reads));
  // Again, while that launch still waits to be told that it is not wanted.
  ASSERT_EQ(read_file(handle.get(), memory.address(), 3 * kMiB), moved(3 * kMiB));
  EXPECT_EQ(carriers().kernel, called_off.kernel);
  EXPECT_EQ(carriers().copy_engine, called_off.copy_engine + 1);
  busy->let_go();
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
}

// After a launch that was revoked the kernel rests for some requests. One large read counts for several of these: by
// the copy engine it takes twice its time.
TEST_F(Staging, ALargeReadIsSoonDueAKernelAgain) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "readers stand still for so long here that the copy engine gets the rest of most large reads";
#endif
  const ScratchFile file(48 * kMiB);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 48 * kMiB);
  wait_for_kernel(handle.get(), file.content(), memory);
  if (test_is_over()) return;
  std::string why_not;
  const auto busy = BusyDevice::hold(&why_not);
  if (busy == nullptr) GTEST_SKIP() << why_not;
  const sluice_carrier_counts_t before = carriers();
  ASSERT_EQ(read_file(handle.get(), memory.address(), 48 * kMiB), moved(48 * kMiB));
  ASSERT_EQ(carriers().kernel_called_off, before.kernel_called_off + 1);
  busy->let_go();
  {
    const ContextScope context(primary_context(0));
    ASSERT_EQ(cuda()->context_synchronize(), 0);  // the launch that was revoked is through
  }
  const sluice_carrier_counts_t called_off = carriers();
  ASSERT_EQ(read_file(handle.get(), memory.address(), 48 * kMiB), moved(48 * kMiB));
  EXPECT_EQ(carriers().copy_engine, called_off.copy_engine + 1);
  // It is tried with the next one; where the machine was too busy before, with one of the next, and perhaps in vain.
  const auto tries = [](const sluice_carrier_counts_t& counts) { return counts.kernel + counts.kernel_called_off; };
  for (int read = 0; read < 4 && tries(carriers()) == tries(called_off); ++read) {
    ASSERT_EQ(read_file(handle.get(), memory.address(), 48 * kMiB), moved(48 * kMiB));
  }
  EXPECT_EQ(tries(carriers()), tries(called_off) + 1);
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
}

}  // namespace
}  // namespace sluice::contract
