// SPDX-License-Identifier: Apache-2.0
#include "support/busy_device.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "support/cuda_driver.h"
#include "support/deadline.h"

namespace sluice::support {

namespace {

// The multiprocessors' kernel, as the soft GPU knows it: sluice_probe_hold. Here each block says by a word of its own
// that it has begun.
constexpr const char* text = R"(.version 6.4
.target sm_60
.address_size 64
.visible .entry sluice_probe_hold(.param .u64 address, .param .u32 value)
{
  .reg .pred %again;
  .reg .b32 %value;
  .reg .b32 %seen;
  .reg .b32 %block;
  .reg .b64 %address;
  .reg .b64 %begun;
  ld.param.u64 %address, [address];
  ld.param.u32 %value, [value];
  mov.u32 %block, %ctaid.x;
  mad.wide.u32 %begun, %block, 4, %address;
  st.volatile.u32 [%begun+4], %value;
look:
  ld.volatile.u32 %seen, [%address];
  setp.ne.u32 %again, %seen, %value;
  @%again bra look;
  ret;
}
)";

constexpr int multiprocessor_count = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr unsigned threads_a_block = 1024;
constexpr unsigned blocks_a_multiprocessor = 2;  // 2048 threads fill one
constexpr std::size_t most_words = 1024;         // that it leaves at, and that tell of its blocks

struct Calls {
  int (*attribute)(int*, int, int) = nullptr;
  int (*module_load)(void**, const void*) = nullptr;
  int (*get_function)(void**, void*, const char*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,
                void**) = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::unique_ptr<BusyDevice> BusyDevice::hold(std::string* why_not) {
  const CudaDriver* const driver = cuda();
  if (driver == nullptr) {
    *why_not = "no device";
    return nullptr;
  }
  if (driver->soft && std::getenv("SLUICE_SOFTGPU_SMS") == nullptr) {
    *why_not = "the soft GPU runs any number of kernels at once here";
    return nullptr;
  }
  const ContextScope context(primary_context(0));
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  Calls calls;
  void* module = nullptr;
  void* function = nullptr;
  if (!find(library, "cuDeviceGetAttribute", calls.attribute) ||
      !find(library, "cuModuleLoadData", calls.module_load) ||
      !find(library, "cuModuleGetFunction", calls.get_function) || !find(library, "cuLaunchKernel", calls.launch) ||
      calls.module_load(&module, text) != 0 || calls.get_function(&function, module, "sluice_probe_hold") != 0) {
    *why_not = "this driver cannot run the kernel that keeps a device busy";
    return nullptr;
  }
  std::unique_ptr<BusyDevice> busy(new BusyDevice);
  int processors = 0;
  void* memory = nullptr;
  if (calls.attribute(&processors, multiprocessor_count, 0) != 0 ||
      driver->allocate_host(&memory, most_words * sizeof(std::uint32_t), 0) != 0 ||
      driver->stream_create(&busy->stream_, 1) != 0) {
    *why_not = "no memory or stream to keep the device busy with";
    return nullptr;
  }
  busy->word_ = static_cast<std::uint32_t*>(memory);
  std::fill_n(busy->word_, most_words, 0);
  auto address = reinterpret_cast<std::uint64_t>(memory);
  std::uint32_t value = 1;
  void* arguments[] = {&address, &value};
  const unsigned blocks =
      driver->soft ? 1
                   : std::min<unsigned>(static_cast<unsigned>(processors) * blocks_a_multiprocessor, most_words - 1);
  if (calls.launch(function, blocks, 1, 1, threads_a_block, 1, 1, 0, busy->stream_, arguments, nullptr) != 0) {
    *why_not = "the kernel that keeps a device busy could not be launched";
    return nullptr;
  }
  // What the device was at before may keep it for a moment.
  const Deadline deadline;
  for (unsigned block = 0; block < blocks; ++block) {
    while (std::atomic_ref(busy->word_[1 + block]).load() != value) {
      if (deadline.has_passed()) {
        *why_not = "the kernel that keeps a device busy does not begin everywhere";
        return nullptr;
      }
      std::this_thread::yield();
    }
  }
  return busy;
}

void BusyDevice::let_go() {
  if (stream_ == nullptr) return;
  const ContextScope context(primary_context(0));
  std::atomic_ref(*word_).store(1);
  cuda()->stream_synchronize(stream_);
  cuda()->stream_destroy(stream_);
  stream_ = nullptr;
}

BusyDevice::~BusyDevice() {
  let_go();
  if (word_ == nullptr) return;
  const ContextScope context(primary_context(0));
  cuda()->release_host(word_);
}

}  // namespace sluice::support
