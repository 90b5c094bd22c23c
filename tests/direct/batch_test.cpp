// SPDX-License-Identifier: Apache-2.0
// Batches on the direct path: entries of all shapes in one submission, each with the right bytes, and counted where it
// went.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "contract/mapped_memory.h"
#include "direct/direct_fixture.h"
#include "support/batch.h"

namespace sluice::direct {
namespace {

using namespace support;

class DirectBatch : public DirectTest {
 protected:
  // Trials are made, so that what is counted afterwards is the batch's.
  static void prove(const OpenFile& file, const Memory& memory) {
    ASSERT_STREQ(explain(file.handle(), memory.address()).path_name, "p2pdma");
  }
};

TEST_F(DirectBatch, OfManyEntriesIsTheDrivesAlone) {
  constexpr std::size_t kEntries = 128;
  const ScratchFile scratch(kEntries * 3 * kBlock);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kEntries * 4 * kBlock);
  prove(file, memory);
  Batch batch(kEntries);
  for (std::size_t i = 0; i < kEntries; ++i) {
    batch.read(file.handle(), memory, 2 * kBlock, (kEntries - 1 - i) * 3 * kBlock, i * 4 * kBlock);
  }
  for (int round = 0; round < 3; ++round) {
    memory.fill(0x21);
    const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
    const std::vector<ssize_t> results = batch.run();
    EXPECT_EQ(direct.so_far(), (Count{kEntries, kEntries * 2 * kBlock}));
    for (std::size_t i = 0; i < kEntries; ++i) {
      ASSERT_EQ(results[i], ssize_t{2 * kBlock}) << i;
      const auto expected = std::span(scratch.content()).subspan((kEntries - 1 - i) * 3 * kBlock, 2 * kBlock);
      ASSERT_TRUE(same_bytes(expected, memory.get(i * 4 * kBlock, 2 * kBlock))) << i;
      ASSERT_TRUE(all_bytes(0x21, memory.get(i * 4 * kBlock + 2 * kBlock, 2 * kBlock))) << i;
    }
  }
}

TEST_F(DirectBatch, MixesReadsAndWritesOfAllSizes) {
  const std::vector<std::size_t> sizes{kBlock, 5 * kMebibyte + kBlock, 17 * kMebibyte, 2 * kBlock, kMebibyte};
  const std::size_t apart = 17 * kMebibyte + kBlock;
  const std::size_t all = sizes.size() * apart;
  const ScratchFile from(all);
  const ScratchFile to(all);
  const OpenFile reader(from);
  const OpenFile writer(to);
  const Memory target(MemoryKind::device, all);
  const Memory source(MemoryKind::device, all);
  const Registration registration(source);
  const Bytes written = random_bytes(all, 11);
  source.put(0, written);
  prove(reader, target);
  Bytes in_file = to.content();
  std::size_t bytes = 0;
  Batch batch(16);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    batch.read(reader.handle(), target, sizes[i], i * apart, i * apart);
    batch.write(writer.handle(), source, sizes[i], i * apart, i * apart);
    std::copy_n(written.begin() + static_cast<std::ptrdiff_t>(i * apart), sizes[i],
                in_file.begin() + static_cast<std::ptrdiff_t>(i * apart));
    bytes += 2 * sizes[i];
  }
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const std::vector<ssize_t> results = batch.run();
  EXPECT_EQ(direct.so_far(), (Count{2 * sizes.size(), bytes}));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(results[2 * i], static_cast<ssize_t>(sizes[i]));
    EXPECT_EQ(results[2 * i + 1], static_cast<ssize_t>(sizes[i]));
    EXPECT_TRUE(same_bytes(std::span(from.content()).subspan(i * apart, sizes[i]), target.get(i * apart, sizes[i])));
  }
  EXPECT_TRUE(same_bytes(in_file, content_of(to.path())));
}

TEST_F(DirectBatch, LeavesToTheCpuWhatIsNotForTheDrive) {
  const ScratchFile scratch(64 * kBlock);
  const OpenFile file(scratch);
  const OpenFile buffered(scratch, O_RDWR);
  const Memory memory(MemoryKind::device, 64 * kBlock);
  const Memory host(MemoryKind::plain, 64 * kBlock);
  prove(file, memory);
  memory.fill(0x44);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Meter ragged(SLUICE_PATH_POSIX, SLUICE_REASON_RAGGED_REQUEST);
  const Meter cached(SLUICE_PATH_POSIX, SLUICE_REASON_BUFFERED_DESCRIPTOR);
  Batch batch(32);
  for (std::size_t i = 0; i < 8; ++i) {
    batch.read(file.handle(), memory, kBlock, i * kBlock, i * kBlock);
    batch.read(file.handle(), memory, 1000, (8 + i) * kBlock + 7, (8 + i) * kBlock + 3);
    batch.read(buffered.handle(), memory, kBlock, (16 + i) * kBlock, (16 + i) * kBlock);
    batch.read(file.handle(), host, kBlock, i * kBlock, i * kBlock);
  }
  const std::vector<ssize_t> results = batch.run();
  Bytes expected(64 * kBlock, 0x44);
  const auto place = [&](std::size_t at, std::size_t to, std::size_t size) {
    std::copy_n(scratch.content().begin() + static_cast<std::ptrdiff_t>(at), size,
                expected.begin() + static_cast<std::ptrdiff_t>(to));
  };
  for (std::size_t i = 0; i < 8; ++i) {
    for (const std::size_t whole : {0U, 2U, 3U}) EXPECT_EQ(results[4 * i + whole], ssize_t{kBlock}) << i;
    EXPECT_EQ(results[4 * i + 1], 1000) << i;
    place(i * kBlock, i * kBlock, kBlock);
    place((8 + i) * kBlock + 7, (8 + i) * kBlock + 3, 1000);
    place((16 + i) * kBlock, (16 + i) * kBlock, kBlock);
  }
  EXPECT_TRUE(same_bytes(expected, memory.get()));
  EXPECT_TRUE(same_bytes(std::span(scratch.content()).first(8 * kBlock), host.get(0, 8 * kBlock)));
  EXPECT_EQ(direct.so_far(), (Count{8, 8 * kBlock}));
  EXPECT_EQ(ragged.so_far(), (Count{8, 8 * 1000}));
  EXPECT_EQ(cached.so_far(), (Count{8, 8 * kBlock}));
}

