// SPDX-License-Identifier: Apache-2.0
// The I/O matrix: a test a place and direction, each running its cases through a call, a batch or a stream, and
// comparing every byte in and around the range, in memory and in the file, with a model.
//
//   io_matrix [--case=NAME] [GoogleTest's arguments]
//
//   SLUICE_TEST_SEED     repeats a run
//   SLUICE_TEST_FULL=1   runs all cases, not a sample
//   SLUICE_TEST_SAMPLE   the size of the sample in percent of the usual one
//   SLUICE_TEST_DOOR     batch or stream: every case goes through that door, and not by a call
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "contract/matrix_case.h"
#include "contract/matrix_door.h"
#include "contract/matrix_target.h"
#include "support/calls.h"
#include "support/run.h"

namespace sluice::contract {
namespace {

using support::Bytes;
using support::Transfer;

// What a run was asked for, and what it has done.
struct Progress {
  std::string only;  // the name of the one case to run, "" for a sample
  bool full = false;
  unsigned percent = 100;
  std::size_t cases = 0;
  std::size_t possible = 0;
};

Progress& progress() {
  static Progress progress;
  return progress;
}

// Failures of one test after which the rest is not worth reading.
constexpr std::size_t kMostFailures = 8;

int open_flags(const Case& test_case) {
  int flags = O_RDWR;
  if (test_case.access == Access::one_way) flags = test_case.direction == Direction::read ? O_RDONLY : O_WRONLY;
  if (test_case.opening == Opening::direct) flags |= O_DIRECT;
  if (test_case.opening == Opening::synchronous) flags |= O_SYNC;
  return flags;
}

// Random bytes to lie around a range, or to be written: another part of one pool for each case.
std::span<const unsigned char> noise_for(const Case& test_case, std::size_t length) {
  static const Bytes pool = support::random_bytes(kBufferSize + 2 * kMebibyte, 0x401);
  const std::uint64_t start = support::hash_of(name_of(test_case)) % (pool.size() - length);
  return {pool.data() + start, length};
}

::testing::AssertionResult same_count(Transfer expected, Transfer actual) {
  if (expected == actual) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "expected " << ::testing::PrintToString(expected) << ", got "
                                       << ::testing::PrintToString(actual);
}

::testing::AssertionResult same_part(const char* what, std::span<const unsigned char> expected,
                                     std::span<const unsigned char> actual) {
  const ::testing::AssertionResult same = support::same_bytes(expected, actual);
  if (same) return same;
  return ::testing::AssertionFailure() << what << ": " << same.message();
}

class Runner {
 public:
  Runner(const Target& target, const support::Memory& memory, CUfileHandle_t handle, const Case& test_case)
      : target_(target),
        memory_(memory),
        handle_(handle),
        case_(test_case),
        shape_(shape_of(test_case, target.size(), target.growth())),
        around_(noise_for(test_case, shape_.size + 2 * kGuard)) {}

  ::testing::AssertionResult run() {
    memory_.put(shape_.buffer_offset - kGuard, around_);
    return case_.direction == Direction::read ? read() : write();
  }

  std::string describe() const {
    return "file offset " + std::to_string(shape_.file_offset) + ", buffer offset " +
           std::to_string(shape_.buffer_offset) + " (base at " + std::to_string(shape_.base_offset) + "), size " +
           std::to_string(shape_.size) + ", file size " + std::to_string(target_.size());
  }

 private:
  off_t file_offset() const { return static_cast<off_t>(shape_.file_offset); }
  off_t buffer_offset() const { return static_cast<off_t>(shape_.buffer_offset - shape_.base_offset); }

  ::testing::AssertionResult read() {
    const std::uint64_t left = target_.size() - std::min(target_.size(), shape_.file_offset);
    const std::uint64_t expected = std::min(shape_.size, left);
    const Transfer answer =
        transfer(case_.direction, handle_, memory_.at(shape_.base_offset), shape_.size, file_offset(), buffer_offset());
    if (auto same = same_count(support::moved(expected), answer); !same) return same;

    const Bytes found = memory_.get(shape_.buffer_offset - kGuard, around_.size());
    const std::span<const unsigned char> all(found);
    if (auto same = same_part("memory before the range", around_.first(kGuard), all.first(kGuard)); !same) return same;
    const std::span<const unsigned char> wanted =
        expected == 0 ? std::span<const unsigned char>{} : target_.content().subspan(shape_.file_offset, expected);
    if (auto same = same_part("memory in the range", wanted, all.subspan(kGuard, expected)); !same) return same;
    return same_part("memory behind the count", around_.subspan(kGuard + expected), all.subspan(kGuard + expected));
  }

