// SPDX-License-Identifier: Apache-2.0
// Finds the driver's entry points and keeps one primary context a device.
#include "support/cuda_driver.h"

#include <dlfcn.h>

#include <array>
#include <mutex>
#include <stdexcept>

namespace sluice::support {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& entry) {
  entry = reinterpret_cast<Function>(dlsym(library, name));
  return entry != nullptr;
}

bool find_required(void* library, CudaDriver& driver) {
  return find(library, "cuInit", driver.init) && find(library, "cuDeviceGetCount", driver.device_count) &&
         find(library, "cuDeviceGet", driver.device_get) && find(library, "cuDeviceGetName", driver.device_name) &&
         find(library, "cuDevicePrimaryCtxRetain", driver.primary_retain) &&
         find(library, "cuDevicePrimaryCtxRelease_v2", driver.primary_release) &&
         find(library, "cuCtxCreate_v2", driver.context_create) &&
         find(library, "cuCtxDestroy_v2", driver.context_destroy) &&
         find(library, "cuCtxPushCurrent_v2", driver.context_push) &&
         find(library, "cuCtxPopCurrent_v2", driver.context_pop) &&
         find(library, "cuCtxGetCurrent", driver.context_current) &&
         find(library, "cuCtxSetCurrent", driver.context_set) &&
         find(library, "cuCtxSynchronize", driver.context_synchronize) &&
         find(library, "cuMemAlloc_v2", driver.allocate) && find(library, "cuMemFree_v2", driver.release) &&
         find(library, "cuMemAllocManaged", driver.allocate_managed) &&
         find(library, "cuMemHostAlloc", driver.allocate_host) && find(library, "cuMemFreeHost", driver.release_host) &&
         find(library, "cuMemcpyHtoD_v2", driver.to_device) && find(library, "cuMemcpyDtoH_v2", driver.to_host) &&
         find(library, "cuMemsetD8_v2", driver.fill) && find(library, "cuStreamCreate", driver.stream_create) &&
         find(library, "cuStreamDestroy_v2", driver.stream_destroy) &&
         find(library, "cuStreamSynchronize", driver.stream_synchronize) &&
         find(library, "cuMemcpyDtoHAsync_v2", driver.to_host_async) &&
         find(library, "cuMemsetD8Async", driver.fill_async);
}

void find_optional(void* library, CudaDriver& driver) {
  find(library, "cuMemCreate", driver.mem_create);
  find(library, "cuMemGetInfo_v2", driver.memory_info);
  find(library, "cuMemRelease", driver.mem_release);
  find(library, "cuMemAddressReserve", driver.mem_reserve);
  find(library, "cuMemAddressFree", driver.mem_free_reserved);
  find(library, "cuMemMap", driver.mem_map);
  find(library, "cuMemUnmap", driver.mem_unmap);
  find(library, "cuMemSetAccess", driver.mem_set_access);
  find(library, "cuMemExportToShareableHandle", driver.mem_export);
  find(library, "cuMemImportFromShareableHandle", driver.mem_import);
  find(library, "cuMemAllocAsync", driver.allocate_async);
  find(library, "cuMemFreeAsync", driver.release_async);
  find(library, "cuStreamBeginCapture_v2", driver.begin_capture);
  find(library, "cuStreamEndCapture", driver.end_capture);
  find(library, "cuGraphDestroy", driver.graph_destroy);
}

const CudaDriver* load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return nullptr;
  static CudaDriver driver;
  if (!find_required(library, driver)) return nullptr;
  find_optional(library, driver);
  if (driver.init(0) != 0 || driver.device_count(&driver.devices) != 0 || driver.devices == 0) return nullptr;
  driver.soft = dlsym(library, "cuSluiceSoftGpuVersion") != nullptr;
  std::array<char, 128> name{};
  driver.device_name(name.data(), static_cast<int>(name.size()), 0);
  driver.description = name.data();
  return &driver;
}

}  // namespace

const CudaDriver* cuda() {
  static const CudaDriver* const driver = load();
  return driver;
}

CudaContext primary_context(int device) {
  static std::mutex mutex;
  static std::array<CudaContext, 64> contexts{};
  const std::lock_guard lock(mutex);
  CudaContext& context = contexts.at(static_cast<std::size_t>(device));
  if (context == nullptr && cuda()->primary_retain(&context, device) != 0) {
    throw std::runtime_error("the primary context of device " + std::to_string(device) + " cannot be had");
  }
  return context;
}

ContextScope::ContextScope(CudaContext context) {
  if (cuda()->context_push(context) != 0) throw std::runtime_error("cuCtxPushCurrent failed");
}

ContextScope::~ContextScope() {
  CudaContext ignored = nullptr;
  cuda()->context_pop(&ignored);
}

Stream::Stream() {
  const ContextScope scope(primary_context(0));
  constexpr unsigned non_blocking = 1;
  if (cuda()->stream_create(&stream_, non_blocking) != 0) throw std::runtime_error("cuStreamCreate failed");
}

Stream::~Stream() {
  const ContextScope scope(primary_context(0));
  cuda()->stream_synchronize(stream_);
  cuda()->stream_destroy(stream_);
}

void Stream::synchronize() const {
  const ContextScope scope(primary_context(0));
  if (cuda()->stream_synchronize(stream_) != 0) throw std::runtime_error("cuStreamSynchronize failed");
}

}  // namespace sluice::support
