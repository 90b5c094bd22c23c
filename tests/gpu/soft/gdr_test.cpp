// SPDX-License-Identifier: Apache-2.0
// The stand-in for GDRCopy: which memory it pins, what it maps, and that a mapping goes with the memory.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "gpu/gdr_abi.h"
#include "scenario.h"

namespace sluice::gpu_suite {
namespace {

template <typename Function>
void find_gdr(Function& function, const char* name) {
  static void* const library = ::dlopen(gdr::soname, RTLD_NOW | RTLD_LOCAL);
  function = library != nullptr ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
}

// All of them, or the program ends by a null pointer.
gdr::Calls gdr_calls() {
  gdr::Calls calls;
  find_gdr(calls.open, "gdr_open");
  find_gdr(calls.close, "gdr_close");
  find_gdr(calls.pin_buffer, "gdr_pin_buffer");
  find_gdr(calls.unpin_buffer, "gdr_unpin_buffer");
  find_gdr(calls.get_info_v2, "gdr_get_info_v2");
  find_gdr(calls.map, "gdr_map");
  find_gdr(calls.unmap, "gdr_unmap");
  return calls;
}

Verdict a_mapping_shows_the_bytes_of_the_device() {
  const gdr::Calls call = gdr_calls();
  gdr::Connection* const open = call.open();
  AND_THAT(open != nullptr);
  Ptr before = 0;
  Ptr memory = 0;
  AND_THAT(cuMemAlloc_v2(&before, 512) == cuda::success && cuMemAlloc_v2(&memory, 200000) == cuda::success);
  AND_THAT(cuMemsetD8_v2(memory, 0x5a, 200000) == cuda::success && cuCtxSynchronize() == cuda::success);
  gdr::Handle handle{};
  gdr::Info info{};
  AND_THAT(call.pin_buffer(open, memory + 70000, 3000, 0, 0, &handle) == 0);
  AND_THAT(call.get_info_v2(open, handle, &info) == 0);
  AND_THAT(info.start % gdr::page == 0 && info.start <= memory + 70000 && memory + 70000 - info.start < gdr::page);
  AND_THAT(info.size % gdr::page == 0 && info.start + info.size >= memory + 73000 && info.size <= 2 * gdr::page);
  AND_THAT(info.page_size == gdr::page && info.mapped == 0 && info.mapping_type == gdr::mapping_none);
  void* place = nullptr;
  const std::size_t length = memory + 73000 - info.start;
  AND_THAT(call.map(open, handle, &place, length) == 0);
  AND_THAT(call.map(open, handle, &place, length) == EAGAIN);
  AND_THAT(call.get_info_v2(open, handle, &info) == 0 && info.mapped == 1);
  AND_THAT(info.mapping_type == gdr::mapping_caching);
  auto* const bytes = static_cast<unsigned char*>(place) + (memory + 70000 - info.start);
  AND_THAT(bytes[0] == 0x5a && bytes[2999] == 0x5a);
  std::memset(bytes, 0x11, 3000);
  std::array<unsigned char, 3002> seen{};
  AND_THAT(cuMemcpyDtoH_v2(seen.data(), memory + 69999, seen.size()) == cuda::success);
  AND_THAT(seen[0] == 0x5a && seen[1] == 0x11 && seen[3000] == 0x11 && seen[3001] == 0x5a);
  AND_THAT(call.unmap(open, handle, bytes, length) == EINVAL && call.unpin_buffer(open, handle) == EBUSY);
  AND_THAT(call.unmap(open, handle, place, length) == 0);
  AND_THAT(call.unmap(open, handle, place, length) == EINVAL);
  AND_THAT(call.unpin_buffer(open, handle) == 0 && call.unpin_buffer(open, handle) == EINVAL);
  AND_THAT(call.close(open) == 0);
  return "";
}

TEST(Gdr, MapsTheBytesOfTheDevice) {
  EXPECT_HOLDS({}, a_mapping_shows_the_bytes_of_the_device);
}

TEST(Gdr, MapsTheBytesOfADeviceThatAreInAFile) {
  const int file = ::memfd_create("backing", 0);
  ASSERT_EQ(::ftruncate(file, 8 << 20), 0);
  const std::string knob = "/proc/self/fd/" + std::to_string(file) + ":2097152:4194304";
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", knob.c_str()}}, a_mapping_shows_the_bytes_of_the_device);
  ::close(file);
}

Verdict only_memory_of_one_allocation_is_pinned() {
  const gdr::Calls call = gdr_calls();
  gdr::Connection* const open = call.open();
  gdr::Handle handle{};
  const auto pins = [&](Ptr address, std::size_t size) { return call.pin_buffer(open, address, size, 0, 0, &handle); };
  Ptr memory = 0;
  Ptr neighbour = 0;
  AND_THAT(cuMemAlloc_v2(&memory, 2 << 20) == cuda::success && cuMemAlloc_v2(&neighbour, 2 << 20) == cuda::success);
  AND_THAT(neighbour == memory + (2 << 20));
  AND_THAT(pins(memory, 2 << 20) == 0 && pins(memory + 5, (2 << 20) - 5) == 0);
  AND_THAT(pins(memory, (2 << 20) + 1) == EINVAL && pins(memory, 0) == EINVAL);
  AND_THAT(pins(neighbour + (4 << 20), 1) == EINVAL);  // a device's, and not allocated
  void* pinned = nullptr;
  Ptr managed = 0;
  Ptr pooled = 0;
  AND_THAT(cuMemHostAlloc(&pinned, 4096, 0) == cuda::success);
  AND_THAT(cuMemAllocManaged(&managed, 4096, cuda::attach_global) == cuda::success);
  AND_THAT(cuMemAllocAsync(&pooled, 4096, nullptr) == cuda::success && cuCtxSynchronize() == cuda::success);
  AND_THAT(pins(reinterpret_cast<Ptr>(pinned), 4096) == EINVAL && pins(reinterpret_cast<Ptr>(&handle), 1) == EINVAL);
  AND_THAT(pins(managed, 4096) == EINVAL && pins(pooled, 4096) == EINVAL && pins(0, 1) == EINVAL);
  const cuda::AllocationProperties properties{
      cuda::allocation_pinned, cuda::handle_type_none, {cuda::location_device, 0}, nullptr, 0, 0, 0, {}};
  cuda::AllocationHandle physical = 0;
  Ptr mapped = 0;
  AND_THAT(cuMemAddressReserve(&mapped, 2 << 20, 0, 0, 0) == cuda::success);
  AND_THAT(cuMemCreate(&physical, 2 << 20, &properties, 0) == cuda::success);
  AND_THAT(cuMemMap(mapped, 2 << 20, 0, physical, 0) == cuda::success);
  AND_THAT(pins(mapped, 4096) == EINVAL);
  AND_THAT(call.pin_buffer(open, memory, 4096, 0, 0, nullptr) == EINVAL);
  void* place = nullptr;
  AND_THAT(pins(memory, 4096) == 0 && call.map(open, handle, &place, gdr::page + 1) == EINVAL);
  AND_THAT(call.map(open, handle, &place, 0) == EINVAL && call.map(open, handle, &place, gdr::page) == 0);
  return "";
}

TEST(Gdr, PinsMemoryOfOneAllocationAlone) {
  EXPECT_HOLDS({}, only_memory_of_one_allocation_is_pinned);
}

// What the kernel says of a store there on our behalf: 0, or an errno.
int store_into(void* place) {
  const int source = ::memfd_create("source", MFD_CLOEXEC);
  const char byte = 'x';
  if (::pwrite(source, &byte, 1, 0) != 1) return EIO;
  const ssize_t stored = ::pread(source, place, 1, 0);
  const int error = stored == 1 ? 0 : errno;
  ::close(source);
  return error;
}

struct Mapped {
  gdr::Calls call = gdr_calls();
  gdr::Connection* open = call.open();
  gdr::Handle handle{};
  void* place = nullptr;

