// SPDX-License-Identifier: Apache-2.0
// The statistics: levels, when they can be asked for, and what they count.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

// From the start of the memory to its first page boundary: small device memory may begin anywhere.
off_t up_to_page(const Memory& memory) {
  return static_cast<off_t>(-reinterpret_cast<std::uint64_t>(memory.address()) % 4096);
}

class Statistics : public CufileTest {
 protected:
  void TearDown() override {
    cuFileStatsStop();
    cuFileStatsReset();
    cuFileSetStatsLevel(0);
    CufileTest::TearDown();
  }

  static void start(int level) {
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileSetStatsLevel(level)), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileStatsReset()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
  }
  static CUfileStatsLevel1_t totals() {
    CUfileStatsLevel1_t stats{};
    EXPECT_EQ(code(cuFileGetStatsL1(&stats)), CU_FILE_SUCCESS);
    return stats;
  }

  // What level 3 says of three aligned reads and one that is not.
  void read_four_times(CUfileStatsLevel3_t& stats) const {
    const Memory memory(MemoryKind::device, 65536);
    const off_t page = up_to_page(memory);
    start(3);
    const Fd fd = file_.open(O_RDWR | O_DIRECT);
    const Handle handle(fd);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(read_file(handle.get(), memory.address(), 4096, 0, page), moved(4096));
    ASSERT_EQ(read_file(handle.get(), memory.address(), 4095, 1, page), moved(4095));
    ASSERT_EQ(code(cuFileGetStatsL3(&stats)), CU_FILE_SUCCESS);
    ASSERT_GE(stats.num_gpus, 1U);
  }

  const ScratchFile file_{1000000};
};

// Where a process has several tests, another one may have started them: then there is something that shows them.
TEST_F(Statistics, TellOfNoDeviceBeforeTheFirstStart) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find("sluice-stats") != std::string::npos) GTEST_SKIP() << "they were started in this process";
  }
  const auto stats = std::make_unique<CUfileStatsLevel3_t>();
  std::memset(static_cast<void*>(stats.get()), 0x5a, sizeof *stats);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileSetStatsLevel(3)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileGetStatsL3(stats.get())), CU_FILE_SUCCESS);
  EXPECT_EQ(stats->num_gpus, 0U);
  EXPECT_EQ(stats->per_gpu_stats[0].reg_bytes, 0x5a5a5a5a5a5a5a5aU);
}

TEST_F(Statistics, AreOffAtFirst) {
  int level = 7;
  EXPECT_EQ(code(cuFileGetStatsLevel(&level)), CU_FILE_SUCCESS);
  EXPECT_EQ(level, 0);
}

TEST_F(Statistics, HaveTheConfiguredLevelAtEachOpen) {
  for (const std::size_t configured : {2U, 0U}) {
    ASSERT_EQ(code(cuFileSetParameterSizeT(CUFILE_PARAM_PROFILE_STATS, configured)), CU_FILE_SUCCESS);
    cuFileDriverOpen();
    int level = 7;
    EXPECT_EQ(code(cuFileGetStatsLevel(&level)), CU_FILE_SUCCESS);
    EXPECT_EQ(level, static_cast<int>(configured));
    cuFileDriverClose();
  }
  cuFileDriverOpen();  // what the first open has started is stopped in the end
}

TEST_F(Statistics, HaveLevelsFrom0To3) {
  cuFileDriverOpen();
  for (int level = 0; level <= 3; ++level) {
    EXPECT_EQ(code(cuFileSetStatsLevel(level)), CU_FILE_SUCCESS);
    int found = 7;
    EXPECT_EQ(code(cuFileGetStatsLevel(&found)), CU_FILE_SUCCESS);
    EXPECT_EQ(found, level);
  }
  EXPECT_EQ(code(cuFileSetStatsLevel(-1)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetStatsLevel(4)), CU_FILE_INVALID_VALUE);
}

