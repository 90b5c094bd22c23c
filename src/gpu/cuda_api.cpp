// SPDX-License-Identifier: Apache-2.0
// Finding libcuda.so.1. Attached once a process and never let go.
#include "gpu/cuda_api.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "base/never_destroyed.h"
#include "gpu/library.h"

namespace sluice::gpu {

namespace {

// lost: this process is the child of one that had initialised its driver.
enum class State : int { unknown, attached, useless, lost };

std::atomic<State> state{State::unknown};
std::mutex attach_mutex;
std::atomic<unsigned long long> looked_at_loaded{0};  // how many libraries had been loaded when none was a driver
bool initialised_at_fork = false;                     // written and read by the thread that forks

// Never destroyed: other threads may still read it while the process ends.
CudaApi& table() {
  static base::NeverDestroyed<CudaApi> instance;
  return instance.get();
}

// Guarded by attach_mutex; never destroyed, as the table.
std::string& refusal() {
  static base::NeverDestroyed<std::string> text;
  return text.get();
}

// Resolves one function, newest name first; false when no name is there.
template <typename Function, typename... Names>
bool resolve(void* library, Function& function, Names... names) {
  for (const char* name : {names...}) {
    if (void* symbol = ::dlsym(library, name)) {
      function = reinterpret_cast<Function>(symbol);
      return true;
    }
  }
  return false;
}

// The first function that we need and this driver is too old to have (535 and newer have all); null: it has them.
const char* resolve_all(void* library, CudaApi& driver) {
  const char* missing = nullptr;
  const auto need = [&](auto& function, auto name, auto... older) {
    if (!resolve(library, function, name, older...) && missing == nullptr) missing = name;
  };
  need(driver.init, "cuInit");
  need(driver.get_error_name, "cuGetErrorName");
  need(driver.get_error_string, "cuGetErrorString");
  need(driver.device_get, "cuDeviceGet");
  need(driver.device_get_count, "cuDeviceGetCount");
  need(driver.device_get_name, "cuDeviceGetName");
  need(driver.device_get_uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid");
  need(driver.device_get_pci_bus_id, "cuDeviceGetPCIBusId");
  need(driver.primary_retain, "cuDevicePrimaryCtxRetain");
  need(driver.primary_release, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease");
  need(driver.ctx_push, "cuCtxPushCurrent_v2");
  need(driver.ctx_pop, "cuCtxPopCurrent_v2");
  need(driver.ctx_get_current, "cuCtxGetCurrent");
  need(driver.ctx_get_device, "cuCtxGetDevice");
  resolve(library, driver.ctx_get_id, "cuCtxGetId");
  need(driver.mem_host_register, "cuMemHostRegister_v2");
  need(driver.mem_host_unregister, "cuMemHostUnregister");
  need(driver.pointer_get_attributes, "cuPointerGetAttributes");
  need(driver.memcpy_htod, "cuMemcpyHtoD_v2");
  need(driver.memcpy_dtoh, "cuMemcpyDtoH_v2");
  need(driver.memcpy_htod_async, "cuMemcpyHtoDAsync_v2");
  need(driver.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
  need(driver.stream_create, "cuStreamCreate");
  need(driver.stream_synchronize, "cuStreamSynchronize");
  need(driver.stream_is_capturing, "cuStreamIsCapturing");
  need(driver.stream_get_ctx, "cuStreamGetCtx");
  resolve(library, driver.stream_get_id, "cuStreamGetId");
  need(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  resolve(library, driver.mem_alloc, "cuMemAlloc_v2");
  resolve(library, driver.mem_host_get_device_pointer, "cuMemHostGetDevicePointer_v2");
  resolve(library, driver.memcpy_batch_async, "cuMemcpyBatchAsync");
  resolve(library, driver.memcpy_batch_async_v2, "cuMemcpyBatchAsync_v2");
  resolve(library, driver.stream_query, "cuStreamQuery");
  resolve(library, driver.pointer_set_attribute, "cuPointerSetAttribute");
  resolve(library, driver.stream_write_value_32, "cuStreamWriteValue32_v2");
  resolve(library, driver.stream_wait_value_32, "cuStreamWaitValue32_v2");
  resolve(library, driver.stream_batch_mem_op, "cuStreamBatchMemOp_v2");
  resolve(library, driver.launch_host_function, "cuLaunchHostFunc");
  resolve(library, driver.stream_create_with_priority, "cuStreamCreateWithPriority");
  resolve(library, driver.stream_destroy, "cuStreamDestroy_v2");
  resolve(library, driver.stream_priority_range, "cuCtxGetStreamPriorityRange");
  resolve(library, driver.module_load_data, "cuModuleLoadData");
  resolve(library, driver.module_get_function, "cuModuleGetFunction");
  resolve(library, driver.launch_kernel, "cuLaunchKernel");
  resolve(library, driver.soft_backing, "cuSluiceSoftGpuBackingAddress");
  resolve(library, driver.mem_create, "cuMemCreate");
  resolve(library, driver.mem_release, "cuMemRelease");
  resolve(library, driver.mem_retain_handle, "cuMemRetainAllocationHandle");
  resolve(library, driver.mem_export, "cuMemExportToShareableHandle");
  resolve(library, driver.mem_reserve, "cuMemAddressReserve");
  resolve(library, driver.mem_map, "cuMemMap");
  resolve(library, driver.mem_set_access, "cuMemSetAccess");
  resolve(library, driver.mem_get_access, "cuMemGetAccess");
  resolve(library, driver.pool_get_access, "cuMemPoolGetAccess");
  resolve(library, driver.mem_handle_for_range, "cuMemGetHandleForAddressRange");
  resolve(library, driver.device_can_access_peer, "cuDeviceCanAccessPeer");
  resolve(library, driver.device_get_p2p_attribute, "cuDeviceGetP2PAttribute");
  resolve(library, driver.primary_get_state, "cuDevicePrimaryCtxGetState");
  resolve(library, driver.mem_unmap, "cuMemUnmap");
  resolve(library, driver.mem_address_free, "cuMemAddressFree");
  resolve(library, driver.mem_get_granularity, "cuMemGetAllocationGranularity");
  resolve(library, driver.ctx_enable_peer_access, "cuCtxEnablePeerAccess");
  resolve(library, driver.memcpy_2d_async, "cuMemcpy2DAsync_v2");
  resolve(library, driver.memcpy_dtod_async, "cuMemcpyDtoDAsync_v2");
  resolve(library, driver.device_get_attribute, "cuDeviceGetAttribute");
  resolve(library, driver.flush_rdma_writes, "cuFlushGPUDirectRDMAWrites");
  driver.soft = ::dlsym(library, "cuSluiceSoftGpuVersion") != nullptr;
  return missing;
}

const CudaApi* attach(Loading loading) noexcept try {
  if (state.load(std::memory_order_acquire) == State::unknown) {
    // The loader looks for a library that is not loaded in all its folders, and finds nothing new where nothing was.
    const unsigned long long loaded = libraries_loaded_so_far();
    const bool only_loaded = loading == Loading::only_what_is_loaded;
    if (only_loaded && looked_at_loaded.load(std::memory_order_relaxed) == loaded) return nullptr;
    // No lock of ours is held while the loader takes its own: a library's constructor may be calling us under that
    // one. The handle is kept on purpose: the table points into it for the rest of the process.
    DriverLibrary library = open_driver_library(loading);
    CudaApi found;
    const char* const missing = library.handle != nullptr ? resolve_all(library.handle, found) : nullptr;
    if (missing != nullptr) {
      if (!library.refusal.empty()) library.refusal += "; ";
      library.refusal += std::string("the CUDA driver has no function ") + missing +
                         ": device memory cannot be used; install a driver of 535 or newer";
    }
    const std::lock_guard lock(attach_mutex);
    refusal() = std::move(library.refusal);
    if (library.handle == nullptr) {
      if (refusal().empty()) looked_at_loaded.store(loaded, std::memory_order_relaxed);
      return nullptr;
    }
    if (state.load(std::memory_order_relaxed) == State::unknown) {
      table() = found;
      // The store publishes the table to threads that load `state` with acquire.
      state.store(missing == nullptr ? State::attached : State::useless, std::memory_order_release);
    }
  }
  return driver();
} catch (...) {  // no memory to look for one
  return nullptr;
}

}  // namespace

const CudaApi* driver() noexcept {
  return state.load(std::memory_order_acquire) == State::attached ? &table() : nullptr;
}

const CudaApi* attach_driver() noexcept {
  return attach(Loading::only_what_is_loaded);
}

const CudaApi* load_driver() noexcept {
  const CudaApi* found = attach(Loading::whatever_is_there);
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): an attached table is complete
  return found != nullptr && found->init(0) == cuda::success ? found : nullptr;
}

int device_count() noexcept {
  int count = 0;
  const CudaApi* found = load_driver();
  return found != nullptr && found->device_get_count(&count) == cuda::success ? count : 0;
}

int known_device_count() noexcept {
  static std::atomic<int> known{0};  // of a driver that is there
  int count = known.load(std::memory_order_relaxed);
  if (count == 0) {
    count = device_count();
    known.store(count, std::memory_order_relaxed);
  }
  return count;
}

std::string driver_refusal() {
  const std::lock_guard lock(attach_mutex);
  return refusal();
}

std::string error_name(cuda::Result result) {
  const char* name = nullptr;
  const CudaApi& driver = table();
  if (driver.get_error_name != nullptr) driver.get_error_name(result, &name);
  return std::string(name != nullptr ? name : "CUDA error") + " (" + std::to_string(cuda::number_of(result)) + ")";
}

bool driver_is_lost() noexcept {
  return state.load(std::memory_order_acquire) == State::lost;
}

void driver_before_fork() noexcept {
  loader_before_fork();
  attach_mutex.lock();
  cuda::Context current = nullptr;
  const CudaApi* const found = driver();
  initialised_at_fork = found != nullptr && found->ctx_get_current(&current) != cuda::error_not_initialized;
}

void driver_after_fork(bool in_child) noexcept {
  if (in_child && initialised_at_fork) state.store(State::lost, std::memory_order_release);
  attach_mutex.unlock();
  loader_after_fork(in_child);
}

}  // namespace sluice::gpu