  ::testing::AssertionResult write() {
    const Transfer answer =
        transfer(case_.direction, handle_, memory_.at(shape_.base_offset), shape_.size, file_offset(), buffer_offset());
    ::testing::AssertionResult result = same_count(support::moved(shape_.size), answer);
    if (result) {
      result = same_part("memory that was written from", around_,
                         memory_.get(shape_.buffer_offset - kGuard, around_.size()));
    }
    if (result) result = check_written_file();
    restore();
    return result;
  }

  // Compares the file around the range with what it held before, changed by the write.
  ::testing::AssertionResult check_written_file() const {
    const std::uint64_t end = shape_.file_offset + shape_.size;
    const std::uint64_t size = shape_.size == 0 ? target_.size() : std::max(target_.size(), end);
    if (const std::uint64_t found = support::file_size(target_.plain()); found != size) {
      return ::testing::AssertionFailure() << "the file has " << found << " bytes, not " << size;
    }
    const std::uint64_t from = std::min(shape_.file_offset - std::min(shape_.file_offset, kGuard), target_.size());
    const std::uint64_t to = std::min(end + kGuard, size);
    if (from >= to) return ::testing::AssertionSuccess();
    Bytes expected(to - from, 0);
    const std::span<const unsigned char> kept = target_.content().subspan(from, std::min(to, target_.size()) - from);
    std::copy(kept.begin(), kept.end(), expected.begin());
    if (shape_.size > 0)
      std::memcpy(expected.data() + (shape_.file_offset - from), around_.data() + kGuard, shape_.size);
    return same_part("the file", expected, support::plain_read(target_.plain(), from, to - from));
  }

  void restore() const {
    if (target_.growth() == Growth::may_grow) {
      if (ftruncate(target_.plain(), static_cast<off_t>(target_.size())) != 0) ADD_FAILURE() << "ftruncate failed";
    }
    const std::uint64_t from = std::min(shape_.file_offset, target_.size());
    const std::uint64_t to = std::min(shape_.file_offset + shape_.size, target_.size());
    support::plain_write(target_.plain(), from, target_.content().subspan(from, to - from));
  }

  const Target& target_;
  const support::Memory& memory_;
  CUfileHandle_t handle_;
  const Case& case_;
  Shape shape_;
  std::span<const unsigned char> around_;
};

class PlaceTest : public support::CufileTest {
 public:
  PlaceTest(std::string place, Direction direction) : place_(std::move(place)), direction_(direction) {}

