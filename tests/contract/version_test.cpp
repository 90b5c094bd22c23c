// SPDX-License-Identifier: Apache-2.0
// The version that the library answers for, and what follows from it.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

class ReportedVersion : public CufileTest {
 protected:
  void TearDown() override {
    cuFileStatsStop();
    cuFileSetStatsLevel(0);
    ::unsetenv("CUFILE_VERSION_COMPAT");
    ::unsetenv("CUFILE_ENV_PATH_JSON");
    CufileTest::TearDown();
  }

  static void ask_for(const char* version) { ASSERT_EQ(::setenv("CUFILE_VERSION_COMPAT", version, 1), 0); }
  static int version() {
    int told = 0;
    EXPECT_EQ(code(cuFileGetVersion(&told)), CU_FILE_SUCCESS);
    return told;
  }

  static Transfer answer(ssize_t count) { return {count, count < 0 ? errno : 0}; }

  // How much of a place full of marks the call writes.
  template <typename Stats>
  static std::size_t bytes_written(CUfileError_t (*get)(Stats*)) {
    constexpr unsigned char mark = 0xa5;
    std::vector<unsigned char> place(8192, mark);
    EXPECT_EQ(code(get(reinterpret_cast<Stats*>(place.data()))), CU_FILE_SUCCESS);
    std::size_t end = place.size();
    while (end > 0 && place[end - 1] == mark) --end;
    return end;
  }
};

TEST_F(ReportedVersion, Is115UnlessAnotherIsAskedFor) {
  ::unsetenv("CUFILE_VERSION_COMPAT");
  EXPECT_EQ(version(), 1150);
}

TEST_F(ReportedVersion, IsTheOneThatTheEnvironmentAsksFor) {
  for (const int asked : {1150, 1160, 1170, 1180, 1190}) {
    ask_for(std::to_string(asked).c_str());
    EXPECT_EQ(version(), asked);
  }
}

TEST_F(ReportedVersion, StaysAsItWasWhenNoSuchVersionIsKnown) {
  for (const char* const unknown : {"1140", "1155", "1200", "1.19", ""}) {
    ask_for(unknown);
    EXPECT_EQ(version(), 1150) << unknown;
  }
}

TEST_F(ReportedVersion, DecidesHowLongTheStatisticsAre) {
  struct Lengths {
    const char* version;
    std::array<std::size_t, 3> bytes;
  };
  // Of the shorter ones only the 16 size bins that are in use, and the devices of the machine.
  const std::size_t devices = cuda() == nullptr ? 0 : static_cast<std::size_t>(cuda()->devices);
  const std::size_t third = devices == 0 ? 1028 : 1032 + devices * sizeof(CUfilePerGpuStats_t);
  for (const Lengths& wanted :
       {Lengths{"1150", {512, 896, third}}, Lengths{"1180", {512, 896, third}}, Lengths{"1190", {624, 1136, 5112}}}) {
    ask_for(wanted.version);
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileSetStatsLevel(3)), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
    EXPECT_EQ(bytes_written(&cuFileGetStatsL1), wanted.bytes[0]) << wanted.version;
    EXPECT_EQ(bytes_written(&cuFileGetStatsL2), wanted.bytes[1]) << wanted.version;
    EXPECT_EQ(bytes_written(&cuFileGetStatsL3), wanted.bytes[2]) << wanted.version;
    ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  }
}

TEST_F(ReportedVersion, DecidesWhereVectoredCallsAreCounted) {
  auto* const readv = entry<decltype(cuFileReadv)>("cuFileReadv");
  auto* const writev = entry<decltype(cuFileWritev)>("cuFileWritev");
  if (readv == nullptr || writev == nullptr) GTEST_SKIP() << "this libcufile is older than the calls";
  const ScratchFile file(4096);
  std::array<char, 300> bytes{};
  const std::array<CUfileIOVec_t, 3> parts{{{bytes.data(), 100}, {bytes.data() + 100, 50}, {bytes.data() + 150, 150}}};
  for (const char* const asked : {"1150", "1190"}) {
    ask_for(asked);
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileSetStatsLevel(1)), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileStatsReset()), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
    {
      const Fd fd = file.open(O_RDWR);
      const Handle handle(fd);
      ASSERT_EQ(answer(readv(handle.get(), parts.data(), parts.size(), 7, 0)), moved(300));
      ASSERT_EQ(answer(writev(handle.get(), parts.data(), 2, 7, 0)), moved(150));
      ASSERT_EQ(answer(readv(handle.get(), parts.data(), parts.size(), -1, 0)), failed(CU_FILE_INVALID_VALUE));
    }
    struct {
      CUfileStatsLevel1_t known;
      CUfileOpCounter_t readv, writev;
      std::uint64_t more[10];
    } stats{};
    ASSERT_EQ(code(cuFileGetStatsL1(&stats.known)), CU_FILE_SUCCESS);
    const bool apart = std::string(asked) == "1190";
    EXPECT_EQ(stats.known.read_ops.ok, apart ? 0U : 1U);
    EXPECT_EQ(stats.known.read_ops.err, apart ? 0U : 1U);
    EXPECT_EQ(stats.known.read_bytes, apart ? 0U : 300U);
    EXPECT_EQ(stats.known.write_ops.ok, apart ? 0U : 1U);
    EXPECT_EQ(stats.readv.ok, apart ? 1U : 0U);
    EXPECT_EQ(stats.readv.err, apart ? 1U : 0U);
    EXPECT_EQ(stats.writev.ok, apart ? 1U : 0U);
    EXPECT_EQ(stats.more[0], apart ? 300U : 0U);  // readv_bytes
    EXPECT_EQ(stats.more[1], apart ? 150U : 0U);
    ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  }
}

