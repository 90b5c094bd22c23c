// Finding libcuda.so.1. Attached once a process and never let go.
#include "gpu/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

namespace sluice::gpu {

namespace {

enum class State : int { unknown, attached, useless };

std::atomic<State> state{State::unknown};
std::mutex attach_mutex;

// Never destroyed: other threads may still read it while the process ends.
Driver& table() {
  static auto* const instance = new Driver;
  return *instance;
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

// False when this driver is too old to have what we need (535 and newer have it).
bool resolve_all(void* library, Driver& driver) {
  bool complete = true;
  const auto need = [&](auto& function, auto... names) {
    if (!resolve(library, function, names...)) complete = false;
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
  need(driver.stream_destroy, "cuStreamDestroy_v2");
  need(driver.stream_synchronize, "cuStreamSynchronize");
  need(driver.stream_is_capturing, "cuStreamIsCapturing");
  need(driver.stream_get_ctx, "cuStreamGetCtx");
  resolve(library, driver.stream_get_id, "cuStreamGetId");
  need(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  driver.soft = ::dlsym(library, "cuSluiceSoftGpuVersion") != nullptr;
  return complete;
}

const Driver* attach(int extra_flags) noexcept {
  if (state.load(std::memory_order_acquire) == State::unknown) {
    // No lock of ours is held while the loader takes its own: a library's constructor may be calling us under that
    // one. The handle is kept on purpose: the table points into it for the rest of the process.
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | extra_flags);
    if (library == nullptr) return nullptr;
    Driver found;
    const bool complete = resolve_all(library, found);
    const std::lock_guard lock(attach_mutex);
    if (state.load(std::memory_order_relaxed) == State::unknown) {
      table() = found;
      // The store publishes the table to threads that load `state` with acquire.
      state.store(complete ? State::attached : State::useless, std::memory_order_release);
    }
  }
  return driver();
}

}  // namespace

const Driver* driver() noexcept {
  return state.load(std::memory_order_acquire) == State::attached ? &table() : nullptr;
}

const Driver* attach_driver() noexcept {
  return attach(RTLD_NOLOAD);
}

const Driver* load_driver() noexcept {
  const Driver* found = attach(0);
  // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): an attached table is complete
  return found != nullptr && found->init(0) == cuda::success ? found : nullptr;
}

int device_count() noexcept {
  int count = 0;
  const Driver* found = load_driver();
  return found != nullptr && found->device_get_count(&count) == cuda::success ? count : 0;
}

std::string error_name(int result) {
  const char* name = nullptr;
  const Driver& driver = table();
  if (driver.get_error_name != nullptr) driver.get_error_name(result, &name);
  return std::string(name != nullptr ? name : "CUDA error") + " (" + std::to_string(result) + ")";
}

void forget_driver_after_fork() noexcept {
  state.store(State::useless, std::memory_order_release);
}

}  // namespace sluice::gpu
