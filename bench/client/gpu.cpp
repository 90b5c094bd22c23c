// SPDX-License-Identifier: Apache-2.0
// The driver's calls, resolved; what is allocated through them, given back.
#include "client/gpu.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <utility>

#include "client/trouble.h"

namespace sluice::bench {
namespace {

constexpr int attribute_multiprocessors = 16;
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned host_portable = 1;

template <typename Function>
void resolve(void* driver, const char* symbol, Function*& into) {
  into = reinterpret_cast<Function*>(::dlsym(driver, symbol));
}

}  // namespace

Gpu::Gpu(int ordinal) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) {
    throw Trouble(
        fmt::format("no CUDA driver ({}); for the soft GPU let LD_LIBRARY_PATH name its folder", ::dlerror()));
  }
  resolve(driver, "cuInit", calls_.init);
  resolve(driver, "cuDriverGetVersion", calls_.driver_version);
  resolve(driver, "cuDeviceGetCount", calls_.device_get_count);
  resolve(driver, "cuDeviceGet", calls_.device_get);
  resolve(driver, "cuDeviceGetName", calls_.device_name);
  resolve(driver, "cuDeviceGetAttribute", calls_.device_attribute);
  resolve(driver, "cuDevicePrimaryCtxRetain", calls_.primary_retain);
  resolve(driver, "cuCtxSetCurrent", calls_.set_current);
  resolve(driver, "cuGetErrorName", calls_.error_name);
  resolve(driver, "cuMemAlloc_v2", calls_.allocate);
  resolve(driver, "cuMemFree_v2", calls_.release);
  resolve(driver, "cuMemHostAlloc", calls_.host_allocate);
  resolve(driver, "cuMemFreeHost", calls_.host_release);
  resolve(driver, "cuMemHostGetDevicePointer_v2", calls_.host_device_pointer);
  resolve(driver, "cuMemcpyHtoD_v2", calls_.copy_in);
  resolve(driver, "cuMemcpyDtoH_v2", calls_.copy_out);
  resolve(driver, "cuMemcpyHtoDAsync_v2", calls_.copy_in_async);
  resolve(driver, "cuMemcpyDtoHAsync_v2", calls_.copy_out_async);
  resolve(driver, "cuMemsetD8_v2", calls_.fill);
  resolve(driver, "cuStreamCreate", calls_.stream_create);
  resolve(driver, "cuStreamDestroy_v2", calls_.stream_destroy);
  resolve(driver, "cuStreamSynchronize", calls_.stream_synchronize);
  resolve(driver, "cuStreamWriteValue32_v2", calls_.stream_write_value_32);
  resolve(driver, "cuStreamWaitValue32_v2", calls_.stream_wait_value_32);
  resolve(driver, "cuEventCreate", calls_.event_create);
  resolve(driver, "cuEventDestroy_v2", calls_.event_destroy);
  resolve(driver, "cuEventRecord", calls_.event_record);
  resolve(driver, "cuEventSynchronize", calls_.event_synchronize);
  resolve(driver, "cuModuleLoadDataEx", calls_.module_load);
  resolve(driver, "cuModuleGetFunction", calls_.module_function);
  resolve(driver, "cuLaunchKernel", calls_.launch);
  soft_ = ::dlsym(driver, "cuSluiceSoftGpuVersion") != nullptr;
  if (calls_.init == nullptr || calls_.primary_retain == nullptr) throw Trouble("libcuda.so.1 is no CUDA driver");
  want(calls_.init(0), "cuInit");
  want(calls_.device_get(&device_, ordinal), "cuDeviceGet");
  want(calls_.primary_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  enter();
}

void Gpu::want(int result, const char* call) const {
  if (result == 0) return;
  const char* word = nullptr;
  if (calls_.error_name != nullptr) calls_.error_name(result, &word);
  throw Trouble(fmt::format("{} answers {} ({})", call, result, word == nullptr ? "unknown" : word));
}

void Gpu::enter() const {
  want(calls_.set_current(context_), "cuCtxSetCurrent");
}

int Gpu::count() const {
  int count = 0;
  want(calls_.device_get_count(&count), "cuDeviceGetCount");
  return count;
}

std::string Gpu::name() const {
  std::array<char, 128> text{};
  want(calls_.device_name(text.data(), static_cast<int>(text.size()), device_), "cuDeviceGetName");
  return text.data();
}

int Gpu::driver_version() const {
  int version = 0;
  want(calls_.driver_version(&version), "cuDriverGetVersion");
  return version;
}

int Gpu::multiprocessors() const {
  int count = 0;
  want(calls_.device_attribute(&count, attribute_multiprocessors, device_), "cuDeviceGetAttribute");
  return count;
}

DeviceMemory::DeviceMemory(const Gpu& gpu, std::size_t size) : gpu_(&gpu) {
  gpu.want(gpu.calls().allocate(&address_, size), "cuMemAlloc");
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : gpu_(other.gpu_), address_(std::exchange(other.address_, 0)) {}
DeviceMemory::~DeviceMemory() {
  if (address_ != 0) gpu_->calls().release(address_);
}

PinnedMemory::PinnedMemory(const Gpu& gpu, std::size_t size) : gpu_(&gpu), size_(size) {
  gpu.want(gpu.calls().host_allocate(&data_, size, host_portable), "cuMemHostAlloc");
}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : gpu_(other.gpu_), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) gpu_->calls().host_release(data_);
}
DevicePtr PinnedMemory::seen_by_device() const {
  // Where host and device share their addresses, which is everywhere by now, it is the same one.
  auto address = reinterpret_cast<DevicePtr>(data_);
  if (gpu_->calls().host_device_pointer != nullptr) {
    gpu_->want(gpu_->calls().host_device_pointer(&address, data_, 0), "cuMemHostGetDevicePointer");
  }
  return address;
}

OwnStream::OwnStream(const Gpu& gpu) : gpu_(&gpu) {
  gpu.want(gpu.calls().stream_create(&stream_, stream_non_blocking), "cuStreamCreate");
}
OwnStream::OwnStream(OwnStream&& other) noexcept : gpu_(other.gpu_), stream_(std::exchange(other.stream_, nullptr)) {}
OwnStream::~OwnStream() {
  if (stream_ != nullptr) gpu_->calls().stream_destroy(stream_);
}
void OwnStream::wait() const {
  gpu_->want(gpu_->calls().stream_synchronize(stream_), "cuStreamSynchronize");
}

}  // namespace sluice::bench
