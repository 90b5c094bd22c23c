// SPDX-License-Identifier: Apache-2.0
// The log's layout and the files that it refuses.
#include "observe/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

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

  int lines(const std::string& name) const {
    const std::string text = content(name);
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  // Before anything else is set: the fields follow the settings.
  void cap(std::int64_t mebibytes) {
    config_.set(config::key_at("logging.max_file_size_mb"), mebibytes, config::Origin::parameter);
    config_.log_level = "INFO";
    config_.log_file_given = true;
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

TEST_F(Log, WritesNoticesAtEveryLevel) {
  config_.log_file = folder_ + "/log";
  for (const char* level : {"NOTICE", "ERROR", "TRACE"}) {
    config_.log_level = level;
    ASSERT_EQ(open_log(config_), "");
    log(config::LogLevel::notice, "core", std::string("at ") + level);
    EXPECT_THAT(content("log"), testing::HasSubstr(std::string("NOTICE  core at ") + level + "\n"));
  }
}

TEST_F(Log, WritesNothingButNoticesAtTheLowestLevel) {
  config_.log_file = folder_ + "/log";
  config_.log_level = "NOTICE";
  ASSERT_EQ(open_log(config_), "");
  log(config::LogLevel::error, "core", "not even this one");
  EXPECT_EQ(content("log"), "");
}

TEST_F(Log, EndsAtItsCapAndBeginsANewFile) {
  cap(1);
  config_.log_file = folder_ + "/log";
  ASSERT_EQ(open_log(config_), "");
  const std::string filler(1000, 'x');
  for (int line = 0; line < 1500; ++line) log(config::LogLevel::info, "core", std::to_string(line) + " " + filler);
  EXPECT_LE(std::filesystem::file_size(folder_ + "/log"), 1U << 20U);
  EXPECT_LE(std::filesystem::file_size(folder_ + "/log.old"), 1U << 20U);
  EXPECT_THAT(content("log.old"), testing::HasSubstr("core 0 x"));
  EXPECT_THAT(content("log"), testing::HasSubstr("core 1499 x"));
  EXPECT_EQ(lines("log") + lines("log.old"), 1500) << "a line was lost";
}

TEST_F(Log, KeepsOneFullFileAtMost) {
  cap(1);
  config_.log_file = folder_ + "/log";
  ASSERT_EQ(open_log(config_), "");
  const std::string filler(10000, 'x');
  for (int line = 0; line < 500; ++line) log(config::LogLevel::info, "core", filler);
  const auto files = std::distance(std::filesystem::directory_iterator(folder_), {});
  EXPECT_EQ(files, 2);
}

TEST_F(Log, IsEmptiedAtItsCapWhereItCannotBeRenamed) {
  cap(1);
  std::filesystem::create_directory(folder_ + "/log.old");  // no file can take this name
  config_.log_file = folder_ + "/log";
  ASSERT_EQ(open_log(config_), "");
  const std::string filler(1000, 'x');
  for (int line = 0; line < 1500; ++line) log(config::LogLevel::info, "core", std::to_string(line) + " " + filler);
  EXPECT_LE(std::filesystem::file_size(folder_ + "/log"), 1U << 20U);
  EXPECT_THAT(content("log"), testing::HasSubstr("core 1499 x"));
}

TEST_F(Log, WithoutACapGrows) {
  cap(-1);
  config_.log_file = folder_ + "/log";
  ASSERT_EQ(open_log(config_), "");
  const std::string filler(100000, 'x');
  for (int line = 0; line < 12; ++line) log(config::LogLevel::info, "core", filler);
  EXPECT_GT(std::filesystem::file_size(folder_ + "/log"), 1U << 20U);
}

TEST_F(Log, OfSeveralThreadsLosesNoLineAtItsCap) {
  cap(1);
  config_.log_file = folder_ + "/log";
  ASSERT_EQ(open_log(config_), "");
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer) {
    threads.emplace_back([] {
      const std::string filler(1000, 'x');
      for (int line = 0; line < 400; ++line) log(config::LogLevel::info, "core", filler);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines("log") + lines("log.old"), 1600);
}

TEST_F(Log, StaysWhereItIsWhenTheProgramGoesElsewhere) {
  const std::string before = std::filesystem::current_path();
  std::filesystem::create_directory(folder_ + "/elsewhere");
  std::filesystem::current_path(folder_);
  cap(1);
  config_.log_file = "log";
  ASSERT_EQ(open_log(config_), "");
  std::filesystem::current_path(folder_ + "/elsewhere");
  const std::string filler(100000, 'x');
  for (int line = 0; line < 12; ++line) log(config::LogLevel::info, "core", filler);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/elsewhere"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/log.old"));
  std::filesystem::current_path(before);
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

TEST_F(Log, IsOffAfterARefusalWhateverWasOpenBefore) {
  config_.log_file = folder_ + "/first";
  ASSERT_EQ(open_log(config_), "");
  config_.log_file = folder_ + "/no/such/folder/log";
  ASSERT_NE(open_log(config_), "");
  log(config::LogLevel::error, "core", "must not arrive");
  EXPECT_EQ(content("first"), "");
}

// A program that closes all that it has not opened itself, and opens a file that gets the log's number.
TEST_F(Log, LeavesAFileAloneThatHasGotItsDescriptor) {
  const std::string logged = folder_ + "/log";
  const std::string foreign = folder_ + "/foreign";
  config_.log_file = logged;
  ASSERT_EQ(open_log(config_), "");
  log(config::LogLevel::error, "test", "one");
  int number = -1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) == logged) number = std::stoi(entry.path().filename());
  }
  ASSERT_GE(number, 0);
  const int fd = ::open(foreign.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::dup2(fd, number), number);
  log(config::LogLevel::error, "test", "two");  // is lost
  ASSERT_EQ(open_log(config_), "");
  log(config::LogLevel::error, "test", "three");
  EXPECT_EQ(::write(number, "own", 3), 3);
  EXPECT_EQ(content("foreign"), "own");
  EXPECT_EQ(lines("log"), 2);
  ::close(number);
  ::close(fd);
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
