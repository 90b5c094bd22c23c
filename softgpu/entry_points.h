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
using StreamCallback = void (*)(CUstream, CUresult, void*);

extern "C" {
#pragma GCC visibility push(default)

// The mark of this driver: no other has it. Its version, 1000 * major + 10 * minor.
int cuSluiceSoftGpuVersion();
// Where the host reads and writes device memory that lies in a file or device mapping which SLUICE_SOFTGPU_BACKING
// names, so that a file can be read into it directly. `length` is how many bytes from there on belong together, at most
// `size`. CUDA_ERROR_NOT_SUPPORTED for memory of our own, which stays out of everybody's reach.
CUresult cuSluiceSoftGpuBackingAddress(Ptr pointer, std::size_t size, void** address, std::size_t* length);

// The calls of GDRCopy over this driver's memory, for the libgdrapi.so.2 that lies beside it.
const gdr::Calls* cuSluiceSoftGpuGdrCalls();

// Start, names, entry points
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int* version);
CUresult cuGetErrorName(CUresult error, const char** text);
CUresult cuGetErrorString(CUresult error, const char** text);
CUresult cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags);
CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* status);

// Devices
CUresult cuDeviceGet(cuda::Device* device, int ordinal);
CUresult cuDeviceGetCount(int* count);
CUresult cuDeviceGetName(char* name, int length, cuda::Device device);
CUresult cuDeviceGetUuid(cuda::Uuid* uuid, cuda::Device device);
CUresult cuDeviceGetUuid_v2(cuda::Uuid* uuid, cuda::Device device);
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, cuda::Device device);
CUresult cuDeviceGetAttribute(int* value, int attribute, cuda::Device device);
CUresult cuDeviceComputeCapability(int* major, int* minor, cuda::Device device);
CUresult cuDeviceGetPCIBusId(char* id, int length, cuda::Device device);
CUresult cuDeviceGetByPCIBusId(cuda::Device* device, const char* id);
CUresult cuDeviceCanAccessPeer(int* can, cuda::Device device, cuda::Device peer);
CUresult cuDeviceGetP2PAttribute(int* value, int attribute, cuda::Device source, cuda::Device target);

// Primary contexts
CUresult cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Device device);
CUresult cuDevicePrimaryCtxRelease(cuda::Device device);
CUresult cuDevicePrimaryCtxRelease_v2(cuda::Device device);
CUresult cuDevicePrimaryCtxReset(cuda::Device device);
CUresult cuDevicePrimaryCtxReset_v2(cuda::Device device);
CUresult cuDevicePrimaryCtxSetFlags(cuda::Device device, unsigned flags);
CUresult cuDevicePrimaryCtxSetFlags_v2(cuda::Device device, unsigned flags);
CUresult cuDevicePrimaryCtxGetState(cuda::Device device, unsigned* flags, int* active);

// Contexts
CUresult cuCtxCreate_v2(cuda::Context* context, unsigned flags, cuda::Device device);
CUresult cuCtxCreate_v3(cuda::Context* context, void* affinity, int affinities, unsigned flags, cuda::Device device);
CUresult cuCtxCreate_v4(cuda::Context* context, void* parameters, unsigned flags, cuda::Device device);
CUresult cuCtxDestroy_v2(cuda::Context context);
CUresult cuCtxPushCurrent_v2(cuda::Context context);
CUresult cuCtxPopCurrent_v2(cuda::Context* context);
CUresult cuCtxSetCurrent(cuda::Context context);
CUresult cuCtxGetCurrent(cuda::Context* context);
CUresult cuCtxGetDevice(cuda::Device* device);
CUresult cuCtxGetDevice_v2(cuda::Device* device, cuda::Context context);
CUresult cuCtxGetFlags(unsigned* flags);
CUresult cuCtxSetFlags(unsigned flags);
CUresult cuCtxGetId(cuda::Context context, unsigned long long* id);
CUresult cuCtxGetApiVersion(cuda::Context context, unsigned* version);
CUresult cuCtxSynchronize();
CUresult cuCtxSynchronize_v2(cuda::Context context);
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest);
CUresult cuCtxEnablePeerAccess(cuda::Context peer, unsigned flags);
CUresult cuCtxDisablePeerAccess(cuda::Context peer);

