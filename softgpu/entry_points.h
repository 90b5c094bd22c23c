// SPDX-License-Identifier: Apache-2.0
// Every function that the soft GPU exports, with the signatures that CUDA gives them. A name ending in _ptds or _ptsz
// is the same call for programs compiled for per-thread default streams.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda_abi.h"
#include "gpu/gdr_abi.h"

namespace sluice::softgpu {

using Ptr = cuda::DevicePtr;
using HostFunction = void (*)(void*);
using StreamCallback = void (*)(CUstream, cuda::Result, void*);

extern "C" {
#pragma GCC visibility push(default)

// The mark of this driver: no other has it. Its version, 1000 * major + 10 * minor.
int cuSluiceSoftGpuVersion();
// Where the host reads and writes device memory that lies in a file or device mapping which SLUICE_SOFTGPU_BACKING
// names, so that a file can be read into it directly. `length` is how many bytes from there on belong together, at most
// `size`. CUDA_ERROR_NOT_SUPPORTED for memory of our own, which stays out of I/O's reach.
cuda::Result cuSluiceSoftGpuBackingAddress(Ptr pointer, std::size_t size, void** address, std::size_t* length);

// The calls of GDRCopy over this driver's memory, for the libgdrapi.so.2 that lies beside it.
const gdr::Calls* cuSluiceSoftGpuGdrCalls();

// Start, names, entry points
cuda::Result cuInit(unsigned flags);
cuda::Result cuDriverGetVersion(int* version);
cuda::Result cuGetErrorName(cuda::Result error, const char** text);
cuda::Result cuGetErrorString(cuda::Result error, const char** text);
cuda::Result cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags);
cuda::Result cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* status);

// Devices
cuda::Result cuDeviceGet(cuda::Device* device, int ordinal);
cuda::Result cuDeviceGetCount(int* count);
cuda::Result cuDeviceGetName(char* name, int length, cuda::Device device);
cuda::Result cuDeviceGetUuid(cuda::Uuid* uuid, cuda::Device device);
cuda::Result cuDeviceGetUuid_v2(cuda::Uuid* uuid, cuda::Device device);
cuda::Result cuDeviceTotalMem_v2(std::size_t* bytes, cuda::Device device);
cuda::Result cuDeviceGetAttribute(int* value, int attribute, cuda::Device device);
cuda::Result cuDeviceComputeCapability(int* major, int* minor, cuda::Device device);
cuda::Result cuDeviceGetPCIBusId(char* id, int length, cuda::Device device);
cuda::Result cuDeviceGetByPCIBusId(cuda::Device* device, const char* id);
cuda::Result cuDeviceCanAccessPeer(int* can, cuda::Device device, cuda::Device peer);
cuda::Result cuDeviceGetP2PAttribute(int* value, int attribute, cuda::Device source, cuda::Device target);

// Primary contexts
cuda::Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Device device);
cuda::Result cuDevicePrimaryCtxRelease(cuda::Device device);
cuda::Result cuDevicePrimaryCtxRelease_v2(cuda::Device device);
cuda::Result cuDevicePrimaryCtxReset(cuda::Device device);
cuda::Result cuDevicePrimaryCtxReset_v2(cuda::Device device);
cuda::Result cuDevicePrimaryCtxSetFlags(cuda::Device device, unsigned flags);
cuda::Result cuDevicePrimaryCtxSetFlags_v2(cuda::Device device, unsigned flags);
cuda::Result cuDevicePrimaryCtxGetState(cuda::Device device, unsigned* flags, int* active);

// Contexts
cuda::Result cuCtxCreate_v2(cuda::Context* context, unsigned flags, cuda::Device device);
cuda::Result cuCtxCreate_v3(cuda::Context* context, void* affinity, int affinities, unsigned flags,
                            cuda::Device device);
