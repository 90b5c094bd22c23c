// SPDX-License-Identifier: Apache-2.0
// A UVM descriptor and an RM client of our own for each device; each mapping is an allocation imported into that
// client, handed to UVM, and mapped. The program's own descriptors, address space and memory policy are left alone.
#include "gpu/uvm_provider.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/never_destroyed.h"
#include "base/unique_fd.h"
#include "gpu/memory.h"
#include "gpu/rm_client.h"
#include "gpu/session.h"

namespace sluice::gpu {

namespace {

using base::UniqueFd;
using facts::BufferFacts;
using facts::MemoryKind;

constexpr std::uint64_t creation_unit = std::uint64_t{2} << 20;  // what cuMemCreate hands out in
constexpr std::uint64_t largest_mapping = std::uint64_t{256} << 20;
constexpr int posix_descriptor = 1;    // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
constexpr int dma_buf_descriptor = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

// UVM's calls are bare numbers.
constexpr unsigned long uvm_initialize = 0x30000001;
constexpr unsigned long uvm_free = 34;
constexpr unsigned long uvm_register_gpu = 37;
constexpr unsigned long uvm_alloc_device_p2p = 78;

constexpr std::uint32_t status_not_supported = 0x56;

struct UvmInitialize {
  std::uint64_t flags;
  std::uint32_t status;
};
struct UvmFree {
  std::uint64_t base;
  std::uint64_t length;
  std::uint32_t status;
};
struct UvmRegisterGpu {
  cuda::Uuid uuid;
  std::uint8_t numa_enabled;
  std::int32_t numa_node;
  std::int32_t control_fd;
  std::uint32_t client;
  std::uint32_t partition;
  std::uint32_t status;
};
static_assert(sizeof(UvmRegisterGpu) == 40);
struct UvmAllocDeviceP2p {
  std::uint64_t base;
  std::uint64_t length;
  std::uint64_t offset;
  cuda::Uuid uuid;
  std::int32_t control_fd;
  std::uint32_t client;
  std::uint32_t memory;
  std::uint32_t status;
};
static_assert(sizeof(UvmAllocDeviceP2p) == 56);

// One call to UVM; what was refused, with the step's name, or nothing.
template <typename Parameters>
std::string call_uvm(int fd, unsigned long number, Parameters& parameters, const char* step) {
  if (::ioctl(fd, number, &parameters) != 0) {
    const char* const name = ::strerrorname_np(errno);
    return fmt::format("{}: {}", step, name != nullptr ? name : "an unknown error");
  }
  if (parameters.status == 0) return "";
  return fmt::format("{}: UVM answered status 0x{:x}{}", step, parameters.status,
                     parameters.status == status_not_supported ? " (not supported)" : "");
}

// Addresses that nothing else uses, for UVM to map at.
std::byte* reserve(std::uint64_t size) {
  void* const found =
      ::mmap(nullptr, size + creation_unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<std::uint64_t>(found);
  const std::uint64_t start = (first + creation_unit - 1) / creation_unit * creation_unit;
  if (start != first) ::munmap(found, start - first);
  const std::uint64_t behind = first + creation_unit - start;
  if (behind != 0) ::munmap(reinterpret_cast<void*>(start + size), behind);
  return reinterpret_cast<std::byte*>(start);
}

// A mapping of one range of one allocation.
struct Mapped {
  std::byte* base = nullptr;
  std::uint64_t length = 0;
  RmHandle memory = 0;
  std::string refusal;
};

// One device's client and descriptor.
class Device {
 public:
  explicit Device(const cuda::Uuid& uuid) : uuid_(uuid), client_(uuid) {
    refusal_ = client_.refusal();
    if (refusal_.empty()) refusal_ = start_uvm();
  }

  const std::string& refusal() const noexcept { return refusal_; }

  // `offset` and `length` of the allocation that holds `address`, in whole pages.
  Mapped map(std::uint64_t address, std::uint64_t offset, std::uint64_t length) {
    Mapped mapped;
    const UniqueFd exported = export_allocation(address, mapped.refusal);
    if (!exported) return mapped;
    const RmClient::Imported imported = client_.import_memory(exported.get());
    mapped.refusal = imported.refusal;
    if (imported.memory == 0) return mapped;
    mapped.memory = imported.memory;
    mapped.length = length;
    mapped.base = reserve(length);
    mapped.refusal = mapped.base == nullptr ? "reserving addresses: ENOMEM" : place(mapped, offset);
    if (!mapped.refusal.empty()) {
      if (mapped.base != nullptr) ::munmap(mapped.base, length);
      client_.free_object(mapped.memory);
    }
    return mapped;
  }

  void unmap(const Mapped& mapped) noexcept {
    ::munmap(mapped.base, mapped.length);
    UvmFree call{reinterpret_cast<std::uint64_t>(mapped.base), mapped.length, 0};
    ::ioctl(uvm_.get(), uvm_free, &call);
    client_.free_object(mapped.memory);
  }

 private:
  std::string start_uvm() {
    uvm_ = UniqueFd(::open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC));
    if (!uvm_) return fmt::format("opening /dev/nvidia-uvm: {}", ::strerrorname_np(errno));
    UvmInitialize initialize{};
    if (std::string why = call_uvm(uvm_.get(), uvm_initialize, initialize, "initialising UVM"); !why.empty())
      return why;
    UvmRegisterGpu gpu{};
    gpu.uuid = uuid_;
    gpu.control_fd = -1;
    return call_uvm(uvm_.get(), uvm_register_gpu, gpu, "registering the GPU with UVM");
  }

  static UniqueFd export_allocation(std::uint64_t address, std::string& refusal) {
    const CudaApi& driver = *gpu::driver();
    cuda::AllocationHandle allocation = 0;
    if (driver.mem_retain_handle == nullptr || driver.mem_export == nullptr) {
      refusal = "this driver has no virtual memory management";
      return {};
    }
    if (const cuda::Result result = driver.mem_retain_handle(&allocation, reinterpret_cast<void*>(address));
        result != cuda::success) {
      refusal = "finding the allocation's handle (it was not made by cuMemCreate): " + error_name(result);
      return {};
    }
    int fd = -1;
    const cuda::Result result = driver.mem_export(&fd, allocation, posix_descriptor, 0);
    driver.mem_release(allocation);
    if (result == cuda::success) return UniqueFd(fd);
    refusal = "exporting the allocation (it was not made to be exported as a descriptor): " + error_name(result);
    return {};
  }

  std::string place(const Mapped& mapped, std::uint64_t offset) {
    UvmAllocDeviceP2p call{};
    call.base = reinterpret_cast<std::uint64_t>(mapped.base);
    call.length = mapped.length;
    call.offset = offset;
    call.uuid = uuid_;
    call.control_fd = client_.control_fd();
    call.client = client_.client();
    call.memory = mapped.memory;
    std::string why = call_uvm(uvm_.get(), uvm_alloc_device_p2p, call,
                               "asking UVM for a device-P2P range (needs static BAR1 without write-combining)");
    if (!why.empty()) return why;
    void* const placed = ::mmap(mapped.base, mapped.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm_.get(),
                                static_cast<off_t>(call.base));
    if (placed != MAP_FAILED) return "";
    why = fmt::format("mapping the device-P2P range: {}", ::strerrorname_np(errno));
    UvmFree free{call.base, call.length, 0};
    ::ioctl(uvm_.get(), uvm_free, &free);
    return why;
  }

  const cuda::Uuid uuid_;
  RmClient client_;
  UniqueFd uvm_;
  std::string refusal_;
};

// Device memory that can be exported, with a context of the device current.
std::optional<Scratch> make_exportable(int device, std::string& refusal) {
  const CudaApi& driver = *gpu::driver();
  const bool complete = driver.mem_create != nullptr && driver.mem_release != nullptr &&
                        driver.mem_reserve != nullptr && driver.mem_map != nullptr && driver.mem_set_access != nullptr;
  if (!complete) {
    refusal = "this driver has no virtual memory management";
    return std::nullopt;
  }
  cuda::AllocationProperties properties{};
  properties.type = cuda::allocation_pinned;
  properties.handle_types = posix_descriptor;
  properties.location = {cuda::location_device, device};
  cuda::AllocationHandle allocation = 0;
  cuda::Result result = driver.mem_create(&allocation, creation_unit, &properties, 0);
  cuda::DevicePtr address = 0;
  if (result == cuda::success) {
    result = driver.mem_reserve(&address, creation_unit, creation_unit, 0, 0);
    if (result == cuda::success) result = driver.mem_map(address, creation_unit, 0, allocation, 0);
    const cuda::AccessDescription access{{cuda::location_device, device}, cuda::access_read_write};
    if (result == cuda::success) result = driver.mem_set_access(address, creation_unit, &access, 1);
    driver.mem_release(allocation);  // the mapping keeps it
  }
  if (result != cuda::success) {
    refusal = "making memory that can be exported: " + error_name(result);
    return std::nullopt;
  }
  Scratch scratch{inspect(address), address, scratch_bytes, 0};
  scratch.memory.device = device;
  return scratch;
}

bool holds(const BufferFacts& memory, std::uint64_t address) noexcept {
  return address >= memory.base && address - memory.base < memory.size;
}

// Offsets are reckoned from where the memory begins, which must be where the allocation behind `address` begins: a
// wrong offset would be a mapping onto other bytes.
bool begins_with_its_allocation(const BufferFacts& memory, std::uint64_t address) noexcept {
  const CudaApi& driver = *gpu::driver();
  if (!holds(memory, address) || driver.mem_retain_handle == nullptr || driver.mem_release == nullptr) return false;
  std::array<cuda::AllocationHandle, 2> found{};
  const std::array<std::uint64_t, 2> at{memory.base, address};
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (driver.mem_retain_handle(&found[i], reinterpret_cast<void*>(at[i])) != cuda::success) break;
    driver.mem_release(found[i]);
  }
  return found[0] != 0 && found[0] == found[1];
}

// One mutex over all: the experimental provider maps and unmaps with every transfer, which is dear in any case.
class Uvm final : public Provider {
 public:
  const char* name() const noexcept override { return "NVIDIA UVM device P2P (experimental)"; }