TEST_F(ReportedVersion, DecidesWhichParametersThereAre) {
  bool flag = true;
  std::array<char, 32> text{};
  EXPECT_EQ(code(cuFileGetParameterBool(CUFILE_PARAM_GDS_FALLBACK_IO, &flag)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE, true)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_RDMA_TRANSPORT, text.data(), 32)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_RDMA_TRANSPORT, "DC_V1")), CU_FILE_INVALID_VALUE);
  ask_for("1190");
  EXPECT_EQ(code(cuFileGetParameterBool(CUFILE_PARAM_GDS_FALLBACK_IO, &flag)), CU_FILE_SUCCESS);
  EXPECT_FALSE(flag);
  EXPECT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_RDMA_TRANSPORT, "none of these")), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterString(CUFILE_PARAM_RDMA_TRANSPORT, "DC_V1")), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileGetParameterString(CUFILE_PARAM_RDMA_TRANSPORT, text.data(), 32)), CU_FILE_SUCCESS);
  EXPECT_STREQ(text.data(), "DC_V1");
  ASSERT_EQ(code(cuFileSetParameterBool(CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE, true)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileSetParameterBool(CUFILE_PARAM_GDS_FALLBACK_IO, true)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  CUfileDrvProps_t properties{};
  ASSERT_EQ(code(cuFileDriverGetProperties(&properties)), CU_FILE_SUCCESS);
  constexpr unsigned both = 1U << CU_FILE_VANILLA_POSIX_IO_MODE | 1U << CU_FILE_FALLBACK_IO_MODE;
  EXPECT_EQ(properties.nvfs.dcontrolflags & both, both);
}

TEST_F(ReportedVersion, DecidesTheDefaults) {
  // The machine's own file may say otherwise.
  const Bytes nothing{'{', '}'};
  const ScratchFile file(nothing);
  ASSERT_EQ(::setenv("CUFILE_ENV_PATH_JSON", file.path().c_str(), 1), 0);
  std::size_t direct = 0;
  std::array<std::size_t, 4> sizes{};
  std::array<std::size_t, 4> counts{};
  ask_for("1170");
  EXPECT_EQ(code(cuFileGetParameterGpuBounceBufferSlabArray(sizes.data(), counts.data(), 4)), CU_FILE_SUCCESS);
  EXPECT_EQ(sizes, (std::array<std::size_t, 4>{1024, 8192, 16384, 65536}));
  EXPECT_EQ(counts, (std::array<std::size_t, 4>{128, 8, 4, 2}));
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, &direct)), CU_FILE_SUCCESS);
  EXPECT_EQ(direct, 16384U);
  ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  ask_for("1190");
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, &direct)), CU_FILE_SUCCESS);
  EXPECT_EQ(direct, 1024U);
}

TEST_F(ReportedVersion, DecidesHowManyEntriesABatchMayHave) {
  CUfileBatchHandle_t batch = nullptr;
  EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, 129)), CU_FILE_INVALID_VALUE);
  cuFileDriverClose();
  ask_for("1180");
  EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, 65536)), CU_FILE_INVALID_VALUE);
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 1000)), CU_FILE_SUCCESS);
  cuFileBatchIODestroy(batch);
  cuFileDriverClose();
  // What a program has chosen holds.
  ASSERT_EQ(code(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, 17)), CU_FILE_INVALID_VALUE);
}

TEST_F(ReportedVersion, LetsAThousandEntriesBeSubmittedCollectedAndCancelled) {
  ask_for("1190");
  constexpr unsigned count = 1000;
  const ScratchFile file(std::size_t{count} * 16);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  std::vector<char> bytes(std::size_t{count} * 16);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, count)), CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> entries(count);
  for (unsigned i = 0; i < count; ++i) {
    CUfileIOParams_t& entry = entries[i];
    entry.mode = CUFILE_BATCH;
    entry.fh = handle.get();
    entry.opcode = CUFILE_READ;
    entry.u.batch = {bytes.data() + std::size_t{i} * 16, off_t{i} * 16, 0, 16};
    entry.cookie = &entry;
  }
  for (const bool cancelled : {false, true}) {
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, count, entries.data(), 0)), CU_FILE_SUCCESS);
    if (cancelled) {
      EXPECT_EQ(code(cuFileBatchIOCancel(batch)), CU_FILE_SUCCESS);
      continue;
    }
    std::vector<CUfileIOEvents_t> events(count);
    unsigned collected = count;
    ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, count, &collected, events.data(), nullptr)), CU_FILE_SUCCESS);
    EXPECT_EQ(collected, count);
    for (const CUfileIOEvents_t& event : events) EXPECT_EQ(event.ret, 16U);
    EXPECT_EQ(std::memcmp(bytes.data(), file.content().data(), bytes.size()), 0);
  }
  cuFileBatchIODestroy(batch);
}

}  // namespace
}  // namespace sluice::contract
