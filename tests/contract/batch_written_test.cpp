// SPDX-License-Identifier: Apache-2.0
// Writes of a batch that go together: device memory, files of both kinds. Every byte is where it belongs, none beside
// it, whatever wrote it and however the entries lie; and the counters tell what carried them.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "sluice.h"
#include "support/batch.h"
#include "support/busy_device.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMiB = std::size_t{1} << 20;

class BatchWritten : public DeviceTest {
 protected:
  // Only where entries do go together is there something to count.
  static bool counts() {
    const auto says = [](const char* name, const char* value) {
      const char* const given = std::getenv(name);
      return given != nullptr && std::string(given) == value;
    };
    return entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters") != nullptr &&
           std::getenv("SLUICE_SOFTGPU_FAIL") == nullptr && !says("SLUICE_MODE", "plain") &&
           !says("SLUICE_VERIFY", "1");
  }
  static std::uint64_t carried() {
    sluice_carrier_counts_t now{};
    entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters")(&now);
    return now.many_copies + now.copy_engine;
  }
};

TEST_F(BatchWritten, SmallWritesShareCopies) {
  if (!counts()) GTEST_SKIP() << "nothing goes together in this run";
  constexpr std::size_t kEntries = 128;
  const ScratchFile file(kEntries * kPage);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 2 * kEntries * kPage);
  const Bytes bytes = random_bytes(2 * kEntries * kPage, 31);
  memory.put(0, bytes);
  Batch batch(kEntries);
  Bytes expected(kEntries * kPage);
  for (std::size_t i = 0; i < kEntries; ++i) {
    batch.write(handle.get(), memory, kPage, (kEntries - 1 - i) * kPage, 2 * i * kPage);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(2 * i * kPage), kPage,
                expected.begin() + static_cast<std::ptrdiff_t>((kEntries - 1 - i) * kPage));
  }
  const std::uint64_t before = carried();
  for (const ssize_t result : batch.run()) EXPECT_EQ(result, ssize_t{kPage});
  EXPECT_EQ(carried(), before + kEntries);
  EXPECT_TRUE(same_bytes(expected, content_of(file.path())));
}

TEST_F(BatchWritten, LargeWritesGoRoundTheStagingMemory) {
  constexpr std::size_t kEntries = 32;
  const ScratchFile file(kPage);
  const Memory memory(MemoryKind::device, kEntries * kMiB);
  const Bytes bytes = random_bytes(kEntries * kMiB, 32);
  memory.put(0, bytes);
  for (const int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
    const Fd fd = file.open(flags);
    const Handle handle(fd);
    ASSERT_EQ(ftruncate(fd.get(), 0), 0);
    Batch batch(kEntries);
    for (std::size_t i = 0; i < kEntries; ++i) batch.write(handle.get(), memory, kMiB, i * kMiB, i * kMiB);
    for (const ssize_t result : batch.run()) EXPECT_EQ(result, ssize_t{kMiB});
    EXPECT_TRUE(same_bytes(bytes, content_of(file.path())));
  }
}

