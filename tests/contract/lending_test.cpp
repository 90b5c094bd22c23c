// SPDX-License-Identifier: Apache-2.0
// Other GPUs lend their links to large transfers (sluice.links): every byte is in place whatever they do, and what a
// neighbour cannot do is no caller's error. The runs of these tests say by SLUICE_LINKS which GPUs may lend.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract/lending_case.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/deadline.h"
#include "support/kernel_wait.h"
#include "support/planned.h"
#include "support/random.h"
#include "support/stream_gate.h"

namespace sluice::contract::lending_test {
namespace {

using namespace support;

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
constexpr std::size_t kBeside = 4096;  // bytes before and behind what is read into

class Lending : public LendingCase {
 protected:
  void SetUp() override {
    LendingCase::SetUp();
    if (IsSkipped() || HasFatalFailure() || !is_by_itself() || cuda()->devices < 2) return;
    static bool is_read_into = false;
    if (is_active(1) && !std::exchange(is_read_into, true)) read_into(1);
  }

  // By itself a GPU lends when the program has read into it. (Kernels are loaded there behind that.)
  static void read_into(int device) {
    const ContextScope context(primary_context(device));
    const ScratchFile file(8 * kMebibyte);
    const Fd fd = file.open(O_RDONLY);
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, 8 * kMebibyte, device);
    EXPECT_EQ(read_file(handle.get(), memory.address(), memory.size()), moved(memory.size()));
  }

  static bool is_active(int device) {
    unsigned flags = 0;
    int active = 0;
    cuda_function<int(int, unsigned*, int*)>("cuDevicePrimaryCtxGetState")(device, &flags, &active);
    return active != 0;
  }

  // What kernels are refused goes by copies.
  static bool is_refused_copies() {
    const char* const refused = std::getenv("SLUICE_SOFTGPU_FAIL");
    return refused != nullptr && std::strncmp(refused, "cuLaunchKernel", std::strlen("cuLaunchKernel")) != 0;
  }

  // Neighbours are there, reachable and willing; without names, those that are in use.
  static bool lends() {
    return cuda()->devices > 1 && !is_set_to("SLUICE_SOFTGPU_PEER", "0") && !is_refused_copies() &&
           !is_set_to("SLUICE_LINKS", "own") && (!is_unnamed() || is_active(1));
  }

  // By way of neighbours' own memory.
  static bool lends_by_their_memory() {
    return lends() &&
           (is_by_itself() || is_set_to("SLUICE_LINKS_COPY", "engine") || is_set_to("SLUICE_LINKS_COPY", "relay"));
  }

  // By kernels, into that memory, where nothing is refused.
  static bool relays() {
    return lends() && std::getenv("SLUICE_SOFTGPU_FAIL") == nullptr &&
           (is_by_itself() || is_set_to("SLUICE_LINKS_COPY", "relay"));
  }

  // Into memory of a context that the test's other memory is not of.
  static void read_in(CudaContext context, const Handle& handle, const Bytes& content) {
    const ContextScope scope(context);
    CudaAddress memory = 0;
    ASSERT_EQ(cuda()->allocate(&memory, content.size()), 0);
    EXPECT_EQ(read_file(handle.get(), reinterpret_cast<void*>(memory), content.size()), moved(content.size()));
    Bytes found(content.size());
    EXPECT_EQ(cuda()->to_host(found.data(), memory, found.size()), 0);
    EXPECT_TRUE(same_bytes(content, found));
    EXPECT_EQ(cuda()->release(memory), 0);
  }

  static std::string explanation(const Handle& handle, const Memory& memory) {
    std::string facts;
    const auto keep = [](const sluice_explanation_t* /*way*/, const char* told, void* into) {
      *static_cast<std::string*>(into) = told;
    };
    EXPECT_EQ(code(sluice_explain_all(handle.get(), memory.address(), 4096, CUFILE_READ, 0, 0, keep, &facts)),
              CU_FILE_SUCCESS);
    return facts;
  }

  static bool rings_are_there() {
    std::array<char, 120> parameters{};
    const long ring = ::syscall(SYS_io_uring_setup, 4, parameters.data());
    if (ring >= 0) ::close(static_cast<int>(ring));
    return ring >= 0;
  }