  bool map(Ptr memory) {
    return call.pin_buffer(open, memory, 4096, 0, 0, &handle) == 0 && call.map(open, handle, &place, 4096) == 0;
  }
};

Verdict a_mapping_goes_with_the_memory() {
  Mapped mapped;
  Ptr memory = 0;
  AND_THAT(cuMemAlloc_v2(&memory, 2 << 20) == cuda::success && mapped.map(memory));
  AND_THAT(store_into(mapped.place) == 0);
  AND_THAT(cuMemFree_v2(memory) == cuda::success);
  AND_THAT(store_into(mapped.place) == EFAULT);
  Ptr again = 0;
  AND_THAT(cuMemAlloc_v2(&again, 2 << 20) == cuda::success && again == memory);
  AND_THAT(store_into(mapped.place) == EFAULT);
  AND_THAT(mapped.call.unmap(mapped.open, mapped.handle, mapped.place, 4096) == 0);
  AND_THAT(mapped.call.map(mapped.open, mapped.handle, &mapped.place, 4096) == EINVAL);
  AND_THAT(mapped.call.unpin_buffer(mapped.open, mapped.handle) == 0);
  return "";
}

TEST(Gdr, TakesAMappingBackWhenTheMemoryIsFreed) {
  EXPECT_HOLDS({}, a_mapping_goes_with_the_memory);
}

Verdict a_mapping_goes_with_the_context() {
  Mapped mapped;
  cuda::Context context = nullptr;
  Ptr memory = 0;
  AND_THAT(cuCtxCreate_v4(&context, nullptr, 0, 0) == cuda::success);
  AND_THAT(cuMemAlloc_v2(&memory, 4096) == cuda::success && mapped.map(memory));
  AND_THAT(store_into(mapped.place) == 0);
  AND_THAT(cuCtxDestroy_v2(context) == cuda::success);
  AND_THAT(store_into(mapped.place) == EFAULT);
  return "";
}

TEST(Gdr, TakesAMappingBackWhenTheContextIsDestroyed) {
  EXPECT_HOLDS({}, a_mapping_goes_with_the_context);
}

Verdict a_mapping_stays() {
  Mapped mapped;
  Ptr memory = 0;
  AND_THAT(cuMemAlloc_v2(&memory, 4096) == cuda::success && mapped.map(memory));
  AND_THAT(cuMemFree_v2(memory) == cuda::success && store_into(mapped.place) == 0);
  return "";
}

TEST(Gdr, LeavesAMappingOfFreedMemoryOnRequest) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "gdr_free_callback:1"}}, a_mapping_stays);
}

