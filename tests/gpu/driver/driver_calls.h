// SPDX-License-Identifier: Apache-2.0
// The calls of the driver under test, found in libcuda.so.1 when the program starts: the soft GPU's through
// LD_LIBRARY_PATH, a real driver's otherwise. A call that the driver lacks is a null pointer.
#pragma once

#include <dlfcn.h>

#include <ostream>
#include <string>
#include <vector>

#include "gpu/cuda_abi.h"
#include "softgpu/entry_points.h"

namespace sluice::cuda {

// In a failure: the number that drivers and programs know it by.
inline void PrintTo(Result result, std::ostream* out) {
  *out << number_of(result);
}

}  // namespace sluice::cuda

namespace sluice::gpu_suite {

using softgpu::Ptr;

void* driver_library();
// The names that were looked for and not found.
std::vector<std::string>& missing_calls();

template <typename Function>
Function* find_call(const char* name) {
  void* const library = driver_library();
  void* const found = library != nullptr ? ::dlsym(library, name) : nullptr;
  if (found == nullptr) missing_calls().emplace_back(name);
  return reinterpret_cast<Function*>(found);
}

#define DRIVER_CALL(name) inline auto* const name = find_call<decltype(softgpu::name)>(#name)

DRIVER_CALL(cuInit);
DRIVER_CALL(cuDriverGetVersion);
DRIVER_CALL(cuGetErrorName);
DRIVER_CALL(cuGetErrorString);
DRIVER_CALL(cuGetProcAddress);
DRIVER_CALL(cuGetProcAddress_v2);
DRIVER_CALL(cuDeviceGet);
DRIVER_CALL(cuDeviceGetCount);
DRIVER_CALL(cuDeviceGetName);
DRIVER_CALL(cuDeviceGetUuid);
DRIVER_CALL(cuDeviceGetUuid_v2);
DRIVER_CALL(cuDeviceTotalMem_v2);
DRIVER_CALL(cuDeviceGetAttribute);
DRIVER_CALL(cuDeviceGetPCIBusId);
DRIVER_CALL(cuDeviceGetByPCIBusId);
DRIVER_CALL(cuDeviceCanAccessPeer);
DRIVER_CALL(cuDevicePrimaryCtxRetain);
DRIVER_CALL(cuDevicePrimaryCtxRelease_v2);
DRIVER_CALL(cuDevicePrimaryCtxReset_v2);
DRIVER_CALL(cuDevicePrimaryCtxSetFlags_v2);
DRIVER_CALL(cuDevicePrimaryCtxGetState);
DRIVER_CALL(cuCtxCreate_v2);
DRIVER_CALL(cuCtxCreate_v4);
DRIVER_CALL(cuCtxDestroy_v2);
DRIVER_CALL(cuCtxPushCurrent_v2);
DRIVER_CALL(cuCtxPopCurrent_v2);
DRIVER_CALL(cuCtxSetCurrent);
DRIVER_CALL(cuCtxGetCurrent);
DRIVER_CALL(cuCtxGetDevice);
DRIVER_CALL(cuCtxGetFlags);
DRIVER_CALL(cuCtxGetId);
DRIVER_CALL(cuCtxGetApiVersion);
DRIVER_CALL(cuCtxSynchronize);
DRIVER_CALL(cuCtxGetStreamPriorityRange);
DRIVER_CALL(cuCtxEnablePeerAccess);
DRIVER_CALL(cuCtxDisablePeerAccess);
DRIVER_CALL(cuMemGetInfo_v2);
DRIVER_CALL(cuMemAlloc_v2);
DRIVER_CALL(cuMemAllocPitch_v2);
DRIVER_CALL(cuMemFree_v2);
DRIVER_CALL(cuMemAllocManaged);
DRIVER_CALL(cuMemGetAddressRange_v2);
DRIVER_CALL(cuMemAllocHost_v2);
DRIVER_CALL(cuMemHostAlloc);
DRIVER_CALL(cuMemFreeHost);
DRIVER_CALL(cuMemHostRegister_v2);
DRIVER_CALL(cuMemHostUnregister);
DRIVER_CALL(cuMemHostGetDevicePointer_v2);
DRIVER_CALL(cuMemHostGetFlags);
DRIVER_CALL(cuPointerGetAttribute);
DRIVER_CALL(cuPointerGetAttributes);
DRIVER_CALL(cuPointerSetAttribute);
DRIVER_CALL(cuMemcpy);
DRIVER_CALL(cuMemcpy_ptds);
DRIVER_CALL(cuMemcpyAsync);
DRIVER_CALL(cuMemcpyAsync_ptsz);
DRIVER_CALL(cuMemcpyHtoD_v2);
DRIVER_CALL(cuMemcpyHtoD_v2_ptds);
DRIVER_CALL(cuMemcpyHtoDAsync_v2);
DRIVER_CALL(cuMemcpyHtoDAsync_v2_ptsz);
DRIVER_CALL(cuMemcpyDtoH_v2);
DRIVER_CALL(cuMemcpyDtoH_v2_ptds);
DRIVER_CALL(cuMemcpyDtoHAsync_v2);
DRIVER_CALL(cuMemcpyDtoHAsync_v2_ptsz);
DRIVER_CALL(cuMemcpyDtoD_v2);
DRIVER_CALL(cuMemcpyDtoDAsync_v2);
DRIVER_CALL(cuMemcpyPeer);
DRIVER_CALL(cuMemcpyPeerAsync);
DRIVER_CALL(cuMemsetD8_v2);
DRIVER_CALL(cuMemsetD8Async);
DRIVER_CALL(cuMemsetD8Async_ptsz);
DRIVER_CALL(cuMemsetD16_v2);
DRIVER_CALL(cuMemsetD16Async);
DRIVER_CALL(cuMemsetD32_v2);
DRIVER_CALL(cuMemsetD32Async);
DRIVER_CALL(cuStreamCreate);
DRIVER_CALL(cuStreamCreateWithPriority);
DRIVER_CALL(cuStreamDestroy_v2);
DRIVER_CALL(cuStreamSynchronize);
DRIVER_CALL(cuStreamSynchronize_ptsz);
DRIVER_CALL(cuStreamQuery);
DRIVER_CALL(cuStreamQuery_ptsz);
DRIVER_CALL(cuStreamGetCtx);
DRIVER_CALL(cuStreamGetId);
DRIVER_CALL(cuStreamGetId_ptsz);
DRIVER_CALL(cuStreamGetFlags);
DRIVER_CALL(cuStreamGetPriority);
DRIVER_CALL(cuStreamWaitEvent);
DRIVER_CALL(cuStreamIsCapturing);
DRIVER_CALL(cuThreadExchangeStreamCaptureMode);
DRIVER_CALL(cuLaunchHostFunc);
DRIVER_CALL(cuLaunchHostFunc_ptsz);
DRIVER_CALL(cuStreamAddCallback);
DRIVER_CALL(cuEventCreate);
DRIVER_CALL(cuEventRecord);
DRIVER_CALL(cuEventRecordWithFlags);
DRIVER_CALL(cuEventQuery);
DRIVER_CALL(cuEventSynchronize);
DRIVER_CALL(cuEventDestroy_v2);
DRIVER_CALL(cuEventElapsedTime);
DRIVER_CALL(cuStreamWaitValue32_v2);
DRIVER_CALL(cuStreamWaitValue64_v2);
DRIVER_CALL(cuStreamWriteValue32_v2);
DRIVER_CALL(cuStreamWriteValue64_v2);
DRIVER_CALL(cuStreamBatchMemOp_v2);
DRIVER_CALL(cuMemAddressReserve);
DRIVER_CALL(cuMemAddressFree);
DRIVER_CALL(cuMemCreate);
DRIVER_CALL(cuMemRelease);
DRIVER_CALL(cuMemMap);
DRIVER_CALL(cuMemUnmap);
DRIVER_CALL(cuMemSetAccess);
DRIVER_CALL(cuMemGetAccess);
DRIVER_CALL(cuMemGetAllocationGranularity);
DRIVER_CALL(cuMemGetAllocationPropertiesFromHandle);
DRIVER_CALL(cuMemRetainAllocationHandle);
DRIVER_CALL(cuMemExportToShareableHandle);
DRIVER_CALL(cuMemImportFromShareableHandle);
DRIVER_CALL(cuMemAllocAsync);
DRIVER_CALL(cuMemAllocFromPoolAsync);
DRIVER_CALL(cuMemFreeAsync);
DRIVER_CALL(cuDeviceGetDefaultMemPool);
DRIVER_CALL(cuDeviceGetMemPool);
DRIVER_CALL(cuDeviceSetMemPool);
DRIVER_CALL(cuMemPoolCreate);
DRIVER_CALL(cuMemPoolDestroy);
DRIVER_CALL(cuMemPoolTrimTo);
DRIVER_CALL(cuMemPoolGetAttribute);
DRIVER_CALL(cuMemPoolSetAttribute);
DRIVER_CALL(cuStreamBeginCapture_v2);
DRIVER_CALL(cuStreamEndCapture);
DRIVER_CALL(cuGraphDestroy);
DRIVER_CALL(cuGraphGetNodes);
DRIVER_CALL(cuGraphInstantiateWithFlags);
DRIVER_CALL(cuGraphExecDestroy);
DRIVER_CALL(cuGraphLaunch);
DRIVER_CALL(cuMemcpyDtoDAsync_v2_ptsz);
DRIVER_CALL(cuMemcpyBatchAsync);
DRIVER_CALL(cuMemcpyBatchAsync_v2);
DRIVER_CALL(cuMemcpy2D_v2);
DRIVER_CALL(cuMemcpy2DUnaligned_v2);
DRIVER_CALL(cuMemcpy2DAsync_v2);
DRIVER_CALL(cuMemcpy3D_v2);
DRIVER_CALL(cuMemcpy3DAsync_v2);
DRIVER_CALL(cuMemcpy3DPeer);
DRIVER_CALL(cuMemcpy3DPeerAsync);
DRIVER_CALL(cuMemPrefetchAsync_v2);
DRIVER_CALL(cuMemAdvise_v2);
DRIVER_CALL(cuModuleLoad);
DRIVER_CALL(cuModuleLoadData);
DRIVER_CALL(cuModuleLoadDataEx);
DRIVER_CALL(cuModuleUnload);
DRIVER_CALL(cuModuleGetFunction);
DRIVER_CALL(cuModuleGetFunctionCount);
DRIVER_CALL(cuModuleGetGlobal_v2);
DRIVER_CALL(cuLibraryLoadData);
DRIVER_CALL(cuLibraryUnload);
DRIVER_CALL(cuLibraryGetKernel);
DRIVER_CALL(cuLibraryGetKernelCount);
DRIVER_CALL(cuLibraryGetModule);
DRIVER_CALL(cuKernelGetFunction);
DRIVER_CALL(cuKernelGetName);
DRIVER_CALL(cuFuncGetName);
DRIVER_CALL(cuFuncGetModule);
DRIVER_CALL(cuFuncGetAttribute);
DRIVER_CALL(cuFuncSetAttribute);
DRIVER_CALL(cuFuncGetParamInfo);
DRIVER_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor);
DRIVER_CALL(cuLaunchKernel);
DRIVER_CALL(cuLaunchKernel_ptsz);
DRIVER_CALL(cuLaunchKernelEx);

#undef DRIVER_CALL

// The driver is our own stand-in.
bool driver_is_soft();
// "NVIDIA H200, driver 13000" for people.
std::string driver_description();

}  // namespace sluice::gpu_suite