  static CUfilePerGpuStats_t counts() {
    auto stats = std::make_unique<CUfileStatsLevel3_t>();
    EXPECT_EQ(code(cuFileGetStatsL3(stats.get())), CU_FILE_SUCCESS);
    return stats->per_gpu_stats[0];
  }
  static std::uint64_t lent_reads() { return counts().n_dr_reads; }
  static std::uint64_t lent_writes() { return counts().n_dr_writes; }

  // Of all neighbours that are in use: which of them lends is not known.
  static std::size_t free_bytes_of_neighbours() {
    std::size_t sum = 0;
    for (int device = 1; device < cuda()->devices; ++device) {
      if (!is_active(device)) continue;
      const ContextScope context(primary_context(device));
      std::size_t free = 0;
      std::size_t total = 0;
      EXPECT_EQ(cuda()->memory_info(&free, &total), 0);
      sum += free;
    }
    return sum;
  }

  // Writes random bytes; those, and all others of the file, are what they should be.
  static void expect_write(const ScratchFile& file, const Handle& handle, Bytes& model, std::size_t size,
                           std::size_t at) {
    const Bytes bytes = random_bytes(size, size + at);
    const Memory memory(MemoryKind::device, size + kBeside);
    memory.put(kBeside, bytes);
    EXPECT_EQ(write_file(handle.get(), memory.address(), size, static_cast<off_t>(at), kBeside), moved(size));
    if (model.size() < at + size) model.resize(at + size);
    std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_TRUE(same_bytes(model, file_bytes(file))) << size << " at " << at;
    EXPECT_TRUE(same_bytes(bytes, memory.get(kBeside, size)));
  }

  static Bytes file_bytes(const ScratchFile& file) {
    const Fd fd = file.open(O_RDONLY);
    Bytes bytes(static_cast<std::size_t>(::lseek(fd.get(), 0, SEEK_END)));
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = ::pread(fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (count <= 0) break;
      done += static_cast<std::size_t>(count);
    }
    EXPECT_EQ(done, bytes.size());
    return bytes;
  }

  static void expect_writes(int flags) {
    const ScratchFile file(9 * kMebibyte + 4096);
    const Fd fd = file.open(O_RDWR | flags);
    const Handle handle(fd);
    Bytes model = file.content();
    const std::uint64_t before = lent_writes();
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, kMebibyte - 1}) {
      for (const std::size_t size : {kMebibyte, 5 * kMebibyte + 17, 8 * kMebibyte}) {
        expect_write(file, handle, model, size, at);
      }
    }
    // The page cache is written by GPUs that are named.
    const bool expected = lends() && !is_by_itself() && ((flags & O_DIRECT) != 0 || !is_unnamed());
    again_until([&] { return !expected || lent_writes() > before; },
                [&] { expect_write(file, handle, model, 8 * kMebibyte, 0); });
    EXPECT_EQ(lent_writes() > before, expected);
  }

  static void expect_a_lent_read(const Handle& handle, const Bytes& content, std::size_t size) {
    const std::uint64_t before = lent_reads();
    again_until([&] { return lent_reads() > before; }, [&] { expect_read(handle, content, size, 0); });
    EXPECT_GT(lent_reads(), before);
  }

  // Behind other reads, of which one may have been lent already. None was where no GPU lends.
  static void expect_lent_reads_where_gpus_lend(const Handle& handle, const Bytes& content, std::size_t size) {
    if (!lends()) {
      EXPECT_EQ(lent_reads(), 0u);
    } else if (lent_reads() == 0) {
      expect_a_lent_read(handle, content, size);
    }
  }

  static void expect_read(const Handle& handle, const Bytes& content, std::size_t size, std::size_t at) {
    const std::size_t there = std::min(size, content.size() - at);
    const Memory memory(MemoryKind::device, size + 2 * kBeside);
    memory.fill(0xa5);
    EXPECT_EQ(read_file(handle.get(), memory.address(), size, static_cast<off_t>(at), kBeside), moved(there));
    const Bytes found = memory.get();
    const std::span all(found);
    EXPECT_TRUE(same_bytes(std::span(content).subspan(at, there), all.subspan(kBeside, there))) << size << " at " << at;
    EXPECT_TRUE(all_bytes(0xa5, all.first(kBeside)));
    EXPECT_TRUE(all_bytes(0xa5, all.subspan(kBeside + there)));
  }
};

