// SPDX-License-Identifier: Apache-2.0
// Where a file's bytes lie, by the machine's own file systems.
#include "facts/extents.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace sluice::facts {
namespace {

constexpr off_t part = 65536;

class Extents : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "sluice-extents-XXXXXX";
    fd_ = base::UniqueFd(::mkstemp(path.data()));
    ASSERT_TRUE(fd_);
    ::unlink(path.c_str());
    put(0, 2 * part);
    if (!first_stored_extent(fd_.get(), 0))
      GTEST_SKIP() << "the file system of " << testing::TempDir() << " does not tell";
  }
  void put(off_t at, off_t length) const {
    const std::vector<char> bytes(static_cast<std::size_t>(length), 'x');
    ASSERT_EQ(::pwrite(fd_.get(), bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(::fsync(fd_.get()), 0);
  }
  bool stored(off_t begin, off_t length) const { return is_stored(fd_.get(), stretch(begin, length)); }
  bool stored_together(off_t begin, off_t length) const {
    return is_stored_together(fd_.get(), stretch(begin, length));
  }

  base::UniqueFd fd_;

 private:
  static Extent stretch(off_t begin, off_t length) {
    return {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(length)};
  }
};

TEST_F(Extents, OfWrittenBytesAreStored) {
  EXPECT_EQ(first_stored_extent(fd_.get(), 0)->begin, 0U);
  EXPECT_TRUE(stored(0, 2 * part));
  EXPECT_FALSE(stored(0, 3 * part)) << "behind the end there is nothing";
}

TEST_F(Extents, LeaveHolesOut) {
  put(8 * part, part);
  EXPECT_TRUE(stored(8 * part, part));
  EXPECT_FALSE(stored(part, 8 * part));
  EXPECT_EQ(first_stored_extent(fd_.get(), 4 * part)->begin, static_cast<std::uint64_t>(8 * part));
}

TEST_F(Extents, LieTogetherUnlessSomethingWasPutBetween) {
  if (!stored_together(0, 2 * part)) GTEST_SKIP() << "this file system had no two places side by side";
  if (::fallocate(fd_.get(), FALLOC_FL_INSERT_RANGE, part, part) != 0)
    GTEST_SKIP() << "nothing can be put between here";
  put(part, part);
  EXPECT_TRUE(stored(0, 3 * part));
  EXPECT_FALSE(stored_together(0, 3 * part));
  EXPECT_TRUE(stored_together(2 * part, part));
}

}  // namespace
}  // namespace sluice::facts
