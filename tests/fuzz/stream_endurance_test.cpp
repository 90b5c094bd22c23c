// SPDX-License-Identifier: Apache-2.0
// Transfers in streams without end take no more of anything: staging memory, heap, descriptors, threads, device memory
// are those that the first rounds took. A hundred thousand with SLUICE_TEST_FULL=1 (./run check --full), some thousand
// otherwise. Streams come and go, registered and not, and so do handles.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "fuzz/census.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/deadline.h"

namespace sluice::fuzz {
namespace {

using namespace support;

constexpr std::size_t kStreams = 64;
constexpr std::size_t kCallsOfAStream = 3;
constexpr std::size_t kPart = 40000;  // of each file and of the memory, a stream
constexpr std::size_t kFileSize = kStreams * kPart;
constexpr std::size_t kLarge = 500000;
constexpr std::size_t kWarmRounds = 16;

// Some 130 bytes for each transfer of the usual run, less than what is taken for one: what queues keep at hand.
constexpr std::size_t kMostHeap = std::size_t{512} << 10;
constexpr std::size_t kMostAddressSpaceKib = std::size_t{16} << 10;
// A thread that serves streams comes when so many of them have work at once, and stays: a stack, and a slab and a ring
// of io_uring where it has come by what needs one.
constexpr const char* kServer = "sluice-streams";
constexpr std::size_t kMostServers = 64;
constexpr std::size_t kMappedKibAServer = 8400 + 1200;
constexpr std::size_t kStagingKibAServer = 1200;
// What an unregistered stream that is gone may leave at hand for others.
constexpr std::size_t kStagingKibAStream = 1300;
constexpr std::size_t kMostStreamsAtHand = 16;

std::size_t rounds() {
  const char* const full = std::getenv("SLUICE_TEST_FULL");
  const bool all = full != nullptr && *full == '1';
  return (all ? 100'000 : 4'000) / (kStreams * kCallsOfAStream) + 1;
}

// Memory that no child of this process would have: what the library keeps for devices to reach.
std::size_t staging_kib() {
  std::ifstream file("/proc/self/smaps");
  std::size_t all = 0;
  std::size_t size = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "Size:") words >> size;
    if (word != "VmFlags:") continue;
    bool shared_with_children = true;
    bool special = false;
    while (words >> word) {
      if (word == "dc") shared_with_children = false;
      if (word == "io" || word == "pf") special = true;
    }
    if (!shared_with_children && !special) all += size;
  }
  return all;
}

struct Holdings {
  Census census;
  std::size_t servers = 0;
  std::size_t heap = 0;
  std::size_t staging_kib = 0;
};

Holdings take_stock() {
  Holdings now{take_census(), 0, 0, staging_kib()};
  std::vector<std::string>& threads = now.census.threads;
  now.servers = static_cast<std::size_t>(std::count(threads.begin(), threads.end(), kServer));
  std::erase(threads, kServer);
  const struct mallinfo2 heap = ::mallinfo2();
  now.heap = heap.uordblks + heap.hblkhd;
  return now;
}

std::vector<std::string> growth_since(const Holdings& before) {
  const Holdings now = take_stock();
  const std::size_t servers = now.servers - std::min(now.servers, before.servers);
  std::vector<std::string> found =
      growth(before.census, now.census, kMostAddressSpaceKib + servers * kMappedKibAServer);
  if (now.servers > kMostServers) found.push_back(std::to_string(now.servers) + " threads serve streams");
  if (now.heap > before.heap + kMostHeap) found.push_back(std::to_string(now.heap - before.heap) + " bytes of heap");
  if (now.staging_kib > before.staging_kib + servers * kStagingKibAServer + kMostStreamsAtHand * kStagingKibAStream) {
    found.push_back(std::to_string(now.staging_kib - before.staging_kib) + " KiB more of staging memory");
  }
  return found;
}

// Threads and channels of others come free a moment after they were let go.
std::vector<std::string> settled_growth_since(const Holdings& before) {
  std::vector<std::string> found = growth_since(before);
  for (const Deadline deadline; !found.empty() && !deadline.has_passed(); found = growth_since(before)) sched_yield();
  return found;
}

