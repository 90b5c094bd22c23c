// SPDX-License-Identifier: Apache-2.0
// Kernels of other GPUs carry a part of large reads in streams (sluice.links). Every byte is compared, and the order of
// the stream holds. The runs of these tests say by SLUICE_LINKS which GPUs may lend.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "contract/lending_case.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/deadline.h"
#include "support/kernel_wait.h"
#include "support/stream_gate.h"

namespace sluice::contract::lending_stream_test {
namespace {

using namespace support;

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
constexpr std::size_t kSize = 9 * kMebibyte;
constexpr std::size_t kBeside = 4096;  // bytes before and behind what is read into

// One call's arguments, in pinned memory: streams can write them.
struct Asked {
  std::size_t size;
  off_t file_offset;
  off_t buffer_offset;
  ssize_t moved;
};

class LendingStreams : public NeighbourCase {
 protected:
  void SetUp() override {
    NeighbourCase::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (int device = 1; device < cuda()->devices; ++device) primary_context(device);
    file_.emplace(kSize + 4321);
    fd_.emplace(file_->open(O_RDONLY));
    handle_.emplace(*fd_);
    arguments_.emplace(MemoryKind::pinned, 2 * sizeof(Asked));
    stream_.emplace();
  }

  // By kernels into the target; or by copies, where streams are served by the copy engine anyway.
  static bool lends() {
    if (is_set_to("SLUICE_LINKS", "own") || is_by_itself() || is_set_to("SLUICE_SOFTGPU_PEER", "0")) return false;
    if (is_set_to("SLUICE_LINKS_COPY", "relay")) return false;
    return is_set_to("SLUICE_COPY", "engine") || !is_set_to("SLUICE_LINKS_COPY", "engine");
  }

  static std::uint64_t lent_reads() {
    auto stats = std::make_unique<CUfileStatsLevel3_t>();
    EXPECT_EQ(code(cuFileGetStatsL3(stats.get())), CU_FILE_SUCCESS);
    return stats->per_gpu_stats[0].n_dr_reads;
  }

  std::string explanation() const {
    std::string facts;
    const auto keep = [](const sluice_explanation_t* /*way*/, const char* told, void* into) {
      *static_cast<std::string*>(into) = told;
    };
    EXPECT_EQ(code(sluice_explain_all(handle().get(), nullptr, 0, CUFILE_READ, 0, 0, keep, &facts)), CU_FILE_SUCCESS);
    return facts;
  }

  // Reads until a neighbour has carried something; a few times where none does. Skips the test where the machine is too
  // busy for neighbours' kernels.
  void until_one_is_lent(const std::function<void()>& read) const {
    const std::uint64_t before = lent_reads();
    int turn = 0;
    again_until([&] { return lent_reads() > before || (!lends() && turn == 3); },
                [&] {
                  read();
                  ++turn;
                });
    const bool is_lent = lent_reads() > before;
    if (lends() && !is_lent && explanation().find("did not begin in time") != std::string::npos) {
      GTEST_SKIP() << kTooBusyForKernels;
    }
    EXPECT_EQ(is_lent, lends()) << explanation();
  }

  Asked& asked(std::size_t index = 0) const { return static_cast<Asked*>(arguments_->address())[index]; }
  ssize_t moved_now() const { return std::atomic_ref(asked().moved).load(std::memory_order_acquire); }
  void put(const Memory& memory, std::size_t size, std::size_t at, std::size_t into, CUstream stream,
           std::size_t index = 0) const {
    asked(index) = {size, static_cast<off_t>(at), static_cast<off_t>(into), -77};
    put_as_it_is(memory, stream, index);
  }
  void put_as_it_is(const Memory& memory, CUstream stream, std::size_t index = 0) const {
    Asked& one = asked(index);
    ASSERT_EQ(code(cuFileReadAsync(handle_->get(), memory.address(), &one.size, &one.file_offset, &one.buffer_offset,
                                   &one.moved, stream)),
              CU_FILE_SUCCESS);
  }
  // The memory held nothing but `beside` before.
  void expect_read(const Memory& memory, std::size_t size, std::size_t at, std::size_t into,
                   unsigned char beside) const {
    const std::size_t there = std::min(size, content().size() - at);
    EXPECT_EQ(asked().moved, static_cast<ssize_t>(there));
    const Bytes found = memory.get();
    const std::span all(found);
    EXPECT_TRUE(same_bytes(std::span(content()).subspan(at, there), all.subspan(into, there)))
        << size << " at " << at << " into " << into;
    EXPECT_TRUE(all_bytes(beside, all.first(into)));
    EXPECT_TRUE(all_bytes(beside, all.subspan(into + there)));
  }
  void read_whole(const Memory& memory, CUstream stream) const {
    memory.fill(0xa5);
    put(memory, kSize, 0, 0, stream);
    ASSERT_EQ(cuda()->stream_synchronize(stream), 0);
    ASSERT_EQ(asked().moved, static_cast<ssize_t>(kSize));
    ASSERT_TRUE(same_bytes(std::span(content()).first(kSize), memory.get(0, kSize)));
  }

