// SPDX-License-Identifier: Apache-2.0
// The control plane's exception.
#include "base/failure.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace sluice::base {
namespace {

TEST(Failure, CarriesCodeCauseAndSentence) {
  const Failure failure(CU_FILE_INVALID_VALUE, "descriptor 5 is not open", EBADF);
  EXPECT_EQ(failure.code(), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(failure.cause(), EBADF);
  EXPECT_EQ(failure.sentence(), "descriptor 5 is not open");
  EXPECT_STREQ(failure.what(), "descriptor 5 is not open");
}

TEST(Failure, HasNoCauseUnlessOneIsGiven) {
  EXPECT_EQ(Failure(CU_FILE_INTERNAL_ERROR, "x").cause(), 0);
}

TEST(Failure, IsCaughtAsAnyException) {
  try {
    throw Failure(CU_FILE_IO_ERROR, "the drive gave up", EIO);
  } catch (const std::exception& exception) {
    EXPECT_STREQ(exception.what(), "the drive gave up");
  }
}

}  // namespace
}  // namespace sluice::base
