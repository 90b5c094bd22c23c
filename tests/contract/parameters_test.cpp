// SPDX-License-Identifier: Apache-2.0
// cuFileSetParameter and cuFileGetParameter: defaults, limits, when a change is allowed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "support/calls.h"

namespace sluice::contract::parameters_test {
namespace {

using namespace support;

struct SizeParameter {
  CUFileSizeTConfigParameter_t parameter;
  std::size_t value;  // with the stock configuration
  std::size_t least;
  std::size_t most;
  std::size_t other;  // a value that a program may well ask for
};

constexpr std::array<SizeParameter, 12> kSizeParameters{{
    {CUFILE_PARAM_PROFILE_STATS, 0, 0, 3, 1},
    {CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, 128, 1, 256, 32},
    {CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 4, 0, 32, 8},
    {CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB, 8192, 4, 4294967295, 4},
    {CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM, 4, 0, 8, 2},
    {CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 16384, 64, 16384, 1024},
    {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, 131072, 0, 268435456, 512},
    {CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB, 1024, 64, 16384, 128},
    {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, 33554432, 64, 268435456, 2048},
    {CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 128, 1, 256, 16},
    {CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, 4, 4, 18014398509481980, 64},
    {CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, 5, 1, 1000, 500},
}};

constexpr int kBools = 12;

// One past the last parameter of a kind. Volatile, for the compiler knows the enumerations.
template <typename Enum>
Enum out_of_range(int value) {
  volatile int hidden = value;
  return static_cast<Enum>(hidden);
}

std::size_t get(CUFileSizeTConfigParameter_t parameter) {
  std::size_t value = SIZE_MAX;
  EXPECT_EQ(code(cuFileGetParameterSizeT(parameter, &value)), CU_FILE_SUCCESS) << parameter;
  return value;
}

bool get(CUFileBoolConfigParameter_t parameter) {
  bool value = false;
  EXPECT_EQ(code(cuFileGetParameterBool(parameter, &value)), CU_FILE_SUCCESS) << parameter;
  return value;
}

bool stock(CUFileBoolConfigParameter_t parameter) {
  return parameter == CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE || parameter == CUFILE_PARAM_EXECUTION_PARALLEL_IO ||
         parameter == CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY;
}

// Leaves the stock values staged for the next one that opens the driver.
class Parameters : public CufileTest {
 protected:
  void TearDown() override {
    cuFileStatsStop();  // a level that was set has started them
    close_driver_fully();
    for (const SizeParameter& size : kSizeParameters) cuFileSetParameterSizeT(size.parameter, size.value);
    for (int i = 0; i < kBools; ++i) {
      const auto parameter = static_cast<CUFileBoolConfigParameter_t>(i);
      cuFileSetParameterBool(parameter, stock(parameter));
    }
    cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "ERROR");
    cuFileSetStatsLevel(0);
    CufileTest::TearDown();
  }
};

// Runs in a process of its own, where nothing has been opened or set before.
class ParametersAtFirst : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv(kFresh) != nullptr) return;
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::setenv(kFresh, "1", 1);
      ::unsetenv("GTEST_TOTAL_SHARDS");  // of one case there is no third
      ::unsetenv("GTEST_SHARD_INDEX");
      ::execl("/proc/self/exe", "contract_tests", filter.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    done_ = true;
  }
  static constexpr const char* kFresh = "SLUICE_TEST_FRESH_PROCESS";
  bool done_ = false;
};

TEST_F(ParametersAtFirst, HaveTheValuesThatNobodyHasRead) {
  if (done_) return;
  constexpr std::array<std::size_t, 12> at_first{0, 128, 0, 1024};
  for (const SizeParameter& size : kSizeParameters) {
    EXPECT_EQ(get(size.parameter), at_first[static_cast<std::size_t>(size.parameter)]) << size.parameter;
  }
  for (int i = 0; i < kBools; ++i) EXPECT_FALSE(get(static_cast<CUFileBoolConfigParameter_t>(i))) << i;
  std::array<char, 16> text{'x'};
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text.data(), 16)), CU_FILE_SUCCESS);
  EXPECT_STREQ(text.data(), "");
  std::array<std::size_t, 3> slabs{};
  EXPECT_EQ(code(cuFileGetParameterPosixPoolSlabArray(slabs.data(), slabs.data(), 3)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(ParametersAtFirst, TellTheLevelOfTheLogOnceThePropertiesWereAskedFor) {
  if (done_) return;
  CUfileDrvProps_t properties{};
  ASSERT_EQ(code(cuFileDriverGetProperties(&properties)), CU_FILE_SUCCESS);
  std::array<char, 16> text{'x'};
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text.data(), 16)), CU_FILE_SUCCESS);
  EXPECT_STREQ(text.data(), "ERROR");
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(ParametersAtFirst, CanBeSetToAnythingAndBack) {
  if (done_) return;
  for (const SizeParameter& size : kSizeParameters) {
    const std::size_t before = get(size.parameter);
    for (const std::size_t value : {size.other, size.most + 1, std::size_t{7}, SIZE_MAX, before}) {
      EXPECT_EQ(code(cuFileSetParameterSizeT(size.parameter, value)), CU_FILE_SUCCESS) << size.parameter;
      EXPECT_EQ(get(size.parameter), value) << size.parameter;
    }
  }
}

