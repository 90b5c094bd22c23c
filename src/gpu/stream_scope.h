// SPDX-License-Identifier: Apache-2.0
// The context that a stream of the program belongs to, while something is put into it.
#pragma once

#include "gpu/cuda_api.h"

namespace sluice::gpu {

// The context of a stream, current for a while in relaxed capture mode; of a default stream the one that is current, or
// of the memory's where none is.
class StreamScope {
 public:
  StreamScope(cuda::Stream stream, cuda::Context otherwise) noexcept;
  // A context that is known.
  explicit StreamScope(cuda::Context context) noexcept;
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  cuda::Result status() const noexcept { return status_; }
  cuda::Context context() const noexcept { return context_; }
  unsigned long long context_id() const noexcept { return context_id_; }

 private:
  void enter() noexcept;

  const CudaApi* driver_;
  cuda::Context context_ = nullptr;
  unsigned long long context_id_ = 0;
  int capture_mode_ = cuda::capture_relaxed;
  bool mode_changed_ = false;
  bool pushed_ = false;
  cuda::Result status_ = cuda::success;
};

}  // namespace sluice::gpu
