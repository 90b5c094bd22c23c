// SPDX-License-Identifier: Apache-2.0
// `./run check --full` runs this also where pages have 64 KiB.
#include "base/page_size.h"

#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <bit>
#include <cstdint>
#include <cstdlib>

namespace sluice::base {
namespace {

TEST(PageSize, IsWhatTheKernelMapsBy) {
  const std::size_t page = page_size();
  if (const char* const wanted = std::getenv("SLUICE_TEST_PAGE")) {
    if (page != std::strtoul(wanted, nullptr, 10)) GTEST_SKIP() << "this emulator plays no pages of " << wanted;
  }
  ASSERT_TRUE(std::has_single_bit(page));
  EXPECT_EQ(page, ::getauxval(AT_PAGESZ));
  for (int i = 0; i < 8; ++i) {
    void* const mapped = ::mmap(nullptr, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped) % page, 0U);
    ::munmap(mapped, 1);
  }
}

TEST(PageSize, RoundsUpToWholePages) {
  EXPECT_EQ(whole_pages(0, 65536), 0U);
  EXPECT_EQ(whole_pages(1, 65536), 65536U);
  EXPECT_EQ(whole_pages(65536, 65536), 65536U);
  EXPECT_EQ(whole_pages(24576, 4096), 24576U);
}

}  // namespace
}  // namespace sluice::base
