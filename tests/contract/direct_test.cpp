// SPDX-License-Identifier: Apache-2.0
// Files opened with O_DIRECT, where the ragged edges of a transfer need another way than its body.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/deadline.h"

namespace sluice::contract {
namespace {

using namespace support;

class Direct : public CufileTest {
 protected:
  // Writes random bytes at an offset through the descriptor; expects the file to hold them and nothing else to change.
  static void expect_write(const ScratchFile& file, const Fd& fd, MemoryKind kind, std::size_t size,
                           std::size_t offset) {
    SCOPED_TRACE(::testing::Message() << name_of(kind) << ", size " << size << " at " << offset);
    const Bytes before = content_of(file.path());
    const Bytes written = random_bytes(size, size + offset);
    const Memory memory(kind, size);
    memory.put(0, written);
    const Handle handle(fd);
    ASSERT_EQ(write_file(handle.get(), memory.address(), size, static_cast<off_t>(offset)), moved(size));
    Bytes expected = before;
    expected.resize(std::max(before.size(), offset + size), 0);
    std::copy(written.begin(), written.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
    EXPECT_TRUE(same_bytes(expected, content_of(file.path())));
  }
};

TEST_F(Direct, AWriteOnlyFileTakesAnUnalignedTail) {
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::device}) {
    if (!available(kind)) continue;
    const ScratchFile file;
    const Fd fd = file.open(O_WRONLY | O_DIRECT);
    expect_write(file, fd, kind, 8389600, 0);
    EXPECT_EQ(file_size(fd.get()), 8389600U);
  }
}

TEST_F(Direct, AWriteOnlyFileKeepsTheNeighboursOfARaggedWrite) {
  const ScratchFile file(300000);
  const Fd fd = file.open(O_WRONLY | O_DIRECT);
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::device}) {
    if (!available(kind)) continue;
    expect_write(file, fd, kind, 1, 0);
    expect_write(file, fd, kind, 3, 4095);
    expect_write(file, fd, kind, 4096, 1);
    expect_write(file, fd, kind, 100001, 4097);
    expect_write(file, fd, kind, 100000, 299000);
  }
}

TEST_F(Direct, AReadOnlyFileIsReadAtAnyOffset) {
  const ScratchFile file(300000);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 300000);
  const std::span<const unsigned char> content(file.content());
  for (const std::size_t offset : {std::size_t{1}, std::size_t{4095}, std::size_t{4097}, std::size_t{65537}}) {
    EXPECT_EQ(read_file(handle.get(), memory.address(), 100003, static_cast<off_t>(offset), 5), moved(100003));
    EXPECT_TRUE(same_bytes(content.subspan(offset, 100003), memory.get(5, 100003)));
  }
}

TEST_F(Direct, TheWayToTheEdgesIsFoundAfterTheFileWasUnlinked) {
  ScratchFile file(8192);
  const Fd look = file.open(O_RDONLY);
  const Fd fd = file.open(O_WRONLY | O_DIRECT);
  file.unlink();
  const Handle handle(fd);
  const Memory memory(usual_memory(), 5000);
  const Bytes written = random_bytes(5000, 8);
  memory.put(0, written);
  EXPECT_EQ(write_file(handle.get(), memory.address(), 5000, 1001), moved(5000));
  Bytes expected = file.content();
  std::copy(written.begin(), written.end(), expected.begin() + 1001);
  EXPECT_TRUE(same_bytes(expected, plain_read(look.get(), 0, 9000)));
}

TEST_F(Direct, RegisteringAndRaggedWritingLeakNoDescriptors) {
  const ScratchFile file(8192);
  const Memory memory(usual_memory(), 5000);
  const auto lowest_free = [] {
    const Fd probe(dup(0));
    return probe.get();
  };
  int after_the_first = -1;
  for (int round = 0; round < 50; ++round) {
    {
      const Fd fd = file.open(O_WRONLY | O_DIRECT);
      const Handle handle(fd);
      ASSERT_EQ(write_file(handle.get(), memory.address(), 5000, 1001), moved(5000));
    }
    if (round == 0) after_the_first = lowest_free();
  }
  // Other threads of the process may have one of their own for a moment.
  int now = lowest_free();
  for (const Deadline deadline; now > after_the_first && !deadline.has_passed(); now = lowest_free()) {
    std::this_thread::yield();
  }
  EXPECT_LE(now, after_the_first);
}

