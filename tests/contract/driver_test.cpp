// SPDX-License-Identifier: Apache-2.0
// Opening and closing the driver: use counts, re-opening, what a close takes with it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

class Driver : public CufileTest {};

TEST_F(Driver, VersionIsToldWithoutOpening) {
  int version = 0;
  EXPECT_EQ(code(cuFileGetVersion(&version)), CU_FILE_SUCCESS);
  const char* const asked = std::getenv("CUFILE_VERSION_COMPAT");
  EXPECT_EQ(version, asked == nullptr ? 1150 : std::atoi(asked));
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(Driver, VersionRefusesNull) {
  EXPECT_EQ(code(cuFileGetVersion(nullptr)), CU_FILE_INVALID_VALUE);
}

TEST_F(Driver, EachOpenCounts) {
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 1);
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 2);
}

TEST_F(Driver, OneCloseOfTwoOpensLeavesItOpen) {
  const ScratchFile file(4096);
  cuFileDriverOpen();
  cuFileDriverOpen();
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 1);
  const Memory memory(usual_memory(), 4096);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
}

TEST_F(Driver, ClosingWhatIsNotOpenIsRefused) {
  EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_DRIVER_NOT_INITIALIZED);
  cuFileDriverOpen();
  EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(Driver, BothNamesOfCloseDoTheSame) {
  for (const char* name : {"cuFileDriverClose", "cuFileDriverClose_v2"}) {
    const auto close_driver = entry<CUfileError_t()>(name);
    ASSERT_NE(close_driver, nullptr) << name;
    cuFileDriverOpen();
    EXPECT_EQ(code(close_driver()), CU_FILE_SUCCESS) << name;
    EXPECT_EQ(cuFileUseCount(), 0) << name;
  }
}

// Opens, reads through fresh registrations and closes.
void expect_lives(int count) {
  const ScratchFile file(10000);
  const Memory memory(usual_memory(), 10000);
  for (int life = 0; life < count; ++life) {
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    const Fd fd = file.open(O_RDONLY);
    const Handle handle(fd);
    const Registration registration(memory);
    memory.fill(0);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 10000), moved(10000));
    EXPECT_TRUE(same_bytes(file.content(), memory.get()));
    ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
    ASSERT_EQ(cuFileUseCount(), 0);
  }
}

TEST_F(Driver, WorksAgainAfterTheLastClose) {
  expect_lives(2);
}

TEST_F(Driver, WorksAgainAfterManyLastCloses) {
  expect_lives(20);
}

TEST_F(Driver, OpensWithoutAContextAndLeavesNone) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  cuda()->context_set(nullptr);
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  CudaContext current = this;
  cuda()->context_current(&current);
  EXPECT_EQ(current, nullptr);
}

TEST_F(Driver, OpensWhereThereIsNoCuda) {
  if (cuda() != nullptr) GTEST_SKIP() << "there is a CUDA device here";
  const ScratchFile file(10000);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::plain, 10000);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 10000), moved(10000));
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
}

TEST_F(Driver, CloseLeavesTheCurrentContext) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  cuFileDriverOpen();
  cuFileDriverClose();
  CudaContext current = nullptr;
  cuda()->context_current(&current);
  EXPECT_EQ(current, primary_context(0));
}

TEST_F(Driver, RegisteringAFileOpensItWhateverTheArguments) {
  CUfileHandle_t handle = nullptr;
  CUfileDescr_t description{};
  EXPECT_EQ(code(cuFileHandleRegister(nullptr, &description)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 1);
  close_driver_fully();
  EXPECT_EQ(code(cuFileHandleRegister(&handle, nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 1);
}

TEST_F(Driver, RegisteringABufferOpensItWhateverTheArguments) {
  EXPECT_EQ(code(cuFileBufRegister(nullptr, 4096, 0)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 1);
}

TEST_F(Driver, CallsOfStreamsOpenItWhateverTheArguments) {
  ssize_t moved = 0;
  EXPECT_EQ(code(cuFileReadAsync(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr)),
            CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 1);
  close_driver_fully();
  EXPECT_EQ(code(cuFileWriteAsync(nullptr, &moved, nullptr, nullptr, nullptr, &moved, nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 1);
}

TEST_F(Driver, DeregisteringABufferBeforeAnOpenIsAsAfterAClose) {
  const Memory memory(usual_memory(), 4096);
  EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_DRIVER_CLOSING);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(Driver, RegisteringAFileOpensIt) {
  const ScratchFile file(1);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  EXPECT_EQ(cuFileUseCount(), 1);
  const Fd second = file.open(O_RDWR);
  const Handle other(second);
  EXPECT_EQ(cuFileUseCount(), 1);
}

TEST_F(Driver, RegisteringABufferOpensIt) {
  const Memory memory(usual_memory(), 65536);
  const Registration registration(memory);
  EXPECT_EQ(cuFileUseCount(), 1);
}

TEST_F(Driver, ARefusedRegistrationLeavesNothingRegistered) {
  CUfileHandle_t handle = this;
  EXPECT_EQ(register_fd(-1, &handle), CU_FILE_INVALID_VALUE);
  const ScratchFile file(1);
  const Fd fd = file.open(O_RDWR);
  EXPECT_EQ(register_fd(fd.get(), &handle), CU_FILE_SUCCESS);
  cuFileHandleDeregister(handle);
}

TEST_F(Driver, CloseReleasesTheHandles) {
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDWR);
  const Memory memory(usual_memory(), 4096);
  memory.fill(7);
  const Handle handle(fd);
  EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), failed(CU_FILE_HANDLE_NOT_REGISTERED));
  EXPECT_TRUE(all_bytes(7, memory.get()));
}

TEST_F(Driver, CloseReleasesTheDescriptorForRegistration) {
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDWR);
  CUfileHandle_t first = nullptr;
  ASSERT_EQ(register_fd(fd.get(), &first), CU_FILE_SUCCESS);
  cuFileDriverClose();
  CUfileHandle_t second = nullptr;
  EXPECT_EQ(register_fd(fd.get(), &second), CU_FILE_SUCCESS);
  EXPECT_NE(first, second) << "a handle of the closed driver would work again";
  cuFileHandleDeregister(second);
}

TEST_F(Driver, CloseReleasesTheBuffers) {
  const Memory memory(usual_memory(), 65536);
  ASSERT_EQ(code(cuFileBufRegister(memory.address(), memory.size(), 0)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_DRIVER_CLOSING);
}

TEST_F(Driver, BuffersCanBeRegisteredAgainAfterAClose) {
  const Memory memory(usual_memory(), 65536);
  ASSERT_EQ(code(cuFileBufRegister(memory.address(), memory.size(), 0)), CU_FILE_SUCCESS);
  cuFileDriverClose();
  EXPECT_EQ(code(cuFileBufRegister(memory.address(), memory.size(), 0)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
}

}  // namespace
}  // namespace sluice::contract