TEST_F(ParametersAtFirst, HaveTheBuiltInValuesAfterAClose) {
  if (done_) return;
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  constexpr std::array<std::size_t, 12> after{0, 128, 0, 1024, 0, 1024, 131072, 1024, 18014398509481980, 128, 4, 5};
  for (const SizeParameter& size : kSizeParameters) {
    EXPECT_EQ(get(size.parameter), after[static_cast<std::size_t>(size.parameter)]) << size.parameter;
  }
}

TEST_F(Parameters, SizesHaveTheStockValuesWhenOpen) {
  cuFileDriverOpen();
  for (const SizeParameter& size : kSizeParameters) {
    const bool direct = size.parameter == CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB;
    EXPECT_EQ(get(size.parameter), direct ? stock_direct_io_kib() : size.value) << size.parameter;
  }
}

// The two that are device memory: what the first device shows of it, where that is known.
std::size_t expected_most(const SizeParameter& size) {
  const bool of_device_memory = size.parameter == CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB ||
                                size.parameter == CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB;
  std::size_t shown = 0;
  const bool is_known = of_device_memory && code(cuFileGetBARSizeInKB(0, &shown)) == CU_FILE_SUCCESS && shown > 0;
  return is_known ? shown : size.most;
}

void expect_limits(const SizeParameter& size) {
  std::size_t least = 7;
  std::size_t most = 7;
  EXPECT_EQ(code(cuFileGetParameterMinMaxValue(size.parameter, &least, &most)), CU_FILE_SUCCESS) << size.parameter;
  EXPECT_EQ(least, size.least) << size.parameter;
  EXPECT_EQ(most, expected_most(size)) << size.parameter;
}

TEST_F(Parameters, SizesHaveTheirLimits) {
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  for (const SizeParameter& size : kSizeParameters) {
    if (size.parameter != CUFILE_PARAM_PROFILE_STATS) expect_limits(size);
  }
}

TEST_F(Parameters, SizesKeepTheirLimitsAfterAClose) {
  std::size_t least = 0;
  std::size_t open = 0;
  std::size_t closed = 0;
  const auto pinned = CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB;
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileGetParameterMinMaxValue(pinned, &least, &open)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileGetParameterMinMaxValue(pinned, &least, &closed)), CU_FILE_SUCCESS);
  EXPECT_EQ(closed, open);
}

TEST_F(Parameters, TheLevelOfStatisticsTellsNoLimits) {
  std::size_t least = 7;
  std::size_t most = 7;
  EXPECT_EQ(code(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROFILE_STATS, &least, &most)), CU_FILE_INVALID_VALUE);
}

TEST_F(Parameters, SizesReadBackAsSetAndHoldWhenOpen) {
  for (const SizeParameter& size : kSizeParameters) {
    EXPECT_EQ(code(cuFileSetParameterSizeT(size.parameter, size.other)), CU_FILE_SUCCESS) << size.parameter;
    EXPECT_EQ(get(size.parameter), size.other) << size.parameter;
  }
  EXPECT_EQ(cuFileUseCount(), 0);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  for (const SizeParameter& size : kSizeParameters) EXPECT_EQ(get(size.parameter), size.other) << size.parameter;
}

TEST_F(Parameters, MayBeSetAfterThePropertiesWereAskedFor) {
  CUfileDrvProps_t properties{};
  ASSERT_EQ(code(cuFileDriverGetProperties(&properties)), CU_FILE_SUCCESS);
  const auto depth = CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH;
  EXPECT_EQ(code(cuFileSetParameterSizeT(depth, 32)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(get(depth), 32U);
}

TEST_F(Parameters, ASetNumberHoldsWhenOpen) {
  EXPECT_EQ(code(cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8)), CU_FILE_SUCCESS);
  cuFileDriverOpen();
  EXPECT_EQ(get(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 8U);
}

TEST_F(Parameters, TheLastSetWins) {
  cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8);
  cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 2);
  cuFileDriverOpen();
  EXPECT_EQ(get(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 2U);
}

TEST_F(Parameters, SizesOutsideTheirLimitsAreTakenAndDoNotHoldWhenOpen) {
  EXPECT_EQ(code(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, 5000)), CU_FILE_SUCCESS);
  EXPECT_EQ(get(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS), 5000U);
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(get(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS), 5U);
}

TEST_F(Parameters, NothingCanBeSetWhenOpen) {
  cuFileDriverOpen();
  const std::array<std::size_t, 1> slab{64};
  EXPECT_EQ(code(cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8)), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code(cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, true)), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "INFO")), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code(cuFileSetParameterPosixPoolSlabArray(slab.data(), slab.data(), 1)), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(get(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 4U);
}