Verdict the_second_pin_fails() {
  Mapped mapped;
  Ptr memory = 0;
  AND_THAT(cuMemAlloc_v2(&memory, 4096) == cuda::success && mapped.map(memory));
  gdr::Handle other{};
  AND_THAT(mapped.call.pin_buffer(mapped.open, memory, 4096, 0, 0, &other) == ENOMEM);
  AND_THAT(mapped.call.pin_buffer(mapped.open, memory, 4096, 0, 0, &other) == 0);
  return "";
}

TEST(Gdr, FailsOnRequest) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "gdr_pin_buffer:2:2"}}, the_second_pin_fails);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_FAIL", "gdr_open:1"}},
               [] { return Verdict(gdr_calls().open() == nullptr ? "" : "gdr_open worked"); });
}

Verdict a_child_is_refused() {
  Mapped mapped;
  Ptr memory = 0;
  AND_THAT(cuMemAlloc_v2(&memory, 4096) == cuda::success && mapped.map(memory));
  const pid_t child = ::fork();
  if (child == 0) {
    gdr::Handle other{};
    const bool refused = mapped.call.open() == nullptr &&
                         mapped.call.pin_buffer(mapped.open, memory, 4096, 0, 0, &other) == ENODEV &&
                         store_into(mapped.place) == EFAULT;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  AND_THAT(::waitpid(child, &status, 0) == child && status == 0);
  return "";
}

TEST(Gdr, IsNotThereInAForkedChild) {
  EXPECT_HOLDS({}, a_child_is_refused);
}

}  // namespace
}  // namespace sluice::gpu_suite
