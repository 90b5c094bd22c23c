// Defaults, the environment, and what staging does to them.
#include "config/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "base/failure.h"
#include "config/store.h"

namespace sluice::config {
namespace {

std::map<std::string, std::string>& pretended() {
  static std::map<std::string, std::string> variables;
  return variables;
}

Config read(std::map<std::string, std::string> variables, std::vector<std::string>& complaints) {
  pretended() = std::move(variables);
  return from_environment(
      [](const char* name) -> const char* {
        const auto found = pretended().find(name);
        return found == pretended().end() ? nullptr : found->second.c_str();
      },
      complaints);
}

CUfileOpError code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const base::Failure& failure) {
    EXPECT_FALSE(failure.sentence().empty());
    return failure.code();
  }
  return CU_FILE_SUCCESS;
}

TEST(Defaults, AreTheStockValuesInTheOrderOfTheirEnumeration) {
  std::vector<std::string> complaints;
  const Config config = read({}, complaints);
  const std::array<std::size_t, size_parameter_count> stock{0,      128,  4,        8192, 4, 16384,
                                                            131072, 1024, 33554432, 128,  4, 5};
  EXPECT_EQ(config.sizes, stock);
  EXPECT_TRUE(config.flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  EXPECT_TRUE(config.flag(CUFILE_PARAM_EXECUTION_PARALLEL_IO));
  EXPECT_TRUE(config.flag(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY));
  EXPECT_FALSE(config.flag(CUFILE_PARAM_USE_PCIP2PDMA));
  EXPECT_FALSE(config.log_file_given);
  EXPECT_TRUE(complaints.empty());
}

TEST(Defaults, TablesAreInTheOrderOfTheirEnumerations) {
  for (std::size_t i = 0; i < size_parameter_count; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(size_parameters[i].id), i);
    EXPECT_TRUE(in_range(size_parameters[i], size_parameters[i].standard)) << size_parameters[i].key;
  }
  for (std::size_t i = 0; i < bool_parameter_count; ++i) EXPECT_EQ(static_cast<std::size_t>(bool_parameters[i].id), i);
}

TEST(Environment, SwitchesOurModesInAnySpellingOfYes) {
  for (const char* yes : {"1", "true", "YES", "On"}) {
    std::vector<std::string> complaints;
    const Config config = read({{"SLUICE_VERIFY", yes}, {"SLUICE_EXPLAIN", yes}, {"SLUICE_MODE", "plain"}}, complaints);
    EXPECT_TRUE(config.verify && config.explain && config.plain) << yes;
    EXPECT_TRUE(complaints.empty());
  }
}

TEST(Environment, NamesWhatItCannotReadAndKeepsTheDefault) {
  std::vector<std::string> complaints;
  const Config config = read({{"SLUICE_VERIFY", "perhaps"},
                              {"SLUICE_MODE", "fast"},
                              {"CUFILE_LOGGING_LEVEL", "LOUD"},
                              {"CUFILE_ALLOW_COMPAT_MODE", "2"}},
                             complaints);
  EXPECT_FALSE(config.verify);
  EXPECT_FALSE(config.plain);
  EXPECT_EQ(config.log_level, "ERROR");
  EXPECT_TRUE(config.flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  EXPECT_EQ(complaints.size(), 4u);
}

TEST(Environment, AnEmptyLogPathMeansNoLogAndIsRemembered) {
  std::vector<std::string> complaints;
  const Config config = read({{"CUFILE_LOGFILE_PATH", ""}}, complaints);
  EXPECT_TRUE(config.log_file_given);
  EXPECT_TRUE(config.log_file.empty());
}

TEST(LogLevels, AreKnownInAnyCaseAndNothingElseIs) {
  EXPECT_EQ(parse_log_level("trace"), LogLevel::trace);
  EXPECT_EQ(parse_log_level("Notice"), LogLevel::notice);
  EXPECT_EQ(parse_log_level("TRACES"), std::nullopt);
  EXPECT_EQ(parse_log_level(""), std::nullopt);
}

TEST(Staging, IsUsedUpByTheNextLifeAndWinsOverTheDefaults) {
  Store store;
  std::vector<std::string> complaints;
  store.set(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8);
  EXPECT_EQ(store.current()->size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 8u);
  EXPECT_EQ(store.begin_life(complaints)->size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 8u);
  store.end_life();
  EXPECT_EQ(store.begin_life(complaints)->size(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS), 4u);
}

TEST(Staging, RefusesWhatIsOutOfRangeAndLeavesTheValue) {
  Store store;
  for (const SizeParameter& parameter : size_parameters) {
    EXPECT_EQ(code_of([&] { store.set(parameter.id, parameter.highest + 1); }), CU_FILE_DRIVER_UNSUPPORTED_LIMIT)
        << parameter.key;
    EXPECT_EQ(store.current()->size(parameter.id), parameter.standard);
    EXPECT_EQ(code_of([&] { store.set(parameter.id, parameter.highest); }), CU_FILE_SUCCESS) << parameter.key;
    EXPECT_EQ(code_of([&] { store.set(parameter.id, parameter.lowest); }), CU_FILE_SUCCESS) << parameter.key;
  }
}

TEST(Staging, IsClosedWhileTheDriverRuns) {
  Store store;
  std::vector<std::string> complaints;
  store.begin_life(complaints);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, 8); }), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_FORCE_COMPAT_MODE, true); }), CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(code_of([&] { store.set_posix_slabs({{4}, {1}}); }), CU_FILE_DRIVER_ALREADY_OPEN);
}

TEST(Staging, RefusesUnknownIdsAndTexts) {
  Store store;
  EXPECT_EQ(code_of([&] { store.set(static_cast<CUFileSizeTConfigParameter_t>(99), 1); }), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code_of([&] { store.set(static_cast<CUFileBoolConfigParameter_t>(-1), true); }), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_LOGGING_LEVEL, "bogus"); }), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_LOG_DIR, "/no/such/folder"); }), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code_of([&] { store.set(CUFILE_PARAM_LOG_DIR, ""); }), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code_of([&] { store.set_posix_slabs({{4, 6}, {1, 1}}); }), CU_FILE_INVALID_VALUE);
}

TEST(Adjusting, ShowsAtOnceAndLeavesValuesThatAreHeldAlone) {
  Store store;
  std::vector<std::string> complaints;
  const auto held = store.begin_life(complaints);
  store.adjust(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, 1024);
  EXPECT_EQ(store.current()->size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 1024u);
  EXPECT_EQ(held->size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB), 16384u);
}

}  // namespace
}  // namespace sluice::config
