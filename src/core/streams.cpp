// Stream order kept by waiting.
#include "core/streams.h"

#include "base/failure.h"
#include "gpu/driver.h"
#include "gpu/memory.h"

namespace sluice::core {

using base::Failure;

namespace {
constexpr unsigned all_stream_flags = CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET |
                                      CU_FILE_STREAM_FIXED_FILE_SIZE | CU_FILE_STREAM_PAGE_ALIGNED_INPUTS;
}  // namespace

void Streams::add(cuda::Stream stream, unsigned flags) {
  if ((flags & ~all_stream_flags) != 0) {
    throw Failure(CU_FILE_INVALID_VALUE, "unknown stream flags " + std::to_string(flags) + ": 0 to 15 are defined");
  }
  gpu::attach_driver();
  const std::lock_guard lock(mutex_);
  if (!flags_by_number_.emplace(gpu::stream_number(stream), flags).second) {
    throw Failure(CU_FILE_INVALID_VALUE, "this stream is registered already");
  }
}

void Streams::remove(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  if (flags_by_number_.erase(gpu::stream_number(stream)) == 0) {
    throw Failure(CU_FILE_INVALID_VALUE, "this stream is not registered");
  }
}

void Streams::clear() {
  const std::lock_guard lock(mutex_);
  flags_by_number_.clear();
}

void Streams::after_fork(bool in_child) {
  if (in_child) flags_by_number_.clear();
  mutex_.unlock();
}

void transfer_on_stream(Driver& driver, cuda::Stream stream, const LateCall& call) {
  const auto file = driver.files().pin(call.handle);
  if (!file) {
    throw Failure(driver.files().standing(call.handle) == Standing::retired ? CU_FILE_HANDLE_NOT_REGISTERED
                                                                            : CU_FILE_INVALID_VALUE,
                  "this file handle is not registered");
  }
  if (gpu::attach_driver() != nullptr) {
    const int waited = gpu::wait_for_stream(stream);
    if (waited == cuda::error_stream_capture_unsupported) {
      throw Failure(
          CU_FILE_ASYNC_NOT_SUPPORTED,
          "the stream is being captured into a graph, which transfers cannot be part of; the capture is intact");
    }
    if (waited != cuda::success) {
      throw Failure(CU_FILE_CUDA_DRIVER_ERROR, "waiting for the stream failed: " + gpu::error_name(waited), waited);
    }
  }
  // The stream is where the call stands in it: what earlier work wrote into the parameters is there.
  const Call now{call.direction, call.handle, call.base, *call.size, *call.file_offset, *call.buffer_offset};
  *call.moved = static_cast<ssize_t>(transfer(driver, *file, now).value());
}

}  // namespace sluice::core
