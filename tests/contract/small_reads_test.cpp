// SPDX-License-Identifier: Apache-2.0
// Small cached reads into device memory: many threads' together, or one thread's by a kernel that stays. Every byte is
// right whatever carries it, and the counters tell what did.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sluice.h"
#include "support/busy_device.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/kernel_wait.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kLargest = 64 << 10;  // that counts as small
constexpr std::size_t kLarger = 128 << 10;  // up to here it matters how many read at once
constexpr unsigned char kBefore = 0x5a;

sluice_carrier_counts_t small_carriers() {
  sluice_carrier_counts_t counts{};
  auto* const ask = entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters");
  if (ask != nullptr) ask(&counts);
  return counts;
}

bool run_asks_for(const char* name, const char* value) {
  const char* const given = std::getenv(name);
  return given != nullptr && std::string(given) == value;
}

bool stays_resident() {
  return run_asks_for("SLUICE_SMALL_READS", "resident");
}

// By themselves kernels come only where enough threads happen to read at once.
bool is_sure_of_kernels() {
  return stays_resident();
}

class SmallReads : public DeviceTest {
 protected:
  // Only where mailboxes are used at all is there something to count. What a drive may write is not, and who compares
  // each read with the file takes too long between them.
  static bool counts() {
    return entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters") != nullptr &&
           std::getenv("SLUICE_SOFTGPU_BACKING") == nullptr && std::getenv("SLUICE_SOFTGPU_FAIL") == nullptr &&
           !run_asks_for("SLUICE_MODE", "plain") && !run_asks_for("SLUICE_COPY", "engine") &&
           !run_asks_for("SLUICE_SMALL_READS", "copy") && !run_asks_for("SLUICE_VERIFY", "1");
  }
};

// Reads one piece and looks at all of the memory.
void read_and_look(CUfileHandle_t handle, const Bytes& content, const Memory& memory, std::size_t from, std::size_t to,
                   std::size_t size) {
  SCOPED_TRACE(testing::Message() << size << " bytes at " << from << " to " << to);
  memory.fill(kBefore);
  const std::size_t there = std::min(size, content.size() - std::min(content.size(), from));
  ASSERT_EQ(read_file(handle, memory.address(), size, static_cast<off_t>(from), static_cast<off_t>(to)), moved(there));
  Bytes expected(memory.size(), kBefore);
  std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(from), there,
              expected.begin() + static_cast<std::ptrdiff_t>(to));
  ASSERT_TRUE(same_bytes(expected, memory.get()));
}

// Several threads at once, each with memory of its own; `round` is called with the thread's number and its memory.
template <typename Round>
void many_threads(unsigned count, Round&& round) {
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      const ContextScope scope(primary_context(0));
      const Memory memory(MemoryKind::device, kLarger + kLargest);
      round(number, memory);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SmallReads, OfEverySizeAtEveryPlaceAreRight) {
  const ScratchFile file(3 * kLargest);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kLargest + 64);
  // All sizes, with SLUICE_TEST_LONG=1.
  const std::size_t step = run_asks_for("SLUICE_TEST_LONG", "1") ? 1 : 389;
  for (std::size_t size = 1; size <= kLargest + 1 && !HasFatalFailure(); size += size < 70 ? 1 : step) {
    read_and_look(handle.get(), file.content(), memory, size * 31 % kLargest, size % 17, size);
  }
  for (const std::size_t size : {4095U, 4096U, 4097U, 8192U, 16384U, 40001U, 65535U, 65536U, 65537U}) {
    for (const std::size_t to : {0U, 1U, 8U, 15U}) {
      read_and_look(handle.get(), file.content(), memory, to * 3, to, size);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SmallReads, LeaveMemoryBehindTheEndOfTheFileAlone) {
  const ScratchFile file(5000);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kLargest);
  for (const std::size_t from : {0U, 1U, 904U, 4096U, 4999U, 5000U}) {
    for (int again = 0; again < 3; ++again) {
      read_and_look(handle.get(), file.content(), memory, from, 3, 8192);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SmallReads, OfManyThreadsDoNotMix) {
  const ScratchFile file(1 << 20);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const std::uint64_t seed = run_seed();
  // More threads than there are mailboxes, too.
  for (const unsigned threads : {2U, 16U, 80U}) {
    many_threads(threads, [&](unsigned number, const Memory& memory) {
      Random random(seed + number);
      for (unsigned round = 0; round < 800 / threads && !HasFatalFailure(); ++round) {
        const std::size_t size = 1 + random.below(round % 2 == 0 ? kLargest : kLarger);
        read_and_look(handle.get(), file.content(), memory, random.below(file.content().size() - size),
                      random.below(kLargest - 1), size);
      }
    });
  }
}

TEST_F(SmallReads, OneAfterTheOtherAreCarriedByTheResidentKernel) {
  if (!counts() || !stays_resident()) GTEST_SKIP() << "this run asks for no resident kernel";
  const ScratchFile file(1 << 20);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kLargest);
  const auto before = small_carriers();
  const KernelWait waiting;
  for (int round = 0; small_carriers().resident_kernel < before.resident_kernel + 100; ++round) {
    if (waiting.is_over()) return waiting.give_up("the kernel has carried next to nothing");
    const off_t from = round % 200 * 4096;
    ASSERT_EQ(read_file(handle.get(), memory.address(), 4096, from), moved(4096));
    if (round % 64 == 0) {
      ASSERT_TRUE(
          same_bytes(std::span(file.content()).subspan(static_cast<std::size_t>(from), 4096), memory.get(0, 4096)));
    }
  }
}

TEST_F(SmallReads, LetADeviceWideSynchroniseEnd) {
  const ScratchFile file(1 << 20);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    const ContextScope scope(primary_context(0));
    const Memory memory(MemoryKind::device, kLargest);
    while (!stop.load()) EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
  });
  const ContextScope scope(primary_context(0));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(cuda()->context_synchronize(), 0);
  stop.store(true);
  reader.join();
  EXPECT_EQ(cuda()->context_synchronize(), 0);
}

