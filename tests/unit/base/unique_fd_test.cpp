// SPDX-License-Identifier: Apache-2.0
// Who closes a descriptor.
#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <type_traits>
#include <utility>

namespace sluice::base {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

UniqueFd any_file() {
  return UniqueFd(::memfd_create("unique", MFD_CLOEXEC));
}

static_assert(!std::is_copy_constructible_v<UniqueFd> && !std::is_copy_assignable_v<UniqueFd>);
static_assert(std::is_nothrow_move_constructible_v<UniqueFd> && std::is_nothrow_move_assignable_v<UniqueFd>);

TEST(UniqueFd, HoldsNothingAtFirst) {
  const UniqueFd fd;
  EXPECT_FALSE(fd);
  EXPECT_EQ(fd.get(), -1);
}

TEST(UniqueFd, TakesAFailedOpenForNothing) {
  EXPECT_FALSE(UniqueFd(-1));
}

TEST(UniqueFd, TakesDescriptorZeroForOne) {
  // Not closed at the end: the number is the test's own standard input.
  alignas(UniqueFd) unsigned char room[sizeof(UniqueFd)];
  const auto* fd = new (room) UniqueFd(0);
  EXPECT_TRUE(*fd);
}

TEST(UniqueFd, ClosesAtTheEndOfItsLife) {
  int number = -1;
  {
    const UniqueFd fd = any_file();
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, HandsItsDescriptorOver) {
  UniqueFd first = any_file();
  const int number = first.get();
  UniqueFd second = std::move(first);
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFd, ClosesWhatItHeldWhenItIsGivenAnother) {
  UniqueFd first = any_file();
  UniqueFd second = any_file();
  const int lost = first.get();
  const int kept = second.get();
  first = std::move(second);
  EXPECT_FALSE(is_open(lost));
  EXPECT_TRUE(is_open(kept));
  EXPECT_EQ(first.get(), kept);
}

TEST(UniqueFd, KeepsItsDescriptorWhenItIsMovedToItself) {
  UniqueFd fd = any_file();
  const int number = fd.get();
  UniqueFd& alias = fd;
  fd = std::move(alias);
  EXPECT_EQ(fd.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFd, ClosesOnceWhenItIsResetTwice) {
  UniqueFd fd = any_file();
  const int number = fd.get();
  fd.reset();
  EXPECT_FALSE(is_open(number));
  // The number may be another file's by now.
  const UniqueFd other = any_file();
  ASSERT_EQ(other.get(), number);
  fd.reset();
  EXPECT_TRUE(is_open(number));
}

}  // namespace
}  // namespace sluice::base
