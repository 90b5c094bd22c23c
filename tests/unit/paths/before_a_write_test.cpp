// What a thread does for a file while a device copies what is to be written.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "base/unique_fd.h"
#include "paths/mover.h"

namespace sluice::paths {
namespace {

using base::FileOffset;
using base::UniqueFd;
using engine::Warming;

constexpr std::uint64_t kPage = 4096;

class BeforeWriting : public ::testing::Test {
 protected:
  BeforeWriting() : fd_(::memfd_create("before", MFD_CLOEXEC)) {
    const std::array<std::byte, 4 * kPage> bytes{};
    EXPECT_EQ(::pwrite(fd_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    registered_ = facts::of_file(fd_.get(), facts::Root{});
  }
  void SetUp() override {
    if (!engine::is_cached(fd_.get(), FileOffset{0}, 2 * kPage)) GTEST_SKIP() << "cachestat() came with Linux 6.5";
  }
  Warming place() const {
    return Warming::of_place({fd_.get(), true}, FileOffset{0}, 2 * kPage, Warming::Step::of_a_page);
  }

  UniqueFd fd_;
  facts::FileFacts registered_;
};

TEST_F(BeforeWriting, TheDescriptorIsLookedAtFirst) {
  facts::Look now(fd_.get(), registered_);
  BeforeAWrite before(now, place());
  EXPECT_FALSE(before.looked());
  EXPECT_TRUE(before.step());
  EXPECT_TRUE(now.asked());
  EXPECT_TRUE(before.looked());
  EXPECT_TRUE(before.step()) << "the first page is warmed";
  EXPECT_TRUE(before.step()) << "the second one";
  EXPECT_FALSE(before.step());
}

TEST_F(BeforeWriting, WhatHasBeenLookedAtIsWarmedAtOnce) {
  facts::Look now(fd_.get(), registered_);
  ASSERT_TRUE(now.finds_the_file());
  BeforeAWrite before(now, place());
  EXPECT_TRUE(before.step());
  EXPECT_TRUE(before.step());
  EXPECT_FALSE(before.step());
}

TEST_F(BeforeWriting, NothingOfAnotherFileIsWarmed) {
  facts::Look now(fd_.get(), registered_);
  const UniqueFd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(other.get(), 4 * kPage), 0);
  ASSERT_EQ(::dup2(other.get(), fd_.get()), fd_.get());
  BeforeAWrite before(now, place());
  EXPECT_FALSE(before.step());
  EXPECT_FALSE(before.step());
  EXPECT_FALSE(now.finds_the_file());
}

}  // namespace
}  // namespace sluice::paths
