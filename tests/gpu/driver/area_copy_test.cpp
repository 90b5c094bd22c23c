// SPDX-License-Identifier: Apache-2.0
// Copies of areas: rows at a pitch, slices of rows.
#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Areas : public Driver {};

// A table of bytes on the host, rows of `pitch` bytes.
struct Table {
  Table(std::size_t wide, std::size_t rows, unsigned seed) : pitch(wide), bytes(pattern(wide * rows, seed)) {}
  std::uint8_t& at(std::size_t row, std::size_t column) { return bytes[row * pitch + column]; }
  std::size_t pitch;
  std::vector<std::uint8_t> bytes;
};

cuda::Copy2D to_device(Ptr to, std::size_t to_pitch, const Table& from, std::size_t width, std::size_t height) {
  cuda::Copy2D copy{};
  copy.from_type = cuda::memory_host;
  copy.from_host = from.bytes.data();
  copy.from_pitch = from.pitch;
  copy.to_type = cuda::memory_device;
  copy.to_device = to;
  copy.to_pitch = to_pitch;
  copy.width = width;
  copy.height = height;
  return copy;
}

cuda::Copy2D to_host(Table& to, Ptr from, std::size_t from_pitch, std::size_t width, std::size_t height) {
  cuda::Copy2D copy{};
  copy.from_type = cuda::memory_device;
  copy.from_device = from;
  copy.from_pitch = from_pitch;
  copy.to_type = cuda::memory_host;
  copy.to_host = to.bytes.data();
  copy.to_pitch = to.pitch;
  copy.width = width;
  copy.height = height;
  return copy;
}

TEST_F(Areas, GoThereAndBackRowByRow) {
  Table table(100, 20, 1);
  Ptr device = 0;
  std::size_t pitch = 0;
  ASSERT_EQ(cuda::success, cuMemAllocPitch_v2(&device, &pitch, 64, 20, 4));
  const auto there = to_device(device, pitch, table, 64, 20);
  ASSERT_EQ(cuda::success, cuMemcpy2D_v2(&there));
  Table back(80, 20, 2);
  Table expected(80, 20, 2);
  for (std::size_t row = 0; row < 20; ++row) std::copy_n(&table.at(row, 0), 64, &expected.at(row, 0));
  const auto home = to_host(back, device, pitch, 64, 20);
  ASSERT_EQ(cuda::success, cuMemcpy2D_v2(&home));
  EXPECT_EQ(expected.bytes, back.bytes) << "what lies between the rows stays";
  EXPECT_EQ(cuda::success, cuMemFree_v2(device));
}

TEST_F(Areas, MayBeginInsideOfARow) {
  const Table table(100, 20, 3);
  const DeviceBuffer device(100 * 20);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(device.at(), 0xee, device.size()));
  auto there = to_device(device.at(), 100, table, 10, 4);
  there.from_x = 7;
  there.from_y = 3;
  there.to_x = 20;
  there.to_y = 5;
  ASSERT_EQ(cuda::success, cuMemcpy2D_v2(&there));
  std::vector<std::uint8_t> expected(device.size(), 0xee);
  for (std::size_t row = 0; row < 4; ++row) {
    std::copy_n(table.bytes.begin() + static_cast<std::ptrdiff_t>((row + 3) * 100 + 7), 10,
                expected.begin() + static_cast<std::ptrdiff_t>((row + 5) * 100 + 20));
  }
  EXPECT_EQ(expected, device.bytes());
}

TEST_F(Areas, OfOddPitchesAreCopiedByTheUnalignedCall) {
  const Table table(33, 7, 4);
  const DeviceBuffer device(31 * 7);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(device.at(), 0, device.size()));
  const auto there = to_device(device.at(), 31, table, 29, 7);
  ASSERT_EQ(cuda::success, cuMemcpy2DUnaligned_v2(&there));
  Table back(29, 7, 5);
  const auto home = to_host(back, device.at(), 31, 29, 7);
  ASSERT_EQ(cuda::success, cuMemcpy2DUnaligned_v2(&home));
  for (std::size_t row = 0; row < 7; ++row) {
    EXPECT_TRUE(std::equal(&back.at(row, 0), &back.at(row, 0) + 29,
                           table.bytes.begin() + static_cast<std::ptrdiff_t>(row * 33)))
        << row;
  }
}