TEST_F(Statistics, RefuseNull) {
  start(3);
  EXPECT_EQ(code(cuFileGetStatsLevel(nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetStatsL1(nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetStatsL2(nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetStatsL3(nullptr)), CU_FILE_INVALID_VALUE);
}

TEST_F(Statistics, StartNeedsAnOpenDriverAndALevel) {
  EXPECT_EQ(code(cuFileStatsStart()), CU_FILE_DRIVER_NOT_INITIALIZED);
  cuFileDriverOpen();
  EXPECT_EQ(code(cuFileStatsStart()), CU_FILE_INTERNAL_ERROR);
  start(1);
  ASSERT_EQ(code(cuFileSetStatsLevel(0)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS) << "they are started";
}

TEST_F(Statistics, StopAndResetNeedAnOpenDriver) {
  EXPECT_EQ(code(cuFileStatsStop()), CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(code(cuFileStatsReset()), CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(Statistics, OfALevelThatWasSetAreToldBeforeAStart) {
  CUfileStatsLevel1_t stats{};
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileGetStatsL1(&stats)), CU_FILE_INVALID_VALUE);
  ASSERT_EQ(code(cuFileSetStatsLevel(2)), CU_FILE_SUCCESS);
  stats.read_ops.ok = 7;
  EXPECT_EQ(code(cuFileGetStatsL1(&stats)), CU_FILE_SUCCESS);
  EXPECT_EQ(stats.read_ops.ok, 0U);
  CUfileStatsLevel2_t second{};
  EXPECT_EQ(code(cuFileGetStatsL2(&second)), CU_FILE_SUCCESS);
}

// What came before the first start, or before a stop and another level, is told no more.
TEST_F(Statistics, CountFromTheLevelOnUntilAStop) {
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileSetStatsLevel(1)), CU_FILE_SUCCESS);
  const Fd fd = file_.open(O_RDWR);
  {
    const Handle handle(fd);
    EXPECT_EQ(totals().hdl_register_ops.ok, 1U);
    ASSERT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
    EXPECT_EQ(totals().hdl_register_ops.ok, 0U);
  }
  EXPECT_EQ(totals().hdl_deregister_ops.ok, 1U);
  ASSERT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
  EXPECT_EQ(totals().hdl_deregister_ops.ok, 1U) << "a second start changes nothing";
  ASSERT_EQ(code(cuFileStatsStop()), CU_FILE_SUCCESS);
  const Handle again(fd);
  ASSERT_EQ(code(cuFileSetStatsLevel(1)), CU_FILE_SUCCESS);
  EXPECT_EQ(totals().hdl_register_ops.ok, 0U);
  EXPECT_EQ(totals().hdl_deregister_ops.ok, 0U);
}

TEST_F(Statistics, HaveNoLevelAfterAStop) {
  int level = 7;
  start(3);
  cuFileStatsStop();
  EXPECT_EQ(code(cuFileGetStatsLevel(&level)), CU_FILE_SUCCESS);
  EXPECT_EQ(level, 0);
}

// The rest of the structure is the caller's.
TEST_F(Statistics, FillSixteenBinsAndTheDevicesThereAre) {
  const auto stats = std::make_unique<CUfileStatsLevel3_t>();
  std::memset(static_cast<void*>(stats.get()), 0x5a, sizeof *stats);
  start(3);
  ASSERT_EQ(code(cuFileGetStatsL3(stats.get())), CU_FILE_SUCCESS);
  constexpr std::uint64_t untouched = 0x5a5a5a5a5a5a5a5a;
  for (int bin = 0; bin < 32; ++bin) {
    EXPECT_EQ(stats->detailed.read_size_kb_hist[bin], bin < 16 ? 0 : untouched) << bin;
    EXPECT_EQ(stats->detailed.write_size_kb_hist[bin], bin < 16 ? 0 : untouched) << bin;
  }
  const auto devices = static_cast<std::uint32_t>(cuda() == nullptr ? 0 : cuda()->devices);
  EXPECT_EQ(stats->num_gpus, devices);
  EXPECT_EQ(stats->per_gpu_stats[devices].reg_bytes, untouched);
}

TEST_F(Statistics, KeepTheLevelOverACloseAndCountAnew) {
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileSetStatsLevel(3)), CU_FILE_SUCCESS);
  const Fd fd = file_.open(O_RDWR);
  for (int i = 0; i < 2; ++i) {
    {
      const Handle handle(fd);  // opens the driver where it is closed
      EXPECT_EQ(totals().hdl_register_ops.ok, 1U);
    }
    ASSERT_EQ(code(cuFileDriverClose_v2()), CU_FILE_SUCCESS);
  }
}

TEST_F(Statistics, CountNoCancelOfABatchWithNothingUnderWay) {
  start(1);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 2)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBatchIOCancel(batch)), CU_FILE_SUCCESS);
  EXPECT_EQ(totals().batch_cancel_ops.ok, 0U);
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.opcode = CUFILE_READ;
  entry.fh = handle.get();
  entry.u.batch.devPtr_base = memory.address();
  entry.u.batch.size = 4096;
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 1, &entry, 0)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBatchIOCancel(batch)), CU_FILE_SUCCESS);
  EXPECT_EQ(totals().batch_cancel_ops.ok, 1U);
  cuFileBatchIODestroy(batch);
}

