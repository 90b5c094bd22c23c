// What warming reads, and what it leaves alone; and who goes through a file piece by piece.
#include "engine/warming.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace sluice::engine {
namespace {

using base::Direction;
using base::FileOffset;
using base::UniqueFd;

constexpr std::size_t kSize = 40 << 10;

class WarmingTest : public ::testing::Test {
 protected:
  WarmingTest() : path_(testing::TempDir() + "sluice-warming-XXXXXX"), fd_(::mkstemp(path_.data())) {
    const std::vector<char> bytes(kSize, 'x');
    EXPECT_EQ(::pwrite(fd_.get(), bytes.data(), kSize, 0), static_cast<ssize_t>(kSize));
  }
  ~WarmingTest() override { ::unlink(path_.c_str()); }

  // Read plainly, so that the answers do not depend on the file system below the tests.
  Warmable file() const { return {fd_.get(), true}; }
  static int steps_of(Warming warming) {
    int steps = 0;
    while (warming.step()) ++steps;
    EXPECT_TRUE(warming.is_over());
    return steps;
  }

  std::string path_;
  UniqueFd fd_;
};

TEST_F(WarmingTest, GoesThroughItsRangeStepByStep) {
  EXPECT_EQ(steps_of({file(), FileOffset{0}, kSize}), 10);
  EXPECT_EQ(steps_of({file(), FileOffset{0}, kSize, Warming::long_step}), 3);
  EXPECT_EQ(steps_of({file(), FileOffset{4095}, 2}), 1);
  EXPECT_EQ(steps_of({file(), FileOffset{100}, 4097}), 2);
}

TEST_F(WarmingTest, OfNothingIsOver) {
  EXPECT_EQ(steps_of({}), 0);
  EXPECT_EQ(steps_of({file(), FileOffset{0}, 0}), 0);
}

TEST_F(WarmingTest, EndsWithTheFile) {
  EXPECT_EQ(steps_of({file(), FileOffset{kSize - 5000}, 1 << 20}), 2);
  EXPECT_EQ(steps_of({file(), FileOffset{kSize}, 1 << 20}), 0);
}

TEST_F(WarmingTest, LeavesWhatItMayNotRead) {
  const UniqueFd write_only(::open(path_.c_str(), O_WRONLY));
  EXPECT_EQ(steps_of({{write_only.get(), true}, FileOffset{0}, kSize}), 0);
  EXPECT_FALSE(is_warmable({write_only.get(), true}, FileOffset{0}, kSize));
  EXPECT_EQ(steps_of({{-1, false}, FileOffset{0}, kSize}), 0);
}

TEST_F(WarmingTest, BringsNothingFromADisk) {
  ASSERT_EQ(::fsync(fd_.get()), 0);
  ASSERT_EQ(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  char byte = 0;
  const iovec one{&byte, 1};
  const auto is_cached = [&] { return ::preadv2(fd_.get(), &one, 1, 0, RWF_NOWAIT) == 1; };
  if (is_cached() || errno != EAGAIN) GTEST_SKIP() << "this file system does not tell what it has cached";
  EXPECT_EQ(steps_of({{fd_.get(), false}, FileOffset{0}, kSize}), 0);
  EXPECT_FALSE(is_warmable({fd_.get(), false}, FileOffset{0}, kSize));
  EXPECT_FALSE(is_cached());
}

TEST_F(WarmingTest, IsPossibleWhereBothEndsAre) {
  EXPECT_TRUE(is_warmable(file(), FileOffset{0}, kSize));
  EXPECT_FALSE(is_warmable(file(), FileOffset{0}, kSize + 1));
  EXPECT_FALSE(is_warmable(file(), FileOffset{kSize}, 1));
  EXPECT_FALSE(is_warmable(file(), FileOffset{0}, 0));
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
}  // namespace sluice::engine