  std::string refusal(int device) override {
    Device* const found = device_at(device);
    if (found == nullptr) return "there is no such device";
    if (!found->refusal().empty()) return found->refusal();
    // The whole sequence once, on memory of our own.
    BufferFacts memory;
    memory.kind = MemoryKind::device;
    memory.device = device;
    const Session session(memory);
    if (session.status() != cuda::success) return "using a context of the device: " + error_name(session.status());
    std::string why;
    const std::optional<Scratch> scratch = scratch_of(device, why);
    if (!scratch) return why;
    give_back(*scratch);
    const std::lock_guard lock(mutex_);
    const Mapped mapped = found->map(scratch->address, 0, creation_unit);
    if (mapped.refusal.empty()) found->unmap(mapped);
    return mapped.refusal;
  }

  P2pMapping map(const BufferFacts& request, std::uint64_t address, std::uint64_t size) noexcept override {
    try {
      // A request may span several allocations that are mapped side by side: each has offsets of its own.
      const BufferFacts memory = holds(request, address) ? request : inspect(address);
      Device* const device = device_at(memory.device);
      if (device == nullptr || !device->refusal().empty() || !begins_with_its_allocation(memory, address)) return {};
      const std::uint64_t end = std::min(address + size, memory.base + memory.size);
      const std::uint64_t first = (address - memory.base) / page * page;
      const std::uint64_t last = (end - memory.base + page - 1) / page * page;
      const std::lock_guard lock(mutex_);
      Mapped mapped = device->map(address, first, std::min(last - first, largest_mapping));
      if (!mapped.refusal.empty()) return {};
      const std::uint64_t skipped = address - memory.base - first;
      const P2pMapping mapping{mapped.base + skipped, std::min(end - address, mapped.length - skipped), ++last_token_};
      mappings_[mapping.token] = {device, std::move(mapped)};
      return mapping;
    } catch (...) {
      return {};
    }
  }

