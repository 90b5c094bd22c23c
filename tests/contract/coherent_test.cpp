// SPDX-License-Identifier: Apache-2.0
// Files and device memory that the CPU reaches, in place: which transfers go so, that no staging memory is used then,
// that every byte is right, and that memory which the CPU does not reach goes as it always has.
#include "support/coherent.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "contract/mapped_memory.h"
#include "sluice.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/stream_gate.h"

namespace sluice::contract::coherent_test {
namespace {

using namespace support;

constexpr std::size_t kRoom = std::size_t{6} << 20U;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kSmall = std::size_t{128} << 10U;

class CoherentMemory : public DeviceTest {
 protected:
  // Carries something out, and looks who carried it: so many requests in place, where this run has that.
  template <typename Work>
  static void expect_in_place(MemoryKind kind, std::size_t requests, Work work, Reads reads = Reads::small) {
    const MovedSoFar before = moved_so_far();
    work();
    const MovedSoFar after = moved_so_far();
    if (goes_in_place(kind, reads)) {
      EXPECT_EQ(after.in_place - before.in_place, requests);
      // Verification looks at the memory in other ways.
      EXPECT_TRUE(after.copies == before.copies || std::getenv("SLUICE_VERIFY") != nullptr);
    } else {
      EXPECT_EQ(after.in_place, before.in_place);
    }
  }

  void read_and_look(CUfileHandle_t handle, const Memory& memory, std::size_t size, std::size_t from,
                     std::size_t to) const {
    SCOPED_TRACE(testing::Message() << name_of(memory.kind()) << ": " << size << " bytes at " << from << " to " << to);
    memory.fill(0x5a);
    EXPECT_EQ(read_file(handle, memory.address(), size, static_cast<off_t>(from), static_cast<off_t>(to)), moved(size));
    Bytes expected(memory.size(), 0x5a);
    std::copy_n(file_.content().begin() + static_cast<std::ptrdiff_t>(from), size,
                expected.begin() + static_cast<std::ptrdiff_t>(to));
    ASSERT_TRUE(same_bytes(expected, memory.get()));
  }

