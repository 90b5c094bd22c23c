// SPDX-License-Identifier: Apache-2.0
#include "client/kernel.h"

#include <fmt/format.h>

#include <array>

#include "client/trouble.h"

namespace sluice::bench {
namespace {

constexpr int jit_error_log = 5;
constexpr int jit_error_log_size = 6;

}  // namespace

Kernel::Kernel(const Gpu& gpu, const char* source, const char* name) : gpu_(&gpu) {
  std::array<char, 2048> log{};
  std::array<int, 2> options = {jit_error_log, jit_error_log_size};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
  void* loaded = nullptr;
  if (gpu.calls().module_load(&loaded, source, options.size(), options.data(), values.data()) != 0) {
    throw Trouble(fmt::format("the kernel {} is refused: {}", name, log.data()));
  }
  gpu.want(gpu.calls().module_function(&function_, loaded, name), "cuModuleGetFunction");
}

void Kernel::launch(unsigned blocks, unsigned threads, const OwnStream& stream, std::span<void*> arguments) const {
  gpu_->want(gpu_->calls().launch(function_, blocks, 1, 1, threads, 1, 1, 0, stream.get(), arguments.data(), nullptr),
             "cuLaunchKernel");
}

}  // namespace sluice::bench