cuda::Result cuCtxCreate_v4(cuda::Context* context, void* parameters, unsigned flags, cuda::Device device);
cuda::Result cuCtxDestroy_v2(cuda::Context context);
cuda::Result cuCtxPushCurrent_v2(cuda::Context context);
cuda::Result cuCtxPopCurrent_v2(cuda::Context* context);
cuda::Result cuCtxSetCurrent(cuda::Context context);
cuda::Result cuCtxGetCurrent(cuda::Context* context);
cuda::Result cuCtxGetDevice(cuda::Device* device);
cuda::Result cuCtxGetDevice_v2(cuda::Device* device, cuda::Context context);
cuda::Result cuCtxGetFlags(unsigned* flags);
cuda::Result cuCtxSetFlags(unsigned flags);
cuda::Result cuCtxGetId(cuda::Context context, unsigned long long* id);
cuda::Result cuCtxGetApiVersion(cuda::Context context, unsigned* version);
cuda::Result cuCtxSynchronize();
cuda::Result cuCtxSynchronize_v2(cuda::Context context);
cuda::Result cuCtxGetStreamPriorityRange(int* least, int* greatest);
cuda::Result cuCtxEnablePeerAccess(cuda::Context peer, unsigned flags);
cuda::Result cuCtxDisablePeerAccess(cuda::Context peer);

// Memory
cuda::Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
cuda::Result cuMemAlloc_v2(Ptr* pointer, std::size_t size);
cuda::Result cuMemAllocPitch_v2(Ptr* pointer, std::size_t* pitch, std::size_t width, std::size_t height,
                                unsigned element);
cuda::Result cuMemFree_v2(Ptr pointer);
cuda::Result cuMemAllocManaged(Ptr* pointer, std::size_t size, unsigned flags);
cuda::Result cuMemGetAddressRange_v2(Ptr* base, std::size_t* size, Ptr pointer);
cuda::Result cuMemAllocHost_v2(void** pointer, std::size_t size);
cuda::Result cuMemHostAlloc(void** pointer, std::size_t size, unsigned flags);
cuda::Result cuMemFreeHost(void* pointer);
cuda::Result cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned flags);
cuda::Result cuMemHostUnregister(void* pointer);
cuda::Result cuMemHostGetDevicePointer_v2(Ptr* device_pointer, void* pointer, unsigned flags);
cuda::Result cuMemHostGetFlags(unsigned* flags, void* pointer);
cuda::Result cuPointerGetAttribute(void* value, int attribute, Ptr pointer);
cuda::Result cuPointerGetAttributes(unsigned count, int* attributes, void** values, Ptr pointer);
cuda::Result cuPointerSetAttribute(const void* value, int attribute, Ptr pointer);

// Copies
cuda::Result cuMemcpy(Ptr to, Ptr from, std::size_t size);
cuda::Result cuMemcpy_ptds(Ptr to, Ptr from, std::size_t size);
cuda::Result cuMemcpyAsync(Ptr to, Ptr from, std::size_t size, cuda::Stream stream);
cuda::Result cuMemcpyAsync_ptsz(Ptr to, Ptr from, std::size_t size, cuda::Stream stream);
cuda::Result cuMemcpyHtoD_v2(Ptr to, const void* from, std::size_t size);
cuda::Result cuMemcpyHtoD_v2_ptds(Ptr to, const void* from, std::size_t size);
cuda::Result cuMemcpyHtoDAsync_v2(Ptr to, const void* from, std::size_t size, cuda::Stream stream);
cuda::Result cuMemcpyHtoDAsync_v2_ptsz(Ptr to, const void* from, std::size_t size, cuda::Stream stream);
cuda::Result cuMemcpyDtoH_v2(void* to, Ptr from, std::size_t size);
cuda::Result cuMemcpyDtoH_v2_ptds(void* to, Ptr from, std::size_t size);
cuda::Result cuMemcpyDtoHAsync_v2(void* to, Ptr from, std::size_t size, cuda::Stream stream);
cuda::Result cuMemcpyDtoHAsync_v2_ptsz(void* to, Ptr from, std::size_t size, cuda::Stream stream);
cuda::Result cuMemcpyDtoD_v2(Ptr to, Ptr from, std::size_t size);
cuda::Result cuMemcpyDtoD_v2_ptds(Ptr to, Ptr from, std::size_t size);
cuda::Result cuMemcpyDtoDAsync_v2(Ptr to, Ptr from, std::size_t size, cuda::Stream stream);
cuda::Result cuMemcpyDtoDAsync_v2_ptsz(Ptr to, Ptr from, std::size_t size, cuda::Stream stream);
cuda::Result cuMemcpyPeer(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context, std::size_t size);
cuda::Result cuMemcpyPeer_ptds(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context,
                               std::size_t size);
