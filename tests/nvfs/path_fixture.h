// SPDX-License-Identifier: Apache-2.0
// What tests of the path share: the public face, the soft GPU with memory that the stand-in takes for a device's, and a
// file on ext4 on a loop device, whose driver the stand-in lists as hooked.
#pragma once

#include <fcntl.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "direct/direct_fixture.h"
#include "nvfs/fake_module.h"
#include "support/calls.h"
#include "support/memory.h"
#include "support/scratch.h"

namespace sluice::nvfs_test {

inline constexpr std::size_t kMiB = std::size_t{1} << 20U;

class PathTest : public direct::DirectTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Before the driver is opened.
  void use(const char* nvfs, const char* p2pdma = "false");
  void load(Machine machine);
  FakeModule& module() { return *module_; }

  support::ScratchFile& file();
  // The reason why the CPU would move this, or "" where nvfs takes it.
  static std::string kept_from(CUfileHandle_t handle, const support::Memory& memory,
                               CUfileOpcode_t opcode = CUFILE_READ);
  static direct::Count by_module() { return direct::counted(SLUICE_PATH_NVFS, SLUICE_REASON_DIRECT); }

 private:
  std::unique_ptr<FakeModule> module_;
  std::unique_ptr<support::ScratchFile> file_;
};

}  // namespace sluice::nvfs_test
