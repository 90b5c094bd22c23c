// SPDX-License-Identifier: Apache-2.0
// Entry points that fill memory with a value.
#include "answer.h"
#include "copy.h"
#include "entry_points.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

cuda::Result set(const char* name, Ptr to, Pattern pattern, std::size_t count, cuda::Stream stream, CopyCall call) {
  // A stream says which context is meant; only the default streams need a current one.
  return answer(name, [&] { fill(use_stream(stream), to, pattern, count, call); });
}

}  // namespace

cuda::Result cuMemsetD8_v2(Ptr to, unsigned char value, std::size_t count) {
  return set(__func__, to, {value, 1}, count, default_stream, CopyCall::synchronous);
}

cuda::Result cuMemsetD8_v2_ptds(Ptr to, unsigned char value, std::size_t count) {
  return set("cuMemsetD8", to, {value, 1}, count, per_thread_stream, CopyCall::synchronous);
}

cuda::Result cuMemsetD8Async(Ptr to, unsigned char value, std::size_t count, cuda::Stream stream) {
  return set(__func__, to, {value, 1}, count, stream, CopyCall::asynchronous);
}

cuda::Result cuMemsetD16_v2(Ptr to, unsigned short value, std::size_t count) {
  return set(__func__, to, {value, 2}, count, default_stream, CopyCall::synchronous);
}

cuda::Result cuMemsetD16_v2_ptds(Ptr to, unsigned short value, std::size_t count) {
  return set("cuMemsetD16", to, {value, 2}, count, per_thread_stream, CopyCall::synchronous);
}

cuda::Result cuMemsetD16Async(Ptr to, unsigned short value, std::size_t count, cuda::Stream stream) {
  return set(__func__, to, {value, 2}, count, stream, CopyCall::asynchronous);
}

cuda::Result cuMemsetD32_v2(Ptr to, unsigned value, std::size_t count) {
  return set(__func__, to, {value, 4}, count, default_stream, CopyCall::synchronous);
}

cuda::Result cuMemsetD32_v2_ptds(Ptr to, unsigned value, std::size_t count) {
  return set("cuMemsetD32", to, {value, 4}, count, per_thread_stream, CopyCall::synchronous);
}

cuda::Result cuMemsetD32Async(Ptr to, unsigned value, std::size_t count, cuda::Stream stream) {
  return set(__func__, to, {value, 4}, count, stream, CopyCall::asynchronous);
}

}  // namespace sluice::softgpu
