// SPDX-License-Identifier: Apache-2.0
// A primary context of the program's, kept from ending while we work in it: from being released, that is. A reset ends
// it in spite of that, which its id tells.
#pragma once

#include "gpu/cuda_api.h"

namespace sluice::gpu {

class PrimaryContextHold {
 public:
  PrimaryContextHold() = default;
  PrimaryContextHold(const PrimaryContextHold&) = delete;
  PrimaryContextHold& operator=(const PrimaryContextHold&) = delete;
  ~PrimaryContextHold() { end(); }

  // Of the device's primary context as it is now, which is not made. False: the program has none, or the driver has no
  // ids to tell it from one that was reset. (One that the program ends at the same moment is made anew: by its id it
  // is seen to have nothing of ours.)
  bool begin(int ordinal) noexcept;
  // The last one to hold it ends it.
  void end() noexcept;
  // The process has lost it: a child of fork.
  void forget() noexcept { context_ = nullptr; }

  // What is held; null: nothing.
  cuda::Context context() const noexcept { return context_; }
  unsigned long long context_id() const noexcept { return context_id_; }
  // It has not been reset.
  bool is_still_there() const noexcept;

 private:
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  unsigned long long context_id_ = 0;
};

}  // namespace sluice::gpu