TEST_F(Statistics, MayBeStartedAtLevel0OnlyWhereTheyAreStartedAndWereNotReset) {
  start(2);
  ASSERT_EQ(code(cuFileSetStatsLevel(0)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileStatsReset()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStatsStart()), CU_FILE_INTERNAL_ERROR);
}

TEST_F(Statistics, MayBeStartedStoppedAndResetTwice) {
  start(1);
  EXPECT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStatsStop()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStatsStop()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStatsReset()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStatsReset()), CU_FILE_SUCCESS);
}

TEST_F(Statistics, OfTheSecondLevelAreRefusedAtTheFirst) {
  CUfileStatsLevel2_t second{};
  start(1);
  EXPECT_EQ(code(cuFileGetStatsL2(&second)), CU_FILE_INVALID_VALUE);
}

TEST_F(Statistics, OfTheThirdLevelAreRefusedAtTheSecond) {
  CUfileStatsLevel2_t second{};
  auto third = std::make_unique<CUfileStatsLevel3_t>();
  start(2);
  EXPECT_EQ(code(cuFileGetStatsL2(&second)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileGetStatsL3(third.get())), CU_FILE_INVALID_VALUE);
}

TEST_F(Statistics, AreRefusedAfterAStop) {
  CUfileStatsLevel1_t stats{};
  start(1);
  EXPECT_EQ(code(cuFileGetStatsL1(&stats)), CU_FILE_SUCCESS);
  cuFileStatsStop();
  EXPECT_EQ(code(cuFileGetStatsL1(&stats)), CU_FILE_INVALID_VALUE);
}

TEST_F(Statistics, GoOnFromZeroAfterAReset) {
  CUfileStatsLevel1_t stats{};
  start(1);
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  ASSERT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
  cuFileStatsReset();
  EXPECT_EQ(code(cuFileGetStatsL1(&stats)), CU_FILE_SUCCESS);
  EXPECT_EQ(stats.read_bytes, 0U);
  EXPECT_EQ(stats.hdl_register_ops.ok, 0U);
  ASSERT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
  EXPECT_EQ(code(cuFileGetStatsL1(&stats)), CU_FILE_SUCCESS);
  EXPECT_EQ(stats.read_bytes, 4096U);
}

TEST_F(Statistics, AreToldAgainAfterAStart) {
  CUfileStatsLevel1_t stats{};
  start(1);
  cuFileStatsStop();
  cuFileStatsStart();
  EXPECT_EQ(code(cuFileGetStatsL1(&stats)), CU_FILE_SUCCESS);
}

TEST_F(Statistics, CountGoodAndFailedTransfers) {
  const Memory memory(usual_memory(), 65536);
  start(1);
  Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(write_file(handle.get(), memory.address(), 100), moved(100));
  fd.reset();
  ASSERT_EQ(read_file(handle.get(), memory.address(), 4096), failed(EBADF));
  const CUfileStatsLevel1_t stats = totals();
  EXPECT_EQ(stats.read_ops.ok, 4U);
  EXPECT_EQ(stats.read_ops.err, 1U);
  EXPECT_EQ(stats.read_bytes, 4U * 4096U);
  EXPECT_EQ(stats.write_ops.ok, 2U);
  EXPECT_EQ(stats.write_ops.err, 0U);
  EXPECT_EQ(stats.write_bytes, 200U);
}

