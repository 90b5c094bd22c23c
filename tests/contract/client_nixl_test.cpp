// SPDX-License-Identifier: Apache-2.0
// What NIXL's GDS plugin relies on, played as it does it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "support/calls.h"

namespace sluice::contract::client_nixl_test {
namespace {

using namespace support;

constexpr std::size_t kBatches = 16;
constexpr unsigned kEntries = 128;
constexpr std::size_t kPiece = 4096;

class Nixl : public CufileTest {
 protected:
  static CUfileIOParams_t read_of(CUfileHandle_t handle, void* at, std::size_t size, std::size_t offset) {
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.fh = handle;
    entry.opcode = CUFILE_READ;
    entry.u.batch.devPtr_base = at;  // an interior pointer, with offset 0
    entry.u.batch.file_offset = static_cast<off_t>(offset);
    entry.u.batch.size = size;
    return entry;
  }

  // Asks for as many events as the batch could hold, as often as it takes to get `wanted`.
  static void collect(CUfileBatchHandle_t batch, unsigned wanted) {
    std::vector<CUfileIOEvents_t> events(kEntries);
    for (unsigned found = 0; found < wanted;) {
      unsigned count = kEntries;
      ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, kEntries, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
      ASSERT_GT(count, 0U) << found << " of " << wanted;
      found += count;
      ASSERT_LE(found, wanted);
    }
  }
};

TEST_F(Nixl, SixteenBatchesOf128AreReusedForever) {
  const ScratchFile file(kEntries * kPiece);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kEntries * kPiece);
  const Registration registration(memory);
  std::array<CUfileBatchHandle_t, kBatches> batches{};
  for (CUfileBatchHandle_t& batch : batches) ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, kEntries)), CU_FILE_SUCCESS);
  for (std::size_t round = 0; round < 10 * kBatches; ++round) {
    CUfileBatchHandle_t batch = batches[round % kBatches];
    const auto used = static_cast<unsigned>(round % 5 == 0 ? kEntries : 1 + 7 * round % kEntries);
    std::vector<CUfileIOParams_t> entries;
    for (std::size_t i = 0; i < used; ++i) {
      entries.push_back(read_of(handle.get(), memory.at(i * kPiece), kPiece, i * kPiece));
    }
    memory.fill(0);
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, used, entries.data(), 0)), CU_FILE_SUCCESS) << "round " << round;
    ASSERT_NO_FATAL_FAILURE(collect(batch, used)) << "round " << round;
    ASSERT_TRUE(same_bytes({file.content().data(), used * kPiece}, memory.get(0, used * kPiece))) << round;
  }
  for (CUfileBatchHandle_t batch : batches) cuFileBatchIODestroy(batch);
}

TEST_F(Nixl, ADrainedBatchAnswersAtOnceHoweverManyEventsAreWanted) {
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, kEntries)), CU_FILE_SUCCESS);
  std::vector<CUfileIOEvents_t> events(kEntries);
  unsigned count = kEntries;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, kEntries, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 0U);
  cuFileBatchIODestroy(batch);
}

TEST_F(Nixl, RequestsOf16MiBAtInteriorPointersArriveExactly) {
  constexpr std::size_t piece = std::size_t{16} << 20U;
  const ScratchFile file(2 * piece + 4096);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  for (const MemoryKind kind : {usual_memory(), MemoryKind::plain}) {
    SCOPED_TRACE(name_of(kind));
    const Memory memory(kind, 2 * piece + 4096);
    const Registration registration(memory);
    CUfileBatchHandle_t batch = nullptr;
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, kEntries)), CU_FILE_SUCCESS);
    std::vector<CUfileIOParams_t> entries;
    for (std::size_t at = 0; at < file.content().size(); at += piece) {
      const std::size_t size = std::min(piece, file.content().size() - at);
      entries.push_back(read_of(handle.get(), memory.at(at), size, at));
    }
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 3, entries.data(), 0)), CU_FILE_SUCCESS);
    collect(batch, 3);
    EXPECT_TRUE(same_bytes(file.content(), memory.get()));
    cuFileBatchIODestroy(batch);
  }
}

// The multi-threaded plugin reads errno after every failure, whatever was in it before.
TEST_F(Nixl, EveryFailureSetsErrno) {
  const ScratchFile file(8192);
  const Fd fd = file.open(O_RDONLY);
  const Fd other = file.open(O_RDONLY);
  Fd gone = file.open(O_RDONLY);
  const Handle handle(fd);
  const Handle closed(gone);
  Handle stale(other);
  stale.deregister();
  gone.reset();
  const Memory memory(usual_memory(), 8192);
  constexpr int foreign = EDOM;
  const std::vector<std::pair<std::function<ssize_t()>, int>> failures{
      {[&] { return cuFileRead(nullptr, memory.address(), 4096, 0, 0); }, EINVAL},
      {[&] { return cuFileRead(handle.get(), nullptr, 4096, 0, 0); }, EINVAL},
      {[&] { return cuFileRead(handle.get(), memory.address(), 4096, -1, 0); }, CU_FILE_INVALID_VALUE},
      {[&] { return cuFileWrite(handle.get(), memory.address(), 4096, 0, 0); }, EIO},
      {[&] { return cuFileRead(stale.get(), memory.address(), 4096, 0, 0); }, CU_FILE_HANDLE_NOT_REGISTERED},
      {[&] { return cuFileRead(closed.get(), memory.address(), 4096, 0, 0); }, EBADF},
  };
  for (const auto& [call, error] : failures) {
    SCOPED_TRACE(error);
    errno = foreign;
    const ssize_t count = call();
    const int found = errno;
    EXPECT_EQ(count, -1);
    EXPECT_EQ(found, error);
  }
}

}  // namespace
}  // namespace sluice::contract::client_nixl_test
