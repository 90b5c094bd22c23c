// SPDX-License-Identifier: Apache-2.0
// The driver's calls, resolved once; what is allocated through them, given back.
#include "common/gpu.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "common/driver.h"
#include "common/error.h"

namespace sluice::tools {

using Address = std::uint64_t;

// CUmemAllocationProp and CUmemAccessDesc, as the driver's ABI has them.
struct MappingProperties {
  int type = 1;  // pinned
  int handle_types = 0;
  int location_type = 1;  // a device
  int location = 0;
  void* unused = nullptr;
  std::array<unsigned char, 8> flags{};
};
struct MappingAccess {
  int location_type = 1;
  int location = 0;
  int flags = 3;  // read and write
};

struct GpuCalls {
  int (*device_get)(int*, int) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*release)(int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*can_reach)(int*, int, int) = nullptr;
  int (*reach)(void*, unsigned) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  int (*allocate)(Address*, std::size_t) = nullptr;
  int (*free)(Address) = nullptr;
  int (*host_allocate)(void**, std::size_t, unsigned) = nullptr;
  int (*host_free)(void*) = nullptr;
  int (*copy_in)(Address, const void*, std::size_t) = nullptr;
  int (*copy_out)(void*, Address, std::size_t) = nullptr;
  int (*copy_in_async)(Address, const void*, std::size_t, CUstream) = nullptr;
  int (*copy_out_async)(void*, Address, std::size_t, CUstream) = nullptr;
  int (*synchronize)() = nullptr;
  int (*stream_create)(CUstream*, unsigned) = nullptr;
  int (*stream_destroy)(CUstream) = nullptr;
  int (*stream_wait)(CUstream) = nullptr;
  int (*granularity)(std::size_t*, const MappingProperties*, int) = nullptr;
  int (*reserve)(Address*, std::size_t, std::size_t, Address, unsigned long long) = nullptr;
  int (*unreserve)(Address, std::size_t) = nullptr;
  int (*create)(unsigned long long*, std::size_t, const MappingProperties*, unsigned long long) = nullptr;
  int (*uncreate)(unsigned long long) = nullptr;
  int (*map)(Address, std::size_t, std::size_t, unsigned long long, unsigned long long) = nullptr;
  int (*unmap)(Address, std::size_t) = nullptr;
  int (*set_access)(Address, std::size_t, const MappingAccess*, std::size_t) = nullptr;
};

namespace {

GpuCalls resolve_gpu_calls() {
  // It is loaded already: choose_driver() did, by this name or as a library of this name.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) {
    throw ToolError("There is no CUDA driver.", "Use host memory, or install Sluice with its soft GPU.");
  }
  GpuCalls calls;
  const auto bind = [driver](const char* symbol, auto& into) {
    into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(driver, symbol));
    if (into == nullptr) {
      throw ToolError(fmt::format("The CUDA driver lacks {}.", symbol), "Install one of CUDA 11.4 or newer.");
    }
  };
  bind("cuDeviceGet", calls.device_get);
  bind("cuDeviceGetCount", calls.device_count);
  bind("cuDeviceGetName", calls.device_name);
  bind("cuDevicePrimaryCtxRetain", calls.retain);
  bind("cuDevicePrimaryCtxRelease_v2", calls.release);
  bind("cuCtxSetCurrent", calls.set_current);
  bind("cuDeviceCanAccessPeer", calls.can_reach);
  bind("cuCtxEnablePeerAccess", calls.reach);
  bind("cuGetErrorName", calls.error_name);
  bind("cuMemAlloc_v2", calls.allocate);
  bind("cuMemFree_v2", calls.free);
  bind("cuMemHostAlloc", calls.host_allocate);
  bind("cuMemFreeHost", calls.host_free);
  bind("cuMemcpyHtoD_v2", calls.copy_in);
  bind("cuMemcpyDtoH_v2", calls.copy_out);
  bind("cuMemcpyHtoDAsync_v2", calls.copy_in_async);
  bind("cuMemcpyDtoHAsync_v2", calls.copy_out_async);
  bind("cuCtxSynchronize", calls.synchronize);
  bind("cuStreamCreate", calls.stream_create);
  bind("cuStreamDestroy_v2", calls.stream_destroy);
  bind("cuStreamSynchronize", calls.stream_wait);
  bind("cuMemGetAllocationGranularity", calls.granularity);
  bind("cuMemAddressReserve", calls.reserve);
  bind("cuMemAddressFree", calls.unreserve);
  bind("cuMemCreate", calls.create);
  bind("cuMemRelease", calls.uncreate);
  bind("cuMemMap", calls.map);
  bind("cuMemUnmap", calls.unmap);
  bind("cuMemSetAccess", calls.set_access);
  return calls;
}