TEST_F(Statistics, CountRegistrations) {
  const Memory memory(usual_memory(), 65536);
  start(1);
  const Fd fd = file_.open(O_RDWR);
  { const Handle handle(fd); }
  { const Registration registration(memory); }
  CUfileHandle_t refused = nullptr;
  register_fd(-1, &refused);
  const CUfileStatsLevel1_t stats = totals();
  EXPECT_EQ(stats.hdl_register_ops.ok, 1U);
  EXPECT_EQ(stats.hdl_register_ops.err, 1U);
  EXPECT_EQ(stats.hdl_deregister_ops.ok, 1U);
  EXPECT_EQ(stats.buf_register_ops.ok, 1U);
  EXPECT_EQ(stats.buf_deregister_ops.ok, 1U);
}

TEST_F(Statistics, AreZeroAfterAReset) {
  const Memory memory(usual_memory(), 65536);
  start(1);
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  read_file(handle.get(), memory.address(), 4096);
  cuFileStatsReset();
  cuFileStatsStart();
  EXPECT_EQ(totals().read_ops.ok, 0U);
  EXPECT_EQ(totals().read_bytes, 0U);
}

TEST_F(Statistics, SurviveAStop) {
  const Memory memory(usual_memory(), 65536);
  start(1);
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  read_file(handle.get(), memory.address(), 4096);
  cuFileStatsStop();
  read_file(handle.get(), memory.address(), 4096);
  cuFileStatsStart();
  EXPECT_EQ(totals().read_ops.ok, 1U) << "what ran while they were stopped does not count";
}

TEST_F(Statistics, PutSizesIntoTheirBuckets) {
  const Memory memory(usual_memory(), 65536);
  start(2);
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  for (const std::size_t size : {std::size_t{100}, std::size_t{4096}, std::size_t{65536}}) {
    ASSERT_EQ(read_file(handle.get(), memory.address(), size), moved(size));
  }
  CUfileStatsLevel2_t stats{};
  ASSERT_EQ(code(cuFileGetStatsL2(&stats)), CU_FILE_SUCCESS);
  for (int bin = 0; bin < 32; ++bin) {
    EXPECT_EQ(stats.read_size_kb_hist[bin] > 0, bin == 0 || bin == 1 || bin == 5) << bin;
  }
}

TEST_F(Statistics, SortTransfersBySize) {
  const Memory memory(usual_memory(), 65536);
  start(2);
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  read_file(handle.get(), memory.address(), 100);
  read_file(handle.get(), memory.address(), 4096);
  read_file(handle.get(), memory.address(), 65536);
  write_file(handle.get(), memory.address(), 8192);
  CUfileStatsLevel2_t stats{};
  ASSERT_EQ(code(cuFileGetStatsL2(&stats)), CU_FILE_SUCCESS);
  EXPECT_EQ(stats.basic.read_ops.ok, 3U);
  for (int bin = 0; bin < 32; ++bin) {
    EXPECT_EQ(stats.read_size_kb_hist[bin], bin == 0 || bin == 1 || bin == 5 ? 1U : 0U) << bin;
    EXPECT_EQ(stats.write_size_kb_hist[bin], bin == 2 ? 1U : 0U) << bin;
  }
}