cuda::Result cuMemcpyPeerAsync(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context, std::size_t size,
                               cuda::Stream stream);
cuda::Result cuMemcpyPeerAsync_ptsz(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context,
                                    std::size_t size, cuda::Stream stream);

cuda::Result cuMemcpyBatchAsync(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                std::size_t* failed, cuda::Stream stream);
cuda::Result cuMemcpyBatchAsync_ptsz(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                     cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                     std::size_t* failed, cuda::Stream stream);
cuda::Result cuMemcpyBatchAsync_v2(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                   cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                   cuda::Stream stream);
cuda::Result cuMemcpyBatchAsync_v2_ptsz(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                        cuda::CopyAttributes* attributes, std::size_t* firsts,
                                        std::size_t attribute_count, cuda::Stream stream);
cuda::Result cuMemcpy2D_v2(const cuda::Copy2D* copy);
cuda::Result cuMemcpy2D_v2_ptds(const cuda::Copy2D* copy);
cuda::Result cuMemcpy2DUnaligned_v2(const cuda::Copy2D* copy);
cuda::Result cuMemcpy2DUnaligned_v2_ptds(const cuda::Copy2D* copy);
cuda::Result cuMemcpy2DAsync_v2(const cuda::Copy2D* copy, cuda::Stream stream);
cuda::Result cuMemcpy2DAsync_v2_ptsz(const cuda::Copy2D* copy, cuda::Stream stream);
cuda::Result cuMemcpy3D_v2(const cuda::Copy3D* copy);
cuda::Result cuMemcpy3D_v2_ptds(const cuda::Copy3D* copy);
cuda::Result cuMemcpy3DAsync_v2(const cuda::Copy3D* copy, cuda::Stream stream);
cuda::Result cuMemcpy3DAsync_v2_ptsz(const cuda::Copy3D* copy, cuda::Stream stream);
cuda::Result cuMemcpy3DPeer(const cuda::Copy3D* copy);
cuda::Result cuMemcpy3DPeer_ptds(const cuda::Copy3D* copy);
cuda::Result cuMemcpy3DPeerAsync(const cuda::Copy3D* copy, cuda::Stream stream);
cuda::Result cuMemcpy3DPeerAsync_ptsz(const cuda::Copy3D* copy, cuda::Stream stream);

// Managed memory, which never moves here
cuda::Result cuMemPrefetchAsync(Ptr pointer, std::size_t size, cuda::Device device, cuda::Stream stream);
cuda::Result cuMemPrefetchAsync_ptsz(Ptr pointer, std::size_t size, cuda::Device device, cuda::Stream stream);
cuda::Result cuMemPrefetchAsync_v2(Ptr pointer, std::size_t size, cuda::MemoryLocation location, unsigned flags,
                                   cuda::Stream stream);
cuda::Result cuMemPrefetchAsync_v2_ptsz(Ptr pointer, std::size_t size, cuda::MemoryLocation location, unsigned flags,
                                        cuda::Stream stream);
cuda::Result cuMemAdvise(Ptr pointer, std::size_t size, int advice, cuda::Device device);
cuda::Result cuMemAdvise_v2(Ptr pointer, std::size_t size, int advice, cuda::MemoryLocation location);

// Modules, libraries and the functions in them
cuda::Result cuModuleLoad(cuda::Module* module, const char* path);
cuda::Result cuModuleLoadData(cuda::Module* module, const void* image);
cuda::Result cuModuleLoadDataEx(cuda::Module* module, const void* image, unsigned count, int* options, void** values);
cuda::Result cuModuleLoadFatBinary(cuda::Module* module, const void* image);
cuda::Result cuModuleUnload(cuda::Module module);
cuda::Result cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name);
cuda::Result cuModuleGetFunctionCount(unsigned* count, cuda::Module module);
cuda::Result cuModuleGetGlobal_v2(Ptr* pointer, std::size_t* size, cuda::Module module, const char* name);
cuda::Result cuModuleGetLoadingMode(int* mode);
cuda::Result cuLibraryLoadData(cuda::Library* library, const void* image, int* jit_options, void** jit_values,
                               unsigned jit_count, int* options, void** values, unsigned count);