TEST_F(Areas, GoFromDeviceToDevice) {
  const Table table(64, 8, 6);
  const DeviceBuffer first(64 * 8);
  const DeviceBuffer second(32 * 8);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(first.at(), table.bytes.data(), table.bytes.size()));
  cuda::Copy2D copy{};
  copy.from_type = copy.to_type = cuda::memory_device;
  copy.from_device = first.at();
  copy.from_pitch = 64;
  copy.to_device = second.at();
  copy.to_pitch = 32;
  copy.width = 32;
  copy.height = 8;
  ASSERT_EQ(cuda::success, cuMemcpy2D_v2(&copy));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  const auto seen = second.bytes();
  for (std::size_t row = 0; row < 8; ++row) {
    EXPECT_TRUE(std::equal(seen.begin() + static_cast<std::ptrdiff_t>(row * 32),
                           seen.begin() + static_cast<std::ptrdiff_t>(row * 32 + 32),
                           table.bytes.begin() + static_cast<std::ptrdiff_t>(row * 64)))
        << row;
  }
}

TEST_F(Areas, FindOutTheKindOfMemoryThemselves) {
  const Table table(16, 4, 7);
  const DeviceBuffer device(64);
  cuda::Copy2D copy = to_device(device.at(), 16, table, 16, 4);
  copy.from_type = copy.to_type = cuda::memory_unified;
  copy.from_device = reinterpret_cast<Ptr>(table.bytes.data());
  ASSERT_EQ(cuda::success, cuMemcpy2D_v2(&copy));
  EXPECT_EQ(table.bytes, device.bytes());
}

TEST_F(Areas, AreCopiedInTheOrderOfTheStream) {
  const PinnedBuffer host(256);
  std::fill_n(host.data(), 256, std::uint8_t{1});
  const DeviceBuffer device(256);
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(device.at(), 0, 256));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  cuda::Copy2D copy{};
  copy.from_type = cuda::memory_host;
  copy.from_host = host.data();
  copy.from_pitch = 16;
  copy.to_type = cuda::memory_device;
  copy.to_device = device.at();
  copy.to_pitch = 16;
  copy.width = 8;
  copy.height = 16;
  {
    Gate gate(stream.get());
    ASSERT_EQ(cuda::success, cuMemcpy2DAsync_v2(&copy, stream.get()));
    EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(stream.get()));
    std::fill_n(host.data(), 256, std::uint8_t{2});
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  const auto seen = device.bytes();
  EXPECT_EQ(2, seen[0]) << "pinned memory is read when the stream gets there";
  EXPECT_EQ(0, seen[8]);
  EXPECT_EQ(2, seen[16]);
}

TEST_F(Areas, WiderThanTheirPitchAreInvalid) {
  const Table table(16, 4, 8);
  const DeviceBuffer device(64);
  const auto copy = to_device(device.at(), 8, table, 16, 4);
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpy2D_v2(&copy));
}

TEST_F(Areas, ThatLeaveTheMemoryAreInvalid) {
  const Table table(4096, 3000, 9);
  const DeviceBuffer device(std::size_t{4} << 20U);
  const auto copy = to_device(device.at(), 4096, table, 4096, 3000);
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpy2D_v2(&copy));
}

TEST_F(Areas, OfNoRowsAreNothing) {
  const Table table(16, 4, 10);
  const DeviceBuffer device(64);
  auto copy = to_device(device.at(), 16, table, 16, 0);
  EXPECT_EQ(cuda::success, cuMemcpy2D_v2(&copy));
  copy.height = 4;
  copy.width = 0;
  EXPECT_EQ(cuda::success, cuMemcpy2D_v2(&copy));
}

TEST_F(Areas, OfNoKindOfMemoryAreInvalid) {
  const Table table(16, 4, 11);
  const DeviceBuffer device(64);
  auto copy = to_device(device.at(), 16, table, 16, 4);
  copy.to_type = 9;
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpy2D_v2(&copy));
}

