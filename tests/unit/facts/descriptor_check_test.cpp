// SPDX-License-Identifier: Apache-2.0
#include "facts/descriptor_check.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace sluice::facts {
namespace {

using base::UniqueFd;

UniqueFd file_of(off_t size) {
  UniqueFd fd(::memfd_create("look", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), size), 0);
  return fd;
}

TEST(DescriptorCheck, FindsTheFileThatWasRegisteredAsItIsNow) {
  const UniqueFd fd = file_of(5000);
  const FileFacts registered = of_file(fd.get(), Root{});
  ASSERT_EQ(::ftruncate(fd.get(), 7001), 0);
  DescriptorCheck now(fd.get(), registered);
  EXPECT_TRUE(now.finds_the_file());
  EXPECT_EQ(now.size(), 7001U);
}

TEST(DescriptorCheck, AsksWhenSomebodyWantsToKnowAndOnce) {
  UniqueFd fd = file_of(5000);
  const FileFacts registered = of_file(fd.get(), Root{});
  DescriptorCheck now(fd.get(), registered);
  EXPECT_FALSE(now.asked());
  ASSERT_EQ(::ftruncate(fd.get(), 6000), 0);
  EXPECT_EQ(now.size(), 6000U);
  EXPECT_TRUE(now.asked());
  fd.reset();
  EXPECT_TRUE(now.finds_the_file());
  EXPECT_EQ(now.size(), 6000U);
}

TEST(DescriptorCheck, DoesNotTakeAnotherFileForIt) {
  const UniqueFd fd = file_of(5000);
  const FileFacts registered = of_file(fd.get(), Root{});
  const UniqueFd other = file_of(5000);
  ASSERT_EQ(::dup2(other.get(), fd.get()), fd.get());
  DescriptorCheck now(fd.get(), registered);
  EXPECT_FALSE(now.finds_the_file());
  EXPECT_EQ(now.size(), 0U);
}

TEST(DescriptorCheck, FindsNothingBehindAClosedDescriptor) {
  UniqueFd fd = file_of(5000);
  const FileFacts registered = of_file(fd.get(), Root{});
  const int number = fd.get();
  fd.reset();
  DescriptorCheck now(number, registered);
  EXPECT_EQ(now.size(), 0U);
  EXPECT_FALSE(now.finds_the_file());
}

TEST(DescriptorCheck, SaysNoEndOfABlockDevice) {
  const UniqueFd fd = file_of(5000);
  FileFacts registered = of_file(fd.get(), Root{});
  registered.kind = FileKind::block_device;
  EXPECT_EQ(DescriptorCheck(fd.get(), registered).size(), ~std::uint64_t{0});
}

}  // namespace
}  // namespace sluice::facts