// Memory
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
CUresult cuMemAlloc_v2(Ptr* pointer, std::size_t size);
CUresult cuMemAllocPitch_v2(Ptr* pointer, std::size_t* pitch, std::size_t width, std::size_t height, unsigned element);
CUresult cuMemFree_v2(Ptr pointer);
CUresult cuMemAllocManaged(Ptr* pointer, std::size_t size, unsigned flags);
CUresult cuMemGetAddressRange_v2(Ptr* base, std::size_t* size, Ptr pointer);
CUresult cuMemAllocHost_v2(void** pointer, std::size_t size);
CUresult cuMemHostAlloc(void** pointer, std::size_t size, unsigned flags);
CUresult cuMemFreeHost(void* pointer);
CUresult cuMemHostRegister_v2(void* pointer, std::size_t size, unsigned flags);
CUresult cuMemHostUnregister(void* pointer);
CUresult cuMemHostGetDevicePointer_v2(Ptr* device_pointer, void* pointer, unsigned flags);
CUresult cuMemHostGetFlags(unsigned* flags, void* pointer);
CUresult cuPointerGetAttribute(void* value, int attribute, Ptr pointer);
CUresult cuPointerGetAttributes(unsigned count, int* attributes, void** values, Ptr pointer);
CUresult cuPointerSetAttribute(const void* value, int attribute, Ptr pointer);

// Copies
CUresult cuMemcpy(Ptr to, Ptr from, std::size_t size);
CUresult cuMemcpy_ptds(Ptr to, Ptr from, std::size_t size);
CUresult cuMemcpyAsync(Ptr to, Ptr from, std::size_t size, cuda::Stream stream);
CUresult cuMemcpyAsync_ptsz(Ptr to, Ptr from, std::size_t size, cuda::Stream stream);
CUresult cuMemcpyHtoD_v2(Ptr to, const void* from, std::size_t size);
CUresult cuMemcpyHtoD_v2_ptds(Ptr to, const void* from, std::size_t size);
CUresult cuMemcpyHtoDAsync_v2(Ptr to, const void* from, std::size_t size, cuda::Stream stream);
CUresult cuMemcpyHtoDAsync_v2_ptsz(Ptr to, const void* from, std::size_t size, cuda::Stream stream);
CUresult cuMemcpyDtoH_v2(void* to, Ptr from, std::size_t size);
CUresult cuMemcpyDtoH_v2_ptds(void* to, Ptr from, std::size_t size);
CUresult cuMemcpyDtoHAsync_v2(void* to, Ptr from, std::size_t size, cuda::Stream stream);
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, Ptr from, std::size_t size, cuda::Stream stream);
CUresult cuMemcpyDtoD_v2(Ptr to, Ptr from, std::size_t size);
CUresult cuMemcpyDtoD_v2_ptds(Ptr to, Ptr from, std::size_t size);
CUresult cuMemcpyDtoDAsync_v2(Ptr to, Ptr from, std::size_t size, cuda::Stream stream);
CUresult cuMemcpyDtoDAsync_v2_ptsz(Ptr to, Ptr from, std::size_t size, cuda::Stream stream);
CUresult cuMemcpyPeer(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context, std::size_t size);
CUresult cuMemcpyPeer_ptds(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context, std::size_t size);
CUresult cuMemcpyPeerAsync(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context, std::size_t size,
                           cuda::Stream stream);
CUresult cuMemcpyPeerAsync_ptsz(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context,
                                std::size_t size, cuda::Stream stream);

CUresult cuMemcpyBatchAsync(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count, cuda::CopyAttributes* attributes,
                            std::size_t* firsts, std::size_t attribute_count, std::size_t* failed, cuda::Stream stream);