  void TestBody() override {
    std::vector<Case> cases = choose_cases();
    if (cases.empty()) GTEST_SKIP() << "no case of this place was asked for";
    const Target target(place_);
    ASSERT_EQ(support::code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    {
      const Buffers buffers;
      for (auto first = cases.begin(); first != cases.end() && failures_ < kMostFailures;) {
        const std::string group = group_of(*first);
        const auto last = std::find_if(first, cases.end(), [&](const Case& other) { return group_of(other) != group; });
        run_group(target, buffers, {first, last});
        first = last;
      }
    }
    EXPECT_EQ(support::code(cuFileDriverClose()), CU_FILE_SUCCESS);
    std::printf("%s %s: %zu of %zu cases run\n", place_.c_str(), direction_ == Direction::read ? "read" : "write", run_,
                possible_);
    progress().cases += run_;
    progress().possible += possible_;
  }

 private:
  std::vector<Case> choose_cases() {
    std::vector<Case> chosen;
    const Progress& asked = progress();
    for (const Case& candidate : all_cases(place_, direction_)) {
      if (!Buffers::available(candidate.buffer)) continue;
      ++possible_;
      const bool wanted =
          asked.only.empty() ? asked.full || sampled(candidate, asked.percent) : name_of(candidate) == asked.only;
      if (wanted) chosen.push_back(candidate);
    }
    return chosen;
  }

  void run_group(const Target& target, const Buffers& buffers, std::span<const Case> cases) {
    const support::Fd fd = target.open(open_flags(cases.front()));
    if (!fd.valid()) {
      // A file system may refuse O_DIRECT, nothing else.
      EXPECT_TRUE(errno == EINVAL && cases.front().opening == Opening::direct) << std::strerror(errno);
      std::printf("%s: the file system refuses these flags, %zu cases not run\n", group_of(cases.front()).c_str(),
                  cases.size());
      return;
    }
    const support::Handle handle(fd);
    for (const Case& test_case : cases) {
      Runner runner(target, buffers.of(test_case.buffer), handle.get(), test_case);
      const ::testing::AssertionResult result = runner.run();
      ++run_;
      if (!result) report(test_case, runner, result);
      if (failures_ == kMostFailures) return;
    }
    const support::Bytes left = support::plain_read(target.plain(), 0, target.size() + 1);
    EXPECT_TRUE(support::same_bytes(target.content(), left)) << "the whole file after " << group_of(cases.front());
  }

  void report(const Case& test_case, const Runner& runner, const ::testing::AssertionResult& result) {
    ADD_FAILURE() << name_of(test_case) << "\n  " << runner.describe() << "\n  " << result.message()
                  << "\n  again: SLUICE_TEST_SEED=" << support::run_seed()
                  << " io_matrix --case=" << name_of(test_case);
    if (++failures_ == kMostFailures) std::printf("too many failures, the rest of this test is not run\n");
  }

  std::string place_;
  Direction direction_;
  std::size_t run_ = 0;
  std::size_t possible_ = 0;
  std::size_t failures_ = 0;
};

class SkippedPlaceTest : public ::testing::Test {
 public:
  explicit SkippedPlaceTest(std::string why) : why_(std::move(why)) {}
  void TestBody() override { GTEST_SKIP() << why_; }

 private:
  std::string why_;
};

template <typename Test, typename... Arguments>
void register_test(std::string place, Direction direction, Arguments... arguments) {
  std::replace(place.begin(), place.end(), '-', '_');
  const std::string name = place + (direction == Direction::read ? "_read" : "_write");
  // One suite, so one fixture type for both kinds of test: the base.
  ::testing::RegisterTest("IoMatrix", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [=]() -> ::testing::Test* { return new Test(arguments...); });
}

void register_place(const std::string& name, const std::string& why_not) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    const std::string prefix = name + (direction == Direction::read ? "/read/" : "/write/");
    if (!progress().only.empty() && progress().only.rfind(prefix, 0) != 0) continue;
    if (why_not.empty()) {
      register_test<PlaceTest>(name, direction, name, direction);
    } else {
      register_test<SkippedPlaceTest>(name, direction, why_not);
    }
  }
}

unsigned number(const char* text, unsigned otherwise) {
  if (text == nullptr) return otherwise;
  unsigned value = otherwise;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

int main_of_matrix(int argc, char** argv) {
  Progress& asked = progress();
  asked.full = number(std::getenv("SLUICE_TEST_FULL"), 0) != 0;
  asked.percent = number(std::getenv("SLUICE_TEST_SAMPLE"), 100);
  const std::string_view option = "--case=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument.substr(0, option.size()) == option) asked.only = argument.substr(option.size());
  }
  for (const support::Place& place : support::places()) {
    if (place.name != "tiny") register_place(place.name, place.why_not);
  }
  register_place("memfd", "");
  register_place("unlinked", "");
  const int result = support::run_all_tests();
  std::printf("matrix: %zu of %zu possible cases run, SLUICE_TEST_SEED=%llu\n", asked.cases, asked.possible,
              static_cast<unsigned long long>(support::run_seed()));
  if (!asked.only.empty() && asked.cases != 1) {
    std::fprintf(stderr, "io_matrix: there is no case %s here\n", asked.only.c_str());
    return 1;
  }
  return result;
}

}  // namespace
}  // namespace sluice::contract

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return sluice::contract::main_of_matrix(argc, argv);
}
