// SPDX-License-Identifier: Apache-2.0
// What has hurt users of the incumbent, as they reported it. Much of it is held elsewhere; this is the rest.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "sluice.h"
#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

class Users : public CufileTest {};

// A variable of the environment for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    if (value != nullptr) setenv(name, value, 1);
    if (value == nullptr) unsetenv(name);
  }
  ~Variable() {
    if (before_.empty()) unsetenv(name_);
    if (!before_.empty()) setenv(name_, before_.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

TEST_F(Users, FindNoLogInTheirWorkingDirectory) {
  const Variable no_log("CUFILE_LOGFILE_PATH", nullptr);
  const std::string before = std::filesystem::current_path();
  const std::string folder = std::filesystem::absolute(disk_directory()) / ("empty-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  ASSERT_EQ(chdir(folder.c_str()), 0);
  {
    const ScratchFile file(65536);
    const Fd fd = file.open(O_RDWR);
    const Handle handle(fd);
    const Memory memory(usual_memory(), 65536);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 65536), moved(65536));
    EXPECT_EQ(read_file(handle.get(), memory.address(), 1, -1), failed(CU_FILE_INVALID_VALUE));
    close_driver_fully();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  ASSERT_EQ(chdir(before.c_str()), 0);
  std::filesystem::remove_all(folder);
}

TEST_F(Users, NeedNoConfigurationFile) {
  const Variable missing("CUFILE_ENV_PATH_JSON", "/no/such/folder/cufile.json");  // one line on stderr says so
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  CUfileDrvProps_t properties{};
  EXPECT_EQ(code(cuFileDriverGetProperties(&properties)), CU_FILE_SUCCESS);
  EXPECT_NE(properties.fflags & (1U << CU_FILE_STREAMS_SUPPORTED), 0U) << "streams need no file";
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
}

TEST_F(Users, ReadTheCauseOfAnErrnoThatIsNoneOfTheSystem) {
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDONLY);
  Handle handle(fd);
  handle.deregister();
  const Memory memory(usual_memory(), 4096);
  ASSERT_EQ(read_file(handle.get(), memory.address(), 4096), failed(CU_FILE_HANDLE_NOT_REGISTERED));
  EXPECT_STREQ(CUFILE_ERRSTR(CU_FILE_HANDLE_NOT_REGISTERED), "the file handle is not registered");
  EXPECT_NE(std::strstr(sluice_last_error(), "5027"), nullptr) << sluice_last_error();
  EXPECT_NE(std::strstr(sluice_last_error(), "deregistered"), nullptr) << sluice_last_error();
}

TEST_F(Users, ReadTheCauseWhereTheErrnoOnlySaysThatItCannotBe) {
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{4096});
  ASSERT_EQ(read_file(handle.get(), nowhere, 4096), failed(EPERM));
  EXPECT_NE(std::strstr(sluice_last_error(), "no memory at the address"), nullptr) << sluice_last_error();
  ASSERT_EQ(write_file(handle.get(), nowhere, 100), failed(EIO));
  EXPECT_NE(std::strstr(sluice_last_error(), "no memory at the address"), nullptr) << sluice_last_error();
  EXPECT_NE(std::strstr(sluice_last_error(), "(14)"), nullptr) << sluice_last_error();
}

// One parameter at a time is set to its least value before the driver opens: nothing may be divided by it.
TEST_F(Users, ReadPropertiesAfterAnyParameterWasSetBeforeOpen) {
  const ScratchFile file(300001);
  const Memory memory(usual_memory(), 300001);
  for (int i = 1; i <= CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS; ++i) {
    SCOPED_TRACE(i);
    const auto parameter = static_cast<CUFileSizeTConfigParameter_t>(i);
    std::size_t least = 0;
    std::size_t most = 0;
    ASSERT_EQ(code(cuFileGetParameterMinMaxValue(parameter, &least, &most)), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileSetParameterSizeT(parameter, least)), CU_FILE_SUCCESS);
    CUfileDrvProps_t properties{};
    EXPECT_EQ(code(cuFileDriverGetProperties(&properties)), CU_FILE_SUCCESS) << "before the open";
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    EXPECT_EQ(code(cuFileDriverGetProperties(&properties)), CU_FILE_SUCCESS) << "after the open";
    const Fd fd = file.open(O_RDONLY);
    Handle handle(fd);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 300001), moved(300001));
    EXPECT_TRUE(same_bytes(file.content(), memory.get()));
    handle.deregister();
    close_driver_fully();
  }
}

// More entries than there are slabs of any size, up to the most that can be configured.
TEST_F(Users, SubmitBatchesOfAnyConfiguredSize) {
  constexpr std::size_t piece = 4099;
  const ScratchFile file(256 * piece);
  const Memory memory(usual_memory(), 256 * piece);
  for (const unsigned count : {65U, 128U, 256U}) {
    SCOPED_TRACE(count);
    ASSERT_EQ(code(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 256)), CU_FILE_SUCCESS);
    const Fd fd = file.open(O_RDONLY);
    Handle handle(fd);
    CUfileBatchHandle_t batch = nullptr;
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, count)), CU_FILE_SUCCESS);
    std::vector<CUfileIOParams_t> entries(count);
    for (unsigned i = 0; i < count; ++i) {
      entries[i].mode = CUFILE_BATCH;
      entries[i].fh = handle.get();
      entries[i].opcode = CUFILE_READ;
      entries[i].u.batch.devPtr_base = memory.address();
      entries[i].u.batch.file_offset = static_cast<off_t>(i * piece);
      entries[i].u.batch.devPtr_offset = static_cast<off_t>(i * piece);
      entries[i].u.batch.size = piece;
    }
    memory.fill(0);
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, count, entries.data(), 0)), CU_FILE_SUCCESS);
    std::vector<CUfileIOEvents_t> events(count);
    unsigned found = count;
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, count, &found, events.data(), nullptr)), CU_FILE_SUCCESS);
    EXPECT_EQ(found, count);
    EXPECT_TRUE(same_bytes({file.content().data(), count * piece}, memory.get(0, count * piece)));
    cuFileBatchIODestroy(batch);
    handle.deregister();
    close_driver_fully();
  }
}

// The program does not look at the events of a batch? Then the log has the cause.
TEST_F(Users, FindTheCauseOfAFailedBatchEntryInTheLog) {
  const std::string folder = disk_directory() + "/log-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  ASSERT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, folder.c_str())), CU_FILE_SUCCESS);
  {
    const ScratchFile file(8192);
    Fd fd = file.open(O_RDONLY);
    const Handle handle(fd);
    fd.reset();
    const Memory memory(usual_memory(), 4096);
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.fh = handle.get();
    entry.opcode = CUFILE_READ;
    entry.u.batch.devPtr_base = memory.address();
    entry.u.batch.size = 4096;
    CUfileBatchHandle_t batch = nullptr;
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 1)), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 1, &entry, 0)), CU_FILE_SUCCESS);
    std::array<CUfileIOEvents_t, 1> events{};
    unsigned count = 1;
    ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, 1, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
    cuFileBatchIODestroy(batch);
    close_driver_fully();
  }
  const Bytes log = content_of(folder + "/cufile_" + std::to_string(getpid()) + ".log");
  const std::string text(log.begin(), log.end());
  EXPECT_NE(text.find("ERROR"), std::string::npos) << text;
  EXPECT_NE(text.find("entry 0"), std::string::npos) << text;
  EXPECT_NE(text.find("Bad file descriptor"), std::string::npos) << text;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice::contract