// Entries that go together are counted together, those of each size apart.
TEST_F(Statistics, CountEachEntryOfABatchOnce) {
  constexpr std::size_t entries = 16;
  const Memory memory(usual_memory(), entries * 8192);
  start(2);
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, entries)), CU_FILE_SUCCESS);
  std::array<CUfileIOParams_t, entries> params{};
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < entries; ++i) {
    params[i].mode = CUFILE_BATCH;
    params[i].opcode = CUFILE_READ;
    params[i].fh = handle.get();
    params[i].u.batch.devPtr_base = memory.address();
    params[i].u.batch.devPtr_offset = static_cast<off_t>(i * 8192);
    params[i].u.batch.file_offset = static_cast<off_t>(i * 8192);
    params[i].u.batch.size = i % 4 == 0 ? 8192 : 4096;
    bytes += params[i].u.batch.size;
  }
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, entries, params.data(), 0)), CU_FILE_SUCCESS);
  for (unsigned left = entries; left > 0;) {
    std::array<CUfileIOEvents_t, entries> events{};
    unsigned count = left;
    ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, left, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
    left -= count;
  }
  CUfileStatsLevel2_t stats{};
  ASSERT_EQ(code(cuFileGetStatsL2(&stats)), CU_FILE_SUCCESS);
  EXPECT_EQ(stats.basic.read_ops.ok, entries);
  EXPECT_EQ(stats.basic.read_ops.err, 0U);
  EXPECT_EQ(stats.basic.read_bytes, bytes);
  EXPECT_EQ(stats.basic.batch_processed_ops.ok, entries);
  EXPECT_EQ(stats.basic.batch_read_bytes, bytes);
  EXPECT_EQ(stats.read_size_kb_hist[1], entries / 4 * 3);
  EXPECT_EQ(stats.read_size_kb_hist[2], entries / 4);
  cuFileBatchIODestroy(batch);
}

TEST_F(Statistics, TellTheReadsOfADevice) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const auto stats = std::make_unique<CUfileStatsLevel3_t>();
  ASSERT_NO_FATAL_FAILURE(read_four_times(*stats));
  const CUfilePerGpuStats_t& device = stats->per_gpu_stats[0];
  EXPECT_EQ(device.n_total_reads, 4U);
  EXPECT_EQ(device.n_posix_reads + device.n_p2p_reads + device.n_nvfs_reads, 4U);
  EXPECT_EQ(device.n_unaligned_reads, 1U);
}

TEST_F(Statistics, TellWhatEachDeviceDid) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const auto stats = std::make_unique<CUfileStatsLevel3_t>();
  ASSERT_NO_FATAL_FAILURE(read_four_times(*stats));
  EXPECT_EQ(stats->detailed.basic.read_ops.ok, 4U);
  ASSERT_LE(stats->num_gpus, static_cast<unsigned>(cuda()->devices));
  const CUfilePerGpuStats_t& device = stats->per_gpu_stats[0];
  EXPECT_EQ(device.n_total_reads, 4U);
  EXPECT_EQ(device.n_posix_reads + device.n_p2p_reads + device.n_nvfs_reads, 4U);
  EXPECT_EQ(device.n_unaligned_reads, 1U);
  EXPECT_EQ(device.read_bytes, 3U * 4096U + 4095U);
}

// Of a device's memory alone, and no more of it than there is, also when the driver takes it along as it closes.
TEST_F(Statistics, TellHowMuchOfADevicesMemoryIsRegistered) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  constexpr std::size_t kSize = 65536;
  const Memory memory(MemoryKind::device, kSize);
  const Memory pinned(MemoryKind::pinned, kSize);
  const auto registered = [] {
    const auto stats = std::make_unique<CUfileStatsLevel3_t>();
    EXPECT_EQ(code(cuFileGetStatsL3(stats.get())), CU_FILE_SUCCESS);
    return stats->per_gpu_stats[0].reg_bytes;
  };
  start(3);
  const std::uint64_t before = registered();
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(code(cuFileBufRegister(memory.address(), kSize, 0)), CU_FILE_SUCCESS);
    EXPECT_EQ(registered(), before + kSize);
    ASSERT_EQ(code(cuFileBufRegister(pinned.address(), kSize, 0)), CU_FILE_SUCCESS);
    EXPECT_EQ(registered(), before + kSize);
    ASSERT_EQ(code(cuFileBufDeregister(pinned.address())), CU_FILE_SUCCESS);
    EXPECT_EQ(registered(), before + kSize);
    close_driver_fully();
    start(3);
    EXPECT_EQ(registered(), before);
  }
}

}  // namespace
}  // namespace sluice::contract