// Before any other test works with that device.
TEST_F(Lending, AskedForWithoutNamesTakesOnlyGpusThatTheProcessWorksWith) {
  if (!is_unnamed() || cuda()->devices < 2 || is_set_to("SLUICE_SOFTGPU_PEER", "0")) {
    GTEST_SKIP() << "wants SLUICE_LINKS=lend or auto, and two devices that reach each other";
  }
  if (is_active(1)) GTEST_SKIP() << "device 1 is in use already";
  const ScratchFile file(8 * kMebibyte);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  expect_read(handle, file.content(), 7 * kMebibyte, 0);
  EXPECT_EQ(lent_reads(), 0u);
  EXPECT_FALSE(is_active(1)) << "a context was made that was not asked for";
  primary_context(1);
  if (is_by_itself()) {
    for (int turn = 0; turn < 10; ++turn) expect_read(handle, file.content(), 7 * kMebibyte, 0);
    EXPECT_EQ(lent_reads(), 0u) << "nothing was read into device 1";
    read_into(1);
  }
  expect_a_lent_read(handle, file.content(), 7 * kMebibyte);
}

// What a program ends, and ends with its driver closed, has ended.
TEST_F(Lending, ByItselfHoldsAContextForAWhile) {
  if (!is_by_itself() || cuda()->devices < 2) GTEST_SKIP() << "wants SLUICE_LINKS=auto, and two devices";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CudaContext context = nullptr;
        EXPECT_EQ(cuda()->primary_retain(&context, 1), 0);
        {
          const ScratchFile file(8 * kMebibyte);
          const Fd fd = file.open(O_RDONLY);
          const Handle handle(fd);
          read_in(context, handle, file.content());
          expect_a_lent_read(handle, file.content(), 7 * kMebibyte);
          // It goes on counting who retains it.
          EXPECT_EQ(cuda_function<int(int)>("cuDevicePrimaryCtxReset_v2")(1), 0);
          EXPECT_EQ(cuda()->primary_release(1), 0);
          EXPECT_EQ(cuda()->primary_retain(&context, 1), 0);
          read_in(context, handle, file.content());
          expect_a_lent_read(handle, file.content(), 7 * kMebibyte);
        }
        EXPECT_EQ(cuda()->primary_release(1), 0);
        EXPECT_TRUE(is_active(1)) << "the neighbour is held while there is memory of ours";
        const auto begun = std::chrono::steady_clock::now();
        EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
        // On a busy machine the thread that gives it back may come later than the close waits.
        if (std::chrono::steady_clock::now() - begun >= std::chrono::milliseconds(500)) {
          for (const Deadline deadline; is_active(1) && !deadline.has_passed();) std::this_thread::yield();
        }
        EXPECT_FALSE(is_active(1));
        std::exit(HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Lending, ByItselfLeavesContextsAloneThatItCannotHold) {
  if (!is_by_itself() || !lends()) GTEST_SKIP() << "wants SLUICE_LINKS=auto, and two devices";
  const ScratchFile file(8 * kMebibyte);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  expect_a_lent_read(handle, file.content(), 7 * kMebibyte);
  const std::uint64_t before = lent_reads();
  CudaContext own = nullptr;
  CudaContext popped = nullptr;
  ASSERT_EQ(cuda()->context_create(&own, 0, 0), 0);
  const Fd again = file.open(O_RDONLY);
  const Handle here(again);  // kernels are loaded in the context that is current
  ASSERT_EQ(cuda()->context_pop(&popped), 0);
  for (int turn = 0; turn < 10; ++turn) read_in(own, here, file.content());
  EXPECT_EQ(lent_reads(), before);
  ASSERT_EQ(cuda()->context_destroy(own), 0);
  expect_a_lent_read(handle, file.content(), 7 * kMebibyte);
}

TEST_F(Lending, ReadsOfCachedFilesHaveAllBytesAndNoneBeside) {
  const ScratchFile file(24 * kMebibyte + 4321);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, kMebibyte - 1}) {
    for (const std::size_t size : {kMebibyte, 5 * kMebibyte + 17, 23 * kMebibyte}) {
      expect_read(handle, file.content(), size, at);
    }
  }
  expect_lent_reads_where_gpus_lend(handle, file.content(), 23 * kMebibyte);
}

