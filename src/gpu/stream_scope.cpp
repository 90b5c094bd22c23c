// SPDX-License-Identifier: Apache-2.0
// Which context that is: the stream tells, or the thread, or the memory.
#include "gpu/stream_scope.h"

namespace sluice::gpu {

StreamScope::StreamScope(cuda::Stream stream, cuda::Context otherwise) noexcept : driver_(gpu::driver()) {
  if (driver_ == nullptr) {
    status_ = cuda::error_not_initialized;
    return;
  }
  mode_changed_ = driver_->exchange_capture_mode(&capture_mode_) == cuda::success;
  constexpr std::uintptr_t last_default_stream = 2;
  if (reinterpret_cast<std::uintptr_t>(stream) > last_default_stream) {
    status_ = driver_->stream_get_ctx(stream, &context_);
  } else {
    driver_->ctx_get_current(&context_);
    if (context_ == nullptr) context_ = otherwise;
    if (context_ == nullptr) status_ = cuda::error_invalid_context;
  }
  enter();
}

StreamScope::StreamScope(cuda::Context context) noexcept : driver_(gpu::driver()), context_(context) {
  if (driver_ == nullptr) {
    status_ = cuda::error_not_initialized;
    return;
  }
  mode_changed_ = driver_->exchange_capture_mode(&capture_mode_) == cuda::success;
  enter();
}

void StreamScope::enter() noexcept {
  if (status_ != cuda::success) return;
  cuda::Context current = nullptr;
  driver_->ctx_get_current(&current);
  if (context_ != current) {
    status_ = driver_->ctx_push(context_);
    pushed_ = status_ == cuda::success;
  }
  // A stream that is known by another number than its context's would not be found again.
  if (status_ == cuda::success && driver_->ctx_get_id != nullptr) status_ = driver_->ctx_get_id(context_, &context_id_);
}

StreamScope::~StreamScope() {
  if (driver_ == nullptr) return;
  if (pushed_) {
    cuda::Context popped = nullptr;
    driver_->ctx_pop(&popped);
  }
  if (mode_changed_) driver_->exchange_capture_mode(&capture_mode_);
}

}  // namespace sluice::gpu