  const Bytes& content() const { return file_->content(); }
  const ScratchFile& file() const { return *file_; }
  const Handle& handle() const { return *handle_; }
  CUstream stream() const { return stream_->get(); }

 private:
  std::optional<ScratchFile> file_;
  std::optional<Fd> fd_;
  std::optional<Handle> handle_;
  std::optional<Memory> arguments_;
  std::optional<Stream> stream_;
};

CudaAddress address_of(const Memory& memory) {
  return reinterpret_cast<CudaAddress>(memory.address());
}

TEST_F(LendingStreams, HaveAllBytesAndNoneBeside) {
  const Memory memory(MemoryKind::device, kSize + 2 * kBeside);
  until_one_is_lent([&] {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, kMebibyte + 13}) {
      for (const std::size_t into : {kBeside, kBeside + 3, kBeside - 16}) {
        for (const std::size_t size : {kMebibyte, 3 * kMebibyte + 17, kSize}) {
          memory.fill(0x5a);
          put(memory, size, at, into, stream());
          ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
          expect_read(memory, size, at, into, 0x5a);
        }
      }
    }
  });
}

TEST_F(LendingStreams, KeepTheOrderOfWorkBeforeAndBehind) {
  const Memory memory(MemoryKind::device, kSize);
  const Memory host(MemoryKind::pinned, kSize);
  until_one_is_lent([&] {
    ASSERT_EQ(cuda()->fill_async(address_of(memory), 0x11, kSize, stream()), 0);
    put(memory, kSize, 7, 0, stream());
    ASSERT_EQ(cuda()->to_host_async(host.address(), address_of(memory), kSize, stream()), 0);
    ASSERT_EQ(cuda()->fill_async(address_of(memory), 0x22, kSize, stream()), 0);
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    EXPECT_EQ(asked().moved, static_cast<ssize_t>(kSize));
    EXPECT_TRUE(same_bytes(std::span(content()).subspan(7, kSize), host.get()));
    EXPECT_TRUE(all_bytes(0x22, memory.get()));
  });
}

TEST_F(LendingStreams, WriteNoByteBeforeTheirTurn) {
  const Memory memory(MemoryKind::device, kSize);
  const Memory seen(MemoryKind::pinned, kSize);
  const Stream other;
  const Gate gate;
  std::uint32_t turn = 0;
  until_one_is_lent([&] {
    memory.fill(0x33);
    gate.hold(stream(), ++turn);
    put(memory, kSize, 0, 0, stream());
    ASSERT_EQ(cuda()->to_host_async(seen.address(), address_of(memory), kSize, other.get()), 0);
    ASSERT_EQ(cuda()->stream_synchronize(other.get()), 0);
    EXPECT_EQ(moved_now(), -77);
    EXPECT_TRUE(all_bytes(0x33, seen.get()));
    gate.open_to(turn);
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    expect_read(memory, kSize, 0, 0, 0x33);
  });
}