TEST_F(DirectBatch, EndsWhereTheFileEnds) {
  const ScratchFile scratch(10 * kBlock + 100);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, 64 * kBlock);
  prove(file, memory);
  memory.fill(0x45);
  Batch batch(8);
  batch.read(file.handle(), memory, 4 * kBlock, 0, 0);
  batch.read(file.handle(), memory, 8 * kBlock, 8 * kBlock, 8 * kBlock);
  batch.read(file.handle(), memory, kBlock, 10 * kBlock, 20 * kBlock);
  batch.read(file.handle(), memory, 4 * kBlock, 32 * kBlock, 24 * kBlock);
  EXPECT_EQ(batch.run(), (std::vector<ssize_t>{4 * kBlock, 2 * kBlock + 100, 100, 0}));
  Bytes expected(64 * kBlock, 0x45);
  const auto content = scratch.content().begin();
  std::copy_n(content, 4 * kBlock, expected.begin());
  std::copy_n(content + 8 * kBlock, 2 * kBlock + 100, expected.begin() + 8 * kBlock);
  std::copy_n(content + 10 * kBlock, 100, expected.begin() + 20 * kBlock);
  EXPECT_TRUE(same_bytes(expected, memory.get()));
}

TEST_F(DirectBatch, ExtendsAFile) {
  const ScratchFile scratch(2 * kBlock);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, 32 * kBlock);
  prove(file, memory);
  const Bytes written = random_bytes(32 * kBlock, 12);
  memory.put(0, written);
  Batch batch(32);
  for (std::size_t i = 0; i < 32; ++i) batch.write(file.handle(), memory, kBlock, i * kBlock, i * kBlock);
  for (const ssize_t result : batch.run()) EXPECT_EQ(result, ssize_t{kBlock});
  EXPECT_TRUE(same_bytes(written, content_of(scratch.path())));
}

TEST_F(DirectBatch, MakesTheTrialThatNobodyHasMade) {
  close_driver_fully();
  const ScratchFile scratch(32 * kBlock);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, 32 * kBlock);
  Batch batch(32);
  for (std::size_t i = 0; i < 32; ++i) batch.read(file.handle(), memory, kBlock, i * kBlock, i * kBlock);
  for (const ssize_t result : batch.run()) EXPECT_EQ(result, ssize_t{kBlock});
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
  memory.fill(0);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  for (const ssize_t result : batch.run()) EXPECT_EQ(result, ssize_t{kBlock});
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
  EXPECT_EQ(direct.so_far(), (Count{32, 32 * kBlock})) << "the first submission has left the pair untried";
}

TEST_F(DirectBatch, GoesWindowByWindowThroughMappingsThatDoNotLieTogether) {
  if (!contract::MappedMemory::available()) GTEST_SKIP() << "this driver maps no memory";
  constexpr std::size_t kPiece = 2 * kMebibyte;
  contract::MappedMemory memory(2, kPiece);
  const ScratchFile scratch(4 * kPiece);
  const OpenFile file(scratch);
  ASSERT_STREQ(explain(file.handle(), memory.address()).path_name, "p2pdma");
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  CUfileBatchHandle_t batch{};
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 2)), CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> entries(2);
  for (std::size_t i = 0; i < 2; ++i) {
    entries[i].mode = CUFILE_BATCH;
    entries[i].fh = file.handle();
    entries[i].opcode = CUFILE_READ;
    entries[i].u.batch.devPtr_base = memory.address();
    entries[i].u.batch.file_offset = static_cast<off_t>(kPiece + i * kPiece / 2);
    entries[i].u.batch.devPtr_offset = static_cast<off_t>(i * kPiece / 2);
    entries[i].u.batch.size = i == 0 ? kPiece / 2 : kPiece;
  }
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 2, entries.data(), 0)), CU_FILE_SUCCESS);
  std::vector<CUfileIOEvents_t> events(2);
  for (unsigned collected = 0; collected < 2;) {
    unsigned room = 2 - collected;
    ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, room, &room, events.data() + collected, nullptr)), CU_FILE_SUCCESS);
    collected += room;
  }
  cuFileBatchIODestroy(batch);
  EXPECT_TRUE(same_bytes(std::span(scratch.content()).subspan(kPiece, kPiece + kPiece / 2),
                         memory.get(0, kPiece + kPiece / 2)));
  EXPECT_EQ(direct.so_far(), (Count{2, kPiece + kPiece / 2}));
}

}  // namespace
}  // namespace sluice::direct