const GpuCalls& gpu_calls() {
  static const GpuCalls calls = resolve_gpu_calls();
  return calls;
}

void want(int result, const char* call) {
  if (result == 0) return;
  const char* word = nullptr;
  gpu_calls().error_name(result, &word);
  throw ToolError(fmt::format("{} answered {}.", call, word == nullptr ? fmt::format("{}", result) : word),
                  "See what else uses the GPU, or try smaller sizes or fewer threads.");
}

Address device_address(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

constexpr unsigned peer_access_is_on_already = 704;
constexpr unsigned non_blocking_stream = 1;
constexpr unsigned host_portable = 1;

// What device memory of both kinds has in common: the driver copies.
class OfDevice : public TransferMemory {
 public:
  void put(std::size_t offset, const void* from, std::size_t size) override {
    gpu_->copy_to_device(static_cast<char*>(address_) + offset, from, size);
  }
  void get(std::size_t offset, void* to, std::size_t size) const override {
    gpu_->copy_to_host(to, static_cast<const char*>(address_) + offset, size);
  }

 protected:
  OfDevice(const Gpu& gpu, std::size_t size) : TransferMemory(nullptr, size), gpu_(&gpu) {}
  const Gpu* gpu_;
};

class Allocated final : public OfDevice {
 public:
  Allocated(const Gpu& gpu, std::size_t size) : OfDevice(gpu, size) {
    Address address = 0;
    want(gpu.calls().allocate(&address, size), "cuMemAlloc");
    address_ = reinterpret_cast<void*>(address);
  }
  ~Allocated() override { gpu_->calls().free(device_address(address_)); }
};

class Mapped final : public OfDevice {
 public:
  Mapped(const Gpu& gpu, std::size_t size) : OfDevice(gpu, size) {
    const GpuCalls& calls = gpu.calls();
    MappingProperties properties;
    properties.location = gpu.ordinal();
    std::size_t grain = 0;
    want(calls.granularity(&grain, &properties, 0), "cuMemGetAllocationGranularity");
    room_ = (size + grain - 1) / grain * grain;
    want(calls.create(&piece_, room_, &properties, 0), "cuMemCreate");
    Address address = 0;
    int result = calls.reserve(&address, room_, 0, 0, 0);
    if (result == 0) {
      address_ = reinterpret_cast<void*>(address);
      MappingAccess access;
      access.location = gpu.ordinal();
      result = calls.map(address, room_, 0, piece_, 0);
      if (result == 0) result = calls.set_access(address, room_, &access, 1);
    }
    if (result != 0) give_back();
    want(result, "cuMemMap");
  }
  ~Mapped() override { give_back(); }

 private:
  void give_back() {
    if (address_ != nullptr) {
      gpu_->calls().unmap(device_address(address_), room_);
      gpu_->calls().unreserve(device_address(address_), room_);
    }
    gpu_->calls().uncreate(piece_);
  }

  std::size_t room_ = 0;
  unsigned long long piece_ = 0;
};

// What host memory of all kinds has in common: the processor copies.
class OfHost : public TransferMemory {
 public:
  void put(std::size_t offset, const void* from, std::size_t size) override {
    std::memcpy(static_cast<char*>(address_) + offset, from, size);
  }
  void get(std::size_t offset, void* to, std::size_t size) const override {
    std::memcpy(to, static_cast<const char*>(address_) + offset, size);
  }

 protected:
  explicit OfHost(std::size_t size) : TransferMemory(nullptr, size) {}
};

class Pinned final : public OfHost {
 public:
  Pinned(const Gpu& gpu, std::size_t size) : OfHost(size), gpu_(&gpu) {
    want(gpu.calls().host_allocate(&address_, size, host_portable), "cuMemHostAlloc");
  }
  ~Pinned() override { gpu_->calls().host_free(address_); }

 private:
  const Gpu* gpu_;
};

[[noreturn]] void no_host_memory(std::size_t size) {
  throw ToolError(fmt::format("There are no {} bytes of host memory.", size), "Ask for a smaller size.");
}

class Heap final : public OfHost {
 public:
  explicit Heap(std::size_t size) : OfHost(size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    address_ = std::aligned_alloc(page, (size + page - 1) / page * page);
    if (address_ == nullptr) no_host_memory(size);
    std::memset(address_, 0, size);
  }
  ~Heap() override { std::free(address_); }
};

class Anonymous final : public OfHost {
 public:
  explicit Anonymous(std::size_t size) : OfHost(size) {
    address_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (address_ == MAP_FAILED) no_host_memory(size);
  }
  ~Anonymous() override { munmap(address_, size_); }
};

}  // namespace

