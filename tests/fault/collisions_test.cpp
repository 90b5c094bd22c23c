// SPDX-License-Identifier: Apache-2.0
// Errors and ends that are no caller's: a file system answers EIO, or nothing, to one call in the middle of a file
// whose storage is well, as XFS does where an O_DIRECT read meets a buffered write. Whatever call it is, all of the
// range arrives; what the storage really refuses is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fault/interpose.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::fault {
namespace {

using namespace support;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kFileSize = 3 * kMiB + 1234;
constexpr unsigned char kUntouched = 0xa5;
constexpr std::size_t kMostCalls = 9;

struct Range {
  std::size_t size;
  std::size_t file_offset;
  std::size_t buffer_offset;
};
// In a slab, in several pieces, and across the end of the file.
constexpr Range kSmall{20'003, 4'097, 11};
constexpr Range kAligned{kMiB / 2, 8'192, 4'096};
constexpr Range kLarge{2 * kMiB + 77, 4'097, 11};
constexpr Range kToTheEnd{kFileSize, kMiB / 2 + 512, 0};

enum class Way : std::uint8_t { call, batch, stream };

using Parameters = std::tuple<int, MemoryKind, Way>;

class Collisions : public CufileTest, public ::testing::WithParamInterface<Parameters> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    if (!available(std::get<1>(GetParam()))) GTEST_SKIP() << "no CUDA device";
    if (way() == Way::stream && !available(MemoryKind::device)) GTEST_SKIP() << "no CUDA device";
    memory_.emplace(std::get<1>(GetParam()), 4 * kMiB);
    handle_.emplace(fd_);
    // From here on it is known what the storage refuses whatever is asked, such as polling.
    ASSERT_EQ(read_file(handle_->get(), memory_->address(), kAligned.size), moved(kAligned.size));
  }
  void TearDown() override {
    handle_.reset();
    CufileTest::TearDown();
  }

  static Way way() { return std::get<2>(GetParam()); }
  static std::size_t there(const Range& range) { return std::min(range.size, kFileSize - range.file_offset); }

  ssize_t read(const Range& range) const {
    const auto file_offset = static_cast<off_t>(range.file_offset);
    const auto buffer_offset = static_cast<off_t>(range.buffer_offset);
    if (way() == Way::call) {
      const Transfer answer = read_file(handle_->get(), memory_->address(), range.size, file_offset, buffer_offset);
      return answer.error == 0 ? answer.count : -answer.error;
    }
    if (way() == Way::batch) {
      Batch batch(2);
      batch.read(handle_->get(), *memory_, range.size, range.file_offset, range.buffer_offset);
      return batch.run().front();
    }
    const Stream stream;
    std::size_t size = range.size;
    off_t at = file_offset;
    off_t into = buffer_offset;
    ssize_t moved = -77;
    EXPECT_EQ(code(cuFileReadAsync(handle_->get(), memory_->address(), &size, &at, &into, &moved, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    return moved;
  }

  // Reads under the plan; what is behind the count is as it was.
  ssize_t read_under(const Range& range, std::vector<Step> steps) const {
    memory_->fill(kUntouched);
    ssize_t count = 0;
    {
      const Plan plan(fd_.get(), Direction::read, std::move(steps));
      count = read(range);
    }
    Bytes expected(memory_->size(), kUntouched);
    if (count > 0) {
      std::copy_n(file_.content().begin() + static_cast<std::ptrdiff_t>(range.file_offset), count,
                  expected.begin() + static_cast<std::ptrdiff_t>(range.buffer_offset));
    }
    EXPECT_TRUE(same_bytes(expected, memory_->get())) << "count " << count;
    return count;
  }

  // The steps at any of the first calls.
  void expect_whole_wherever(const std::vector<Step>& steps) const {
    for (const Range& range : {kSmall, kAligned, kLarge, kToTheEnd}) {
      for (std::size_t before = 0; before < kMostCalls; ++before) {
        std::vector<Step> all(before, pass());
        all.insert(all.end(), steps.begin(), steps.end());
        all.push_back(pass());
        ASSERT_EQ(read_under(range, all), static_cast<ssize_t>(there(range)))
            << "of " << range.size << ", behind " << before << " calls";
      }
    }
  }

  const ScratchFile file_{kFileSize};
  const Fd fd_ = file_.open(O_RDWR | std::get<0>(GetParam()));
  std::optional<Memory> memory_;
  std::optional<Handle> handle_;
};

TEST_P(Collisions, ThatAnswerEioOnceCostNobodyAByte) {
  expect_whole_wherever({fail(EIO)});
}

TEST_P(Collisions, ThatAnswerEioTwiceCostNobodyAByte) {
  if ((std::get<0>(GetParam()) & O_DIRECT) == 0) GTEST_SKIP() << "the page cache does not collide twice";
  expect_whole_wherever({fail(EIO), fail(EIO)});
}

TEST_P(Collisions, ThatAnswerNothingInTheMiddleOfAFileCostNobodyAByte) {
  expect_whole_wherever({nothing()});
}

TEST_P(Collisions, ThatAnswerAPartAndThenEioCostNobodyAByte) {
  expect_whole_wherever({shorten(4096), fail(EIO)});
}

TEST_P(Collisions, AreNotTakenForWhatTheStorageRefuses) {
  for (const Range& range : {kSmall, kAligned, kLarge, kToTheEnd}) {
    EXPECT_EQ(read_under(range, {fail(EIO)}), -EIO) << range.size;
  }
}

std::string name_of_case(const ::testing::TestParamInfo<Parameters>& info) {
  const auto& [flags, kind, way] = info.param;
  const char* const ways[] = {"ByACall", "InABatch", "InAStream"};
  return std::string((flags & O_DIRECT) != 0 ? "Direct" : "Buffered") + "_" + name_of(kind) + "_" +
         ways[static_cast<std::size_t>(way)];
}

INSTANTIATE_TEST_SUITE_P(EveryWay, Collisions,
                         ::testing::Combine(::testing::Values(0, O_DIRECT),
                                            ::testing::Values(MemoryKind::device, MemoryKind::managed,
                                                              MemoryKind::pinned, MemoryKind::plain),
                                            ::testing::Values(Way::call, Way::batch, Way::stream)),
                         name_of_case);

}  // namespace
}  // namespace sluice::fault
