// The log's layout and the files that it refuses.
#include "observe/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace sluice::observe {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "sluice-log-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    config_.log_level = "INFO";
    config_.log_file_given = true;
  }
  void TearDown() override {
    config_.log_file.clear();
    open_log(config_);
    std::filesystem::remove_all(folder_);
  }
  std::string content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ + "/" + name).rdbuf();
    return text.str();
  }

  std::string folder_;
  config::Config config_;
};

TEST_F(Log, LinesHaveTheIncumbentsLayout) {
  EXPECT_THAT(format_log_line(config::LogLevel::notice, "core", "hello"),
              testing::MatchesRegex(" [0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+:[0-9]+ "
                                    "\\[pid=[0-9]+ tid=[0-9]+\\] NOTICE  core hello\n"));
}

TEST_F(Log, WritesWhatTheLevelAllowsAndNothingBelow) {
  config_.log_file = folder_ + "/log";
  EXPECT_EQ(open_log(config_), "");
  log(config::LogLevel::info, "core", "this one");
  log(config::LogLevel::debug, "core", "not this one");
  EXPECT_THAT(content("log"), testing::HasSubstr("INFO  core this one\n"));
  EXPECT_THAT(content("log"), testing::Not(testing::HasSubstr("not this one")));
}

TEST_F(Log, RefusesASymbolicLinkAndLeavesItsTargetAlone) {
  std::ofstream(folder_ + "/victim") << "precious";
  ASSERT_EQ(::symlink((folder_ + "/victim").c_str(), (folder_ + "/link").c_str()), 0);
  config_.log_file = folder_ + "/link";
  EXPECT_THAT(open_log(config_), testing::HasSubstr("symbolic link"));
  log(config::LogLevel::error, "core", "must not arrive");
  EXPECT_EQ(content("victim"), "precious");
}

TEST_F(Log, RefusesWhatIsNoRegularFileWithoutHanging) {
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  config_.log_file = folder_ + "/pipe";
  EXPECT_NE(open_log(config_), "");
  config_.log_file = folder_ + "/no/such/folder/log";
  EXPECT_THAT(open_log(config_), testing::HasSubstr("logging is off"));
}

TEST_F(Log, ALevelOfItsOwnForEachOpen) {
  config_.log_file = folder_ + "/first";
  open_log(config_);
  config_.log_file = folder_ + "/second";
  config_.log_level = "ERROR";
  open_log(config_);
  EXPECT_FALSE(log_enabled(config::LogLevel::info));
  log(config::LogLevel::error, "core", "moved on");
  EXPECT_EQ(content("first"), "");
  EXPECT_THAT(content("second"), testing::HasSubstr("moved on"));
}

}  // namespace
}  // namespace sluice::observe