struct Call {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t moved = -77;
  ssize_t expected = 0;
};

class StreamEndurance : public DeviceTest {
 protected:
  struct Slot {
    CUstream stream{};
    bool registered = false;
  };

  static void SetUpTestSuite() {
    // One heap for all threads, so that it can be told what is in use.
    mallopt(M_ARENA_MAX, 1);
  }

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    const ScratchFile other(kPart);
    // The descriptor becomes another file's under the handle.
    gone_fd_.emplace(other.open(O_RDONLY));
    gone_.emplace(*gone_fd_);
    ASSERT_EQ(dup2(fd_.get(), gone_fd_->get()), gone_fd_->get());
    direct_.emplace(direct_fd_);
    writer_.emplace(writer_fd_);
    target_.emplace(MemoryKind::device, kFileSize);
    large_.emplace(MemoryKind::device, kLarge);
    ASSERT_EQ(register_fd(fd_.get(), &file_handle_), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    for (Slot& slot : slots_) end(slot);
    cuFileHandleDeregister(file_handle_);
    direct_.reset();
    writer_.reset();
    gone_.reset();
    DeviceTest::TearDown();
  }

  static void begin(Slot& slot, std::size_t number) {
    ASSERT_EQ(cuda()->stream_create(&slot.stream, 1), 0);
    slot.registered = number % 2 == 1;
    if (!slot.registered) return;
    ASSERT_EQ(code(cuFileStreamRegister(slot.stream, static_cast<unsigned>(number % 16))), CU_FILE_SUCCESS);
  }
  static void end(Slot& slot) {
    if (slot.stream == CUstream{}) return;
    if (slot.registered) {
      EXPECT_EQ(code(cuFileStreamDeregister(slot.stream)), CU_FILE_SUCCESS);
    }
    EXPECT_EQ(cuda()->stream_destroy(slot.stream), 0);
    slot.stream = CUstream{};
  }

  void put(CUstream stream, CUfileHandle_t handle, const Memory& memory, const Call& drawn, bool write = false) {
    Call& call = calls_.emplace_back(drawn);
    auto* const entry = write ? &cuFileWriteAsync : &cuFileReadAsync;
    ASSERT_EQ(
        code(entry(handle, memory.address(), &call.size, &call.file_offset, &call.buffer_offset, &call.moved, stream)),
        CU_FILE_SUCCESS);
  }
  static Call call_of(std::size_t size, std::size_t file_offset, std::size_t buffer_offset) {
    return {size, static_cast<off_t>(file_offset), static_cast<off_t>(buffer_offset), -77, static_cast<ssize_t>(size)};
  }

  // What one stream does in a round: its part is read, and in the end holds what the file has.
  void put_all(std::size_t number) {
    const CUstream stream = slots_[number].stream;
    const std::size_t begin = number * kPart;
    put(stream, file_handle_, *target_, call_of(kPart - 11, begin, begin));
    switch (number % 8) {
      case 1:
      case 2:
        put(stream, writer_->get(), *target_, call_of(kPart - 11, begin, begin), true);
        break;
      case 3:
        put(stream, direct_->get(), *target_, call_of(8192, begin / 4096 * 4096 + 4096, begin / 4096 * 4096 + 4096));
        break;
      case 4: {
        Call short_one = call_of(5000, kFileSize - 100, 0);
        short_one.expected = 100;
        put(stream, file_handle_, *large_, short_one);
        break;
      }
      case 5: {
        Call lost = call_of(5000, 0, 0);
        lost.expected = -EBADF;
        put(stream, gone_->get(), *large_, lost);
        break;
      }
      case 6:
        put(stream, file_handle_, *large_, call_of(kLarge - number, number, 0));
        break;
      default:
        put(stream, file_handle_, *target_, call_of(1, begin, begin));
    }
    put(stream, file_handle_, *target_, call_of(kPart - 1, begin + 1, begin + 1));
  }