cuda::Result cuLibraryUnload(cuda::Library library);
cuda::Result cuLibraryGetKernel(cuda::Kernel* kernel, cuda::Library library, const char* name);
cuda::Result cuLibraryGetKernelCount(unsigned* count, cuda::Library library);
cuda::Result cuLibraryGetModule(cuda::Module* module, cuda::Library library);
cuda::Result cuKernelGetFunction(cuda::Function* function, cuda::Kernel kernel);
cuda::Result cuKernelGetName(const char** name, cuda::Kernel kernel);
cuda::Result cuFuncGetName(const char** name, cuda::Function function);
cuda::Result cuFuncGetModule(cuda::Module* module, cuda::Function function);
cuda::Result cuFuncGetAttribute(int* value, int attribute, cuda::Function function);
cuda::Result cuFuncSetAttribute(cuda::Function function, int attribute, int value);
cuda::Result cuFuncSetCacheConfig(cuda::Function function, int config);
cuda::Result cuFuncGetParamInfo(cuda::Function function, std::size_t index, std::size_t* offset, std::size_t* size);
cuda::Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, cuda::Function function, int threads,
                                                         std::size_t shared_bytes);
cuda::Result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, cuda::Function function, int threads,
                                                                  std::size_t shared_bytes, unsigned flags);

// Launches
cuda::Result cuLaunchKernel(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                            cuda::Stream stream, void** parameters, void** extra);
cuda::Result cuLaunchKernel_ptsz(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                 cuda::Stream stream, void** parameters, void** extra);
cuda::Result cuLaunchKernelEx(const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
                              void** extra);
cuda::Result cuLaunchKernelEx_ptsz(const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
                                   void** extra);

// Fills
cuda::Result cuMemsetD8_v2(Ptr to, unsigned char value, std::size_t count);
cuda::Result cuMemsetD8_v2_ptds(Ptr to, unsigned char value, std::size_t count);
cuda::Result cuMemsetD8Async(Ptr to, unsigned char value, std::size_t count, cuda::Stream stream);
cuda::Result cuMemsetD8Async_ptsz(Ptr to, unsigned char value, std::size_t count, cuda::Stream stream);
cuda::Result cuMemsetD16_v2(Ptr to, unsigned short value, std::size_t count);
cuda::Result cuMemsetD16_v2_ptds(Ptr to, unsigned short value, std::size_t count);
cuda::Result cuMemsetD16Async(Ptr to, unsigned short value, std::size_t count, cuda::Stream stream);
cuda::Result cuMemsetD16Async_ptsz(Ptr to, unsigned short value, std::size_t count, cuda::Stream stream);
cuda::Result cuMemsetD32_v2(Ptr to, unsigned value, std::size_t count);
cuda::Result cuMemsetD32_v2_ptds(Ptr to, unsigned value, std::size_t count);
cuda::Result cuMemsetD32Async(Ptr to, unsigned value, std::size_t count, cuda::Stream stream);
cuda::Result cuMemsetD32Async_ptsz(Ptr to, unsigned value, std::size_t count, cuda::Stream stream);