// Of 32 MiB.
TEST_F(Lending, ReadsThatGoRoundRelayMemoryHaveAllBytes) {
  if (!relays()) GTEST_SKIP() << "wants SLUICE_LINKS_COPY=relay, or SLUICE_LINKS=auto and a GPU that is in use";
  constexpr std::size_t size = 75 * kMebibyte + 1234;
  const ScratchFile file(size + 4321);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory target(MemoryKind::device, 4096);
  std::string told;
  const auto tells_of = [&](const char* words) { return told.find(words) != std::string::npos; };
  const auto has_relayed = [&] { return tells_of("by way of its own memory"); };
  again_until(has_relayed, [&] {
    expect_read(handle, file.content(), size, 7);
    told = explanation(handle, target);
  });
  if (!has_relayed() && tells_of("did not begin in time")) GTEST_SKIP() << kTooBusyForKernels;
  EXPECT_TRUE(has_relayed()) << told;
}

TEST_F(Lending, ReadsPastTheCacheHaveAllBytesAndNoneBeside) {
  const ScratchFile file(24 * kMebibyte + 4321);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  for (const std::size_t at : {std::size_t{0}, std::size_t{512}, std::size_t{4097}, kMebibyte}) {
    for (const std::size_t size : {kMebibyte, 5 * kMebibyte + 17, 22 * kMebibyte}) {
      expect_read(handle, file.content(), size, at);
    }
  }
  if (is_by_itself()) {
    EXPECT_EQ(lent_reads(), 0u);
  } else if (rings_are_there()) {
    expect_lent_reads_where_gpus_lend(handle, file.content(), 22 * kMebibyte);
  }
}

TEST_F(Lending, WritesPutAllBytesIntoTheirPlacesAndNoneBeside) {
  expect_writes(0);
}

TEST_F(Lending, WritesPastTheCachePutAllBytesIntoTheirPlacesAndNoneBeside) {
  expect_writes(O_DIRECT);
}

TEST_F(Lending, AWriteThatIsRefusedHalfwayTellsHowFarItCame) {
  const Fd fd(::memfd_create("lending", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  ASSERT_GE(fd.get(), 0);
  constexpr std::size_t room = 5 * kMebibyte;
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(room)), 0);
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  const Handle handle(fd);
  const Bytes bytes = random_bytes(16 * kMebibyte, 1);
  const Memory memory(MemoryKind::device, bytes.size());
  memory.put(0, bytes);
  for (int turn = 0; turn < 10; ++turn) {
    const Transfer written = write_file(handle.get(), memory.address(), memory.size());
    ASSERT_GT(written.count, 0);
    ASSERT_LE(written.count, static_cast<ssize_t>(room));
    Bytes found(static_cast<std::size_t>(written.count));
    ASSERT_EQ(::pread(fd.get(), found.data(), found.size(), 0), written.count);
    EXPECT_TRUE(same_bytes(std::span(bytes).first(found.size()), found));
    // What was under way when it was refused disturbs nothing that follows.
    EXPECT_EQ(write_file(handle.get(), memory.address(), room), moved(room));
    EXPECT_EQ(read_file(handle.get(), memory.address(), room), moved(room));
    EXPECT_TRUE(same_bytes(std::span(bytes).first(room), memory.get(0, room)));
  }
}

