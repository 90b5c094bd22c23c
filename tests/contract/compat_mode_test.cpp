// SPDX-License-Identifier: Apache-2.0
// allow_compat_mode: where the CPU must not move the bytes and nothing else can, that is said at once.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "sluice.h"
#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

class CompatibilityMode : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    const char* const mode = std::getenv("SLUICE_MODE");
    if (mode != nullptr && std::string_view(mode) == "plain") GTEST_SKIP() << "SLUICE_MODE=plain forces it";
    ASSERT_EQ(code(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, false)), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    close_driver_fully();
    cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, true);
    cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, false);
    cuFileSetParameterBool(CUFILE_PARAM_USE_PCIP2PDMA, false);
    cuFileDriverOpen();  // what was staged is used up
    CufileTest::TearDown();
  }
  static bool nvfs_is_loaded() { return access("/proc/driver/nvidia-fs/version", F_OK) == 0; }
};

TEST_F(CompatibilityMode, ForbiddenWhereNothingElseIsThereKeepsTheDriverClosed) {
  if (nvfs_is_loaded()) GTEST_SKIP() << "nvidia-fs is loaded here";
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDONLY);
  const Memory memory(usual_memory(), 4096);
  CUfileHandle_t handle = nullptr;
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_DRIVER_NOT_INITIALIZED);
    EXPECT_EQ(cuFileUseCount(), 0);
    EXPECT_EQ(register_fd(fd.get(), &handle), CU_FILE_DRIVER_NOT_INITIALIZED);
    EXPECT_EQ(handle, nullptr);
    EXPECT_EQ(code(cuFileBufRegister(memory.address(), 4096, 0)), CU_FILE_DRIVER_NOT_INITIALIZED);
  }
  EXPECT_NE(std::strstr(sluice_last_error(), "CUFILE_ALLOW_COMPAT_MODE"), nullptr) << sluice_last_error();
  bool allowed = true;
  EXPECT_EQ(code(cuFileGetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, &allowed)), CU_FILE_SUCCESS);
  EXPECT_FALSE(allowed) << "a refused open forgot what was set";
}

TEST_F(CompatibilityMode, ForbiddenIsToldInTheLogWithItsRemedy) {
  if (nvfs_is_loaded()) GTEST_SKIP() << "nvidia-fs is loaded here";
  const std::string folder = disk_directory() + "/compat-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  ASSERT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, folder.c_str())), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_DRIVER_NOT_INITIALIZED);
  const Bytes log = content_of(folder + "/cufile_" + std::to_string(getpid()) + ".log");
  const std::string text(log.begin(), log.end());
  EXPECT_NE(text.find("ERROR"), std::string::npos) << text;
  EXPECT_NE(text.find("CUFILE_ALLOW_COMPAT_MODE=true"), std::string::npos) << text;
  std::filesystem::remove_all(folder);
}

TEST_F(CompatibilityMode, AllowedAgainOpensTheDriver) {
  cuFileDriverOpen();
  close_driver_fully();
  ASSERT_EQ(code(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, true)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
}

TEST_F(CompatibilityMode, ForcedIsAllowed) {
  ASSERT_EQ(code(cuFileSetParameterBool(CUFILE_PARAM_FORCE_COMPAT_MODE, true)), CU_FILE_SUCCESS);
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
}

TEST_F(CompatibilityMode, ForbiddenRefusesAFileThatHasNoOtherWay) {
  ASSERT_EQ(code(cuFileSetParameterBool(CUFILE_PARAM_USE_PCIP2PDMA, true)), CU_FILE_SUCCESS);
  const int opened = code(cuFileDriverOpen());
  if (opened == CU_FILE_DRIVER_NOT_INITIALIZED) GTEST_SKIP() << "neither PCI P2PDMA nor nvidia-fs here";
  ASSERT_EQ(opened, CU_FILE_SUCCESS);
  const Fd in_memory(memfd_create("sluice-test", MFD_CLOEXEC));
  CUfileHandle_t handle = nullptr;
  EXPECT_EQ(register_fd(in_memory.get(), &handle), CU_FILE_IO_NOT_SUPPORTED);
  EXPECT_NE(std::strstr(sluice_last_error(), "allow_compat_mode"), nullptr) << sluice_last_error();
}

}  // namespace
}  // namespace sluice::contract