CUresult cuMemcpyBatchAsync_ptsz(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                 cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                 std::size_t* failed, cuda::Stream stream);
CUresult cuMemcpyBatchAsync_v2(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                               cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                               cuda::Stream stream);
CUresult cuMemcpyBatchAsync_v2_ptsz(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                    cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                    cuda::Stream stream);
CUresult cuMemcpy2D_v2(const cuda::Copy2D* copy);
CUresult cuMemcpy2D_v2_ptds(const cuda::Copy2D* copy);
CUresult cuMemcpy2DUnaligned_v2(const cuda::Copy2D* copy);
CUresult cuMemcpy2DUnaligned_v2_ptds(const cuda::Copy2D* copy);
CUresult cuMemcpy2DAsync_v2(const cuda::Copy2D* copy, cuda::Stream stream);
CUresult cuMemcpy2DAsync_v2_ptsz(const cuda::Copy2D* copy, cuda::Stream stream);
CUresult cuMemcpy3D_v2(const cuda::Copy3D* copy);
CUresult cuMemcpy3D_v2_ptds(const cuda::Copy3D* copy);
CUresult cuMemcpy3DAsync_v2(const cuda::Copy3D* copy, cuda::Stream stream);
CUresult cuMemcpy3DAsync_v2_ptsz(const cuda::Copy3D* copy, cuda::Stream stream);
CUresult cuMemcpy3DPeer(const cuda::Copy3D* copy);
CUresult cuMemcpy3DPeer_ptds(const cuda::Copy3D* copy);
CUresult cuMemcpy3DPeerAsync(const cuda::Copy3D* copy, cuda::Stream stream);
CUresult cuMemcpy3DPeerAsync_ptsz(const cuda::Copy3D* copy, cuda::Stream stream);

// Managed memory, which never moves here
CUresult cuMemPrefetchAsync(Ptr pointer, std::size_t size, cuda::Device device, cuda::Stream stream);
CUresult cuMemPrefetchAsync_ptsz(Ptr pointer, std::size_t size, cuda::Device device, cuda::Stream stream);
CUresult cuMemPrefetchAsync_v2(Ptr pointer, std::size_t size, cuda::MemoryLocation location, unsigned flags,
                               cuda::Stream stream);
CUresult cuMemPrefetchAsync_v2_ptsz(Ptr pointer, std::size_t size, cuda::MemoryLocation location, unsigned flags,
                                    cuda::Stream stream);
CUresult cuMemAdvise(Ptr pointer, std::size_t size, int advice, cuda::Device device);
CUresult cuMemAdvise_v2(Ptr pointer, std::size_t size, int advice, cuda::MemoryLocation location);

// Modules, libraries and the functions in them
CUresult cuModuleLoad(cuda::Module* module, const char* path);
CUresult cuModuleLoadData(cuda::Module* module, const void* image);
CUresult cuModuleLoadDataEx(cuda::Module* module, const void* image, unsigned count, int* options, void** values);
CUresult cuModuleLoadFatBinary(cuda::Module* module, const void* image);
CUresult cuModuleUnload(cuda::Module module);
CUresult cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name);
CUresult cuModuleGetFunctionCount(unsigned* count, cuda::Module module);
CUresult cuModuleGetGlobal_v2(Ptr* pointer, std::size_t* size, cuda::Module module, const char* name);
CUresult cuModuleGetLoadingMode(int* mode);
CUresult cuLibraryLoadData(cuda::Library* library, const void* image, int* jit_options, void** jit_values,
                           unsigned jit_count, int* options, void** values, unsigned count);