// More contexts than the library remembers at a time; each goes while a kernel may be at work in it.
TEST_F(SmallReads, GoOnInAContextAfterOthersWereDestroyed) {
  const ScratchFile file(kLargest);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const KernelWait waiting;
  bool always_served = true;
  for (int round = 0; round < 20; ++round) {
    CudaContext context = nullptr;
    CudaAddress address = 0;
    CudaContext popped = nullptr;
    ASSERT_EQ(cuda()->context_create(&context, 0, 0), 0);
    ASSERT_EQ(cuda()->allocate(&address, 6 * kLargest), 0);
    cuda()->context_pop(&popped);
    const auto read = [&](CudaAddress part) {
      void* const to = reinterpret_cast<void*>(address + part * kLargest);
      EXPECT_EQ(read_file(handle.get(), to, 9000, round, round), moved(9000));
    };
    const auto before = small_carriers();
    // The kernel is loaded for each context; where there is one to wait for, it is at work in the end.
    const auto served = [&] {
      const auto now = small_carriers();
      return !counts() || !is_sure_of_kernels() || now.resident_kernel > before.resident_kernel;
    };
    std::vector<std::thread> threads;
    for (CudaAddress part = 1; part < 6; ++part) {
      threads.emplace_back([&read, &served, &waiting, part] {
        for (int again = 0; again < 10 || (!served() && !waiting.is_over()); ++again) read(part);
      });
    }
    for (std::thread& thread : threads) thread.join();
    always_served = served() && always_served;
    for (int again = 0; again < 50; ++again) read(0);
    Bytes found(9000);
    cuda()->context_push(context);
    EXPECT_EQ(cuda()->to_host(found.data(), address + static_cast<CudaAddress>(round), found.size()), 0);
    cuda()->context_pop(&popped);
    EXPECT_TRUE(same_bytes(std::span(file.content()).subspan(static_cast<std::size_t>(round), 9000), found));
    read(0);
    EXPECT_EQ(cuda()->context_destroy(context), 0);
  }
  if (!always_served) waiting.give_up("there was a context in which the kernel has carried nothing");
}

// Launches cost the program's kernels something when they begin late, so fewer and fewer are tried.
TEST_F(SmallReads, LaunchNoMoreForAWhileWhereTheDeviceBeginsNothing) {
  if (!counts() || !stays_resident()) GTEST_SKIP() << "this run asks for no resident kernel";
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 4096);
  const auto read_some = [&] {
    for (int i = 0; i < 20; ++i) ASSERT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
  };
  const auto carried = small_carriers().resident_kernel;
  for (const KernelWait waiting; small_carriers().resident_kernel == carried;) {
    if (waiting.is_over()) return waiting.give_up("no kernel comes at all");
    read_some();
  }
  const auto before = small_carriers().kernel_called_off;
  const auto begin = std::chrono::steady_clock::now();
  constexpr std::uint64_t turns = 200;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    std::string why_not;
    const auto busy = BusyDevice::hold(&why_not);
    if (busy == nullptr) GTEST_SKIP() << why_not;
    read_some();
    busy->let_go();
    // The launch that came too late finds nothing, and goes.
    const ContextScope scope(primary_context(0));
    ASSERT_EQ(cuda()->context_synchronize(), 0);
  }
  // Rests of 4 ms, 8 ms and so on up to 256 ms: so many launches fit into the time that went by.
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  const auto most = static_cast<std::uint64_t>(8 + took.count() / 256);
  if (2 * most > turns) GTEST_SKIP() << "too slow to tell: " << took.count() << " ms";
  const std::uint64_t launches = small_carriers().kernel_called_off - before;
  EXPECT_GT(launches, 0U);
  EXPECT_LE(launches, most) << took.count() << " ms";
}