  void run_round(std::size_t round) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (slots_[i].stream == CUstream{} || (round + i) % 4 == 0) {
        end(slots_[i]);
        ASSERT_NO_FATAL_FAILURE(begin(slots_[i], i + round / 4));
      }
    }
    if (round % 8 == 0) {
      cuFileHandleDeregister(file_handle_);
      ASSERT_EQ(register_fd(fd_.get(), &file_handle_), CU_FILE_SUCCESS);
    }
    const bool registered = round % 2 == 1;
    if (registered) {
      ASSERT_EQ(code(cuFileBufRegister(target_->address(), kFileSize, 0)), CU_FILE_SUCCESS);
    }
    for (std::size_t i = 0; i < kStreams; ++i) ASSERT_NO_FATAL_FAILURE(put_all(i));
    for (const Slot& slot : slots_) ASSERT_EQ(cuda()->stream_synchronize(slot.stream), 0);
    if (registered) {
      ASSERT_EQ(code(cuFileBufDeregister(target_->address())), CU_FILE_SUCCESS);
    }
    for (const Call& call : calls_) ASSERT_EQ(call.moved, call.expected) << call.size << " at " << call.file_offset;
    calls_.clear();
  }

  const ScratchFile file_{kFileSize};
  const ScratchFile written_{kFileSize};
  const Fd fd_ = file_.open(O_RDONLY);
  const Fd direct_fd_ = file_.open(O_RDONLY | O_DIRECT);
  const Fd writer_fd_ = written_.open(O_RDWR);
  std::optional<Fd> gone_fd_;
  CUfileHandle_t file_handle_ = nullptr;
  std::optional<Handle> direct_;
  std::optional<Handle> writer_;
  std::optional<Handle> gone_;
  std::optional<Memory> target_;
  std::optional<Memory> large_;
  std::array<Slot, kStreams> slots_{};
  std::deque<Call> calls_;
};

TEST_F(StreamEndurance, TakesNoMoreOfAnythingThanTheFirstRoundsTook) {
  Holdings before;
  const std::size_t all = kWarmRounds + rounds();
  for (std::size_t round = 0; round < all; ++round) {
    ASSERT_NO_FATAL_FAILURE(run_round(round)) << "round " << round;
    if (round == kWarmRounds) before = take_stock();
  }
  for (const std::string& finding : settled_growth_since(before)) ADD_FAILURE() << finding;
  EXPECT_TRUE(same_bytes(file_.content(), target_->get()));
  const Bytes written = content_of(written_.path());
  for (std::size_t i = 0; i < kStreams; ++i) {
    if (i % 8 != 1 && i % 8 != 2) continue;
    EXPECT_TRUE(same_bytes(std::span(file_.content()).subspan(i * kPart, kPart - 11),
                           std::span(written).subspan(i * kPart, kPart - 11)))
        << i;
  }
}

// The library is not told that a stream is gone.
TEST_F(StreamEndurance, StreamsThatAreDestroyedAsTheyAreGiveTheirPlaceToTheNext) {
  Holdings before;
  constexpr std::size_t streams = 400;
  for (std::size_t i = 0; i < streams; ++i) {
    CUstream stream{};
    ASSERT_EQ(cuda()->stream_create(&stream, 1), 0);
    if (i % 4 != 0) {
      ASSERT_EQ(code(cuFileStreamRegister(stream, static_cast<unsigned>(i % 16))), CU_FILE_SUCCESS) << i;
    }
    ASSERT_NO_FATAL_FAILURE(put(stream, file_handle_, *target_, call_of(5000, i, i)));
    ASSERT_EQ(cuda()->stream_synchronize(stream), 0);
    ASSERT_EQ(calls_.front().moved, calls_.front().expected);
    calls_.clear();
    ASSERT_EQ(cuda()->stream_destroy(stream), 0);
    if (i == streams / 4) before = take_stock();
  }
  for (const std::string& finding : settled_growth_since(before)) ADD_FAILURE() << finding;
}

}  // namespace
}  // namespace sluice::fuzz
