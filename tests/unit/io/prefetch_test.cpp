// SPDX-License-Identifier: Apache-2.0
// What a prefetch reads, and what it leaves alone; and which reader goes through a file piece by piece.
#include "io/prefetch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "support/storage_reads.h"

namespace sluice::io {
namespace {

using base::Direction;
using base::FileOffset;
using base::UniqueFd;
using support::bytes_read_from_storage;
using support::major_faults;

constexpr std::size_t kSize = 40 << 10;
using Step = Prefetch::Step;

class PrefetchTest : public ::testing::Test {
 protected:
  PrefetchTest() : path_(testing::TempDir() + "sluice-prefetch-XXXXXX"), fd_(::mkstemp(path_.data())) {
    const std::vector<char> bytes(kSize, 'x');
    EXPECT_EQ(::pwrite(fd_.get(), bytes.data(), kSize, 0), static_cast<ssize_t>(kSize));
  }
  ~PrefetchTest() override { ::unlink(path_.c_str()); }

  bool tells_what_is_cached() const { return is_cached(fd_.get(), FileOffset{0}, kSize); }
  static int steps_of(Prefetch prefetch) {
    int steps = 0;
    while (prefetch.step()) ++steps;
    EXPECT_TRUE(prefetch.is_over());
    return steps;
  }
  int steps_at(std::uint64_t at, std::uint64_t length, Step step = Step::of_a_page) const {
    return steps_of(Prefetch::of_write_range({fd_.get(), true}, FileOffset{at}, length, step));
  }

  std::string path_;
  UniqueFd fd_;
};

TEST_F(PrefetchTest, OfAPlaceGoesThroughItStepByStep) {
  if (!tells_what_is_cached()) GTEST_SKIP() << "this system does not tell what it has cached";
  EXPECT_EQ(steps_at(0, kSize), 10);
  EXPECT_EQ(steps_at(0, kSize, Step::of_four_pages), 3);
  EXPECT_EQ(steps_at(4095, 2), 1);
  EXPECT_EQ(steps_at(100, 4097), 2);
}

TEST_F(PrefetchTest, OfNothingIsOver) {
  EXPECT_EQ(steps_of({}), 0);
  EXPECT_EQ(steps_at(0, 0), 0);
}

TEST_F(PrefetchTest, OfAPlaceLeavesWhatIsNotAllThere) {
  EXPECT_EQ(steps_at(kSize - 5000, 1 << 20), 0) << "it ends behind the file";
  EXPECT_EQ(steps_at(kSize, 1 << 20), 0);
}

TEST_F(PrefetchTest, LeavesWhatItMayNotRead) {
  const UniqueFd write_only(::open(path_.c_str(), O_WRONLY));
  EXPECT_EQ(steps_of(Prefetch::of_write_range({write_only.get(), true}, FileOffset{0}, kSize, Step::of_a_page)), 0);
  EXPECT_EQ(steps_of(Prefetch::of_next_range({write_only.get(), false}, FileOffset{0}, kSize)), 0);
  EXPECT_EQ(steps_of(Prefetch::of_next_range({-1, false}, FileOffset{0}, kSize)), 0);
}

// The write that comes would have to wait for it.
TEST_F(PrefetchTest, OfAPlaceHasNothingReadFromADisk) {
  if (!tells_what_is_cached()) GTEST_SKIP() << "this system does not tell what it has cached";
  ASSERT_EQ(::fsync(fd_.get()), 0);
  constexpr int most_tries = 20;
  std::optional<std::uint64_t> read;
  for (int i = 0; i < most_tries && !read; ++i) {
    ASSERT_EQ(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    const long faults = major_faults();
    const auto before = bytes_read_from_storage();
    if (tells_what_is_cached() || !before) GTEST_SKIP() << "nothing leaves this cache, or what is read is not counted";
    EXPECT_EQ(steps_of(Prefetch::of_write_range({fd_.get(), false}, FileOffset{0}, kSize, Step::of_four_pages)), 0);
    const auto after = bytes_read_from_storage();
    if (after && major_faults() == faults) read = *after - *before;
    ASSERT_FALSE(tells_what_is_cached());
  }
  if (!read) GTEST_SKIP() << "pages of this program are read from storage again and again";
  EXPECT_EQ(*read, 0U);
}

TEST_F(PrefetchTest, CachedIsWhatIsCachedFromEndToEnd) {
  if (!tells_what_is_cached()) GTEST_SKIP() << "this system does not tell what it has cached";
  EXPECT_TRUE(is_cached(fd_.get(), FileOffset{5}, kSize - 5));
  EXPECT_TRUE(is_cached(fd_.get(), FileOffset{4095}, 2));
  EXPECT_FALSE(is_cached(fd_.get(), FileOffset{0}, kSize + 1));
  EXPECT_FALSE(is_cached(fd_.get(), FileOffset{kSize}, 1));
  EXPECT_FALSE(is_cached(fd_.get(), FileOffset{0}, 0));
  EXPECT_FALSE(is_cached(-1, FileOffset{0}, kSize));
}

TEST(Trail, IsFollowedFromTheSecondPieceOn) {
  EXPECT_FALSE(goes_on(Direction::read, 3, FileOffset{0}, 100));
  EXPECT_TRUE(goes_on(Direction::read, 3, FileOffset{100}, 50));
  EXPECT_TRUE(goes_on(Direction::read, 3, FileOffset{150}, 50));
  EXPECT_FALSE(goes_on(Direction::read, 3, FileOffset{201}, 50)) << "a byte was left out";
  EXPECT_FALSE(goes_on(Direction::read, 4, FileOffset{251}, 50)) << "another file";
}

TEST(Trail, OfReadsIsNoTrailOfWritesNorOfAnotherThread) {
  goes_on(Direction::read, 3, FileOffset{0}, 100);
  EXPECT_FALSE(goes_on(Direction::write, 3, FileOffset{100}, 50));
  std::thread([] { EXPECT_FALSE(goes_on(Direction::read, 3, FileOffset{100}, 50)); }).join();
  EXPECT_TRUE(goes_on(Direction::read, 3, FileOffset{100}, 50));
  EXPECT_TRUE(goes_on(Direction::write, 3, FileOffset{150}, 50));
}

}  // namespace
}  // namespace sluice::io
