// SPDX-License-Identifier: Apache-2.0
// What a thread does for a file while a device copies.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "base/unique_fd.h"
#include "staging/overlap_work.h"

namespace sluice::staging {
namespace {

using base::FileOffset;
using base::UniqueFd;

constexpr std::uint64_t kPage = 4096;

class WhileADeviceCopies : public ::testing::Test {
 protected:
  WhileADeviceCopies() : fd_(::memfd_create("meanwhile", MFD_CLOEXEC)) {
    const std::array<std::byte, 4 * kPage> bytes{};
    EXPECT_EQ(::pwrite(fd_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    registered_ = facts::of_file(fd_.get(), facts::Root{});
  }
  void SetUp() override {
    if (!io::is_cached(fd_.get(), FileOffset{0}, 2 * kPage)) GTEST_SKIP() << "cachestat() came with Linux 6.5";
  }
  io::Prefetch data() const {
    return io::Prefetch::of_write_range({fd_.get(), true}, FileOffset{0}, 2 * kPage, io::Prefetch::Step::of_a_page);
  }

  UniqueFd fd_;
  facts::FileFacts registered_;
};

TEST_F(WhileADeviceCopies, TheDescriptorIsLookedAtFirst) {
  facts::DescriptorCheck now(fd_.get(), registered_);
  OverlapWork overlap(now, data());
  EXPECT_FALSE(overlap.has_looked());
  EXPECT_TRUE(overlap.step());
  EXPECT_TRUE(now.asked());
  EXPECT_TRUE(overlap.has_looked());
  EXPECT_TRUE(overlap.step()) << "the first page is fetched";
  EXPECT_TRUE(overlap.step()) << "the second one";
  EXPECT_FALSE(overlap.step());
}

TEST(WhileADeviceCopiesForNoFile, NothingIsDone) {
  OverlapWork nothing;
  EXPECT_TRUE(nothing.has_looked());
  EXPECT_FALSE(nothing.step());
}

TEST_F(WhileADeviceCopies, WhatHasBeenLookedAtIsFetchedAtOnce) {
  facts::DescriptorCheck now(fd_.get(), registered_);
  ASSERT_TRUE(now.finds_the_file());
  OverlapWork overlap(now, data());
  EXPECT_TRUE(overlap.step());
  EXPECT_TRUE(overlap.step());
  EXPECT_FALSE(overlap.step());
}

TEST_F(WhileADeviceCopies, NothingOfAnotherFileIsFetched) {
  facts::DescriptorCheck now(fd_.get(), registered_);
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(other.get(), 4 * kPage), 0);
  ASSERT_EQ(::dup2(other.get(), fd_.get()), fd_.get());
  OverlapWork overlap(now, data());
  EXPECT_FALSE(overlap.step());
  EXPECT_FALSE(overlap.step());
  EXPECT_FALSE(now.finds_the_file());
}

}  // namespace
}  // namespace sluice::staging
