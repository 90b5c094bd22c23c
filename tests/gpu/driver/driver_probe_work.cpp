// SPDX-License-Identifier: Apache-2.0
// The probe's questions about what devices do: kernels, copies, memory operations, and what their attributes are.
#include "driver_probe.h"
#include "gpu/driver/kernel_texts.h"

namespace sluice::gpu_suite {
namespace {

cuda::Result load(const char* text) {
  cuda::Module module = nullptr;
  const cuda::Result result = cuModuleLoadData(&module, text);
  if (result == cuda::success) cuModuleUnload(module);
  return result;
}

std::string with(std::string text, const std::string& words, const std::string& others) {
  return text.replace(text.find(words), words.size(), others);
}

void ask_about_code() {
  tell("load: empty text", load(""));
  tell("load: words that are no PTX", load("hello, world"));
  tell("load: a version and nothing else", load(".version 6.4\n"));
  tell("load: no entry", load(".version 6.4\n.target sm_60\n.address_size 64\n"));
  tell("load: an instruction that there is not", load(with(ptx::probe_store, "membar.sys", "nonsense").c_str()));
  tell("load: a newer version", load(with(ptx::probe_store, ".version 6.4", ".version 99.0").c_str()));
  tell("load: a newer target", load(with(ptx::probe_store, "sm_60", "sm_120").c_str()));
  tell("load: ELF and nothing else", load("\x7f"
                                          "ELF"));
  cuda::Module module = nullptr;
  cuda::Function store = nullptr;
  cuModuleLoadData(&module, ptx::probe_store);
  cuModuleGetFunction(&store, module, "sluice_probe_store");
  for (int attribute = 0; attribute < 17; ++attribute) {
    int value = -77;
    const cuda::Result result = cuFuncGetAttribute(&value, attribute, store);
    tell("function attribute " + std::to_string(attribute),
         result == cuda::success ? value : -1000000 - cuda::number_of(result));
  }
  tell("function attribute: most dynamic shared bytes to 48 KiB", cuFuncSetAttribute(store, 8, 49152));
  tell("function attribute: most dynamic shared bytes to 48 KiB + 1", cuFuncSetAttribute(store, 8, 49153));
  tell("function attribute: most dynamic shared bytes to -1", cuFuncSetAttribute(store, 8, -1));
  tell("function attribute: carveout to 101", cuFuncSetAttribute(store, 9, 101));
  int blocks = -1;
  tell("occupancy with 2048 threads", cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 2048, 0));
  tell("occupancy with 2048 threads: blocks", blocks);
  cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 32, 0);
  tell("occupancy with 32 threads: blocks", blocks);
  cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, store, 32, 49152);
  tell("occupancy with 32 threads and 48 KiB: blocks", blocks);
  const Ptr device = allocate(page);
  Ptr to = device;
  std::uint32_t value = 1;
  void* parameters[] = {&to, &value};
  std::size_t size = 8;
  void* extra[] = {reinterpret_cast<void*>(1), &to, reinterpret_cast<void*>(2), &size, nullptr};
  tell("launch: too many shared bytes",
       cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 1U << 20U, nullptr, parameters, nullptr));
  tell("launch: a buffer that is too small", cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  tell("launch: both ways of parameters", cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, extra));
  tell("launch: no function", cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  cuda::Stream stream = nullptr;
  cuStreamCreate(&stream, cuda::stream_non_blocking);
  cuda::Context context = nullptr;
  cuCtxPopCurrent_v2(&context);
  tell("no context: launch on a stream", cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  cuda::Library library = nullptr;
  tell("no context: cuLibraryLoadData",
       cuLibraryLoadData(&library, ptx::probe_store, nullptr, nullptr, 0, nullptr, nullptr, 0));
  cuCtxPushCurrent_v2(context);
  if (library != nullptr) cuLibraryUnload(library);
  cuCtxSynchronize();
  cuStreamDestroy_v2(stream);
  tell("unload", cuModuleUnload(module));
  cuMemFree_v2(device);
}

void ask_about_copies() {
  auto* const memory = static_cast<char*>(pages(8 * page));
  void* pinned = nullptr;
  cuMemHostAlloc(&pinned, 8 * page, 0);
  const Ptr device = allocate(8 * page);
  cuda::Stream stream = nullptr;
  cuStreamCreate(&stream, cuda::stream_non_blocking);
  cuda::Context context = nullptr;
  cuCtxPopCurrent_v2(&context);
  tell("no context: cuMemcpyHtoDAsync on a stream, pinned", cuMemcpyHtoDAsync_v2(device, pinned, page, stream));
  tell("no context: cuMemcpyDtoHAsync on a stream, pageable", cuMemcpyDtoHAsync_v2(memory, device, page, stream));
  tell("no context: cuMemcpyAsync on a stream", cuMemcpyAsync(device + page, device, page, stream));
  tell("no context: cuMemcpyHtoD", cuMemcpyHtoD_v2(device, pinned, page));
  tell("no context: cuStreamWriteValue32 on a stream", cuStreamWriteValue32_v2(stream, device, 1, 0));
  tell("no context: cuLaunchHostFunc on a stream", cuLaunchHostFunc(
                                                       stream, [](void*) {}, nullptr));
  tell("no context: cuMemHostRegister", cuMemHostRegister_v2(memory, page, 0));
  tell("no context: cuMemHostUnregister", cuMemHostUnregister(memory));
  void* more = nullptr;
  tell("no context: cuMemHostAlloc", cuMemHostAlloc(&more, page, 0));
  tell("no context: cuMemFreeHost", cuMemFreeHost(pinned));
  cuCtxPushCurrent_v2(context);
  cuStreamSynchronize(stream);
  more = &more;
  cuMemHostAlloc(&more, 0, 0);
  tell("cuMemHostAlloc of 0 bytes: the pointer is null", more == nullptr ? 1 : 0);
  tell("cuMemHostRegister", cuMemHostRegister_v2(memory, page, 0));
  cuCtxPopCurrent_v2(&context);
  tell("no context: cuMemHostUnregister of registered memory", cuMemHostUnregister(memory));
  cuda::Event event = nullptr;
  tell("no context: cuEventCreate", cuEventCreate(&event, 0));
  cuCtxPushCurrent_v2(context);
  cuEventCreate(&event, 0);
  cuCtxPopCurrent_v2(&context);
  tell("no context: cuEventRecord on a stream", cuEventRecord(event, stream));
  tell("no context: cuEventQuery", cuEventQuery(event));
  tell("no context: cuStreamWaitEvent", cuStreamWaitEvent(stream, event, 0));
  tell("no context: cuEventSynchronize", cuEventSynchronize(event));
  tell("no context: cuEventDestroy", cuEventDestroy_v2(event));
  Ptr pooled = 0;
  tell("no context: cuMemAllocAsync on a stream", cuMemAllocAsync(&pooled, page, stream));
  tell("no context: cuMemFreeAsync on a stream", cuMemFreeAsync(pooled, stream));
  tell("no context: cuMemAllocManaged", cuMemAllocManaged(&pooled, page, cuda::attach_global));
  tell("no context: cuStreamDestroy", cuStreamDestroy_v2(stream));
  cuCtxPushCurrent_v2(context);
  cuStreamCreate(&stream, cuda::stream_non_blocking);
  tell("cuMemcpyDtoH to device memory as host memory",
       cuMemcpyDtoH_v2(reinterpret_cast<void*>(device + page), device, 8));
  tell("cuMemcpyDtoD of pageable memory", cuMemcpyDtoD_v2(device, address(memory), 8));
  cuda::Copy2D area{};
  area.from_type = cuda::memory_host;
  area.from_host = memory;
  area.to_type = cuda::memory_device;
  area.to_device = device;
  area.width = 16;
  area.height = 1;
  tell("cuMemcpy2D of one row without pitches", cuMemcpy2D_v2(&area));
  area.height = 2;
  tell("cuMemcpy2D of two rows without pitches", cuMemcpy2D_v2(&area));
  area.from_pitch = area.to_pitch = 16;
  area.to_type = 9;
  tell("cuMemcpy2D to memory type 9", cuMemcpy2D_v2(&area));
  area.to_type = cuda::memory_device;
  area.to_device = address(memory) + page;
  tell("cuMemcpy2D to pageable memory as device memory", cuMemcpy2D_v2(&area));
  area.to_device = device + 8 * page;
  tell("cuMemcpy2D behind the memory", cuMemcpy2D_v2(&area));
  tell("cuMemcpy2D of null", cuMemcpy2D_v2(nullptr));
  cuda::Copy3D box{};
  box.from_type = cuda::memory_host;
  box.from_host = memory;
  box.to_type = cuda::memory_device;
  box.to_device = device;
  box.from_pitch = box.to_pitch = 16;
  box.width = 16;
  box.height = 2;
  box.depth = 2;
  tell("cuMemcpy3D of two slices without heights", cuMemcpy3D_v2(&box));
  box.depth = 1;
  tell("cuMemcpy3D of one slice without heights", cuMemcpy3D_v2(&box));
  box.depth = 0;
  tell("cuMemcpy3D of no slice", cuMemcpy3D_v2(&box));
  Ptr to[] = {device};
  Ptr from[] = {address(memory)};
  std::size_t sizes[] = {64};
  cuda::CopyAttributes attributes{cuda::source_in_stream_order, {0, 0}, {0, 0}, 0};
  std::size_t first = 0;
  std::size_t failed = 77;
  const auto batch = [&](cuda::Stream where) {
    failed = 77;
    return cuMemcpyBatchAsync(to, from, sizes, 1, &attributes, &first, 1, &failed, where);
  };
  tell("batch of one, pageable, stream order", batch(stream));
  tell("batch of one: failed", static_cast<long long>(failed));
  tell("batch on the legacy stream", batch(nullptr));
  tell("batch on the legacy stream: failed", static_cast<long long>(failed));
  tell("batch on the per-thread stream", batch(reinterpret_cast<cuda::Stream>(2)));
  sizes[0] = 0;
  tell("batch with an empty copy", batch(stream));
  tell("batch with an empty copy: failed", static_cast<long long>(failed));
  sizes[0] = 64;
  attributes.source_access = 7;
  tell("batch with an unknown access order", batch(stream));
  attributes.source_access = cuda::source_in_stream_order;
  cuCtxSynchronize();
  cuStreamBeginCapture_v2(stream, cuda::capture_thread_local);
  tell("batch into a capture", batch(stream));
  cuda::Graph graph = nullptr;
  tell("the end of that capture", cuStreamEndCapture(stream, &graph));
  if (graph != nullptr) {
    std::size_t nodes = 0;
    cuGraphGetNodes(graph, nullptr, &nodes);
    tell("nodes of that capture", static_cast<long long>(nodes));
    cuGraphDestroy(graph);
  }
  cuCtxSynchronize();
  cuStreamDestroy_v2(stream);
  cuMemFree_v2(device);
  ::munmap(memory, 8 * page);
}

void ask_about_more_memory_operations() {
  const Ptr device = allocate(page);
  tell("wait value: flush", cuStreamWaitValue32_v2(nullptr, device, 0, cuda::wait_value_flush));
  tell("write value: no memory barrier", cuStreamWriteValue32_v2(nullptr, device, 0, 1));
  tell("write value 64: misaligned", cuStreamWriteValue64_v2(nullptr, device + 4, 0, 0));
  cuda::BatchMemoryOperation operation{};
  operation.operation = cuda::batch_flush_remote_writes;
  tell("memory operations: flush", cuStreamBatchMemOp_v2(nullptr, 1, &operation, 0));
  operation.operation = cuda::batch_barrier;
  tell("memory operations: barrier", cuStreamBatchMemOp_v2(nullptr, 1, &operation, 0));
  operation.operation = 99;
  tell("memory operations: unknown", cuStreamBatchMemOp_v2(nullptr, 1, &operation, 0));
  tell("memory operations: none", cuStreamBatchMemOp_v2(nullptr, 0, &operation, 0));
  tell("memory operations: flags", cuStreamBatchMemOp_v2(nullptr, 1, &operation, 1));
  cuCtxSynchronize();
  cuMemFree_v2(device);
  Ptr managed = 0;
  cuMemAllocManaged(&managed, page, cuda::attach_global);
  tell("prefetch: to a device that there is not", cuMemPrefetchAsync_v2(managed, page, {1, 77}, 0, nullptr));
  tell("prefetch: beyond the memory", cuMemPrefetchAsync_v2(managed, 1U << 30U, {1, 0}, 0, nullptr));
  tell("prefetch: nothing", cuMemPrefetchAsync_v2(managed, 0, {1, 0}, 0, nullptr));
  tell("advise: unknown", cuMemAdvise_v2(managed, page, 99, {1, 0}));
  cuMemFree_v2(managed);
  const Ptr plain = allocate(page);
  tell("prefetch: device memory", cuMemPrefetchAsync_v2(plain, page, {1, 0}, 0, nullptr));
  tell("advise: device memory", cuMemAdvise_v2(plain, page, 1, {1, 0}));
  cuMemFree_v2(plain);
}

void ask_about_attributes() {
  for (int attribute = 1; attribute < 160; ++attribute) {
    int value = -77;
    const cuda::Result result = cuDeviceGetAttribute(&value, attribute, 0);
    tell("device attribute " + std::to_string(attribute),
         result == cuda::success ? value : -1000000 - cuda::number_of(result));
  }
}

}  // namespace

void ask_about_work() {
  ask_about_code();
  ask_about_copies();
  ask_about_more_memory_operations();
  ask_about_attributes();
}

}  // namespace sluice::gpu_suite