// What was small when it was called may be large at its turn, and the other way round.
TEST_F(LendingStreams, TakeRangesThatEarlierWorkTells) {
  const Memory memory(MemoryKind::device, kSize + kBeside);
  const Memory told(MemoryKind::device, sizeof(Asked));
  const auto read = [&](const Asked& at_the_call, const Asked& at_its_turn) {
    Bytes bytes(sizeof at_its_turn);
    std::memcpy(bytes.data(), &at_its_turn, sizeof at_its_turn);
    told.put(0, bytes);
    memory.fill(0x44);
    asked() = at_the_call;
    const Gate gate;
    gate.hold(stream());
    ASSERT_EQ(cuda()->to_host_async(&asked(), address_of(told), sizeof(Asked), stream()), 0);
    put_as_it_is(memory, stream());
    gate.open();
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    expect_read(memory, at_its_turn.size, static_cast<std::size_t>(at_its_turn.file_offset),
                static_cast<std::size_t>(at_its_turn.buffer_offset), 0x44);
  };
  const Asked small{4097, 0, 0, -77};
  const Asked large{kSize - 5, 4097, 11, -77};
  until_one_is_lent([&] { read(small, large); });
  const std::uint64_t before = lent_reads();
  for (int turn = 0; turn < 3; ++turn) read(large, small);
  EXPECT_EQ(lent_reads(), before);
}

TEST_F(LendingStreams, EndShortAtTheEndOfTheFile) {
  const Memory memory(MemoryKind::device, 2 * kSize);
  until_one_is_lent([&] {
    for (const std::size_t at : {std::size_t{0}, 2 * kMebibyte + 5, content().size() - 1, content().size()}) {
      memory.fill(0x55);
      put(memory, 2 * kSize, at, 0, stream());
      ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
      expect_read(memory, 2 * kSize, at, 0, 0x55);
    }
  });
}

TEST_F(LendingStreams, MayBeSeveralAtOnce) {
  const Stream second;
  const Memory memory(MemoryKind::device, kSize);
  const Memory others(MemoryKind::device, kSize);
  for (int turn = 0; turn < 10; ++turn) {
    memory.fill(0x66);
    others.fill(0x66);
    put(memory, kSize, 100, 0, stream());
    put(others, kSize, 200, 0, second.get(), 1);
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    ASSERT_EQ(cuda()->stream_synchronize(second.get()), 0);
    EXPECT_EQ(asked(1).moved, static_cast<ssize_t>(kSize));
    EXPECT_TRUE(same_bytes(std::span(content()).subspan(100, kSize), memory.get()));
    EXPECT_TRUE(same_bytes(std::span(content()).subspan(200, kSize), others.get()));
  }
}

// One hardware queue: a kernel of ours on the target stands behind the stream that waits for it, and the neighbour's
// behind the program's.
TEST_F(LendingStreams, GoWithoutANeighbourThatDoesNotGetToIt) {
  if (!is_set_to("SLUICE_SOFTGPU_QUEUES", "1")) GTEST_SKIP() << "wants SLUICE_SOFTGPU_QUEUES=1";
  const Memory memory(MemoryKind::device, kSize);
  until_one_is_lent([&] { read_whole(memory, stream()); });
  std::vector<CUstream> held;
  const Gate gate;
  for (int device = 1; device < cuda()->devices; ++device) {
    const ContextScope context(primary_context(device));
    ASSERT_EQ(cuda()->stream_create(&held.emplace_back(), 1), 0);
    gate.hold(held.back());
  }
  const std::uint64_t before = lent_reads();
  for (int turn = 0; turn < 3; ++turn) read_whole(memory, stream());
  EXPECT_EQ(lent_reads(), before);
  gate.open();
  for (int device = 1; device < cuda()->devices; ++device) {
    const ContextScope context(primary_context(device));
    const CUstream one = held[static_cast<std::size_t>(device - 1)];
    EXPECT_EQ(cuda()->stream_synchronize(one), 0);
    EXPECT_EQ(cuda()->stream_destroy(one), 0);
  }
  until_one_is_lent([&] { read_whole(memory, stream()); });
}

// A thread that reads alone finds the kernel in the stream idle with each piece; neighbours still have their part where
// the target has no kernel aside, which rests for longer and longer.
TEST_F(LendingStreams, GoOnBeingLentWhateverTheTargetHas) {
  if (!lends()) GTEST_SKIP() << "no neighbour lends here";
  constexpr int times = 20;
  const Memory memory(MemoryKind::device, kSize);
  int reads = 0;
  for (int time = 0; time < times && !HasFailure() && !IsSkipped(); ++time) {
    until_one_is_lent([&] {
      read_whole(memory, stream());
      ++reads;
    });
  }
  EXPECT_LT(reads, 50 * times);
}

