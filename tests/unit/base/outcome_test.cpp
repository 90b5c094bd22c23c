// SPDX-License-Identifier: Apache-2.0
// The I/O path's answer.
#include "base/outcome.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <limits>

namespace sluice::base {
namespace {

TEST(Outcome, OfBytesIsACount) {
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{5} << 30,
                                    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())}) {
    const Outcome outcome = Outcome::bytes(count);
    EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(outcome.count(), count);
    EXPECT_EQ(outcome.error(), 0);
    EXPECT_EQ(outcome.value(), static_cast<std::int64_t>(count));
  }
}

TEST(Outcome, OfTheSystemsRefusalIsItsNegatedErrno) {
  const Outcome outcome = Outcome::system_error(ENOSPC);
  EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.count(), 0u);
  EXPECT_EQ(outcome.error(), ENOSPC);
  EXPECT_EQ(outcome.value(), -ENOSPC);
}

TEST(Outcome, OfARefusalIsTheNegatedCode) {
  const Outcome outcome = Outcome::refused(CU_FILE_INVALID_FILE_OPEN_FLAG);
  EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error(), 5019);
  EXPECT_EQ(outcome.value(), -5019);
}

TEST(Outcome, ComparesByItsValue) {
  EXPECT_EQ(Outcome::bytes(7), Outcome::bytes(7));
  EXPECT_NE(Outcome::bytes(7), Outcome::bytes(8));
  EXPECT_NE(Outcome::bytes(EIO), Outcome::system_error(EIO));
}

}  // namespace
}  // namespace sluice::base
