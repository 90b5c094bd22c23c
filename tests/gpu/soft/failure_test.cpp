// SPDX-License-Identifier: Apache-2.0
// Failures on request: SLUICE_SOFTGPU_FAIL.
#include "scenario.h"

namespace sluice::gpu_suite {
namespace {

Verdict the_second_allocation_fails() {
  Ptr pointer = 0;
  AND_THAT(cuMemAlloc_v2(&pointer, 64) == cuda::success);
  AND_THAT(cuMemAlloc_v2(&pointer, 64) == cuda::error_out_of_memory);
  AND_THAT(cuMemAlloc_v2(&pointer, 64) == cuda::success);
  return "";
}

TEST(Failures, HitTheNthCall) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "cuMemAlloc:2:2"}}, the_second_allocation_fails);
}

TEST(Failures, AreNamedWithOrWithoutTheVersionOfTheCall) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "cuMemAlloc_v2:2:2"}}, the_second_allocation_fails);
}

Verdict all_from_the_second_fail() {
  AND_THAT(cuCtxSynchronize() == cuda::success);
  AND_THAT(cuCtxSynchronize() == cuda::error_unknown);
  AND_THAT(cuCtxSynchronize() == cuda::error_unknown);
  return "";
}

TEST(Failures, CanGoOnFromThere) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "cuCtxSynchronize:2+"}}, all_from_the_second_fail);
}

Verdict two_calls_fail() {
  Ptr pointer = 0;
  cuda::Stream stream = nullptr;
  AND_THAT(cuMemAlloc_v2(&pointer, 64) == cuda::error_out_of_memory);
  AND_THAT(cuStreamCreate(&stream, 0) == cuda::error_not_supported);
  AND_THAT(cuStreamCreate(&stream, 0) == cuda::success);
  return "";
}

TEST(Failures, CanBeSeveral) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "cuMemAlloc:1:2,cuStreamCreate:1:801"}}, two_calls_fail);
}

Verdict the_context_stays_broken() {
  Ptr pointer = 0;
  AND_THAT(cuMemAlloc_v2(&pointer, 64) == cuda::success);
  AND_THAT(cuCtxSynchronize() == cuda::error_illegal_address);
  AND_THAT(cuCtxSynchronize() == cuda::error_illegal_address);
  AND_THAT(cuMemAlloc_v2(&pointer, 64) == cuda::error_illegal_address);
  cuda::Stream stream = nullptr;
  AND_THAT(cuStreamCreate(&stream, 0) == cuda::error_illegal_address);
  AND_THAT(cuMemsetD8_v2(pointer, 0, 64) == cuda::error_illegal_address);
  return "";
}

TEST(Failures, ThatAreStickyStay) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "cuCtxSynchronize:1:700"}}, the_context_stays_broken);
}

Verdict a_reset_mends_it() {
  AND_THAT(cuCtxSynchronize() == cuda::error_illegal_address);
  AND_THAT(cuDevicePrimaryCtxReset_v2(0) == cuda::success);
  cuda::Context context = nullptr;
  AND_THAT(cuDevicePrimaryCtxRetain(&context, 0) == cuda::success);
  AND_THAT(cuCtxSetCurrent(context) == cuda::success);
  Ptr pointer = 0;
  AND_THAT(cuMemAlloc_v2(&pointer, 64) == cuda::success);
  return "";
}

TEST(Failures, ThatAreStickyEndWithTheContext) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "cuCtxSynchronize:1:700"}}, a_reset_mends_it);
}

Verdict nothing_fails() {
  Ptr pointer = 0;
  for (int call = 0; call < 10; ++call) AND_THAT(cuMemAlloc_v2(&pointer, 64) == cuda::success);
  return "";
}

TEST(Failures, ThatCannotBeReadAreNone) {
  for (const char* text :
       {"cuMemAlloc", "cuMemAlloc:", "cuMemAlloc:0", "cuMemAlloc:x:2", "cuMemAlloc:1:x", ":1:2", ","}) {
    SCOPED_TRACE(text);
    EXPECT_HOLDS(Knobs{{"SLUICE_SOFTGPU_FAIL", text}}, nothing_fails);
  }
}

}  // namespace
}  // namespace sluice::gpu_suite