// Streams
cuda::Result cuStreamCreate(cuda::Stream* stream, unsigned flags);
cuda::Result cuStreamCreateWithPriority(cuda::Stream* stream, unsigned flags, int priority);
cuda::Result cuStreamDestroy_v2(cuda::Stream stream);
cuda::Result cuStreamSynchronize(cuda::Stream stream);
cuda::Result cuStreamSynchronize_ptsz(cuda::Stream stream);
cuda::Result cuStreamQuery(cuda::Stream stream);
cuda::Result cuStreamQuery_ptsz(cuda::Stream stream);
cuda::Result cuStreamGetCtx(cuda::Stream stream, cuda::Context* context);
cuda::Result cuStreamGetCtx_ptsz(cuda::Stream stream, cuda::Context* context);
cuda::Result cuStreamGetCtx_v2(cuda::Stream stream, cuda::Context* context, void** green_context);
cuda::Result cuStreamGetCtx_v2_ptsz(cuda::Stream stream, cuda::Context* context, void** green_context);
cuda::Result cuStreamGetDevice(cuda::Stream stream, cuda::Device* device);
cuda::Result cuStreamGetDevice_ptsz(cuda::Stream stream, cuda::Device* device);
cuda::Result cuStreamGetId(cuda::Stream stream, unsigned long long* id);
cuda::Result cuStreamGetId_ptsz(cuda::Stream stream, unsigned long long* id);
cuda::Result cuStreamGetFlags(cuda::Stream stream, unsigned* flags);
cuda::Result cuStreamGetFlags_ptsz(cuda::Stream stream, unsigned* flags);
cuda::Result cuStreamGetPriority(cuda::Stream stream, int* priority);
cuda::Result cuStreamGetPriority_ptsz(cuda::Stream stream, int* priority);
cuda::Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned flags);
cuda::Result cuStreamWaitEvent_ptsz(cuda::Stream stream, cuda::Event event, unsigned flags);
cuda::Result cuStreamIsCapturing(cuda::Stream stream, int* status);
cuda::Result cuStreamIsCapturing_ptsz(cuda::Stream stream, int* status);
cuda::Result cuThreadExchangeStreamCaptureMode(int* mode);
cuda::Result cuStreamBeginCapture_v2(cuda::Stream stream, int mode);
cuda::Result cuStreamBeginCapture_v2_ptsz(cuda::Stream stream, int mode);
cuda::Result cuStreamEndCapture(cuda::Stream stream, cuda::Graph* graph);
cuda::Result cuStreamEndCapture_ptsz(cuda::Stream stream, cuda::Graph* graph);
cuda::Result cuLaunchHostFunc(cuda::Stream stream, HostFunction function, void* data);
cuda::Result cuLaunchHostFunc_ptsz(cuda::Stream stream, HostFunction function, void* data);
cuda::Result cuStreamAddCallback(cuda::Stream stream, StreamCallback callback, void* data, unsigned flags);
cuda::Result cuStreamAddCallback_ptsz(cuda::Stream stream, StreamCallback callback, void* data, unsigned flags);

