// SPDX-License-Identifier: Apache-2.0
// Events.
#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

class Events : public Driver {};

TEST_F(Events, ThatWereNeverRecordedAreDone) {
  const Event event;
  EXPECT_EQ(cuda::success, cuEventQuery(event.get()));
  EXPECT_EQ(cuda::success, cuEventSynchronize(event.get()));
}

TEST_F(Events, AreDoneWhenTheWorkBeforeThemIs) {
  const Event event;
  const Stream stream;
  Gate gate(stream.get());
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), stream.get()));
  EXPECT_EQ(cuda::error_not_ready, cuEventQuery(event.get()));
  gate.open();
  EXPECT_EQ(cuda::success, cuEventSynchronize(event.get()));
  EXPECT_EQ(cuda::success, cuEventQuery(event.get()));
}

TEST_F(Events, DoNotCareForWorkBehindThem) {
  const Event event;
  const Stream stream;
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), stream.get()));
  const Gate gate(stream.get());
  EXPECT_EQ(cuda::success, cuEventSynchronize(event.get()));
}

TEST_F(Events, RecordedAgainMeanTheLaterPoint) {
  const Event event;
  const Stream stream;
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), stream.get()));
  ASSERT_EQ(cuda::success, cuEventSynchronize(event.get()));
  Gate gate(stream.get());
  ASSERT_EQ(cuda::success, cuEventRecord(event.get(), stream.get()));
  EXPECT_EQ(cuda::error_not_ready, cuEventQuery(event.get()));
  gate.open();
  EXPECT_EQ(cuda::success, cuEventSynchronize(event.get()));
}

TEST_F(Events, MeasureTheTimeBetweenThem) {
  const Event start;
  const Event end;
  const Stream stream;
  ASSERT_EQ(cuda::success, cuEventRecord(start.get(), stream.get()));
  ASSERT_EQ(cuda::success, cuEventRecord(end.get(), stream.get()));
  ASSERT_EQ(cuda::success, cuEventSynchronize(end.get()));
  float milliseconds = -1;
  ASSERT_EQ(cuda::success, cuEventElapsedTime(&milliseconds, start.get(), end.get()));
  EXPECT_GE(milliseconds, 0.0F);
}

TEST_F(Events, ThatWereNeverRecordedHaveNoTime) {
  const Event start;
  const Event end;
  float milliseconds = 0;
  EXPECT_EQ(cuda::error_invalid_handle, cuEventElapsedTime(&milliseconds, start.get(), end.get()));
}

TEST_F(Events, WithoutTimingHaveNoTime) {
  const Event start(cuda::event_disable_timing);
  const Event end(cuda::event_disable_timing);
  ASSERT_EQ(cuda::success, cuEventRecord(start.get(), nullptr));
  ASSERT_EQ(cuda::success, cuEventRecord(end.get(), nullptr));
  ASSERT_EQ(cuda::success, cuEventSynchronize(end.get()));
  float milliseconds = 0;
  EXPECT_EQ(cuda::error_invalid_handle, cuEventElapsedTime(&milliseconds, start.get(), end.get()));
}

TEST_F(Events, ThatAreNotDoneHaveNoTimeYet) {
  const Event start;
  const Event end;
  const Stream stream;
  ASSERT_EQ(cuda::success, cuEventRecord(start.get(), stream.get()));
  Gate gate(stream.get());
  ASSERT_EQ(cuda::success, cuEventRecord(end.get(), stream.get()));
  float milliseconds = 0;
  EXPECT_EQ(cuda::error_not_ready, cuEventElapsedTime(&milliseconds, start.get(), end.get()));
}

TEST_F(Events, UnknownFlagsAreInvalid) {
  cuda::Event event = nullptr;
  EXPECT_EQ(cuda::error_invalid_value, cuEventCreate(&event, 0x100));
  EXPECT_EQ(cuda::error_invalid_value, cuEventCreate(&event, cuda::event_interprocess))
      << "an event for several processes must not have timing";
}

TEST_F(Events, OfAnotherContextCannotBeRecorded) {
  const Stream stream;
  cuda::Context made = nullptr;
  ASSERT_EQ(cuda::success, cuCtxCreate_v2(&made, 0, 0));
  cuda::Event foreign = nullptr;
  ASSERT_EQ(cuda::success, cuEventCreate(&foreign, 0));
  ASSERT_EQ(cuda::success, cuCtxPopCurrent_v2(nullptr));
  EXPECT_EQ(cuda::error_invalid_handle, cuEventRecord(foreign, stream.get()));
  EXPECT_EQ(cuda::success, cuCtxDestroy_v2(made));
}

TEST_F(Events, MayBeDestroyedBeforeTheyAreDone) {
  const Stream stream;
  Gate gate(stream.get());
  cuda::Event event = nullptr;
  ASSERT_EQ(cuda::success, cuEventCreate(&event, 0));
  ASSERT_EQ(cuda::success, cuEventRecord(event, stream.get()));
  EXPECT_EQ(cuda::success, cuEventDestroy_v2(event));
}

TEST_F(Events, CanBeRecordedWithFlags) {
  const Event event;
  const Stream stream;
  EXPECT_EQ(cuda::success, cuEventRecordWithFlags(event.get(), stream.get(), 0));
  EXPECT_EQ(cuda::success, cuEventSynchronize(event.get()));
}

}  // namespace
}  // namespace sluice::gpu_suite
