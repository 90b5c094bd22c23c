// The banner of a test program.
#include "support/run.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>

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

}  // namespace

int run_all_tests() {
  print_banner();
  return RUN_ALL_TESTS();
}

}  // namespace sluice::support
