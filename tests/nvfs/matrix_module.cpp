// SPDX-License-Identifier: Apache-2.0
// The stand-in for as long as the matrix of transfers runs. That nothing went by it is a failure.
#include <unistd.h>

#include <cstdio>

#include "nvfs/fake_module.h"

namespace {

class MatrixModule {
 public:
  MatrixModule() = default;
  MatrixModule(const MatrixModule&) = delete;
  MatrixModule& operator=(const MatrixModule&) = delete;
  ~MatrixModule() {
    const sluice::nvfs_test::FakeModule::Counts counts = module_.counts();
    std::printf("by the module: %zu reads, %zu writes, %llu bytes\n", counts.reads, counts.writes,
                static_cast<unsigned long long>(counts.moved));
    std::fflush(stdout);
    if (counts.moved == 0 || counts.refused_busy != 0) _exit(1);
  }

 private:
  sluice::nvfs_test::FakeModule module_;
};

const MatrixModule matrix_module;

}  // namespace
