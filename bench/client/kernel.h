// SPDX-License-Identifier: Apache-2.0
// A kernel from PTX text, which the driver assembles when this is made.
#pragma once

#include <span>

#include "client/gpu.h"

namespace sluice::bench {

class Kernel {
 public:
  // Throws Trouble, with the assembler's complaint, when the driver refuses `source`. The device has to run kernels.
  // The module stays loaded: unloading one may wait for all that runs in the context.
  Kernel(const Gpu& gpu, const char* source, const char* name);

  void launch(unsigned blocks, unsigned threads, const OwnStream& stream, std::span<void*> arguments) const;

 private:
  const Gpu* gpu_;
  void* function_ = nullptr;
};

}  // namespace sluice::bench