TEST_F(Direct, ABufferedWritersDirtyBytesAreSeen) {
  const ScratchFile file(200000);
  const Fd buffered = file.open(O_RDWR);
  const Fd direct = file.open(O_RDWR | O_DIRECT);
  const Handle handle(direct);
  const Memory memory(usual_memory(), 200000);
  for (std::uint64_t round = 0; round < 20; ++round) {
    const Bytes fresh = random_bytes(200000, round);
    plain_write(buffered.get(), 0, fresh);
    ASSERT_EQ(read_file(handle.get(), memory.address(), 200000), moved(200000));
    ASSERT_TRUE(same_bytes(fresh, memory.get())) << "round " << round;
  }
}

TEST_F(Direct, ADirectWriteIsSeenByABufferedReader) {
  const ScratchFile file(200000);
  const Fd buffered = file.open(O_RDWR);
  const Fd direct = file.open(O_RDWR | O_DIRECT);
  const Handle direct_handle(direct);
  const Handle buffered_handle(buffered);
  const Memory source(usual_memory(), 200000);
  const Memory target(usual_memory(), 200000);
  for (std::uint64_t round = 0; round < 20; ++round) {
    const Bytes fresh = random_bytes(199999, round);
    source.put(1, fresh);
    ASSERT_EQ(write_file(direct_handle.get(), source.address(), 199999, 1, 1), moved(199999));
    ASSERT_EQ(read_file(buffered_handle.get(), target.address(), 199999, 1, 0), moved(199999));
    ASSERT_TRUE(same_bytes(fresh, target.get(0, 199999))) << "round " << round;
    ASSERT_TRUE(same_bytes(fresh, plain_read(buffered.get(), 1, 199999))) << "round " << round;
  }
}

// Writers whose slices lie in the same blocks, each writing its own again and again. What any of them wrote last must
// be there: an edge that is read, changed and written back without care loses a neighbour's bytes.
class Neighbours : public CufileTest, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr std::size_t kSlice = 700;
  static constexpr std::size_t kWriters = 6;
  static constexpr std::size_t kSlices = 12;  // of each writer
  static constexpr unsigned char kRounds = 40;

  static void write_slices(CUfileHandle_t handle, std::size_t writer, std::atomic<int>& failures) {
    const Memory memory(usual_memory(), kSlice);
    for (unsigned char round = 1; round <= kRounds; ++round) {
      memory.fill(round);
      for (std::size_t slice = 0; slice < kSlices; ++slice) {
        const auto offset = static_cast<off_t>((slice * kWriters + writer) * kSlice);
        if (write_file(handle, memory.address(), kSlice, offset) != moved(kSlice)) ++failures;
      }
    }
  }

  static void run(std::span<const CUfileHandle_t> handles, const ScratchFile& file) {
    std::atomic<int> failures{0};
    std::vector<std::thread> writers;
    for (std::size_t writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back([&, writer] { write_slices(handles[writer % handles.size()], writer, failures); });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_EQ(failures, 0);
    EXPECT_TRUE(all_bytes(kRounds, content_of(file.path())));
  }
};

TEST_P(Neighbours, InOneBlockLoseNothingThroughOneHandle) {
  const ScratchFile file(kSlice * kWriters * kSlices);
  const Fd fd = file.open(GetParam());
  const Handle handle(fd);
  const CUfileHandle_t handles[] = {handle.get()};
  run(handles, file);
}

TEST_P(Neighbours, InOneBlockLoseNothingThroughManyHandles) {
  const ScratchFile file(kSlice * kWriters * kSlices);
  std::vector<Fd> fds;
  std::vector<std::unique_ptr<Handle>> registered;
  std::vector<CUfileHandle_t> handles;
  for (std::size_t i = 0; i < kWriters; ++i) {
    fds.push_back(file.open(GetParam()));
    registered.push_back(std::make_unique<Handle>(fds.back()));
    handles.push_back(registered.back()->get());
  }
  run(handles, file);
}

INSTANTIATE_TEST_SUITE_P(Opened, Neighbours, ::testing::Values(O_RDWR, O_RDWR | O_DIRECT, O_WRONLY | O_DIRECT));

}  // namespace
}  // namespace sluice::contract