TEST_F(LendingStreams, LoseANeighbourThatIsReset) {
  if (cuda()->devices < 3) GTEST_SKIP() << "wants three devices";
  const Memory memory(MemoryKind::device, kSize);
  read_whole(memory, stream());
  std::atomic<bool> over{false};
  std::thread resetter([&] {
    while (!over) cuda_function<int(int)>("cuDevicePrimaryCtxReset_v2")(2);
  });
  for (int turn = 0; turn < 20; ++turn) read_whole(memory, stream());
  over = true;
  resetter.join();
  until_one_is_lent([&] { read_whole(memory, stream()); });
}

// A driver that frees memory waits for all streams, and launches and copies nothing before these have come to rest.
void free_memory() {
  CudaAddress freed = 0;
  EXPECT_EQ(cuda()->allocate(&freed, 4096), 0);
  EXPECT_EQ(cuda()->release(freed), 0);
}

TEST_F(LendingStreams, GoOnWhileAThreadOfTheProgramFreesMemoryAllTheTime) {
  if (is_set_to("SLUICE_COPY", "engine")) GTEST_SKIP() << "the driver copies nothing until all streams rest";
  const Memory memory(MemoryKind::device, kSize);
  std::atomic<bool> over{false};
  std::thread freeing([&] {
    const ContextScope context(primary_context(0));
    while (!over) free_memory();
  });
  for (int turn = 0; turn < 20; ++turn) read_whole(memory, stream());  // a driver that frees is asked for no kernel
  over = true;
  freeing.join();
}

TEST_F(LendingStreams, GoOnWhereTheProgramFreesMemoryBeforeTheirTurn) {
  if (is_set_to("SLUICE_COPY", "engine")) GTEST_SKIP() << "the driver copies nothing until all streams rest";
  const Memory memory(MemoryKind::device, kSize);
  const Gate gate;
  for (std::uint32_t turn = 1; turn <= 5; ++turn) {
    memory.fill(0x77);
    gate.hold(stream(), turn);
    put(memory, kSize, 0, 0, stream());
    CudaAddress freed = 0;
    ASSERT_EQ(cuda()->allocate(&freed, 4096), 0);
    std::atomic<bool> begun{false};
    std::thread freeing([&] {
      const ContextScope context(primary_context(0));
      begun = true;
      begun.notify_one();
      EXPECT_EQ(cuda()->release(freed), 0);
    });
    begun.wait(false);
    gate.open_to(turn);
    freeing.join();
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    expect_read(memory, kSize, 0, 0, 0x77);
  }
}

// Memory that the stream itself frees behind the read, while it is under way and before.
TEST_F(LendingStreams, ReadIntoMemoryThatIsFreedBehindThem) {
  if (is_set_to("SLUICE_COPY", "engine")) GTEST_SKIP() << "a kernel finds such memory alone";
  if (cuda()->allocate_async == nullptr) GTEST_SKIP() << "no cuMemAllocAsync here";
  const Memory host(MemoryKind::pinned, kSize);
  for (int turn = 0; turn < 20; ++turn) {
    CudaAddress address = 0;
    ASSERT_EQ(turn % 2 == 0 ? cuda()->allocate(&address, kSize) : cuda()->allocate_async(&address, kSize, stream()), 0);
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    Asked& one = asked() = {kSize, 0, 0, -77};
    ASSERT_EQ(code(cuFileReadAsync(handle().get(), reinterpret_cast<void*>(address), &one.size, &one.file_offset,
                                   &one.buffer_offset, &one.moved, stream())),
              CU_FILE_SUCCESS);
    ASSERT_EQ(cuda()->to_host_async(host.address(), address, kSize, stream()), 0);
    ASSERT_EQ(cuda()->release_async(address, stream()), 0);
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    ASSERT_EQ(one.moved, static_cast<ssize_t>(kSize));
    ASSERT_TRUE(same_bytes(std::span(content()).first(kSize), host.get()));
  }
}