TEST_F(SmallReads, OfManyThreadsTakeARingWhereTheyFitInNoMailbox) {
  if (!counts() || run_asks_for("SLUICE_SOFTGPU_SMS", "1")) GTEST_SKIP() << "no kernel is sure to come in this run";
  const ScratchFile file(1 << 20);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  constexpr std::size_t size = 100000;
  const auto before = small_carriers();
  const KernelWait waiting;
  std::atomic<bool> gone{false};
  many_threads(12, [&](unsigned number, const Memory& memory) {
    for (unsigned round = 0; !gone.load() && !waiting.is_over(); ++round) {
      const std::size_t from = (number * 37 + round) % 200 * 4096;
      ASSERT_EQ(read_file(handle.get(), memory.address(), size, static_cast<off_t>(from)), moved(size));
      if (small_carriers().kernel > before.kernel) gone.store(true);
    }
    read_and_look(handle.get(), file.content(), memory, number * 4096, number, size);
  });
  if (small_carriers().kernel == before.kernel) waiting.give_up("the kernel has carried nothing");
}

TEST_F(SmallReads, OfManyThreadsFailEachForItself) {
  const ScratchFile file(1 << 20);
  const ScratchFile other(4096);
  const Fd fd = file.open(O_RDONLY);
  Fd closed = other.open(O_RDWR);
  const Handle handle(fd);
  const Handle no_descriptor(closed);
  closed.reset();
  many_threads(8, [&](unsigned number, const Memory& memory) {
    for (int round = 0; round < 100; ++round) {
      const bool fails = number % 4 == 0;
      EXPECT_EQ(read_file(fails ? no_descriptor.get() : handle.get(), memory.address(), 4096),
                fails ? failed(EBADF) : moved(4096));
    }
  });
}

TEST_F(SmallReads, AreCopiedWhereTheDeviceBeginsNoKernel) {
  if (!counts()) GTEST_SKIP() << "nothing but copies in this run";
  const ScratchFile file(1 << 20);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  constexpr unsigned threads = 8;
  constexpr unsigned rounds = 100;
  std::vector<std::unique_ptr<Memory>> memories;
  for (unsigned i = 0; i < threads; ++i) memories.push_back(std::make_unique<Memory>(MemoryKind::device, 4096));
  const auto read_with_all = [&] {
    std::vector<std::thread> readers;
    for (unsigned number = 0; number < threads; ++number) {
      readers.emplace_back([&, number] {
        for (unsigned round = 0; round < rounds; ++round) {
          EXPECT_EQ(read_file(handle.get(), memories[number]->address(), 4096, number * 4096), moved(4096));
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
  };
  read_with_all();
  for (const auto& memory : memories) memory->fill(kBefore);
  std::string why_not;
  const auto busy = BusyDevice::hold(&why_not);
  if (busy == nullptr) GTEST_SKIP() << why_not;
  const auto before = small_carriers();
  read_with_all();
  const auto after = small_carriers();
  // Until what keeps the device busy had begun itself, a kernel may have had its turn.
  EXPECT_EQ(after.slab + after.resident_kernel, before.slab + before.resident_kernel + threads * rounds);
  EXPECT_GT(after.slab, before.slab);
  busy->let_go();
  for (unsigned number = 0; number < threads; ++number) {
    EXPECT_TRUE(
        same_bytes(std::span(file.content()).subspan(std::size_t{number} * 4096, 4096), memories[number]->get()));
  }
  // The launches that were revoked find nothing to do.
  many_threads(8, [&](unsigned number, const Memory& memory) {
    for (int round = 0; round < 20 && !HasFatalFailure(); ++round) {
      read_and_look(handle.get(), file.content(), memory, number * 4096, number, 5000);
    }
  });
}

}  // namespace
}  // namespace sluice::contract
