// SPDX-License-Identifier: Apache-2.0
// A stream that waits until the test lets it go, and what else of a driver the tests of streams call.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "support/cuda_driver.h"
#include "support/memory.h"

namespace sluice::support {

template <typename Function>
Function* cuda_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

// A word in pinned memory that streams can be made to wait for.
class Gate {
 public:
  Gate() { open_to(0); }

  void hold(CUstream stream, std::uint32_t value = 1) const {
    using Wait = int(CUstream, CudaAddress, std::uint32_t, unsigned);
    static auto* const wait = cuda_function<Wait>("cuStreamWaitValue32_v2");
    constexpr unsigned at_least = 0;
    if (wait(stream, reinterpret_cast<CudaAddress>(word_.address()), value, at_least) != 0) {
      throw std::runtime_error("a stream cannot be made to wait");
    }
  }
  void open_to(std::uint32_t value) const {
    std::atomic_ref(*static_cast<std::uint32_t*>(word_.address())).store(value, std::memory_order_release);
  }
  void open() const { open_to(1); }

 private:
  const Memory word_{MemoryKind::pinned, 64};
};

class Event {
 public:
  Event() { cuda_function<int(void**, unsigned)>("cuEventCreate")(&event_, 0); }
  ~Event() { cuda_function<int(void*)>("cuEventDestroy_v2")(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(CUstream stream) const { cuda_function<int(void*, CUstream)>("cuEventRecord")(event_, stream); }
  void hold(CUstream stream) const {
    cuda_function<int(CUstream, void*, unsigned)>("cuStreamWaitEvent")(stream, event_, 0);
  }

 private:
  void* event_ = nullptr;
};

}  // namespace sluice::support