TEST_F(Parameters, CanBeSetAgainAfterTheLastClose) {
  cuFileDriverOpen();
  cuFileDriverClose();
  EXPECT_EQ(code(cuFileSetParameterSizeT(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8)), CU_FILE_SUCCESS);
}

TEST_F(Parameters, BoolsHaveTheStockValuesWhenOpen) {
  cuFileDriverOpen();
  for (int i = 0; i < kBools; ++i) {
    const auto parameter = static_cast<CUFileBoolConfigParameter_t>(i);
    EXPECT_EQ(get(parameter), stock(parameter)) << i;
  }
}

TEST_F(Parameters, BoolsReadBackAsSet) {
  for (int i = 0; i < kBools; ++i) {
    const auto parameter = static_cast<CUFileBoolConfigParameter_t>(i);
    for (const bool value : {true, false}) {
      EXPECT_EQ(code(cuFileSetParameterBool(parameter, value)), CU_FILE_SUCCESS) << i;
      EXPECT_EQ(get(parameter), value) << i;
    }
  }
}

TEST_F(Parameters, UnknownOnesAreRefused) {
  std::size_t size = 0;
  bool flag = false;
  std::array<char, 16> text{};
  const auto no_size = out_of_range<CUFileSizeTConfigParameter_t>(12);
  const bool later = reported_version() >= 1190;
  const auto no_bool = out_of_range<CUFileBoolConfigParameter_t>(later ? 14 : 12);
  const auto no_string = out_of_range<CUFileStringConfigParameter_t>(later ? 4 : 3);
  EXPECT_EQ(code(cuFileGetParameterSizeT(no_size, &size)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterSizeT(no_size, 1)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterMinMaxValue(no_size, &size, &size)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterBool(no_bool, &flag)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterBool(no_bool, true)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterString(no_string, text.data(), 16)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterString(no_string, "x")), CU_FILE_INVALID_VALUE);
}

TEST_F(Parameters, NullIsRefused) {
  std::size_t size = 0;
  EXPECT_EQ(code(cuFileGetParameterSizeT(CUFILE_PARAM_PROFILE_STATS, nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterBool(CUFILE_PARAM_PROFILE_NVTX, nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, nullptr, 16)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROFILE_STATS, nullptr, &size)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROFILE_STATS, &size, nullptr)), CU_FILE_INVALID_VALUE);
}

TEST_F(Parameters, LoggingLevelTakesKnownLevels) {
  for (const char* level : {"TRACE", "debug", "INFO", "WARN", "ERROR", "NOTICE"}) {
    EXPECT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, level)), CU_FILE_SUCCESS) << level;
  }
}

TEST_F(Parameters, LoggingLevelTakesUnknownLevelsToo) {
  EXPECT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "bogus")), CU_FILE_SUCCESS);
  std::array<char, 16> text{};
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text.data(), 16)), CU_FILE_SUCCESS);
  EXPECT_STREQ(text.data(), "bogus");
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
}

TEST_F(Parameters, EmptyAndMissingTextsAreRefused) {
  for (const auto parameter : {CUFILE_PARAM_LOGGING_LEVEL, CUFILE_PARAM_ENV_LOGFILE_PATH, CUFILE_PARAM_LOG_DIR}) {
    EXPECT_EQ(code(cuFileSetParameterString(parameter, "")), CU_FILE_INVALID_VALUE) << parameter;
    EXPECT_EQ(code(cuFileSetParameterString(parameter, nullptr)), CU_FILE_INVALID_VALUE) << parameter;
  }
}

TEST_F(Parameters, LogDirectoryNeedNotExist) {
  EXPECT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, "/no/such/directory")), CU_FILE_SUCCESS);
  std::array<char, 64> text{};
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text.data(), 64)), CU_FILE_SUCCESS);
  EXPECT_STREQ(text.data(), "/no/such/directory");
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text.data(), 64)), CU_FILE_SUCCESS);
  EXPECT_STREQ(text.data(), "");
}

TEST_F(Parameters, TextsNeedRoom) {
  std::array<char, 16> text{};
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text.data(), 0)), CU_FILE_INVALID_VALUE);
}

TEST_F(Parameters, TextsNeedRoomForTheirEnd) {
  cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "ERROR");
  std::array<char, 16> text{'x', 'x'};
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text.data(), 5)), CU_FILE_INVALID_VALUE);
  EXPECT_STREQ(text.data(), "xx");
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text.data(), 6)), CU_FILE_SUCCESS);
  EXPECT_STREQ(text.data(), "ERROR");
}

TEST_F(Parameters, LogFilePathIsReadableOnlyWhenTheEnvironmentHasIt) {
  if (std::getenv("CUFILE_LOGFILE_PATH") != nullptr) GTEST_SKIP() << "CUFILE_LOGFILE_PATH is set";
  std::array<char, 64> text{};
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_ENV_LOGFILE_PATH, text.data(), 64)), CU_FILE_INVALID_VALUE);
}

}  // namespace
}  // namespace sluice::contract::parameters_test
