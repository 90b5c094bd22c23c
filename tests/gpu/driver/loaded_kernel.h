// SPDX-License-Identifier: Apache-2.0
// A kernel of ours, loaded from its PTX for as long as this lives.
#pragma once

#include "fixture.h"
#include "gpu/driver/kernel_texts.h"

namespace sluice::gpu_suite {

class LoadedKernel {
 public:
  LoadedKernel(const char* text, const char* name) {
    EXPECT_EQ(cuda::success, cuModuleLoadData(&module_, text));
    EXPECT_EQ(cuda::success, cuModuleGetFunction(&function_, module_, name));
  }
  ~LoadedKernel() { EXPECT_EQ(cuda::success, cuModuleUnload(module_)); }
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;

  cuda::Module module() const { return module_; }
  cuda::Function function() const { return function_; }

  // Both probes take an address and a value.
  cuda::Result launch(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned threads = 1) const {
    void* parameters[] = {&address, &value};
    return cuLaunchKernel(function_, 1, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  }

 private:
  cuda::Module module_ = nullptr;
  cuda::Function function_ = nullptr;
};

class StoreKernel : public LoadedKernel {
 public:
  StoreKernel() : LoadedKernel(ptx::probe_store, "sluice_probe_store") {}
};

class HoldKernel : public LoadedKernel {
 public:
  HoldKernel() : LoadedKernel(ptx::probe_hold, "sluice_probe_hold") {}
};

}  // namespace sluice::gpu_suite
