// SPDX-License-Identifier: Apache-2.0
// Batches without end take no more of anything: pinned memory, heap, descriptors, threads, device memory are those that
// the first rounds took. A million entries with SLUICE_TEST_FULL=1 (./run check --full), a tenth of that otherwise.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "fuzz/census.h"
#include "support/batch.h"

namespace sluice::fuzz {
namespace {

using namespace support;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kEntries = 128;
constexpr std::size_t kRoundsOfABatch = 40;
constexpr std::size_t kWarm = 3 * kRoundsOfABatch;

// About a byte for each entry: what groups of a batch work with, which come when so many are under way, and stay.
constexpr std::size_t kMostHeap = std::size_t{256} << 10;
constexpr std::size_t kMostAddressSpaceKib = std::size_t{64} << 10;

std::size_t rounds() {
  const char* const full = std::getenv("SLUICE_TEST_FULL");
  const bool all = full != nullptr && *full == '1';
  return (all ? 1'000'000 : 100'000) / kEntries + 1;
}

std::size_t heap_in_use() {
  const struct mallinfo2 heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

class BatchEndurance : public DeviceTest {
 protected:
  // Entries of all sorts: those that go together, by the page cache and by a disk, those that go by themselves, those
  // that end short, and those that fail.
  void fill(Batch& batch) const {
    for (std::size_t i = 0; i < kEntries; ++i) {
      switch (i % 16) {
        case 0:
        case 1:
          batch.read(direct_->get(), *target_, kPage, i * kPage, 2 * i * kPage);
          break;
        case 2:
        case 3:
          batch.write(writer_->get(), *source_, kPage - i % 2, i * kPage, i * kPage);
          break;
        case 4:
          batch.read(buffered_->get(), *host_, kPage, i * kPage, i * kPage);
          break;
        case 5:
          batch.read(buffered_->get(), *target_, kPage, kEntries * kPage - 100, 2 * i * kPage);
          break;
        case 6:
          batch.read(gone_->get(), *target_, kPage, i * kPage, 2 * i * kPage);
          break;
        default:
          batch.read(buffered_->get(), *target_, kPage, i * kPage, 2 * i * kPage);
      }
    }
  }

  static ssize_t expected(std::size_t i) {
    if (i % 16 == 5) return 100;
    if (i % 16 == 6) return -EBADF;
    return static_cast<ssize_t>(i % 16 == 3 ? kPage - 1 : kPage);
  }

  static void check(const std::vector<ssize_t>& results) {
    for (std::size_t i = 0; i < kEntries; ++i) ASSERT_EQ(results[i], expected(i)) << i;
  }

  static void SetUpTestSuite() {
    // One heap for all threads: each more would map 64 MiB, when threads meet at one.
    mallopt(M_ARENA_MAX, 1);
  }

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    file_.emplace(kEntries * kPage);
    written_.emplace(kEntries * kPage);
    const ScratchFile other(kPage);
    buffered_fd_.emplace(file_->open(O_RDONLY));
    direct_fd_.emplace(file_->open(O_RDONLY | O_DIRECT));
    writer_fd_.emplace(written_->open(O_RDWR));
    buffered_.emplace(*buffered_fd_);
    direct_.emplace(*direct_fd_);
    writer_.emplace(*writer_fd_);
    // The descriptor becomes another file's under the handle.
    gone_fd_.emplace(other.open(O_RDONLY));
    gone_.emplace(*gone_fd_);
    ASSERT_EQ(dup2(buffered_fd_->get(), gone_fd_->get()), gone_fd_->get());
    target_.emplace(MemoryKind::device, 2 * kEntries * kPage);
    source_.emplace(MemoryKind::device, kEntries * kPage);
    host_.emplace(MemoryKind::plain, kEntries * kPage);
    source_->put(0, random_bytes(kEntries * kPage, 21));
  }
  void TearDown() override {
    buffered_.reset();
    direct_.reset();
    writer_.reset();
    gone_.reset();
    DeviceTest::TearDown();
  }

  std::optional<ScratchFile> file_;
  std::optional<ScratchFile> written_;
  std::optional<Fd> buffered_fd_;
  std::optional<Fd> direct_fd_;
  std::optional<Fd> writer_fd_;
  std::optional<Fd> gone_fd_;
  std::optional<Handle> buffered_;
  std::optional<Handle> direct_;
  std::optional<Handle> writer_;
  std::optional<Handle> gone_;
  std::optional<Memory> target_;
  std::optional<Memory> source_;
  std::optional<Memory> host_;
};

TEST_F(BatchEndurance, TakesNoMoreOfAnythingThanTheFirstRoundsTook) {
  Census census;
  std::size_t heap = 0;
  auto batch = std::make_unique<Batch>(kEntries);
  fill(*batch);
  const std::size_t all = kWarm + rounds();
  for (std::size_t round = 0; round < all; ++round) {
    if (round % kRoundsOfABatch == 0) {
      batch = std::make_unique<Batch>(kEntries);
      fill(*batch);
    }
    ASSERT_NO_FATAL_FAILURE(check(batch->run())) << "round " << round;
    if (round == kWarm) {
      census = take_census();
      heap = heap_in_use();
    }
  }
  EXPECT_LE(heap_in_use(), heap + kMostHeap);
  for (const std::string& finding : settled_growth(census, kMostAddressSpaceKib)) ADD_FAILURE() << finding;
  const Bytes written = content_of(written_->path());
  for (std::size_t i = 0; i < kEntries; ++i) {
    const auto count = static_cast<std::size_t>(std::max<ssize_t>(expected(i), 0));
    if (i % 16 == 2 || i % 16 == 3) {
      EXPECT_TRUE(same_bytes(source_->get(i * kPage, count), std::span(written).subspan(i * kPage, count))) << i;
    } else if (i % 16 != 4 && i % 16 != 5) {
      EXPECT_TRUE(same_bytes(std::span(file_->content()).subspan(i * kPage, count), target_->get(2 * i * kPage, count)))
          << i;
    }
  }
}

}  // namespace
}  // namespace sluice::fuzz
