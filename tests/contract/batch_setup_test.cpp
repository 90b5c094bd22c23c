// SPDX-License-Identifier: Apache-2.0
// Batches: setting up, what a submission refuses, asking for events, cancelling and destroying.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kSize = 65536;

CUfileIOParams_t entry_of(CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset = 0,
                          off_t buffer_offset = 0) {
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.fh = handle;
  entry.opcode = CUFILE_READ;
  entry.u.batch.devPtr_base = base;
  entry.u.batch.file_offset = file_offset;
  entry.u.batch.devPtr_offset = buffer_offset;
  entry.u.batch.size = size;
  return entry;
}

// As a C program may: a number that is no value of the enumeration.
template <typename Enum>
void put_unknown(Enum& where) {
  static_assert(sizeof where == sizeof(int));
  const int unknown = 7;
  std::memcpy(&where, &unknown, sizeof unknown);
}

class BatchSetUp : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    ASSERT_EQ(register_fd(fd_.get(), &handle_), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch_, 4)), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    cuFileBatchIODestroy(batch_);
    cuFileHandleDeregister(handle_);
    CufileTest::TearDown();
  }

  int submit(std::vector<CUfileIOParams_t> entries) {
    return code(cuFileBatchIOSubmit(batch_, static_cast<unsigned>(entries.size()), entries.data(), 0));
  }
  // The events that are there now, without waiting.
  unsigned events_now() {
    std::array<CUfileIOEvents_t, 8> events{};
    unsigned count = 8;
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, 0, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
    return count;
  }
  CUfileIOParams_t good_entry() const { return entry_of(handle_, memory_.address(), 4096); }
  // Submits the entry beside a good one; neither may be started.
  void expect_refused(const CUfileIOParams_t& bad) {
    EXPECT_EQ(submit({good_entry(), bad}), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
    EXPECT_EQ(events_now(), 0U);
    EXPECT_TRUE(all_bytes(1, memory_.get())) << "the good entry was started";
  }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR);
  const Memory memory_{usual_memory(), kSize};
  CUfileHandle_t handle_ = nullptr;
  CUfileBatchHandle_t batch_ = nullptr;
};

TEST_F(BatchSetUp, TakesOneEntryUpToTheConfiguredNumber) {
  for (const unsigned count : {1U, 128U}) {
    CUfileBatchHandle_t batch = nullptr;
    EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, count)), CU_FILE_SUCCESS) << count;
    cuFileBatchIODestroy(batch);
  }
  for (const unsigned count : {0U, 129U, 257U, UINT32_MAX}) {
    if (count > 0 && count < 65536 && reported_version() >= 1180) continue;  // these have no limit
    CUfileBatchHandle_t batch = nullptr;
    EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, count)), CU_FILE_INVALID_VALUE) << count;
  }
}

TEST_F(BatchSetUp, OpensTheDriver) {
  close_driver_fully();
  CUfileBatchHandle_t batch = nullptr;
  EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, 0)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 0) << "by a call that is refused";
  EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, 4)), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 1);
  cuFileBatchIODestroy(batch);
}

TEST_F(BatchSetUp, NeedsAPlaceForTheHandle) {
  EXPECT_EQ(code(cuFileBatchIOSetUp(nullptr, 1)), CU_FILE_INVALID_VALUE);
}

TEST_F(BatchSetUp, ManyBatchesAtATimeWork) {
  std::set<CUfileBatchHandle_t> batches;
  for (int i = 0; i < 16; ++i) {
    CUfileBatchHandle_t batch = nullptr;
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 128)), CU_FILE_SUCCESS);
    EXPECT_TRUE(batches.insert(batch).second);
  }
  for (const CUfileBatchHandle_t batch : batches) cuFileBatchIODestroy(batch);
}

TEST_F(BatchSetUp, ASubmissionWithABadEntryStartsNothing) {
  memory_.fill(1);
  const Fd reader = file_.open(O_RDONLY);
  const Handle read_only(reader);

  CUfileIOParams_t bad_mode = good_entry();
  put_unknown(bad_mode.mode);
  CUfileIOParams_t no_handle = good_entry();
  no_handle.fh = nullptr;
  CUfileIOParams_t garbage_handle = good_entry();
  garbage_handle.fh = reinterpret_cast<CUfileHandle_t>(std::uintptr_t{0x123456789});
  CUfileIOParams_t negative_offset = good_entry();
  negative_offset.u.batch.file_offset = -1;
  CUfileIOParams_t write_to_reader = good_entry();
  write_to_reader.fh = read_only.get();
  write_to_reader.opcode = CUFILE_WRITE;

  int number = 0;
  for (const CUfileIOParams_t& bad : {bad_mode, no_handle, garbage_handle, negative_offset, write_to_reader}) {
    SCOPED_TRACE(number++);
    expect_refused(bad);
  }
}

