// SPDX-License-Identifier: Apache-2.0
// Parameters, properties and their setters over many lives of the driver: in any order, and from many threads at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "support/calls.h"
#include "support/random.h"

namespace sluice::contract {
namespace {

using namespace support;

struct Size {
  CUFileSizeTConfigParameter_t parameter;
  std::size_t stock;
  std::size_t other;
  std::size_t at_first;  // before the first open
  std::size_t closed;    // after a close
};

constexpr std::array<Size, 11> kSizes{{
    {CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, 128, 32, 128, 128},
    {CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 4, 8, 0, 0},
    {CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB, 8192, 4, 1024, 1024},
    {CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM, 4, 2, 0, 0},
    {CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 16384, 1024, 0, 1024},
    {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, 131072, 512, 0, 131072},
    {CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB, 1024, 128, 0, 1024},
    {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, 33554432, 2048, 0, 18014398509481980},
    {CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 128, 16, 0, 128},
    {CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, 4, 64, 0, 4},
    {CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, 5, 500, 0, 5},
}};

constexpr std::array<CUFileBoolConfigParameter_t, 3> kBools{
    CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, CUFILE_PARAM_PROFILE_NVTX, CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE};

std::size_t value_of(CUFileSizeTConfigParameter_t parameter) {
  std::size_t value = 0;
  EXPECT_EQ(code(cuFileGetParameterSizeT(parameter, &value)), CU_FILE_SUCCESS) << parameter;
  return value;
}

bool value_of(CUFileBoolConfigParameter_t parameter) {
  bool value = false;
  EXPECT_EQ(code(cuFileGetParameterBool(parameter, &value)), CU_FILE_SUCCESS) << parameter;
  return value;
}

CUfileDrvProps_t properties() {
  CUfileDrvProps_t all{};
  EXPECT_EQ(code(cuFileDriverGetProperties(&all)), CU_FILE_SUCCESS);
  return all;
}

class ParameterLives : public CufileTest {
 protected:
  // What was staged is used up by an open.
  void TearDown() override {
    cuFileDriverOpen();
    CufileTest::TearDown();
  }
};

TEST_F(ParameterLives, EachHoldWhatWasSetBeforeInAnyOrderAndTheStockValuesOtherwise) {
  Random random(run_seed());
  std::array<std::size_t, kSizes.size() + kBools.size()> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int life = 0; life < 40; ++life) {
    SCOPED_TRACE(::testing::Message() << "life " << life << ", SLUICE_TEST_SEED=" << run_seed());
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    std::array<bool, kSizes.size() + kBools.size()> set{};
    const std::size_t count = random.below(order.size() + 1);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t which = order[i];
      set[which] = true;
      const CUfileError_t answer = which < kSizes.size()
                                       ? cuFileSetParameterSizeT(kSizes[which].parameter, kSizes[which].other)
                                       : cuFileSetParameterBool(kBools[which - kSizes.size()], true);
      EXPECT_EQ(code(answer), CU_FILE_SUCCESS) << which;
    }
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const bool direct = kSizes[i].parameter == CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB;
      const std::size_t stock = direct ? stock_direct_io_kib() : kSizes[i].stock;
      EXPECT_EQ(value_of(kSizes[i].parameter), set[i] ? kSizes[i].other : stock) << kSizes[i].parameter;
    }
    for (std::size_t i = 0; i < kBools.size(); ++i) {
      EXPECT_EQ(value_of(kBools[i]), set[kSizes.size() + i]) << kBools[i];
    }
    ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  }
}

TEST_F(ParameterLives, DoNotInheritWhatWasSetWhileTheLastOneRan) {
  for (int life = 0; life < 3; ++life) {
    SCOPED_TRACE(life);
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    const CUfileDrvProps_t fresh = properties();
    EXPECT_EQ(fresh.nvfs.max_direct_io_size, stock_direct_io_kib());
    EXPECT_EQ(fresh.max_device_cache_size, 131072U);
    EXPECT_EQ(fresh.max_device_pinned_mem_size, 33554432U);
    EXPECT_EQ(fresh.nvfs.poll_thresh_size, 4U);
    EXPECT_EQ(code(cuFileDriverSetPollMode(true, 64)), CU_FILE_SUCCESS);
    EXPECT_EQ(code(cuFileDriverSetMaxPinnedMemSize(2048)), CU_FILE_SUCCESS);
    EXPECT_EQ(code(cuFileDriverSetMaxDirectIOSize(1024)), CU_FILE_SUCCESS);
    EXPECT_EQ(code(cuFileDriverSetMaxCacheSize(512)), CU_FILE_SUCCESS);
    const CUfileDrvProps_t changed = properties();
    EXPECT_EQ(changed.nvfs.max_direct_io_size, 1024U);
    EXPECT_EQ(changed.max_device_cache_size, 512U);
    EXPECT_EQ(changed.max_device_pinned_mem_size, 2048U);
    EXPECT_EQ(changed.nvfs.poll_thresh_size, 64U);
    ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  }
}

bool one_of(int answer, std::initializer_list<int> allowed) {
  return std::find(allowed.begin(), allowed.end(), answer) != allowed.end();
}

// Every value that is ever read is one that a thread set, or the stock value; every refusal says that the driver runs.
TEST_F(ParameterLives, MayBeginAndEndWhileOtherThreadsSetAndAsk) {
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> refused{0};
  std::atomic<std::size_t> accepted{0};
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      Random random(run_seed() + number);
      do {
        const Size& size = kSizes[random.below(kSizes.size())];
        const std::size_t wanted = random.below(2) == 0 ? size.stock : size.other;
        const int answer = code(cuFileSetParameterSizeT(size.parameter, wanted));
        EXPECT_TRUE(one_of(answer, {CU_FILE_SUCCESS, CU_FILE_DRIVER_ALREADY_OPEN})) << answer;
        ++(answer == CU_FILE_SUCCESS ? accepted : refused);
        const std::size_t found = value_of(size.parameter);
        EXPECT_TRUE(found == size.stock || found == size.other || found == size.at_first || found == size.closed)
            << size.parameter << ": " << found;
        EXPECT_EQ(code(cuFileDriverSetMaxDirectIOSize(random.below(2) == 0 ? 16384 : 1024)), CU_FILE_SUCCESS);
        const std::size_t piece = properties().nvfs.max_direct_io_size;
        EXPECT_TRUE(piece == 16384 || piece == 1024) << piece;
      } while (!stop);
    });
  }
  constexpr int most_lives = 100000;
  for (int life = 0; life < 100 || (life < most_lives && (refused == 0 || accepted == 0)); ++life) {
    EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    std::this_thread::yield();
    EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
    std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(refused, 0U);
  EXPECT_GT(accepted, 0U);
}

}  // namespace
}  // namespace sluice::contract
