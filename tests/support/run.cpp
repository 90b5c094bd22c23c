// SPDX-License-Identifier: Apache-2.0
// The banner of a test program, and what becomes of a test that hangs.
#include "support/run.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cufile.h"
#include "support/cuda_driver.h"
#include "support/random.h"
#include "support/scratch.h"

namespace sluice::support {
namespace {

const char* mapped_cufile() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&cuFileRead), &info) == 0 || info.dli_fname == nullptr) return "unknown";
  return info.dli_fname;
}

void print_banner() {
  std::printf("seed      SLUICE_TEST_SEED=%" PRIu64 "\n", run_seed());
  std::printf("libcufile %s\n", mapped_cufile());
  if (cuda() == nullptr) {
    std::printf("driver    none: host memory only\n");
  } else {
    std::printf("driver    %s, %d device(s): %s\n", cuda()->soft ? "soft GPU" : "real", cuda()->devices,
                cuda()->description.c_str());
  }
  for (const Place& place : places()) {
    if (place.why_not.empty()) std::printf("place     %s = %s\n", place.name.c_str(), place.path.c_str());
    if (!place.why_not.empty()) std::printf("place     %s skipped: %s\n", place.name.c_str(), place.why_not.c_str());
  }
  std::fflush(stdout);
}

// A test that hangs is named, while the program that runs it may still be asked where each thread stands: what ends the
// whole program from outside comes later and knows no names.
class HangsAreNamed : public ::testing::EmptyTestEventListener {
 public:
  HangsAreNamed() { signal(SIGALRM, tell_and_abort); }

  void OnTestStart(const ::testing::TestInfo& test) override {
    std::snprintf(text_.data(), text_.size(), "%s.%s hangs\n", test.test_suite_name(), test.name());
    alarm(most_seconds);
  }
  void OnTestEnd(const ::testing::TestInfo& /*test*/) override { alarm(0); }

 private:
  // Of 1200 that a program of such tests has, or 900 in a guest of the lab; no test comes near.
  static constexpr unsigned most_seconds = 600;
  static inline std::array<char, 256> text_{};

  static void tell_and_abort(int /*signal*/) {
    static_cast<void>(!write(STDERR_FILENO, text_.data(), std::strlen(text_.data())));
    std::abort();
  }
};

}  // namespace

int run_all_tests() {
  print_banner();
  ::testing::UnitTest::GetInstance()->listeners().Append(new HangsAreNamed);  // GoogleTest deletes it
  return RUN_ALL_TESTS();
}

}  // namespace sluice::support
