// SPDX-License-Identifier: Apache-2.0
// The parameters that are arrays, the P2P flags, and the exported topology.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>

#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

using Sizes = std::array<std::size_t, 2>;

class SlabArrays : public CufileTest {
 protected:
  // What was staged is used up by an open.
  void TearDown() override {
    cuFileDriverOpen();
    CufileTest::TearDown();
  }
};

TEST_F(SlabArrays, ReadBackAsSet) {
  const Sizes sizes{64, 1024};
  const Sizes counts{8, 4};
  ASSERT_EQ(code(cuFileSetParameterPosixPoolSlabArray(sizes.data(), counts.data(), 2)), CU_FILE_SUCCESS);
  Sizes got_sizes{};
  Sizes got_counts{};
  EXPECT_EQ(code(cuFileGetParameterPosixPoolSlabArray(got_sizes.data(), got_counts.data(), 2)), CU_FILE_SUCCESS);
  EXPECT_EQ(got_sizes, sizes);
  EXPECT_EQ(got_counts, counts);
}

TEST_F(SlabArrays, RefuseNullAndEmpty) {
  Sizes values{64, 1024};
  EXPECT_EQ(code(cuFileSetParameterPosixPoolSlabArray(nullptr, values.data(), 2)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterPosixPoolSlabArray(values.data(), nullptr, 2)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterPosixPoolSlabArray(values.data(), values.data(), 0)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileSetParameterPosixPoolSlabArray(values.data(), values.data(), -1)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterPosixPoolSlabArray(nullptr, values.data(), 2)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetParameterPosixPoolSlabArray(values.data(), nullptr, 2)), CU_FILE_INVALID_VALUE);
}

TEST_F(SlabArrays, AreReadWithTheLengthTheyWereSetWith) {
  const Sizes values{64, 1024};
  ASSERT_EQ(code(cuFileSetParameterPosixPoolSlabArray(values.data(), values.data(), 2)), CU_FILE_SUCCESS);
  std::array<std::size_t, 9> sizes{};
  std::array<std::size_t, 9> counts{};
  EXPECT_EQ(code(cuFileGetParameterPosixPoolSlabArray(sizes.data(), counts.data(), 9)), CU_FILE_INVALID_VALUE);
}

TEST_F(SlabArrays, TakeSizesThatAreNoMultipleOf4KiB) {
  const Sizes sizes{64, 1023};
  const Sizes counts{1, 1};
  EXPECT_EQ(code(cuFileSetParameterPosixPoolSlabArray(sizes.data(), counts.data(), 2)), CU_FILE_SUCCESS);
  Sizes found{};
  Sizes found_counts{};
  EXPECT_EQ(code(cuFileGetParameterPosixPoolSlabArray(found.data(), found_counts.data(), 2)), CU_FILE_SUCCESS);
  EXPECT_EQ(found, sizes);
}

TEST_F(SlabArrays, ThatCannotBeUsedHarmNoTransfer) {
  const Sizes sizes{5, 7};
  const Sizes counts{3, 3};
  ASSERT_EQ(code(cuFileSetParameterPosixPoolSlabArray(sizes.data(), counts.data(), 2)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  const ScratchFile file(100000);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 100000);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 100000), moved(100000));
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
}

