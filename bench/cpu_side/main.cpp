// SPDX-License-Identifier: Apache-2.0
// The CPU-side suite. bench/cpu_suite.py runs it and reads its JSON.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include "cpu_side/allocations.h"

int main(int argc, char** argv) {
  // Loaded here, so that its place is known before anything is counted; without one, device rows say so.
  ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  sluice::bench::leave_out_the_driver();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
