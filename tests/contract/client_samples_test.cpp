// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's samples do beyond what other tests hold: memory that grows, small crooked entries beside each other in
// a batch, polling for events.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdint>
#include <vector>

#include "contract/mapped_memory.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

class Samples : public CufileTest {
 protected:
  static CUfileIOParams_t entry(CUfileHandle_t handle, CUfileOpcode_t opcode, void* base, std::size_t size,
                                std::size_t file_offset, std::size_t buffer_offset) {
    CUfileIOParams_t made{};
    made.mode = CUFILE_BATCH;
    made.fh = handle;
    made.opcode = opcode;
    made.u.batch.devPtr_base = base;
    made.u.batch.size = size;
    made.u.batch.file_offset = static_cast<off_t>(file_offset);
    made.u.batch.devPtr_offset = static_cast<off_t>(buffer_offset);
    return made;
  }

  // Submits all, then polls with min_nr 0 until every event is there.
  static void run(std::vector<CUfileIOParams_t>& entries, std::size_t size) {
    CUfileBatchHandle_t batch = nullptr;
    const auto number = static_cast<unsigned>(entries.size());
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, number)), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, number, entries.data(), 0)), CU_FILE_SUCCESS);
    std::vector<CUfileIOEvents_t> events(number);
    for (unsigned found = 0; found < number;) {
      unsigned count = number;
      ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, 0, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
      for (unsigned i = 0; i < count; ++i) {
        EXPECT_EQ(events[i].status, CUFILE_COMPLETE);
        EXPECT_EQ(events[i].ret, size);
      }
      found += count;
      if (count == 0) sched_yield();
    }
    cuFileBatchIODestroy(batch);
  }
};

TEST_F(Samples, EntriesOf4And6144BytesAreReadFromBufferedAndDirectFilesAtOnce) {
  const ScratchFile file(100 * 6144);
  const Fd buffered = file.open(O_RDONLY);
  const Fd direct = file.open(O_RDONLY | O_DIRECT);
  const Handle first(buffered);
  const Handle second(direct);
  for (const std::size_t size : {std::size_t{4}, std::size_t{6144}}) {
    SCOPED_TRACE(size);
    constexpr std::size_t count = 64;
    const Memory memory(usual_memory(), count * size);
    const Registration registration(memory);
    std::vector<CUfileIOParams_t> entries;
    for (std::size_t i = 0; i < count; ++i) {
      const CUfileHandle_t handle = i % 2 == 0 ? first.get() : second.get();
      entries.push_back(entry(handle, CUFILE_READ, memory.address(), size, i * size, i * size));
    }
    run(entries, size);
    EXPECT_TRUE(same_bytes({file.content().data(), count * size}, memory.get()));
  }
}

TEST_F(Samples, EntriesOf6144BytesAreWrittenToABufferedAndADirectFileAtOnce) {
  constexpr std::size_t size = 6144;
  constexpr std::size_t count = 32;
  const ScratchFile one;
  const ScratchFile other;
  const Fd buffered = one.open(O_RDWR);
  const Fd direct = other.open(O_RDWR | O_DIRECT);
  const Handle first(buffered);
  const Handle second(direct);
  const Memory memory(usual_memory(), count * size);
  const Bytes content = random_bytes(count * size, 3);
  memory.put(0, content);
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back(entry(first.get(), CUFILE_WRITE, memory.address(), size, i * size, i * size));
    entries.push_back(entry(second.get(), CUFILE_WRITE, memory.address(), size, i * size, i * size));
  }
  run(entries, size);
  EXPECT_TRUE(same_bytes(content, content_of(one.path())));
  EXPECT_TRUE(same_bytes(content, content_of(other.path())));
}

TEST_F(Samples, MappedMemoryGrowsAndIsRegisteredAgain) {
  if (!MappedMemory::available()) GTEST_SKIP() << "no cuMemCreate here";
  constexpr std::size_t piece = 2 * 1024 * 1024;
  const ScratchFile file(2 * piece);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  MappedMemory memory(1, piece);
  {
    const Registration registration(memory.address(), memory.size());
    EXPECT_EQ(read_file(handle.get(), memory.address(), piece), moved(piece));
  }
  memory.grow();
  {
    const Registration registration(memory.address(), memory.size());
    EXPECT_EQ(read_file(handle.get(), memory.address(), piece, piece, piece), moved(piece));
  }
  EXPECT_TRUE(same_bytes(file.content(), memory.get(0, 2 * piece)));
}

}  // namespace
}  // namespace sluice::contract
