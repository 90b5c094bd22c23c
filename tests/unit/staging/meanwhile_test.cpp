// What a thread does for a file while a device copies.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "base/unique_fd.h"
#include "staging/meanwhile.h"

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
  io::Warming place() const {
    return io::Warming::of_place({fd_.get(), true}, FileOffset{0}, 2 * kPage, io::Warming::Step::of_a_page);
  }

  UniqueFd fd_;
  facts::FileFacts registered_;
};

TEST_F(WhileADeviceCopies, TheDescriptorIsLookedAtFirst) {
  facts::Look now(fd_.get(), registered_);
  Meanwhile meanwhile(now, place());
  EXPECT_FALSE(meanwhile.has_looked());
  EXPECT_TRUE(meanwhile.step());
  EXPECT_TRUE(now.asked());
  EXPECT_TRUE(meanwhile.has_looked());
  EXPECT_TRUE(meanwhile.step()) << "the first page is warmed";
  EXPECT_TRUE(meanwhile.step()) << "the second one";
  EXPECT_FALSE(meanwhile.step());
}

TEST(WhileADeviceCopiesForNoFile, NothingIsDone) {
  Meanwhile nothing;
  EXPECT_TRUE(nothing.has_looked());
  EXPECT_FALSE(nothing.step());
}

TEST_F(WhileADeviceCopies, WhatHasBeenLookedAtIsWarmedAtOnce) {
  facts::Look now(fd_.get(), registered_);
  ASSERT_TRUE(now.finds_the_file());
  Meanwhile meanwhile(now, place());
  EXPECT_TRUE(meanwhile.step());
  EXPECT_TRUE(meanwhile.step());
  EXPECT_FALSE(meanwhile.step());
}

TEST_F(WhileADeviceCopies, NothingOfAnotherFileIsWarmed) {
  facts::Look now(fd_.get(), registered_);
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(other.get(), 4 * kPage), 0);
  ASSERT_EQ(::dup2(other.get(), fd_.get()), fd_.get());
  Meanwhile meanwhile(now, place());
  EXPECT_FALSE(meanwhile.step());
  EXPECT_FALSE(meanwhile.step());
  EXPECT_FALSE(now.finds_the_file());
}

}  // namespace
}  // namespace sluice::staging
