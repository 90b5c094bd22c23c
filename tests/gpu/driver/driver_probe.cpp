// SPDX-License-Identifier: Apache-2.0
// Questions about a driver that its documentation leaves open, each with the answer that the driver at hand gives. No
// test: run it on the soft GPU and on a real driver and compare the lines; where they differ the soft GPU is changed,
// and what matters to us moves into the suite.
#include "driver_probe.h"

#include <sys/mman.h>

#include <array>
#include <cstdio>

namespace sluice::gpu_suite {
namespace {

void ask_without_a_context() {
  cuda::Stream stream = nullptr;
  cuStreamCreate(&stream, cuda::stream_non_blocking);
  const Ptr pointer = allocate(page);
  cuda::Context context = nullptr;
  cuCtxPopCurrent_v2(&context);
  unsigned long long id = 0;
  int status = 0;
  Ptr base = 0;
  std::size_t size = 0;
  tell("no context: cuStreamQuery", cuStreamQuery(stream));
  tell("no context: cuStreamSynchronize", cuStreamSynchronize(stream));
  tell("no context: cuStreamGetId", cuStreamGetId(stream, &id));
  tell("no context: cuStreamIsCapturing", cuStreamIsCapturing(stream, &status));
  tell("no context: cuStreamIsCapturing of the default stream", cuStreamIsCapturing(nullptr, &status));
  tell("no context: cuMemsetD8Async on a stream", cuMemsetD8Async(pointer, 0, 64, stream));
  tell("no context: cuMemGetAddressRange", cuMemGetAddressRange_v2(&base, &size, pointer));
  tell("no context: cuMemFree of null", cuMemFree_v2(0));
  tell("no context: cuMemFree", cuMemFree_v2(pointer));
  tell("no context: cuStreamDestroy", cuStreamDestroy_v2(stream));
  cuCtxPushCurrent_v2(context);
}

void ask_about_nothing() {
  void* host = nullptr;
  Ptr pointer = 0;
  tell("cuMemAllocHost of 0 bytes", cuMemAllocHost_v2(&host, 0));
  tell("cuMemHostAlloc of 0 bytes", cuMemHostAlloc(&host, 0, 0));
  tell("cuMemFreeHost of null", cuMemFreeHost(nullptr));
  tell("cuStreamDestroy of the default stream", cuStreamDestroy_v2(nullptr));
  tell("cuEventDestroy of null", cuEventDestroy_v2(nullptr));
  tell("cuEventQuery of null", cuEventQuery(nullptr));
  const cuda::Result pushed = cuCtxPushCurrent_v2(nullptr);
  tell("cuCtxPushCurrent of null", pushed);
  if (pushed == cuda::success) cuCtxPopCurrent_v2(nullptr);
  tell("cuMemAllocAsync of 0 bytes", cuMemAllocAsync(&pointer, 0, nullptr));
  tell("cuMemFreeAsync of null", cuMemFreeAsync(0, nullptr));
  tell("cuLaunchHostFunc of null", cuLaunchHostFunc(nullptr, nullptr, nullptr));
}

void ask_about_ranges() {
  Ptr base = 0;
  std::size_t size = 0;
  const Ptr small = allocate(100);
  tell("range of 100 bytes: result", cuMemGetAddressRange_v2(&base, &size, small));
  tell("range of 100 bytes: size", static_cast<long long>(size));
  tell_attribute<std::size_t>("range size attribute of 100 bytes", cuda::pointer_attribute_range_size, small);
  tell("range behind 100 bytes: result", cuMemGetAddressRange_v2(&base, &size, small + 200));
  std::uint64_t local = 0;
  tell("range of pageable memory", cuMemGetAddressRange_v2(&base, &size, address(&local)));
  void* pinned = nullptr;
  cuMemHostAlloc(&pinned, 5000, 0);
  size = 0;
  tell("range of pinned memory: result", cuMemGetAddressRange_v2(&base, &size, address(pinned) + 10));
  tell("range of pinned memory: size", static_cast<long long>(size));
  tell_attribute<std::size_t>("range size attribute of 5000 pinned bytes", cuda::pointer_attribute_range_size,
                              address(pinned));
  unsigned flags = 0;
  cuMemHostGetFlags(&flags, pinned);
  tell("flags of pinned memory allocated with none", flags);
  const unsigned on = 1;
  tell("setting sync_memops of pinned memory",
       cuPointerSetAttribute(&on, cuda::pointer_attribute_sync_memops, address(pinned)));
  tell("cuMemFree of pinned memory", cuMemFree_v2(address(pinned)));
  cuMemFreeHost(pinned);
  std::uint8_t byte = 0;
  tell("copy beyond 100 bytes, within the same page", cuMemcpyHtoD_v2(small + 99, "ab", 2));
  tell("copy to the host from pageable memory as device memory", cuMemcpyDtoH_v2(&byte, address(&local), 1));
  tell("copy to the device from device memory as host memory",
       cuMemcpyHtoD_v2(small, reinterpret_cast<void*>(small + 8), 4));
  cuMemFree_v2(small);
}

void ask_about_registration() {
  auto* const memory = static_cast<char*>(pages(8 * page));
  tell("register unaligned", cuMemHostRegister_v2(memory + 100, 3 * page, 0));
  Ptr start = 0;
  cuPointerGetAttribute(&start, cuda::pointer_attribute_range_start_addr, address(memory) + 100);
  tell("start of a registration 100 bytes into a page, from the page's",
       static_cast<long long>(start - address(memory)));
  tell_attribute<unsigned>("type of memory in the page before an unaligned registration",
                           cuda::pointer_attribute_memory_type, address(memory));
  tell("unregister inside", cuMemHostUnregister(memory + 200));
  tell("register overlapping", cuMemHostRegister_v2(memory + 2 * page, 4 * page, 0));
  tell("cuMemFreeHost of registered memory", cuMemFreeHost(memory + 100));
  unsigned flags = 0;
  tell("cuMemHostGetFlags of registered memory", cuMemHostGetFlags(&flags, memory + 100));
  const Ptr device = allocate(8 * page);
  tell("copy that begins registered and goes on pageable", cuMemcpyHtoD_v2(device, memory + 100, 6 * page));
  tell("unregister", cuMemHostUnregister(memory + 100));
  ::munmap(memory, 8 * page);
  tell("register unmapped memory", cuMemHostRegister_v2(memory, page, 0));
  tell("register device memory", cuMemHostRegister_v2(reinterpret_cast<void*>(device), page, 0));
  cuMemFree_v2(device);
}

void ask_about_managed_memory() {
  Ptr pointer = 0;
  cuMemAllocManaged(&pointer, page, cuda::attach_global);
  tell_attribute<unsigned>("memory type of managed memory", cuda::pointer_attribute_memory_type, pointer);
  Ptr base = 0;
  std::size_t size = 0;
  tell("range of managed memory", cuMemGetAddressRange_v2(&base, &size, pointer + 5));
  cuMemFree_v2(pointer);
  std::uint64_t local = 0;
  int ordinal = 77;
  std::array<int, 1> attributes{cuda::pointer_attribute_device_ordinal};
  std::array<void*, 1> values{&ordinal};
  cuPointerGetAttributes(1, attributes.data(), values.data(), address(&local));
  tell("device ordinal of pageable memory among many", ordinal);
  tell_attribute<unsigned>("mapped attribute of pageable memory", cuda::pointer_attribute_mapped, address(&local));
}

void ask_about_virtual_memory() {
  const cuda::AllocationProperties properties{
      cuda::allocation_pinned, cuda::handle_type_none, {cuda::location_device, 0}, nullptr, 0, 0, 0, {}};
  const std::size_t chunk = 2 * mebibyte;
  Ptr start = 0;
  cuda::AllocationHandle memory = 0;
  cuMemAddressReserve(&start, 4 * chunk, 0, 0, 0);
  cuMemCreate(&memory, chunk, &properties, 0);
  tell_attribute<unsigned>("memory type of a reserved address", cuda::pointer_attribute_memory_type, start);
  tell_attribute<unsigned>("mapped attribute of a reserved address", cuda::pointer_attribute_mapped, start);
  cuMemMap(start, chunk, 0, memory, 0);
  cuMemMap(start + chunk, chunk, 0, memory, 0);
  tell("free a reservation in which something is mapped", cuMemAddressFree(start, 4 * chunk));
  const cuda::AccessDescription access{{cuda::location_device, 0}, cuda::access_read_write};
  tell("access to a range that is not all mapped", cuMemSetAccess(start, 3 * chunk, &access, 1));
  cuMemSetAccess(start, 2 * chunk, &access, 1);
  Ptr base = 0;
  std::size_t size = 0;
  tell("range of a mapping: result", cuMemGetAddressRange_v2(&base, &size, start + chunk + 5));
  tell("range of a mapping: start, from the reservation's", static_cast<long long>(base - start));
  tell("range of a mapping: size", static_cast<long long>(size));
  tell_attribute<Ptr>("context of a mapping", cuda::pointer_attribute_context, start);
  unsigned long long first = 0;
  unsigned long long second = 0;
  cuPointerGetAttribute(&first, cuda::pointer_attribute_buffer_id, start);
  cuPointerGetAttribute(&second, cuda::pointer_attribute_buffer_id, start + chunk);
  tell("two mappings of one memory have one buffer id", first == second ? 1 : 0);
  tell("unmap the second half of a mapping", cuMemUnmap(start + chunk / 2, chunk / 2));
  tell("unmap two mappings at once", cuMemUnmap(start, 2 * chunk));
  tell("cuMemMap with an offset", cuMemMap(start, chunk, chunk, memory, 0));
  tell("copy to a reserved address", cuMemcpyHtoD_v2(start, "ab", 2));
  cuMemRelease(memory);
  cuMemAddressFree(start, 4 * chunk);
}

void ask_about_pools() {
  Ptr pointer = 0;
  cuMemAllocAsync(&pointer, page, nullptr);
  tell_attribute<Ptr>("context of pool memory", cuda::pointer_attribute_context, pointer);
  tell_attribute<std::size_t>("range size attribute of 4096 pool bytes", cuda::pointer_attribute_range_size, pointer);
  cuMemFreeAsync(pointer, nullptr);
  const Ptr plain = allocate(page);
  tell("cuMemFreeAsync of plain memory", cuMemFreeAsync(plain, nullptr));
  cuCtxSynchronize();
}

void ask_about_memory_operations() {
  std::uint64_t local = 0;
  const Ptr device = allocate(page);
  tell("wait value: misaligned", cuStreamWaitValue32_v2(nullptr, device + 2, 0, cuda::wait_value_geq));
  tell("wait value: pageable memory", cuStreamWaitValue32_v2(nullptr, address(&local), 0, cuda::wait_value_geq));
  tell("wait value: unknown flags", cuStreamWaitValue32_v2(nullptr, device, 0, 7));
  tell("write value: unknown flags", cuStreamWriteValue32_v2(nullptr, device, 0, 8));
  cuCtxSynchronize();
  cuMemFree_v2(device);
}

void ask_inside_a_host_function() {
  std::array<cuda::Result, 3> answers{cuda::error_unknown, cuda::error_unknown, cuda::error_unknown};
  cuLaunchHostFunc(
      nullptr,
      [](void* data) {
        auto& told = *static_cast<std::array<cuda::Result, 3>*>(data);
        int count = 0;
        std::uint64_t local = 0;
        unsigned type = 0;
        told[0] = cuDeviceGetCount(&count);
        told[1] = cuStreamQuery(nullptr);
        told[2] = cuPointerGetAttribute(&type, cuda::pointer_attribute_memory_type, reinterpret_cast<Ptr>(&local));
      },
      &answers);
  cuCtxSynchronize();
  tell("in a host function: cuDeviceGetCount", answers[0]);
  tell("in a host function: cuStreamQuery", answers[1]);
  tell("in a host function: cuPointerGetAttribute of pageable memory", answers[2]);
}

void ask_about_names() {
  void* function = nullptr;
  int status = -1;
  tell("cuGetProcAddress_v2 of cuMemAlloc_v2", cuGetProcAddress_v2("cuMemAlloc_v2", &function, 13000, 0, &status));
  tell("cuGetProcAddress_v2 of cuMemAlloc_v2: status", status);
  tell("cuGetProcAddress of an unknown name", cuGetProcAddress("cuNoSuchCall", &function, 13000, 0));
  std::array<char, 32> text{};
  tell("cuDeviceGetPCIBusId with 5 bytes", cuDeviceGetPCIBusId(text.data(), 5, 0));
  tell("cuDeviceGetName with 4 bytes", cuDeviceGetName(text.data(), 4, 0));
  cuda::Device device = 0;
  tell("cuDeviceGetByPCIBusId of nonsense", cuDeviceGetByPCIBusId(&device, "nonsense"));
  tell("cuDeviceGetByPCIBusId of a device that is not there", cuDeviceGetByPCIBusId(&device, "fffe:1f:1f.7"));
}

// Last, since a reset takes everything.
void ask_about_the_primary_context(cuda::Context context) {
  tell("cuCtxDestroy of a primary context", cuCtxDestroy_v2(context));
  unsigned long long before = 0;
  unsigned long long after = 0;
  cuCtxGetId(nullptr, &before);
  tell("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2(0));
  cuda::Device device = 0;
  Ptr pointer = 0;
  tell("after a reset: cuCtxGetDevice", cuCtxGetDevice(&device));
  tell("after a reset: cuMemAlloc", cuMemAlloc_v2(&pointer, page));
  cuda::Context again = nullptr;
  tell("after a reset: retain", cuDevicePrimaryCtxRetain(&again, 0));
  tell("after a reset: the handle is the same", again == context ? 1 : 0);
  cuCtxGetId(again, &after);
  tell("after a reset: the id is the same", before == after ? 1 : 0);
  tell("after a reset and a retain: cuMemAlloc", cuMemAlloc_v2(&pointer, page));
}

void ask() {
  cuda::Context context = nullptr;
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  ask_without_a_context();
  ask_about_nothing();
  ask_about_ranges();
  ask_about_registration();
  ask_about_managed_memory();
  ask_about_virtual_memory();
  ask_about_pools();
  ask_about_memory_operations();
  ask_inside_a_host_function();
  ask_about_names();
  ask_about_work();
  ask_about_the_primary_context(context);
}

}  // namespace
}  // namespace sluice::gpu_suite

int main() {
  ::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was asked last is seen when a driver crashes
  if (sluice::gpu_suite::driver_library() == nullptr || sluice::gpu_suite::cuInit(0) != sluice::cuda::success) {
    std::printf("no usable CUDA driver\n");
    return 1;
  }
  std::printf("%s\n", sluice::gpu_suite::driver_description().c_str());
  sluice::gpu_suite::ask();
  return 0;
}