  const ScratchFile file_{kRoom};
  const Fd fd_ = file_.open(O_RDWR);
};

TEST_F(CoherentMemory, IsReadIntoAndWrittenFromInPlace) {
  const Handle handle(fd_);
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::managed}) {
    const Memory memory(kind, kRoom);
    for (const bool registers : {false, true}) {
      std::optional<Registration> registration;
      if (registers) registration.emplace(memory);
      for (const std::size_t size : {std::size_t{1}, kPage, kPage + 1, std::size_t{65537}, std::size_t{5000001}}) {
        expect_in_place(
            kind, 1, [&] { read_and_look(handle.get(), memory, size, 13, 4097); },
            size > kSmall ? Reads::large : Reads::small);
        const Bytes bytes = random_bytes(size, static_cast<std::uint32_t>(size));
        memory.put(7, bytes);
        expect_in_place(kind, 1,
                        [&] { EXPECT_EQ(write_file(handle.get(), memory.address(), size, 99, 7), moved(size)); });
        EXPECT_TRUE(same_bytes(bytes, plain_read(fd_.get(), 99, size)));
        plain_write(fd_.get(), 0, file_.content());
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(CoherentMemory, TakesWholeBlocksPastThePageCacheInPlaceAndTheEdgesByCopies) {
  const Fd direct = file_.open(O_RDWR | O_DIRECT);
  const Handle handle(direct);
  const Memory memory(MemoryKind::device, kRoom);
  const Registration registration(memory);
  expect_in_place(MemoryKind::device, 1, [&] { read_and_look(handle.get(), memory, 64 * kPage, kPage, 2 * kPage); });
  read_and_look(handle.get(), memory, 1000001, 511, 511);
  read_and_look(handle.get(), memory, 1000001, 511, 512);
  const Bytes bytes = random_bytes(40 * kPage + 9, 3);
  memory.put(5, bytes);
  EXPECT_EQ(write_file(handle.get(), memory.address(), bytes.size(), 77, 5), moved(bytes.size()));
  EXPECT_TRUE(same_bytes(bytes, plain_read(fd_.get(), 77, bytes.size())));
}

TEST_F(CoherentMemory, EndsWhereTheFileDoes) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kRoom);
  const Registration registration(memory);
  memory.fill(0x11);
  expect_in_place(MemoryKind::device, 1, [&] {
    EXPECT_EQ(read_file(handle.get(), memory.address(), 2 * kPage, kRoom - 100), moved(100));
    EXPECT_EQ(read_file(handle.get(), memory.address(), kPage, kRoom), moved(0));
  });
  EXPECT_TRUE(same_bytes(std::span(file_.content()).last(100), memory.get(0, 100)));
  EXPECT_TRUE(all_bytes(0x11, memory.get(100, kPage)));
}

TEST_F(CoherentMemory, TakesTheEntriesOfABatchInPlace) {
  constexpr std::size_t kEntries = 32;
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, 2 * kEntries * kPage);
  const Registration registration(memory);
  Batch batch(kEntries);
  for (std::size_t i = 0; i < kEntries; ++i) batch.read(handle.get(), memory, kPage, i * kPage, 2 * i * kPage);
  expect_in_place(MemoryKind::device, kEntries, [&] {
    for (const ssize_t result : batch.run()) EXPECT_EQ(result, ssize_t{kPage});
  });
  for (std::size_t i = 0; i < kEntries; ++i) {
    EXPECT_TRUE(same_bytes(std::span(file_.content()).subspan(i * kPage, kPage), memory.get(2 * i * kPage, kPage)));
  }
}

// A stream's own work before the transfer and behind it.
TEST_F(CoherentMemory, KeepsTheOrderOfAStream) {
  if (cuda_function<int(CUstream, CudaAddress, std::uint32_t, unsigned)>("cuStreamWaitValue32_v2") == nullptr) {
    GTEST_SKIP() << "this driver has no streams that wait";
  }
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kRoom);
  const Registration registration(memory);
  const Stream stream;
  // What is not sure to go in place may be counted late.
  std::vector<std::size_t> sizes{1, kPage, 100001};
  if (goes_in_place(MemoryKind::device, Reads::large)) sizes.push_back(3000001);
  for (std::size_t size : sizes) {
    SCOPED_TRACE(size);
    off_t file_offset = 3;
    off_t buffer_offset = 1;
    ssize_t count = -77;
    Bytes seen(size);
    const auto address = reinterpret_cast<CudaAddress>(memory.address()) + 1;
    expect_in_place(MemoryKind::device, 1, [&] {
      ASSERT_EQ(cuda()->fill_async(address, 0xab, size, stream.get()), 0);
      ASSERT_EQ(code(cuFileReadAsync(handle.get(), memory.address(), &size, &file_offset, &buffer_offset, &count,
                                     stream.get())),
                CU_FILE_SUCCESS);
      ASSERT_EQ(cuda()->to_host_async(seen.data(), address, size, stream.get()), 0);
      ASSERT_EQ(cuda()->stream_synchronize(stream.get()), 0);
    });
    EXPECT_EQ(count, static_cast<ssize_t>(size));
    EXPECT_TRUE(same_bytes(std::span(file_.content()).subspan(3, size), seen));
    expect_in_place(MemoryKind::device, 1, [&] {
      ASSERT_EQ(cuda()->fill_async(address, 0xcd, size, stream.get()), 0);
      ASSERT_EQ(code(cuFileWriteAsync(handle.get(), memory.address(), &size, &file_offset, &buffer_offset, &count,
                                      stream.get())),
                CU_FILE_SUCCESS);
      ASSERT_EQ(cuda()->fill_async(address, 0xef, size, stream.get()), 0);
      ASSERT_EQ(cuda()->stream_synchronize(stream.get()), 0);
    });
    EXPECT_EQ(count, static_cast<ssize_t>(size));
    EXPECT_TRUE(all_bytes(0xcd, plain_read(fd_.get(), 3, size)));
    plain_write(fd_.get(), 0, file_.content());
    if (HasFatalFailure()) return;
  }
}

TEST_F(CoherentMemory, IsNotWhatTheDriverTellsNoAddressOf) {
  if (!MappedMemory::available()) GTEST_SKIP() << "the driver has no virtual memory management";
  const Handle handle(fd_);
  constexpr std::size_t piece = std::size_t{2} << 20U;
  const MappedMemory pieces(2, piece);
  const Registration registration(pieces.address(), pieces.size());
  const MovedSoFar before = moved_so_far();
  EXPECT_EQ(read_file(handle.get(), pieces.address(), 8192, 9, piece - 4000), moved(8192));
  EXPECT_EQ(moved_so_far().in_place, before.in_place);
  EXPECT_TRUE(same_bytes(std::span(file_.content()).subspan(9, 8192), pieces.get(piece - 4000, 8192)));
}

TEST_F(CoherentMemory, ThatWasFreedIsRefused) {
  const Handle handle(fd_);
  Memory memory(MemoryKind::device, kRoom);
  void* const base = memory.address();
  const Registration registration(memory);
  expect_in_place(MemoryKind::device, 1, [&] { read_and_look(handle.get(), memory, kPage, 0, 0); });
  memory.free();
  EXPECT_EQ(read_file(handle.get(), base, kPage), failed(EPERM));
  EXPECT_EQ(write_file(handle.get(), base, kPage), failed(EIO));
}

TEST_F(CoherentMemory, IsToldByExplanations) {
  auto* const explain = entry<decltype(sluice_explain)>("sluice_explain");
  if (explain == nullptr) GTEST_SKIP() << "this libcufile does not explain itself";
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kRoom);
  sluice_explanation_t told{};
  ASSERT_EQ(code(explain(handle.get(), memory.address(), 0, CUFILE_READ, kPage, 0, &told)), CU_FILE_SUCCESS);
  const bool says = std::string(told.detail).find("exchange bytes in place") != std::string::npos;
  EXPECT_EQ(says, goes_in_place(MemoryKind::device)) << told.detail;
}

}  // namespace
}  // namespace sluice::contract::coherent_test