TEST_F(BatchSetUp, ASubmissionWithAnUnknownOpcodeStartsNothing) {
  memory_.fill(1);
  CUfileIOParams_t bad_opcode = good_entry();
  put_unknown(bad_opcode.opcode);
  expect_refused(bad_opcode);
}

TEST_F(BatchSetUp, ASubmissionWithANullPointerStartsNothing) {
  memory_.fill(1);
  CUfileIOParams_t no_buffer = good_entry();
  no_buffer.u.batch.devPtr_base = nullptr;
  expect_refused(no_buffer);
}

TEST_F(BatchSetUp, ASubmissionThatTheSimpleCallsWouldRefuseStartsNothing) {
  memory_.fill(1);
  const Fd writer = file_.open(O_WRONLY);
  const Handle write_only(writer);
  CUfileIOParams_t negative_buffer_offset = good_entry();
  negative_buffer_offset.u.batch.devPtr_offset = -1;
  CUfileIOParams_t read_from_writer = good_entry();
  read_from_writer.fh = write_only.get();
  expect_refused(negative_buffer_offset);
  expect_refused(read_from_writer);
}

TEST_F(BatchSetUp, ASubmissionThatLeavesARegisteredRangeStartsNothing) {
  memory_.fill(1);
  const Memory of_whole_pages(usual_memory(), std::size_t{2} << 20);  // a driver begins these on a page
  const Registration registration(of_whole_pages.address(), 8192);
  CUfileIOParams_t too_large = entry_of(handle_, of_whole_pages.address(), 8193);
  CUfileIOParams_t behind = entry_of(handle_, of_whole_pages.address(), 4096);
  behind.u.batch.devPtr_offset = 8192;
  expect_refused(too_large);
  expect_refused(behind);
}

// One entry of a pointer is held against what was registered there.
TEST_F(BatchSetUp, ALaterEntryOfAPointerMayLeaveWhatIsRegistered) {
  memory_.fill(1);
  const Registration registration(memory_.address(), 8192);
  CUfileIOParams_t ragged = good_entry();
  ragged.u.batch.devPtr_offset = 8192;
  ragged.u.batch.size = 100;
  ASSERT_EQ(submit({good_entry(), ragged}), CU_FILE_SUCCESS);
  std::array<CUfileIOEvents_t, 4> events{};
  unsigned count = 4;
  ASSERT_EQ(code(cuFileBatchIOGetStatus(batch_, 2, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  ASSERT_EQ(count, 2U);
  EXPECT_EQ(events[0].ret + events[1].ret, 4196U);
  EXPECT_FALSE(all_bytes(1, memory_.get(8192, 100)));
  EXPECT_TRUE(all_bytes(1, memory_.get(8292, 100)));
}

TEST_F(BatchSetUp, AskingForNoEventsIsRefused) {
  std::array<CUfileIOEvents_t, 4> events{};
  unsigned count = 0;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, 0, &count, events.data(), nullptr)), CU_FILE_INVALID_VALUE);
}

TEST_F(BatchSetUp, ASubmissionMayHaveFlags) {
  for (const unsigned flags : {1U, 0xffffffffU}) {
    CUfileIOParams_t one = good_entry();
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch_, 1, &one, flags)), CU_FILE_SUCCESS) << flags;
    std::array<CUfileIOEvents_t, 4> events{};
    unsigned count = 4;
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, 1, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
    ASSERT_EQ(count, 1U);
    EXPECT_EQ(events[0].status, CUFILE_COMPLETE);
  }
}

