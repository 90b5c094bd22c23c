// SPDX-License-Identifier: Apache-2.0
// What KvikIO relies on, played as it does it.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

class Kvikio : public CufileTest {
 protected:
  static CUfileIOParams_t read_of(CUfileHandle_t handle, const Memory& memory, std::size_t index, std::size_t size) {
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.fh = handle;
    entry.opcode = CUFILE_READ;
    entry.u.batch.devPtr_base = memory.address();
    entry.u.batch.file_offset = static_cast<off_t>(index * size);
    entry.u.batch.devPtr_offset = static_cast<off_t>(index * size);
    entry.u.batch.size = size;
    return entry;
  }
};

TEST_F(Kvikio, ReopensImplicitlyAfterClose) {
  const ScratchFile file(65536);
  const Memory memory(usual_memory(), 65536);
  for (int round = 0; round < 3; ++round) {
    const Fd fd = file.open(O_RDONLY | O_DIRECT);
    Handle handle(fd);
    const Registration registration(memory);
    EXPECT_EQ(cuFileUseCount(), 1);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 65536), moved(65536));
    handle.deregister();
    EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  }
}

TEST_F(Kvikio, SumsTheCountsOfItsTasksToTheSizeOfTheFile) {
  constexpr std::size_t task = 256 * 1024;
  const ScratchFile file(3 * task + 12345);
  const std::size_t asked = 4 * task;
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(usual_memory(), asked);
  std::vector<std::future<ssize_t>> tasks;
  for (std::size_t at = 0; at < asked; at += task) {
    tasks.push_back(std::async(std::launch::async, [&, offset = static_cast<off_t>(at)] {
      return cuFileRead(handle.get(), memory.address(), task, offset, offset);
    }));
  }
  ssize_t sum = 0;
  for (auto& one : tasks) sum += one.get();
  EXPECT_EQ(sum, static_cast<ssize_t>(file.content().size()));
  EXPECT_TRUE(same_bytes(file.content(), memory.get(0, file.content().size())));
}

TEST_F(Kvikio, GetsFourEventsForFourEntries) {
  const ScratchFile file(4 * 4096);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4 * 4096);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 4)), CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < 4; ++i) entries.push_back(read_of(handle.get(), memory, i, 4096));
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 4, entries.data(), 0)), CU_FILE_SUCCESS);
  std::array<CUfileIOEvents_t, 4> events{};
  unsigned count = 4;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 4, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  ASSERT_EQ(count, 4U);
  for (const CUfileIOEvents_t& event : events) {
    EXPECT_EQ(event.status, CUFILE_COMPLETE);
    EXPECT_EQ(event.ret, 4096U);
  }
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
  cuFileBatchIODestroy(batch);
}

TEST_F(Kvikio, GetsNoEventsAfterACancel) {
  const ScratchFile file(4 * 65536);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4 * 65536);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 4)), CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < 4; ++i) entries.push_back(read_of(handle.get(), memory, i, 65536));
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 4, entries.data(), 0)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileBatchIOCancel(batch)), CU_FILE_SUCCESS);
  for (int time = 0; time < 2; ++time) {
    std::array<CUfileIOEvents_t, 4> events{};
    unsigned count = 4;
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 4, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
    EXPECT_EQ(count, 0U);
  }
  cuFileBatchIODestroy(batch);
}

TEST_F(Kvikio, LearnsOfTheWrongModeFromTheCountOfAStreamsTransfer) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const ScratchFile file(8192);
  const Stream stream;
  const Memory memory(MemoryKind::device, 8192);
  for (const bool reads : {true, false}) {
    const Fd fd = file.open(reads ? O_WRONLY : O_RDONLY);
    const Handle handle(fd);
    std::size_t size = 4096;
    off_t zero = 0;
    ssize_t done = 0;
    const auto transfer = reads ? cuFileReadAsync : cuFileWriteAsync;
    EXPECT_EQ(code(transfer(handle.get(), memory.address(), &size, &zero, &zero, &done, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_TRUE(done == -1 || done == -CU_FILE_INVALID_FILE_OPEN_FLAG) << done;
  }
}

TEST_F(Kvikio, FindsRoomForMoreThanFourEntriesInABatch) {
  CUfileDrvProps_t properties{};
  ASSERT_EQ(code(cuFileDriverGetProperties(&properties)), CU_FILE_SUCCESS);
  EXPECT_GT(properties.max_batch_io_size, 4U);
}

}  // namespace
}  // namespace sluice::contract