TEST_F(BatchWritten, EveryByteIsRightWhereverThePiecesLie) {
  constexpr std::size_t kFile = 2 * kMiB;
  constexpr std::size_t kFiles = 3;
  const Memory memory(MemoryKind::device, 4 * kMiB);
  Random random(run_seed());
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    const Bytes bytes = random_bytes(memory.size(), random.below(1 << 30));
    memory.put(0, bytes);
    std::vector<std::unique_ptr<ScratchFile>> files;
    std::vector<Fd> descriptors;
    std::vector<std::unique_ptr<Handle>> handles;
    std::vector<Bytes> expected;
    std::vector<std::size_t> ends(kFiles, 0);
    for (std::size_t i = 0; i < kFiles; ++i) {
      files.push_back(std::make_unique<ScratchFile>(kFile / 2));
      descriptors.push_back(files[i]->open(i == 0 ? O_RDWR | O_DIRECT : O_RDWR));
      handles.push_back(std::make_unique<Handle>(descriptors[i]));
      expected.push_back(files[i]->content());
    }
    const std::size_t longest = std::array<std::size_t, 4>{40, 5000, 30000, 900000}[random.below(4)];
    Batch batch(128);
    std::vector<std::size_t> sizes;
    while (sizes.size() < 128) {
      const std::size_t which = random.below(kFiles);
      const bool blocks = which == 0 && random.below(4) != 0;
      std::size_t size = 1 + random.below(longest);
      std::size_t at = ends[which] + (random.below(2) == 0 ? 0 : random.below(3000));
      std::size_t from = random.below(memory.size() - size);
      if (blocks) {
        size = (size + kPage - 1) / kPage * kPage;
        at = (at + kPage - 1) / kPage * kPage;
        from = from / kPage * kPage;
      }
      if (at + size > kFile || from + size > memory.size()) break;
      batch.write(handles[which]->get(), memory, size, at, from);
      sizes.push_back(size);
      Bytes& content = expected[which];
      content.resize(std::max(content.size(), at + size), 0);
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), size,
                  content.begin() + static_cast<std::ptrdiff_t>(at));
      ends[which] = at + size;
    }
    if (sizes.empty()) continue;
    const std::vector<ssize_t> results = batch.run();
    for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(results[i], static_cast<ssize_t>(sizes[i])) << i;
    for (std::size_t i = 0; i < kFiles; ++i) EXPECT_TRUE(same_bytes(expected[i], content_of(files[i]->path()))) << i;
    if (HasFailure()) return;
  }
}

// An event comes after the bytes are in the file: a reader that has it finds them there.
TEST_F(BatchWritten, IsInTheFileWhenItsEventComes) {
  constexpr std::size_t kEntries = 64;
  constexpr std::size_t kSize = 3 * kPage;
  const ScratchFile file(kEntries * kSize);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kEntries * kSize);
  CUfileBatchHandle_t batch{};
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, kEntries)), CU_FILE_SUCCESS);
  for (std::uint64_t round = 0; round < 20; ++round) {
    const Bytes bytes = random_bytes(kEntries * kSize, round);
    memory.put(0, bytes);
    std::vector<CUfileIOParams_t> entries(kEntries);
    for (std::size_t i = 0; i < kEntries; ++i) {
      entries[i].mode = CUFILE_BATCH;
      entries[i].fh = handle.get();
      entries[i].opcode = CUFILE_WRITE;
      entries[i].cookie = reinterpret_cast<void*>(i);
      entries[i].u.batch.devPtr_base = memory.at(i * kSize);
      entries[i].u.batch.file_offset = static_cast<off_t>(i * kSize);
      entries[i].u.batch.size = kSize;
    }
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, kEntries, entries.data(), 0)), CU_FILE_SUCCESS);
    std::array<CUfileIOEvents_t, kEntries> events;
    for (unsigned found = 0; found < kEntries;) {
      unsigned room = kEntries;
      ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, 1, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
      for (unsigned i = 0; i < room; ++i) {
        const auto number = reinterpret_cast<std::size_t>(events[i].cookie);
        ASSERT_EQ(events[i].ret, kSize);
        const Bytes now = plain_read(fd.get(), static_cast<off_t>(number * kSize), kSize);
        ASSERT_TRUE(same_bytes(std::span(bytes).subspan(number * kSize, kSize), now)) << number;
      }
      found += room;
    }
  }
  cuFileBatchIODestroy(batch);
}

TEST_F(BatchWritten, WaitsForNoKernelOfTheProgram) {
  constexpr std::size_t kEntries = 32;
  const ScratchFile file(kEntries * kPage);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kEntries * kPage);
  const Bytes bytes = random_bytes(kEntries * kPage, 33);
  memory.put(0, bytes);
  Batch batch(kEntries);
  for (std::size_t i = 0; i < kEntries; ++i) batch.write(handle.get(), memory, kPage, i * kPage, i * kPage);
  std::string why_not;
  const auto busy = BusyDevice::hold(&why_not);
  if (busy == nullptr) GTEST_SKIP() << why_not;
  for (const ssize_t result : batch.run()) EXPECT_EQ(result, ssize_t{kPage});
  busy->let_go();
  EXPECT_TRUE(same_bytes(bytes, content_of(file.path())));
}

}  // namespace
}  // namespace sluice::contract