TEST_F(BatchSetUp, ASubmissionNeedsEntriesAndRoomForThem) {
  const std::vector<CUfileIOParams_t> five(5, good_entry());
  CUfileIOParams_t one = good_entry();
  EXPECT_EQ(submit(five), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(code(cuFileBatchIOSubmit(batch_, 0, &one, 0)), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(code(cuFileBatchIOSubmit(batch_, 1, nullptr, 0)), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(code(cuFileBatchIOSubmit(nullptr, 1, &one, 0)), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(events_now(), 0U);
}

TEST_F(BatchSetUp, RoomIsTakenUntilTheEventsAreFetched) {
  EXPECT_EQ(submit({good_entry(), good_entry(), good_entry()}), CU_FILE_SUCCESS);
  EXPECT_EQ(submit({good_entry(), good_entry()}), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(submit({good_entry()}), CU_FILE_SUCCESS);
  std::array<CUfileIOEvents_t, 4> events{};
  unsigned count = 4;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, 4, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 4U);
  EXPECT_EQ(submit({good_entry(), good_entry(), good_entry(), good_entry()}), CU_FILE_SUCCESS);
}

TEST_F(BatchSetUp, AskingForEventsBeforeASubmissionFindsNone) {
  EXPECT_EQ(events_now(), 0U);
}

TEST_F(BatchSetUp, AskingForEventsNeverHangsWhereNoneCanCome) {
  std::array<CUfileIOEvents_t, 4> events{};
  for (const unsigned least : {0U, 1U, 4U}) {
    unsigned count = 4;
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, least, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
    EXPECT_EQ(count, 0U);
  }
  ASSERT_EQ(submit({good_entry()}), CU_FILE_SUCCESS);
  unsigned count = 4;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, 4, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 1U) << "more were asked for than are in flight";
}

TEST_F(BatchSetUp, AskingForMoreEventsThanTheBatchHoldsIsRefused) {
  std::array<CUfileIOEvents_t, 129> events{};
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 2)), CU_FILE_SUCCESS);
  unsigned count = 129;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 3, &count, events.data(), nullptr)), CU_FILE_INVALID_VALUE);
  count = 129;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 2, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 0U);
  cuFileBatchIODestroy(batch);
}

TEST_F(BatchSetUp, AskingForEventsNeedsRoomForThem) {
  std::array<CUfileIOEvents_t, 4> events{};
  unsigned count = 4;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, 5, &count, events.data(), nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, 0, nullptr, events.data(), nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, 0, &count, nullptr, nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileBatchIOGetStatus(nullptr, 0, &count, events.data(), nullptr)),
            CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
  EXPECT_EQ(code(cuFileBatchIOGetStatus(nullptr, 5, &count, events.data(), nullptr)), CU_FILE_INVALID_VALUE);
  count = 0;
  for (const auto batch : {batch_, CUfileBatchHandle_t{nullptr}}) {
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 0, &count, events.data(), nullptr)), CU_FILE_INVALID_VALUE);
  }
}

TEST_F(BatchSetUp, CancellingWhatIsNoBatchIsIgnored) {
  EXPECT_EQ(code(cuFileBatchIOCancel(nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBatchIOCancel(reinterpret_cast<CUfileBatchHandle_t>(std::uintptr_t{0x123456789}))),
            CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
}

TEST_F(BatchSetUp, DestroyingNothingOrEntriesInFlightReturns) {
  cuFileBatchIODestroy(nullptr);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 4)), CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> entries(4, good_entry());
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 4, entries.data(), 0)), CU_FILE_SUCCESS);
  cuFileBatchIODestroy(batch);
}

TEST_F(BatchSetUp, ADestroyedBatchIsNoBatchAnyMore) {
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 4)), CU_FILE_SUCCESS);
  cuFileBatchIODestroy(batch);
  CUfileIOParams_t one = good_entry();
  std::array<CUfileIOEvents_t, 4> events{};
  unsigned count = 4;
  EXPECT_EQ(code(cuFileBatchIOSubmit(batch, 1, &one, 0)), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 0, &count, events.data(), nullptr)),
            CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
  EXPECT_EQ(code(cuFileBatchIOCancel(batch)), CU_FILE_SUCCESS);
  cuFileBatchIODestroy(batch);
  cuFileBatchIODestroy(nullptr);
}

TEST_F(BatchSetUp, TheConfiguredNumberOfEntriesIsTheLimit) {
  close_driver_fully();
  ASSERT_EQ(code(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 16)), CU_FILE_SUCCESS);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  CUfileBatchHandle_t batch = nullptr;
  EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, 17)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, 16)), CU_FILE_SUCCESS);
  cuFileBatchIODestroy(batch);
  close_driver_fully();
  cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 128);
}

}  // namespace
}  // namespace sluice::contract