CUresult cuLibraryUnload(cuda::Library library);
CUresult cuLibraryGetKernel(cuda::Kernel* kernel, cuda::Library library, const char* name);
CUresult cuLibraryGetKernelCount(unsigned* count, cuda::Library library);
CUresult cuLibraryGetModule(cuda::Module* module, cuda::Library library);
CUresult cuKernelGetFunction(cuda::Function* function, cuda::Kernel kernel);
CUresult cuKernelGetName(const char** name, cuda::Kernel kernel);
CUresult cuFuncGetName(const char** name, cuda::Function function);
CUresult cuFuncGetModule(cuda::Module* module, cuda::Function function);
CUresult cuFuncGetAttribute(int* value, int attribute, cuda::Function function);
CUresult cuFuncSetAttribute(cuda::Function function, int attribute, int value);
CUresult cuFuncSetCacheConfig(cuda::Function function, int config);
CUresult cuFuncGetParamInfo(cuda::Function function, std::size_t index, std::size_t* offset, std::size_t* size);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, cuda::Function function, int threads,
                                                     std::size_t shared_bytes);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, cuda::Function function, int threads,
                                                              std::size_t shared_bytes, unsigned flags);

// Launches
CUresult cuLaunchKernel(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, cuda::Stream stream,
                        void** parameters, void** extra);
CUresult cuLaunchKernel_ptsz(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                             cuda::Stream stream, void** parameters, void** extra);
CUresult cuLaunchKernelEx(const cuda::LaunchConfig* config, cuda::Function function, void** parameters, void** extra);
CUresult cuLaunchKernelEx_ptsz(const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
                               void** extra);

// Fills
CUresult cuMemsetD8_v2(Ptr to, unsigned char value, std::size_t count);
CUresult cuMemsetD8_v2_ptds(Ptr to, unsigned char value, std::size_t count);
CUresult cuMemsetD8Async(Ptr to, unsigned char value, std::size_t count, cuda::Stream stream);
CUresult cuMemsetD8Async_ptsz(Ptr to, unsigned char value, std::size_t count, cuda::Stream stream);
CUresult cuMemsetD16_v2(Ptr to, unsigned short value, std::size_t count);
CUresult cuMemsetD16_v2_ptds(Ptr to, unsigned short value, std::size_t count);
CUresult cuMemsetD16Async(Ptr to, unsigned short value, std::size_t count, cuda::Stream stream);
CUresult cuMemsetD16Async_ptsz(Ptr to, unsigned short value, std::size_t count, cuda::Stream stream);
CUresult cuMemsetD32_v2(Ptr to, unsigned value, std::size_t count);
CUresult cuMemsetD32_v2_ptds(Ptr to, unsigned value, std::size_t count);
CUresult cuMemsetD32Async(Ptr to, unsigned value, std::size_t count, cuda::Stream stream);
CUresult cuMemsetD32Async_ptsz(Ptr to, unsigned value, std::size_t count, cuda::Stream stream);