TEST_F(Areas, BecomeNodesOfAGraph) {
  const PinnedBuffer host(64);
  std::fill_n(host.data(), 64, std::uint8_t{5});
  const DeviceBuffer device(64);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(device.at(), 0, 64));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  const Stream stream;
  cuda::Copy2D copy{};
  copy.from_type = cuda::memory_host;
  copy.from_host = host.data();
  copy.from_pitch = 16;
  copy.to_type = cuda::memory_device;
  copy.to_device = device.at();
  copy.to_pitch = 16;
  copy.width = 16;
  copy.height = 4;
  ASSERT_EQ(cuda::success, cuStreamBeginCapture_v2(stream.get(), cuda::capture_thread_local));
  ASSERT_EQ(cuda::success, cuMemcpy2DAsync_v2(&copy, stream.get()));
  cuda::Graph graph = nullptr;
  ASSERT_EQ(cuda::success, cuStreamEndCapture(stream.get(), &graph));
  EXPECT_EQ(std::vector<std::uint8_t>(64, 0), device.bytes());
  cuda::GraphExec exec = nullptr;
  ASSERT_EQ(cuda::success, cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_EQ(cuda::success, cuGraphLaunch(exec, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(std::vector<std::uint8_t>(64, 5), device.bytes());
  EXPECT_EQ(cuda::success, cuGraphExecDestroy(exec));
  EXPECT_EQ(cuda::success, cuGraphDestroy(graph));
}

// A box of 2 slices by 3 rows by 8 bytes out of a host table of slices of 5 rows by 16 bytes.
cuda::Copy3D box_to_device(Ptr to, const Table& from) {
  cuda::Copy3D copy{};
  copy.from_type = cuda::memory_host;
  copy.from_host = from.bytes.data();
  copy.from_pitch = 16;
  copy.from_height = 5;
  copy.from_x = 4;
  copy.from_y = 1;
  copy.from_z = 1;
  copy.to_type = cuda::memory_device;
  copy.to_device = to;
  copy.to_pitch = 8;
  copy.to_height = 3;
  copy.width = 8;
  copy.height = 3;
  copy.depth = 2;
  return copy;
}

std::vector<std::uint8_t> box_of(const Table& from) {
  std::vector<std::uint8_t> box;
  for (std::size_t slice = 1; slice < 3; ++slice) {
    for (std::size_t row = 1; row < 4; ++row) {
      const auto first = from.bytes.begin() + static_cast<std::ptrdiff_t>((slice * 5 + row) * 16 + 4);
      box.insert(box.end(), first, first + 8);
    }
  }
  return box;
}

TEST_F(Areas, OfSeveralSlicesAreBoxes) {
  const Table table(16, 20, 12);
  const DeviceBuffer device(8 * 3 * 2);
  const auto copy = box_to_device(device.at(), table);
  ASSERT_EQ(cuda::success, cuMemcpy3D_v2(&copy));
  EXPECT_EQ(box_of(table), device.bytes());
}

TEST_F(Areas, OfSeveralSlicesGoIntoAStream) {
  const Table table(16, 20, 13);
  const DeviceBuffer device(8 * 3 * 2);
  const Stream stream;
  const auto copy = box_to_device(device.at(), table);
  ASSERT_EQ(cuda::success, cuMemcpy3DAsync_v2(&copy, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(box_of(table), device.bytes());
}

TEST_F(Areas, GoBetweenContextsThatAreNamed) {
  const auto bytes = pattern(48, 14);
  const DeviceBuffer first(48);
  const DeviceBuffer second(48);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(first.at(), bytes.data(), 48));
  cuda::Copy3D copy{};
  copy.from_type = copy.to_type = cuda::memory_device;
  copy.from_device = first.at();
  copy.to_device = second.at();
  copy.from_context = copy.to_context = context();
  copy.from_pitch = copy.to_pitch = 8;
  copy.from_height = copy.to_height = 3;
  copy.width = 8;
  copy.height = 3;
  copy.depth = 2;
  ASSERT_EQ(cuda::success, cuMemcpy3DPeer(&copy));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  EXPECT_EQ(bytes, second.bytes());
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(second.at(), 0, 48));
  const Stream stream;
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  ASSERT_EQ(cuda::success, cuMemcpy3DPeerAsync(&copy, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(bytes, second.bytes());
}

}  // namespace
}  // namespace sluice::gpu_suite