  void release(const P2pMapping& mapping) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(mapping.token);
    if (found == mappings_.end()) return;
    found->second.device->unmap(found->second.mapped);
    mappings_.erase(found);
  }

  std::optional<Scratch> take_scratch(int device, std::uint64_t size) override {
    std::string why;
    return size <= scratch_bytes ? scratch_of(device, why) : std::nullopt;
  }

  // Kept: freeing may wait for work that waits for us.
  void give_back(const Scratch& scratch) noexcept override {
    const std::lock_guard lock(mutex_);
    try {
      scratches_[static_cast<std::size_t>(scratch.memory.device)].push_back(scratch);
    } catch (...) {  // NOLINT(bugprone-empty-catch): without room to remember it, it is not used again
    }
  }

  int export_dma_buf(const BufferFacts& /*memory*/, std::uint64_t address, std::uint64_t size) noexcept override {
    const CudaApi* const driver = gpu::driver();
    int fd = -1;
    if (driver == nullptr || driver->mem_handle_for_range == nullptr) return -1;
    return driver->mem_handle_for_range(&fd, address, size, dma_buf_descriptor, 0) == cuda::success ? fd : -1;
  }

 private:
  static constexpr std::uint64_t page = 65536;
  struct Held {
    Device* device;
    Mapped mapped;
  };

  Device* device_at(int ordinal) {
    if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= max_devices) return nullptr;
    const std::lock_guard lock(mutex_);
    auto& slot = devices_[static_cast<std::size_t>(ordinal)];
    if (!slot) slot = std::make_unique<Device>(uuid_of(ordinal));
    return slot.get();
  }

  // Two at once get one each.
  std::optional<Scratch> scratch_of(int device, std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<Scratch>& kept = scratches_[static_cast<std::size_t>(device)];
      if (!kept.empty()) {
        const Scratch last = kept.back();
        kept.pop_back();
        return last;
      }
    }
    return make_exportable(device, why);
  }

  std::mutex mutex_;
  std::array<std::unique_ptr<Device>, max_devices> devices_;
  std::array<std::vector<Scratch>, max_devices> scratches_;
  std::map<std::uintptr_t, Held> mappings_;
  std::uintptr_t last_token_ = 0;
};

}  // namespace

Provider& uvm_provider() noexcept {
  // Never destroyed: transfers of the process's last destructors still use it.
  static base::NeverDestroyed<Uvm> instance;
  return instance.get();
}

}  // namespace sluice::gpu