// Streams
CUresult cuStreamCreate(cuda::Stream* stream, unsigned flags);
CUresult cuStreamCreateWithPriority(cuda::Stream* stream, unsigned flags, int priority);
CUresult cuStreamDestroy_v2(cuda::Stream stream);
CUresult cuStreamSynchronize(cuda::Stream stream);
CUresult cuStreamSynchronize_ptsz(cuda::Stream stream);
CUresult cuStreamQuery(cuda::Stream stream);
CUresult cuStreamQuery_ptsz(cuda::Stream stream);
CUresult cuStreamGetCtx(cuda::Stream stream, cuda::Context* context);
CUresult cuStreamGetCtx_ptsz(cuda::Stream stream, cuda::Context* context);
CUresult cuStreamGetCtx_v2(cuda::Stream stream, cuda::Context* context, void** green_context);
CUresult cuStreamGetCtx_v2_ptsz(cuda::Stream stream, cuda::Context* context, void** green_context);
CUresult cuStreamGetDevice(cuda::Stream stream, cuda::Device* device);
CUresult cuStreamGetDevice_ptsz(cuda::Stream stream, cuda::Device* device);
CUresult cuStreamGetId(cuda::Stream stream, unsigned long long* id);
CUresult cuStreamGetId_ptsz(cuda::Stream stream, unsigned long long* id);
CUresult cuStreamGetFlags(cuda::Stream stream, unsigned* flags);
CUresult cuStreamGetFlags_ptsz(cuda::Stream stream, unsigned* flags);
CUresult cuStreamGetPriority(cuda::Stream stream, int* priority);
CUresult cuStreamGetPriority_ptsz(cuda::Stream stream, int* priority);
CUresult cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned flags);
CUresult cuStreamWaitEvent_ptsz(cuda::Stream stream, cuda::Event event, unsigned flags);
CUresult cuStreamIsCapturing(cuda::Stream stream, int* status);
CUresult cuStreamIsCapturing_ptsz(cuda::Stream stream, int* status);
CUresult cuThreadExchangeStreamCaptureMode(int* mode);
CUresult cuStreamBeginCapture_v2(cuda::Stream stream, int mode);
CUresult cuStreamBeginCapture_v2_ptsz(cuda::Stream stream, int mode);
CUresult cuStreamEndCapture(cuda::Stream stream, cuda::Graph* graph);
CUresult cuStreamEndCapture_ptsz(cuda::Stream stream, cuda::Graph* graph);
CUresult cuLaunchHostFunc(cuda::Stream stream, HostFunction function, void* data);
CUresult cuLaunchHostFunc_ptsz(cuda::Stream stream, HostFunction function, void* data);
CUresult cuStreamAddCallback(cuda::Stream stream, StreamCallback callback, void* data, unsigned flags);
CUresult cuStreamAddCallback_ptsz(cuda::Stream stream, StreamCallback callback, void* data, unsigned flags);