TEST_F(SlabArrays, OfDeviceMemoryReadBackAsSet) {
  const auto set =
      entry<decltype(cuFileSetParameterGpuBounceBufferSlabArray)>("cuFileSetParameterGpuBounceBufferSlabArray");
  const auto get =
      entry<decltype(cuFileGetParameterGpuBounceBufferSlabArray)>("cuFileGetParameterGpuBounceBufferSlabArray");
  if (set == nullptr || get == nullptr) GTEST_SKIP() << "this libcufile is older than the call";
  const Sizes sizes{1024, 64};
  const Sizes counts{4, 8};
  ASSERT_EQ(code(set(sizes.data(), counts.data(), 2)), CU_FILE_SUCCESS);
  Sizes got_sizes{};
  Sizes got_counts{};
  EXPECT_EQ(code(get(got_sizes.data(), got_counts.data(), 2)), CU_FILE_SUCCESS);
  EXPECT_EQ(got_sizes, sizes);
  EXPECT_EQ(got_counts, counts);
  EXPECT_EQ(code(set(nullptr, counts.data(), 2)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(set(sizes.data(), counts.data(), 0)), CU_FILE_INVALID_VALUE);
}

class P2pFlags : public CufileTest {
 protected:
  decltype(cuFileDriverGetP2PFlags)* get_ = entry<decltype(cuFileDriverGetP2PFlags)>("cuFileDriverGetP2PFlags");
  decltype(cuFileDriverSetP2PFlags)* set_ = entry<decltype(cuFileDriverSetP2PFlags)>("cuFileDriverSetP2PFlags");
  void SetUp() override {
    CufileTest::SetUp();
    if (get_ == nullptr || set_ == nullptr) GTEST_SKIP() << "this libcufile is older than the calls";
  }
  int flags_of(CUfileDriverStatusFlags_t kind) const {
    auto flags = CUFILE_P2P_MASK_RANGE;
    EXPECT_EQ(code(get_(kind, &flags)), CU_FILE_SUCCESS);
    return static_cast<int>(flags);
  }
};

TEST_F(P2pFlags, AreEmptyAtFirstForEachKind) {
  for (int kind = 0; kind < CU_FILE_MAX_TARGET_TYPES; ++kind) {
    auto flags = CUFILE_P2P_MASK_RANGE;
    EXPECT_EQ(code(get_(static_cast<CUfileDriverStatusFlags_t>(kind), &flags)), CU_FILE_SUCCESS) << kind;
    EXPECT_EQ(static_cast<int>(flags), 0) << kind;
  }
}

TEST_F(P2pFlags, AnEmptyMaskChangesNothing) {
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(set_(CU_FILE_NVME_SUPPORTED, static_cast<CUfileP2PFlags_t>(0))), CU_FILE_SUCCESS);
  ASSERT_EQ(code(set_(CU_FILE_NVME_SUPPORTED, CU_FILE_P2P_FLAG_PCI_P2PDMA)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(set_(CU_FILE_NVME_SUPPORTED, static_cast<CUfileP2PFlags_t>(0))), CU_FILE_SUCCESS);
  EXPECT_EQ(flags_of(CU_FILE_NVME_SUPPORTED), CU_FILE_P2P_FLAG_PCI_P2PDMA);
}

TEST_F(P2pFlags, AreForgottenAtTheLastClose) {
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  ASSERT_EQ(code(set_(CU_FILE_NVME_SUPPORTED, CU_FILE_P2P_FLAG_PCI_P2PDMA)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  EXPECT_EQ(flags_of(CU_FILE_NVME_SUPPORTED), 0);
}

TEST_F(P2pFlags, RefuseWaysThatCanOnlyBeReported) {
  for (const int mask : {2, 4, 8, 3, 15, 16}) {
    EXPECT_EQ(code(set_(CU_FILE_NVME_SUPPORTED, static_cast<CUfileP2PFlags_t>(mask))), CU_FILE_INVALID_VALUE) << mask;
  }
}

TEST_F(P2pFlags, RefuseUnknownKindsAndNull) {
  auto flags = CUFILE_P2P_MASK_RANGE;
  EXPECT_EQ(code(get_(CU_FILE_MAX_TARGET_TYPES, &flags)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(set_(CU_FILE_MAX_TARGET_TYPES, static_cast<CUfileP2PFlags_t>(0))), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(get_(CU_FILE_NVME_SUPPORTED, nullptr)), CU_FILE_INVALID_VALUE);
}

class Topology : public CufileTest {
 protected:
  decltype(cuFileExportPCIeTopology)* export_ = entry<decltype(cuFileExportPCIeTopology)>("cuFileExportPCIeTopology");
  void SetUp() override {
    CufileTest::SetUp();
    if (export_ == nullptr) GTEST_SKIP() << "this libcufile is older than the call";
  }
};

TEST_F(Topology, ReplacesTheFileByACommentAndJson) {
  const ScratchFile file(100000);
  ASSERT_EQ(code(export_(file.path().c_str())), CU_FILE_SUCCESS);
  const Bytes content = content_of(file.path());
  const std::string text(content.begin(), content.end());
  EXPECT_EQ(text.rfind("//", 0), 0U) << text;
  EXPECT_LT(text.size(), 100000U) << "the file was not replaced";
}

TEST_F(Topology, RefusesPathsThatCannotBeWritten) {
  EXPECT_EQ(code(export_(nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(export_("")), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(export_("/no/such/directory/topology.json")), CU_FILE_INVALID_VALUE);
}

}  // namespace
}  // namespace sluice::contract
