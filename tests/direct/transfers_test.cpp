// SPDX-License-Identifier: Apache-2.0
// Transfers on the direct path: the right bytes, nothing else, and counted where they went.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

#include "contract/mapped_memory.h"
#include "direct/direct_fixture.h"
#include "support/cuda_driver.h"

namespace sluice::direct {
namespace {

using namespace support;

class DirectTransfer : public DirectTest {
 protected:
  // Trials are made, so that what is counted afterwards is the transfer's.
  static void prove(const OpenFile& file, const Memory& memory) {
    ASSERT_STREQ(explain(file.handle(), memory.address()).path_name, "p2pdma");
  }
};

TEST_F(DirectTransfer, OfWholeBlocksIsTheDrivesAlone) {
  const ScratchFile scratch(24 * kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, 24 * kMebibyte);
  prove(file, memory);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  ASSERT_EQ(read_file(file.handle(), memory.address(), 24 * kMebibyte), moved(24 * kMebibyte));
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
  const Bytes written = random_bytes(24 * kMebibyte, 4);
  memory.put(0, written);
  ASSERT_EQ(write_file(file.handle(), memory.address(), 24 * kMebibyte), moved(24 * kMebibyte));
  EXPECT_TRUE(same_bytes(written, content_of(scratch.path())));
  EXPECT_EQ(direct.so_far(), (Count{2, 48 * kMebibyte}));
}

TEST_F(DirectTransfer, WithRaggedEdgesTouchesNothingAroundThem) {
  constexpr std::size_t kSize = 700'001;
  constexpr std::size_t kOffset = 3 * kBlock + 100;
  constexpr std::size_t kPlace = kBlock + 100;
  const ScratchFile scratch(2 * kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, 2 * kMebibyte);
  prove(file, memory);
  memory.fill(0x77);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  ASSERT_EQ(read_file(file.handle(), memory.address(), kSize, kOffset, kPlace), moved(kSize));
  Bytes expected(2 * kMebibyte, 0x77);
  std::copy_n(scratch.content().begin() + kOffset, kSize, expected.begin() + kPlace);
  EXPECT_TRUE(same_bytes(expected, memory.get()));

  const Bytes written = random_bytes(kSize, 5);
  memory.put(kPlace, written);
  ASSERT_EQ(write_file(file.handle(), memory.address(), kSize, kOffset, kPlace), moved(kSize));
  Bytes in_file = scratch.content();
  std::copy(written.begin(), written.end(), in_file.begin() + kOffset);
  EXPECT_TRUE(same_bytes(in_file, content_of(scratch.path())));
  EXPECT_EQ(direct.so_far(), (Count{2, 2 * kSize}));
}

TEST_F(DirectTransfer, AcrossTheEndOfTheFileLeavesTheRestOfTheBlockAlone) {
  for (const std::size_t size : {std::size_t{5000}, 10 * kBlock + 1, 10 * kBlock, std::size_t{1}}) {
    SCOPED_TRACE(size);
    const ScratchFile scratch(size);
    const OpenFile file(scratch);
    const Memory memory(MemoryKind::device, kMebibyte);
    memory.fill(0x33);
    ASSERT_EQ(read_file(file.handle(), memory.address(), kMebibyte), moved(size));
    Bytes expected(kMebibyte, 0x33);
    std::copy(scratch.content().begin(), scratch.content().end(), expected.begin());
    EXPECT_TRUE(same_bytes(expected, memory.get()));
  }
}

TEST_F(DirectTransfer, ExtendsAFileByExactlyItsBytes) {
  const ScratchFile scratch(kBlock + 10);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  prove(file, memory);
  const Bytes written = random_bytes(300'000, 6);
  memory.put(0, written);
  ASSERT_EQ(write_file(file.handle(), memory.address(), written.size(), 2 * kBlock), moved(written.size()));
  Bytes expected = scratch.content();
  expected.resize(2 * kBlock, 0);
  expected.insert(expected.end(), written.begin(), written.end());
  EXPECT_TRUE(same_bytes(expected, content_of(scratch.path())));
}

TEST_F(DirectTransfer, OutOfStepWithTheBlocksIsTheCpus) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, 2 * kMebibyte);
  prove(file, memory);
  const Meter ragged(SLUICE_PATH_POSIX, SLUICE_REASON_RAGGED_REQUEST);
  ASSERT_EQ(read_file(file.handle(), memory.address(), 200'000, kBlock + 7, 3), moved(200'000));
  EXPECT_EQ(ragged.so_far(), (Count{1, 200'000}));
  EXPECT_STREQ(explain(file.handle(), memory.at(3), 200'000, kBlock + 7).reason_name, "ragged_request");
  EXPECT_STREQ(explain(file.handle(), memory.address(), 200'000, kBlock).reason_name, "direct");
}

TEST_F(DirectTransfer, GoesTheSameWayWithARegisteredBuffer) {
  const ScratchFile scratch(4 * kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, 4 * kMebibyte);
  const Registration registration(memory);
  prove(file, memory);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  ASSERT_EQ(read_file(file.handle(), memory.address(), 2 * kMebibyte, kMebibyte, kMebibyte), moved(2 * kMebibyte));
  EXPECT_EQ(direct.so_far(), (Count{1, 2 * kMebibyte}));
  EXPECT_TRUE(
      same_bytes(std::span(scratch.content()).subspan(kMebibyte, 2 * kMebibyte), memory.get(kMebibyte, 2 * kMebibyte)));
}

TEST_F(DirectTransfer, GoesWindowByWindowThroughMappingsThatDoNotLieTogether) {
  if (!contract::MappedMemory::available()) GTEST_SKIP() << "this driver maps no memory";
  constexpr std::size_t kPiece = 2 * kMebibyte;
  contract::MappedMemory memory(2, kPiece);
  const ScratchFile scratch(4 * kPiece);
  const OpenFile file(scratch);
  ASSERT_STREQ(explain(file.handle(), memory.address()).path_name, "p2pdma");
  ASSERT_EQ(read_file(file.handle(), memory.address(), 2 * kPiece, kPiece), moved(2 * kPiece));
  EXPECT_TRUE(same_bytes(std::span(scratch.content()).subspan(kPiece, 2 * kPiece), memory.get(0, 2 * kPiece)));
}

TEST_F(DirectTransfer, IsRightFromManyThreadsAtOnce) {
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kPart = 3 * kMebibyte + kBlock;
  const ScratchFile scratch(kThreads * kPart);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kThreads * kPart);
  prove(file, memory);
  std::vector<Transfer> answers(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        answers[i] = read_file(file.handle(), memory.address(), kPart, static_cast<off_t>(i * kPart),
                               static_cast<off_t>(i * kPart));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Transfer& answer : answers) EXPECT_EQ(answer, moved(kPart));
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
}

TEST_F(DirectTransfer, AnswersWhatTheSystemRefusesAsTheCpusWayDoes) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  prove(file, memory);
  EXPECT_EQ(read_file(file.handle(), memory.address(), kMebibyte, 10 * kMebibyte), moved(0));
}

TEST_F(DirectTransfer, LeavesAForkedChildAndItsParentWithWorkingRings) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  ASSERT_EQ(read_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  const pid_t child = fork();
  if (child == 0) {
    const Memory host(MemoryKind::plain, kMebibyte);
    const bool right =
        read_file(file.handle(), host.address(), kMebibyte) == moved(kMebibyte) && host.get() == scratch.content();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  memory.fill(0);
  ASSERT_EQ(read_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
}

TEST_F(DirectTransfer, OfABatchTakesTheSamePath) {
  constexpr unsigned kEntries = 4;
  const ScratchFile scratch(kEntries * kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kEntries * kMebibyte);
  prove(file, memory);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  CUfileBatchHandle_t batch{};
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, kEntries)), CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> entries(kEntries);
  for (unsigned i = 0; i < kEntries; ++i) {
    entries[i].mode = CUFILE_BATCH;
    entries[i].fh = file.handle();
    entries[i].opcode = CUFILE_READ;
    entries[i].u.batch.devPtr_base = memory.address();
    entries[i].u.batch.file_offset = static_cast<off_t>(i * kMebibyte);
    entries[i].u.batch.devPtr_offset = static_cast<off_t>(i * kMebibyte);
    entries[i].u.batch.size = kMebibyte;
  }
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, kEntries, entries.data(), 0)), CU_FILE_SUCCESS);
  std::vector<CUfileIOEvents_t> events(kEntries);
  unsigned collected = 0;
  while (collected < kEntries) {
    unsigned room = kEntries - collected;
    ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, room, &room, events.data() + collected, nullptr)), CU_FILE_SUCCESS);
    collected += room;
  }
  cuFileBatchIODestroy(batch);
  for (const CUfileIOEvents_t& event : events) EXPECT_EQ(event.ret, kMebibyte);
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
  EXPECT_EQ(direct.so_far(), (Count{kEntries, kEntries * kMebibyte}));
}

TEST_F(DirectTransfer, OnAStreamTakesTheSamePath) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  prove(file, memory);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Stream stream;
  std::size_t size = kMebibyte;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t bytes = 0;
  ASSERT_EQ(
      code(cuFileReadAsync(file.handle(), memory.address(), &size, &file_offset, &buffer_offset, &bytes, stream.get())),
      CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(bytes, static_cast<ssize_t>(kMebibyte));
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
  EXPECT_EQ(direct.so_far(), (Count{1, kMebibyte}));
}

}  // namespace
}  // namespace sluice::direct