TEST_F(Lending, ThreadsThatWriteShareTheNeighbours) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      const ContextScope context(primary_context(0));
      const ScratchFile file(kMebibyte);
      const Fd fd = file.open(O_RDWR);
      const Handle handle(fd);
      Bytes model = file.content();
      for (int turn = 0; turn < 3; ++turn) expect_write(file, handle, model, 7 * kMebibyte + i, i * 1000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// What a neighbour has for its part of the work is given back to it.
TEST_F(Lending, StagingMemoryOfNeighboursGoesWhenNothingHasPassedItForAWhile) {
  if (!lends_by_their_memory()) GTEST_SKIP() << "wants lending, and SLUICE_LINKS_COPY engine or relay";
  const ScratchFile file(8 * kMebibyte);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  expect_a_lent_read(handle, file.content(), 7 * kMebibyte);
  const std::size_t held = free_bytes_of_neighbours();
  // Small ones ask for no neighbour.
  again_until([&] { return free_bytes_of_neighbours() >= held + 4 * kMebibyte; },
              [&] { expect_read(handle, file.content(), 200 << 10U, 0); });
  EXPECT_GE(free_bytes_of_neighbours(), held + 4 * kMebibyte);
  expect_a_lent_read(handle, file.content(), 7 * kMebibyte);
}

TEST_F(Lending, StagingMemoryOfNeighboursGoesWithTheSession) {
  if (!lends_by_their_memory()) GTEST_SKIP() << "wants lending, and SLUICE_LINKS_COPY engine or relay";
  const ScratchFile file(8 * kMebibyte);
  const Fd fd = file.open(O_RDONLY);
  // A neighbour that has not done yet what it was relieved of keeps its memory for so long.
  const Deadline deadline;
  bool is_gone = false;
  while (!is_gone && !HasFailure() && !deadline.has_passed()) {
    std::size_t held = 0;
    {
      const Handle handle(fd);
      expect_a_lent_read(handle, file.content(), 7 * kMebibyte);
      held = free_bytes_of_neighbours();
    }
    ASSERT_EQ(cuFileUseCount(), 1);
    ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
    is_gone = free_bytes_of_neighbours() >= held + 4 * kMebibyte;
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
  }
  EXPECT_TRUE(is_gone);
}

TEST_F(Lending, AReadThatEndsWithItsFileLeavesTheMemoryBehindItAlone) {
  const ScratchFile file(9 * kMebibyte + 7);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  expect_read(handle, file.content(), 16 * kMebibyte, 0);
  expect_read(handle, file.content(), 16 * kMebibyte, 9 * kMebibyte);
  expect_read(handle, file.content(), 16 * kMebibyte, 2 * kMebibyte + 5);
}

TEST_F(Lending, ManyThreadsShareTheNeighbours) {
  const ScratchFile file(12 * kMebibyte + 99);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const ContextScope context(primary_context(0));
      for (int turn = 0; turn < 4; ++turn) expect_read(handle, file.content(), 11 * kMebibyte, i * 1000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A driver that frees memory waits for all kernels there, and keeps what others launch and copy until these have ended.
TEST_F(Lending, ReadsGoOnWhileThreadsOfTheProgramFreeMemoryAllTheTime) {
  const ScratchFile file(12 * kMebibyte + 99);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int device = 0; device < 2; ++device) {
    if (!is_active(device)) continue;
    threads.emplace_back([&, device] {
      const ContextScope context(primary_context(device));
      while (!over) {
        CudaAddress freed = 0;
        ASSERT_EQ(cuda()->allocate(&freed, 4096), 0);
        ASSERT_EQ(cuda()->release(freed), 0);
      }
    });
  }
  for (std::size_t turn = 0; turn < 40 && !HasFailure(); ++turn) {
    expect_read(handle, file.content(), 11 * kMebibyte, turn);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Lending, EveryGpuMayBeTheTarget) {
  const ScratchFile file(8 * kMebibyte + 5);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  std::vector<std::thread> threads;
  for (int device = 0; device < cuda()->devices; ++device) {
    threads.emplace_back([&, device] {
      const ContextScope context(primary_context(device));
      for (int turn = 0; turn < 4; ++turn) {
        const Memory memory(MemoryKind::device, 8 * kMebibyte, device);
        EXPECT_EQ(read_file(handle.get(), memory.address(), memory.size()), moved(memory.size()));
        EXPECT_TRUE(same_bytes(std::span(file.content()).first(memory.size()), memory.get())) << device;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Lending, PartsOfPlansAreCarriedByNeighboursToo) {
  const ScratchFile file(40 * kMebibyte + 5);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const std::uint64_t before = lent_reads();
  const auto run_a_plan = [&] {
    const Memory memory(MemoryKind::device, file.content().size() + kBeside);
    memory.fill(0xa5);
    Planned plan;
    plan.add(handle.get(), memory.at(kBeside), file.content().size(), 0);
    for (const auto& result : plan.run()) EXPECT_EQ(result.bytes, file.content().size());
    const Bytes found = memory.get();
    EXPECT_TRUE(same_bytes(file.content(), std::span(found).subspan(kBeside)));
    EXPECT_TRUE(all_bytes(0xa5, std::span(found).first(kBeside)));
  };
  run_a_plan();
  again_until([&] { return !lends() || lent_reads() > before; }, run_a_plan);
  if (lends()) {
    EXPECT_GT(lent_reads(), before);
  }
}

// Large parts of plans wait for one another, and for none of them for ever.
class PlansInLine : public Lending {
 protected:
  static constexpr std::size_t size = 33 * kMebibyte;  // of a range: more than a part is where links are not lent
  static constexpr std::size_t count = 4;              // of plans
  static constexpr std::size_t ranges = 2;             // of each
  static constexpr std::size_t all = count * ranges * size;
  static void submit_all(std::array<Planned, count>& plans, const Handle& handle, const Memory& memory) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < ranges; ++k) plans[i].add(handle.get(), memory.at((i * ranges + k) * size), size, 0);
      plans[i].submit();
    }
  }
};

TEST_F(PlansInLine, AllArrive) {
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const std::uint64_t before = lent_reads();
  const auto run_plans = [&] {
    const Memory memory(MemoryKind::device, all);
    memory.fill(0xa5);
    std::array<Planned, count> plans;
    submit_all(plans, handle, memory);
    for (const Planned& plan : plans) {
      for (const auto& result : plan.collect()) EXPECT_EQ(result.bytes, size);
    }
    for (std::size_t i = 0; i < count * ranges; ++i)
      EXPECT_TRUE(same_bytes(file.content(), memory.get(i * size, size))) << i;
  };
  run_plans();
  again_until([&] { return !lends() || lent_reads() > before; }, run_plans);
  EXPECT_EQ(lent_reads() > before, lends());
}

TEST_F(PlansInLine, EndWithWhatTheyHaveWhereTheyAreCancelled) {
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, all);
  {
    std::array<Planned, count> plans;
    submit_all(plans, handle, memory);
    for (const Planned& plan : plans) EXPECT_EQ(code(sluice_plan_cancel(plan.get())), CU_FILE_SUCCESS);
    for (std::size_t i = 0; i < count; ++i) {
      const auto results = plans[i].collect();
      for (std::size_t k = 0; k < ranges; ++k) {
        const bool is_whole = results[k].state == SLUICE_ITEM_DONE;
        EXPECT_TRUE(is_whole || results[k].state == SLUICE_ITEM_CANCELLED) << results[k].state;
        EXPECT_EQ(results[k].bytes == size, is_whole);
        const std::size_t there = results[k].bytes;
        EXPECT_TRUE(same_bytes(std::span(file.content()).first(there), memory.get((i * ranges + k) * size, there)));
      }
    }
  }
  // Destroyed without a wait by the program, while others stand in line.
  std::array<Planned, count> plans;
  submit_all(plans, handle, memory);
}

TEST_F(PlansInLine, AreEndedByTheEndOfTheDriver) {
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDONLY);
  const Memory memory(MemoryKind::device, all);
  std::array<Planned, count> plans;
  const Handle handle(fd);
  submit_all(plans, handle, memory);
  ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  for (Planned& plan : plans) plan.forget();
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
}

TEST_F(Lending, ANeighbourThatIsResetCostsNothing) {
  if (!lends() || cuda()->devices < 3) {
    GTEST_SKIP() << "wants lending, and three devices";
  }
  const ScratchFile file(8 * kMebibyte);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  expect_read(handle, file.content(), 8 * kMebibyte, 0);
  std::atomic<bool> over{false};
  std::thread resetter([&] {
    while (!over) cuda_function<int(int)>("cuDevicePrimaryCtxReset_v2")(2);
  });
  for (int turn = 0; turn < 20; ++turn) expect_read(handle, file.content(), 8 * kMebibyte, 0);
  over = true;
  resetter.join();
  expect_read(handle, file.content(), 8 * kMebibyte, 0);
}

// One hardware queue: our stream there stands behind the program's.
TEST_F(Lending, ANeighbourThatDoesNotGetToItIsRelieved) {
  if (!lends() || !is_set_to("SLUICE_SOFTGPU_QUEUES", "1")) {
    GTEST_SKIP() << "wants lending, and SLUICE_SOFTGPU_QUEUES=1";
  }
  const ScratchFile file(24 * kMebibyte);  // more than all staging buffers have room for
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  expect_a_lent_read(handle, file.content(), 8 * kMebibyte);
  const std::uint64_t before = lent_reads();
  const Gate gate;
  CUstream stream{};
  {
    const ContextScope context(primary_context(1));
    ASSERT_EQ(cuda()->stream_create(&stream, 1), 0);
    gate.hold(stream);
  }
  expect_read(handle, file.content(), 24 * kMebibyte, 0);
  expect_read(handle, file.content(), 24 * kMebibyte, 0);  // it has yet to do what it was relieved of
  EXPECT_EQ(lent_reads(), before);
  gate.open();
  {
    const ContextScope context(primary_context(1));
    cuda()->stream_synchronize(stream);
    cuda()->stream_destroy(stream);
  }
  expect_a_lent_read(handle, file.content(), 8 * kMebibyte);
}

// There, a driver that frees memory waits for a stream that waits for this thread, and may keep all other calls.
TEST_F(Lending, AnAnswerOfANeighboursDriverIsNotWaitedFor) {
  if (!is_by_itself() || !lends() || cuda()->devices != 2) GTEST_SKIP() << "wants SLUICE_LINKS=auto, and two devices";
  const ScratchFile file(8 * kMebibyte);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  expect_a_lent_read(handle, file.content(), 8 * kMebibyte);
  const Memory memory(MemoryKind::device, 8 * kMebibyte);
  const Gate gate;
  CUstream stream{};
  CudaAddress freed = 0;
  {
    const ContextScope context(primary_context(1));
    ASSERT_EQ(cuda()->stream_create(&stream, 1), 0);
    ASSERT_EQ(cuda()->allocate(&freed, 4096), 0);
    gate.hold(stream);
  }
  std::atomic<bool> begun{false};
  std::thread freeing([&] {
    const ContextScope context(primary_context(1));
    begun = true;
    EXPECT_EQ(cuda()->release(freed), 0);
  });
  while (!begun) std::this_thread::yield();
  for (std::size_t turn = 0; turn < 50; ++turn) {
    EXPECT_EQ(read_file(handle.get(), memory.address(), 8 * kMebibyte, 0, 0), moved(8 * kMebibyte));
    EXPECT_EQ(cuda()->context_synchronize(), 0);  // nothing is left behind on the target
  }
  gate.open();
  freeing.join();
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
  {
    const ContextScope context(primary_context(1));
    EXPECT_EQ(cuda()->stream_synchronize(stream), 0);
    EXPECT_EQ(cuda()->stream_destroy(stream), 0);
  }
  expect_a_lent_read(handle, file.content(), 8 * kMebibyte);
}

TEST_F(Lending, IsExplained) {
  const ScratchFile file(8 * kMebibyte);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  std::string facts;
  const auto keep = [](const sluice_explanation_t* /*way*/, const char* told, void* into) {
    *static_cast<std::string*>(into) = told;
  };
  const auto read_and_ask = [&] {
    expect_read(handle, file.content(), 8 * kMebibyte, 0);
    ASSERT_EQ(code(sluice_explain_all(handle.get(), nullptr, 0, CUFILE_READ, 0, 0, keep, &facts)), CU_FILE_SUCCESS);
  };
  // A neighbour may be late, or still be getting over what other tests have done to it.
  read_and_ask();
  again_until([&] { return !lends() || facts.find("GPU1: lends its link") != std::string::npos; }, read_and_ask);
  if (is_set_to("SLUICE_LINKS", "own")) {
    EXPECT_EQ(facts.find("lending"), std::string::npos) << facts;
  } else if (lends()) {
    EXPECT_NE(facts.find("lending is on: GPU1: lends its link"), std::string::npos) << facts;
  } else if (is_set_to("SLUICE_SOFTGPU_PEER", "0")) {
    EXPECT_NE(facts.find("GPU1: no peer access"), std::string::npos) << facts;
  } else if (is_set_to("SLUICE_SOFTGPU_FAIL", "cuDevicePrimaryCtxRetain:2+:46")) {
    EXPECT_NE(facts.find("GPU1: no context can be had there"), std::string::npos) << facts;
  }
}

}  // namespace
}  // namespace sluice::contract::lending_test
