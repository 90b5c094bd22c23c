// SPDX-License-Identifier: Apache-2.0
#include "nvfs/path_fixture.h"

namespace sluice::nvfs_test {

using namespace support;

void PathTest::SetUp() {
  direct::DirectTest::SetUp();
  if (IsSkipped()) return;
  const Place* const place = find_place("ext4");
  if (place == nullptr) GTEST_SKIP() << "no ext4 can be mounted here";
  close_driver_fully();
  load({});
  use("first");
}

void PathTest::TearDown() {
  close_driver_fully();
  file_.reset();
  module_.reset();
  unsetenv("SLUICE_NVFS");
  unsetenv("CUFILE_ALLOW_COMPAT_MODE");
  direct::DirectTest::TearDown();
}

void PathTest::use(const char* nvfs, const char* p2pdma) {
  setenv("SLUICE_NVFS", nvfs, 1);
  setenv("CUFILE_USE_PCIP2PDMA", p2pdma, 1);
}

void PathTest::load(Machine machine) {
  module_.reset();
  module_ = std::make_unique<FakeModule>(std::move(machine));
}

ScratchFile& PathTest::file() {
  if (!file_) file_ = std::make_unique<ScratchFile>(random_bytes(6 * kMiB, 1), find_place("ext4")->path);
  return *file_;
}

std::string PathTest::kept_from(CUfileHandle_t handle, const Pages& memory, CUfileOpcode_t opcode) {
  const sluice_explanation_t answer = direct::explain(handle, memory.address(), 0, 0, opcode);
  return answer.path == SLUICE_PATH_NVFS ? "" : answer.reason_name;
}

}  // namespace sluice::nvfs_test