// Stream memory operations; both forms do the same here
CUresult cuStreamWaitValue32(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
CUresult cuStreamWaitValue32_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
CUresult cuStreamWaitValue32_v2(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
CUresult cuStreamWaitValue32_v2_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
CUresult cuStreamWaitValue64(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
CUresult cuStreamWaitValue64_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
CUresult cuStreamWaitValue64_v2(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
CUresult cuStreamWaitValue64_v2_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
CUresult cuStreamWriteValue32(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
CUresult cuStreamWriteValue32_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
CUresult cuStreamWriteValue32_v2(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
CUresult cuStreamWriteValue32_v2_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags);
CUresult cuStreamWriteValue64(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
CUresult cuStreamWriteValue64_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
CUresult cuStreamWriteValue64_v2(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
CUresult cuStreamWriteValue64_v2_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags);
CUresult cuStreamBatchMemOp(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                            unsigned flags);
CUresult cuStreamBatchMemOp_ptsz(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                 unsigned flags);
CUresult cuStreamBatchMemOp_v2(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                               unsigned flags);
CUresult cuStreamBatchMemOp_v2_ptsz(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                    unsigned flags);

// Graphs
CUresult cuGraphCreate(cuda::Graph* graph, unsigned flags);
CUresult cuGraphDestroy(cuda::Graph graph);
CUresult cuGraphGetNodes(cuda::Graph graph, cuda::GraphNode* nodes, std::size_t* count);
CUresult cuGraphInstantiateWithFlags(cuda::GraphExec* exec, cuda::Graph graph, unsigned long long flags);
CUresult cuGraphExecDestroy(cuda::GraphExec exec);
CUresult cuGraphLaunch(cuda::GraphExec exec, cuda::Stream stream);
CUresult cuGraphLaunch_ptsz(cuda::GraphExec exec, cuda::Stream stream);

// Virtual memory management
CUresult cuMemAddressReserve(Ptr* pointer, std::size_t size, std::size_t alignment, Ptr wanted,
                             unsigned long long flags);
CUresult cuMemAddressFree(Ptr pointer, std::size_t size);
CUresult cuMemCreate(cuda::AllocationHandle* handle, std::size_t size, const cuda::AllocationProperties* properties,
                     unsigned long long flags);
CUresult cuMemRelease(cuda::AllocationHandle handle);
CUresult cuMemMap(Ptr pointer, std::size_t size, std::size_t offset, cuda::AllocationHandle handle,
                  unsigned long long flags);
CUresult cuMemUnmap(Ptr pointer, std::size_t size);
CUresult cuMemSetAccess(Ptr pointer, std::size_t size, const cuda::AccessDescription* descriptions, std::size_t count);
CUresult cuMemGetAccess(unsigned long long* flags, const cuda::MemoryLocation* location, Ptr pointer);
CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const cuda::AllocationProperties* properties,
                                       int option);
CUresult cuMemGetAllocationPropertiesFromHandle(cuda::AllocationProperties* properties, cuda::AllocationHandle handle);
CUresult cuMemRetainAllocationHandle(cuda::AllocationHandle* handle, void* address);
CUresult cuMemExportToShareableHandle(void* shared, cuda::AllocationHandle handle, int type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(cuda::AllocationHandle* handle, void* shared, int type);

// Network cards and device memory
CUresult cuMemGetHandleForAddressRange(void* handle, Ptr pointer, std::size_t size, int type, unsigned long long flags);
CUresult cuFlushGPUDirectRDMAWrites(int target, int scope);

// Stream-ordered allocation
CUresult cuMemAllocAsync(Ptr* pointer, std::size_t size, cuda::Stream stream);
CUresult cuMemAllocAsync_ptsz(Ptr* pointer, std::size_t size, cuda::Stream stream);
CUresult cuMemAllocFromPoolAsync(Ptr* pointer, std::size_t size, cuda::MemoryPool pool, cuda::Stream stream);
CUresult cuMemAllocFromPoolAsync_ptsz(Ptr* pointer, std::size_t size, cuda::MemoryPool pool, cuda::Stream stream);
CUresult cuMemFreeAsync(Ptr pointer, cuda::Stream stream);
CUresult cuMemFreeAsync_ptsz(Ptr pointer, cuda::Stream stream);
CUresult cuDeviceGetDefaultMemPool(cuda::MemoryPool* pool, cuda::Device device);
CUresult cuDeviceGetMemPool(cuda::MemoryPool* pool, cuda::Device device);
CUresult cuDeviceSetMemPool(cuda::Device device, cuda::MemoryPool pool);
CUresult cuMemPoolCreate(cuda::MemoryPool* pool, const cuda::PoolProperties* properties);
CUresult cuMemPoolDestroy(cuda::MemoryPool pool);
CUresult cuMemPoolTrimTo(cuda::MemoryPool pool, std::size_t bytes);
CUresult cuMemPoolGetAttribute(cuda::MemoryPool pool, int attribute, void* value);
CUresult cuMemPoolSetAttribute(cuda::MemoryPool pool, int attribute, void* value);
CUresult cuMemPoolSetAccess(cuda::MemoryPool pool, const cuda::AccessDescription* descriptions, std::size_t count);
CUresult cuMemPoolGetAccess(int* flags, cuda::MemoryPool pool, cuda::MemoryLocation* location);

// Events
CUresult cuEventCreate(cuda::Event* event, unsigned flags);
CUresult cuEventRecord(cuda::Event event, cuda::Stream stream);
CUresult cuEventRecord_ptsz(cuda::Event event, cuda::Stream stream);
CUresult cuEventRecordWithFlags(cuda::Event event, cuda::Stream stream, unsigned flags);
CUresult cuEventRecordWithFlags_ptsz(cuda::Event event, cuda::Stream stream, unsigned flags);
CUresult cuEventQuery(cuda::Event event);
CUresult cuEventSynchronize(cuda::Event event);
CUresult cuEventDestroy_v2(cuda::Event event);
CUresult cuEventElapsedTime(float* milliseconds, cuda::Event start, cuda::Event end);
CUresult cuEventElapsedTime_v2(float* milliseconds, cuda::Event start, cuda::Event end);

#pragma GCC visibility pop
}

}  // namespace sluice::softgpu