TEST_F(LendingStreams, OutliveTheDestructionOfTheirStream) {
  const Memory memory(MemoryKind::device, kSize);
  until_one_is_lent([&] {
    CUstream dying{};
    ASSERT_EQ(cuda()->stream_create(&dying, 1), 0);
    memory.fill(0x12);
    put(memory, kSize, 0, 0, dying);
    ASSERT_EQ(cuda()->stream_destroy(dying), 0);
    ASSERT_EQ(cuda()->context_synchronize(), 0);
    expect_read(memory, kSize, 0, 0, 0x12);
  });
}

TEST_F(LendingStreams, AreWaitedForByTheEndOfTheirFile) {
  const Memory memory(MemoryKind::device, kSize);
  until_one_is_lent([&] { read_whole(memory, stream()); });
  for (int turn = 0; turn < 5; ++turn) {
    const Fd fd = file().open(O_RDONLY);
    std::optional<Handle> mine(fd);
    memory.fill(0x13);
    Asked& one = asked() = {kSize, 0, 0, -77};
    ASSERT_EQ(code(cuFileReadAsync(mine->get(), memory.address(), &one.size, &one.file_offset, &one.buffer_offset,
                                   &one.moved, stream())),
              CU_FILE_SUCCESS);
    mine.reset();
    EXPECT_EQ(moved_now(), static_cast<ssize_t>(kSize));
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    expect_read(memory, kSize, 0, 0, 0x13);
  }
}

// The file goes with the driver, so a read that has not begun by then has none. The driver is closed later and later
// after the call, so some of them have begun.
TEST_F(LendingStreams, EndWhollyOrNotAtAllWhereTheDriverIsClosed) {
  const Memory memory(MemoryKind::device, kSize);
  until_one_is_lent([&] { read_whole(memory, stream()); });
  if (IsSkipped()) return;
  ASSERT_EQ(cuFileUseCount(), 1);
  const Deadline deadline;
  auto later = std::chrono::microseconds(20);
  for (int whole = 0; whole < 5 && !HasFailure() && !deadline.has_passed(); later += later / 4) {
    const Fd fd = file().open(O_RDONLY);
    std::optional<Handle> mine(fd);
    memory.fill(0x15);
    Asked& one = asked() = {kSize, 0, 0, -77};
    ASSERT_EQ(code(cuFileReadAsync(mine->get(), memory.address(), &one.size, &one.file_offset, &one.buffer_offset,
                                   &one.moved, stream())),
              CU_FILE_SUCCESS);
    std::this_thread::sleep_for(later);  // how far the read has got by then is left open
    ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    if (one.moved < 0) {
      EXPECT_EQ(one.moved, -CU_FILE_HANDLE_NOT_REGISTERED);
      EXPECT_TRUE(all_bytes(0x15, memory.get()));
    } else {
      expect_read(memory, kSize, 0, 0, 0x15);
      ++whole;
    }
    mine.reset();  // it is not there any more
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  }
}

TEST_F(LendingStreams, AreExplained) {
  const Memory memory(MemoryKind::device, kSize);
  until_one_is_lent([&] { read_whole(memory, stream()); });
  if (IsSkipped()) return;
  const std::string facts = explanation();
  EXPECT_EQ(facts.find("lends its link") != std::string::npos, lends()) << facts;
}

TEST_F(LendingStreams, AreNotInTheWayOfAProcessThatEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Memory memory(MemoryKind::device, kSize);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EXIT(
        {
          until_one_is_lent([&] { read_whole(memory, stream()); });
          put(memory, kSize, 0, 0, stream());
          std::exit(HasFailure() ? 1 : 0);
        },
        ::testing::ExitedWithCode(0), "");
  }
}

TEST_F(LendingStreams, GoOnInAParentThatForks) {
  const Memory memory(MemoryKind::device, kSize);
  const auto read = [&](bool forks) {
    memory.fill(0x14);
    put(memory, kSize, 0, 0, stream());
    if (forks) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(0);
      ASSERT_GT(child, 0);
      int status = 0;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
    }
    ASSERT_EQ(cuda()->stream_synchronize(stream()), 0);
    expect_read(memory, kSize, 0, 0, 0x14);
  };
  // A fork keeps the soft GPU's threads from their work: these reads may all go without neighbours.
  for (int turn = 0; turn < 10 && !HasFailure(); ++turn) read(true);
  until_one_is_lent([&] { read(false); });
}

}  // namespace
}  // namespace sluice::contract::lending_stream_test