int device_count() {
  want_device(0);
  int count = 0;
  want(gpu_calls().device_count(&count), "cuDeviceGetCount");
  return count;
}

Gpu::Gpu(int ordinal) : calls_(nullptr), ordinal_(ordinal) {
  want_device(ordinal);
  calls_ = &gpu_calls();
  want(calls_->device_get(&device_, ordinal), "cuDeviceGet");
  want(calls_->retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  enter();
}

Gpu::~Gpu() {
  calls_->release(device_);
}

std::string Gpu::name() const {
  return describe_device(ordinal_);
}

void Gpu::enter() const {
  want(calls_->set_current(context_), "cuCtxSetCurrent");
}

int Gpu::reach_others() const {
  int count = 0;
  int reached = 0;
  want(calls_->device_count(&count), "cuDeviceGetCount");
  for (int other = 0; other < count; ++other) {
    int device = 0;
    int possible = 0;
    if (other == ordinal_ || calls_->device_get(&device, other) != 0 ||
        calls_->can_reach(&possible, device_, device) != 0 || possible == 0) {
      continue;
    }
    void* context = nullptr;
    want(calls_->retain(&context, device), "cuDevicePrimaryCtxRetain");  // stays: the way needs both contexts
    const int result = calls_->reach(context, 0);
    if (result != static_cast<int>(peer_access_is_on_already)) want(result, "cuCtxEnablePeerAccess");
    ++reached;
  }
  return reached;
}

void Gpu::copy_to_device(void* device, const void* host, std::size_t size) const {
  want(calls_->copy_in(device_address(device), host, size), "cuMemcpyHtoD");
  want(calls_->synchronize(), "cuCtxSynchronize");
}
void Gpu::copy_to_host(void* host, const void* device, std::size_t size) const {
  want(calls_->copy_out(host, device_address(device), size), "cuMemcpyDtoH");
}
void Gpu::copy_to_device(void* device, const void* host, std::size_t size, CUstream stream) const {
  want(calls_->copy_in_async(device_address(device), host, size, stream), "cuMemcpyHtoDAsync");
}
void Gpu::copy_to_host(void* host, const void* device, std::size_t size, CUstream stream) const {
  want(calls_->copy_out_async(host, device_address(device), size, stream), "cuMemcpyDtoHAsync");
}

GpuStream::GpuStream(const Gpu& gpu) : calls_(&gpu.calls()) {
  want(calls_->stream_create(&stream_, non_blocking_stream), "cuStreamCreate");
}
GpuStream::~GpuStream() {
  calls_->stream_destroy(stream_);
}
void GpuStream::wait() const {
  want(calls_->stream_wait(stream_), "cuStreamSynchronize");
}

std::unique_ptr<TransferMemory> make_memory(MemoryKind kind, const Gpu* gpu, std::size_t size) {
  switch (kind) {
    case MemoryKind::device:
      return std::make_unique<Allocated>(*gpu, size);
    case MemoryKind::mapped:
      return std::make_unique<Mapped>(*gpu, size);
    case MemoryKind::pinned:
      return std::make_unique<Pinned>(*gpu, size);
    case MemoryKind::heap:
      return std::make_unique<Heap>(size);
    case MemoryKind::anonymous:
      break;
  }
  return std::make_unique<Anonymous>(size);
}

}  // namespace sluice::tools