// Stream memory operations; both forms do the same here
cuda::Result cuStreamWaitValue32(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
cuda::Result cuStreamWaitValue32_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
cuda::Result cuStreamWaitValue32_v2(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
cuda::Result cuStreamWaitValue32_v2_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
cuda::Result cuStreamWaitValue64(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
cuda::Result cuStreamWaitValue64_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
cuda::Result cuStreamWaitValue64_v2(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
cuda::Result cuStreamWaitValue64_v2_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
cuda::Result cuStreamWriteValue32(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
cuda::Result cuStreamWriteValue32_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
cuda::Result cuStreamWriteValue32_v2(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
cuda::Result cuStreamWriteValue32_v2_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
cuda::Result cuStreamWriteValue64(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
cuda::Result cuStreamWriteValue64_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
cuda::Result cuStreamWriteValue64_v2(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
cuda::Result cuStreamWriteValue64_v2_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
cuda::Result cuStreamBatchMemOp(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                unsigned flags);
cuda::Result cuStreamBatchMemOp_ptsz(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                     unsigned flags);
cuda::Result cuStreamBatchMemOp_v2(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                   unsigned flags);
cuda::Result cuStreamBatchMemOp_v2_ptsz(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                        unsigned flags);

// Graphs
cuda::Result cuGraphCreate(cuda::Graph* graph, unsigned flags);
cuda::Result cuGraphDestroy(cuda::Graph graph);
cuda::Result cuGraphGetNodes(cuda::Graph graph, cuda::GraphNode* nodes, std::size_t* count);
cuda::Result cuGraphInstantiateWithFlags(cuda::GraphExec* exec, cuda::Graph graph, unsigned long long flags);
cuda::Result cuGraphExecDestroy(cuda::GraphExec exec);
cuda::Result cuGraphLaunch(cuda::GraphExec exec, cuda::Stream stream);
cuda::Result cuGraphLaunch_ptsz(cuda::GraphExec exec, cuda::Stream stream);

// Virtual memory management
cuda::Result cuMemAddressReserve(Ptr* pointer, std::size_t size, std::size_t alignment, Ptr wanted,
                                 unsigned long long flags);
cuda::Result cuMemAddressFree(Ptr pointer, std::size_t size);
cuda::Result cuMemCreate(cuda::AllocationHandle* handle, std::size_t size, const cuda::AllocationProperties* properties,
                         unsigned long long flags);
cuda::Result cuMemRelease(cuda::AllocationHandle handle);
cuda::Result cuMemMap(Ptr pointer, std::size_t size, std::size_t offset, cuda::AllocationHandle handle,
                      unsigned long long flags);
cuda::Result cuMemUnmap(Ptr pointer, std::size_t size);
cuda::Result cuMemSetAccess(Ptr pointer, std::size_t size, const cuda::AccessDescription* descriptions,
                            std::size_t count);
cuda::Result cuMemGetAccess(unsigned long long* flags, const cuda::MemoryLocation* location, Ptr pointer);
cuda::Result cuMemGetAllocationGranularity(std::size_t* granularity, const cuda::AllocationProperties* properties,
                                           int option);
cuda::Result cuMemGetAllocationPropertiesFromHandle(cuda::AllocationProperties* properties,
                                                    cuda::AllocationHandle handle);
cuda::Result cuMemRetainAllocationHandle(cuda::AllocationHandle* handle, void* address);
cuda::Result cuMemExportToShareableHandle(void* shared, cuda::AllocationHandle handle, int type,
                                          unsigned long long flags);
cuda::Result cuMemImportFromShareableHandle(cuda::AllocationHandle* handle, void* shared, int type);

// Network cards and device memory
cuda::Result cuMemGetHandleForAddressRange(void* handle, Ptr pointer, std::size_t size, int type,
                                           unsigned long long flags);
cuda::Result cuFlushGPUDirectRDMAWrites(int target, int scope);

// Stream-ordered allocation
cuda::Result cuMemAllocAsync(Ptr* pointer, std::size_t size, cuda::Stream stream);
cuda::Result cuMemAllocAsync_ptsz(Ptr* pointer, std::size_t size, cuda::Stream stream);
cuda::Result cuMemAllocFromPoolAsync(Ptr* pointer, std::size_t size, cuda::MemoryPool pool, cuda::Stream stream);
cuda::Result cuMemAllocFromPoolAsync_ptsz(Ptr* pointer, std::size_t size, cuda::MemoryPool pool, cuda::Stream stream);
cuda::Result cuMemFreeAsync(Ptr pointer, cuda::Stream stream);
cuda::Result cuMemFreeAsync_ptsz(Ptr pointer, cuda::Stream stream);
cuda::Result cuDeviceGetDefaultMemPool(cuda::MemoryPool* pool, cuda::Device device);
cuda::Result cuDeviceGetMemPool(cuda::MemoryPool* pool, cuda::Device device);
cuda::Result cuDeviceSetMemPool(cuda::Device device, cuda::MemoryPool pool);
cuda::Result cuMemPoolCreate(cuda::MemoryPool* pool, const cuda::PoolProperties* properties);
cuda::Result cuMemPoolDestroy(cuda::MemoryPool pool);
cuda::Result cuMemPoolTrimTo(cuda::MemoryPool pool, std::size_t bytes);
cuda::Result cuMemPoolGetAttribute(cuda::MemoryPool pool, int attribute, void* value);
cuda::Result cuMemPoolSetAttribute(cuda::MemoryPool pool, int attribute, void* value);
cuda::Result cuMemPoolSetAccess(cuda::MemoryPool pool, const cuda::AccessDescription* descriptions, std::size_t count);
cuda::Result cuMemPoolGetAccess(int* flags, cuda::MemoryPool pool, cuda::MemoryLocation* location);

// Events
cuda::Result cuEventCreate(cuda::Event* event, unsigned flags);
cuda::Result cuEventRecord(cuda::Event event, cuda::Stream stream);
cuda::Result cuEventRecord_ptsz(cuda::Event event, cuda::Stream stream);
cuda::Result cuEventRecordWithFlags(cuda::Event event, cuda::Stream stream, unsigned flags);
cuda::Result cuEventRecordWithFlags_ptsz(cuda::Event event, cuda::Stream stream, unsigned flags);
cuda::Result cuEventQuery(cuda::Event event);
cuda::Result cuEventSynchronize(cuda::Event event);
cuda::Result cuEventDestroy_v2(cuda::Event event);
cuda::Result cuEventElapsedTime(float* milliseconds, cuda::Event start, cuda::Event end);
cuda::Result cuEventElapsedTime_v2(float* milliseconds, cuda::Event start, cuda::Event end);

#pragma GCC visibility pop
}

}  // namespace sluice::softgpu
