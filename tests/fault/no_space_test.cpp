// SPDX-License-Identifier: Apache-2.0
// A disk that is really full: a tmpfs of 1 MiB.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "support/calls.h"

namespace sluice::fault {
namespace {

using namespace support;

constexpr std::size_t kTooMuch = 4 * 1024 * 1024 + 77;

class NoSpace : public CufileTest, public ::testing::WithParamInterface<MemoryKind> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    if (find_place("tiny") == nullptr) GTEST_SKIP() << "there is no tiny file system to fill: it needs root";
    if (!available(GetParam())) GTEST_SKIP() << "no CUDA device";
    held_ = hold(*find_place("tiny"));
    memory_.emplace(GetParam(), kTooMuch);
    memory_->put(0, written_);
    file_.emplace(Bytes{}, find_place("tiny")->path);
  }

  Fd held_;
  const Bytes written_ = random_bytes(kTooMuch, 0x44);
  std::optional<Memory> memory_;
  std::optional<ScratchFile> file_;
};

TEST_P(NoSpace, WhatFitsIsWrittenAndToldThenTheCause) {
  for (const int flags : {0, O_DIRECT}) {
    SCOPED_TRACE(flags);
    const Fd truncating = file_->open(O_RDWR | O_TRUNC);
    const Fd fd = file_->open(O_RDWR | flags);
    const Handle handle(fd);
    const Transfer first = write_file(handle.get(), memory_->address(), kTooMuch);
    ASSERT_GT(first.count, 0);
    ASSERT_LT(first.count, static_cast<ssize_t>(kTooMuch));
    const auto count = static_cast<std::size_t>(first.count);
    const Bytes found = content_of(file_->path());
    ASSERT_GE(found.size(), count);
    EXPECT_TRUE(same_bytes({written_.data(), count}, {found.data(), count}));
    EXPECT_EQ(write_file(handle.get(), memory_->address(), 65536, first.count + 65536), failed(ENOSPC));
  }
}

TEST_P(NoSpace, OverwritingAndReadingStillWork) {
  const Fd fd = file_->open(O_RDWR);
  const Handle handle(fd);
  ASSERT_GT(write_file(handle.get(), memory_->address(), kTooMuch).count, 100000);
  EXPECT_EQ(write_file(handle.get(), memory_->address(), 100000, 1, 5), moved(100000));
  memory_->fill(0);
  EXPECT_EQ(read_file(handle.get(), memory_->address(), 100000, 1), moved(100000));
  EXPECT_TRUE(same_bytes({written_.data() + 5, 100000}, memory_->get(0, 100000)));
}

INSTANTIATE_TEST_SUITE_P(Each, NoSpace, ::testing::Values(MemoryKind::plain, MemoryKind::device),
                         [](const auto& parameters) { return std::string(name_of(parameters.param)); });

}  // namespace
}  // namespace sluice::fault
