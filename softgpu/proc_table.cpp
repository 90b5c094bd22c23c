// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress: names without versions, and the version of CUDA that a caller was compiled for.
#include <array>
#include <string_view>

#include "answer.h"
#include "entry_points.h"

namespace sluice::softgpu {

namespace {

struct Procedure {
  std::string_view name;
  int since;  // the version of CUDA in which this form of the call appeared
  void* function;
  void* per_thread;  // its form for per-thread default streams; null where there is no difference
};

template <typename Function>
void* entry(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Sorted by name, older forms first.
const std::array procedures{
    Procedure{"cuCtxCreate", 3020, entry(cuCtxCreate_v2), nullptr},
    Procedure{"cuCtxCreate", 11040, entry(cuCtxCreate_v3), nullptr},
    Procedure{"cuCtxCreate", 12050, entry(cuCtxCreate_v4), nullptr},
    Procedure{"cuCtxDestroy", 4000, entry(cuCtxDestroy_v2), nullptr},
    Procedure{"cuCtxDisablePeerAccess", 4000, entry(cuCtxDisablePeerAccess), nullptr},
    Procedure{"cuCtxEnablePeerAccess", 4000, entry(cuCtxEnablePeerAccess), nullptr},
    Procedure{"cuCtxGetApiVersion", 3020, entry(cuCtxGetApiVersion), nullptr},
    Procedure{"cuCtxGetCurrent", 4000, entry(cuCtxGetCurrent), nullptr},
    Procedure{"cuCtxGetDevice", 2000, entry(cuCtxGetDevice), nullptr},
    Procedure{"cuCtxGetDevice", 13000, entry(cuCtxGetDevice_v2), nullptr},
    Procedure{"cuCtxGetFlags", 7000, entry(cuCtxGetFlags), nullptr},
    Procedure{"cuCtxGetId", 12000, entry(cuCtxGetId), nullptr},
    Procedure{"cuCtxGetStreamPriorityRange", 5050, entry(cuCtxGetStreamPriorityRange), nullptr},
    Procedure{"cuCtxPopCurrent", 4000, entry(cuCtxPopCurrent_v2), nullptr},
    Procedure{"cuCtxPushCurrent", 4000, entry(cuCtxPushCurrent_v2), nullptr},
    Procedure{"cuCtxSetCurrent", 4000, entry(cuCtxSetCurrent), nullptr},
    Procedure{"cuCtxSetFlags", 12010, entry(cuCtxSetFlags), nullptr},
    Procedure{"cuCtxSynchronize", 2000, entry(cuCtxSynchronize), nullptr},
    Procedure{"cuCtxSynchronize", 13000, entry(cuCtxSynchronize_v2), nullptr},
    Procedure{"cuDeviceCanAccessPeer", 4000, entry(cuDeviceCanAccessPeer), nullptr},
    Procedure{"cuDeviceComputeCapability", 2000, entry(cuDeviceComputeCapability), nullptr},
    Procedure{"cuDeviceGet", 2000, entry(cuDeviceGet), nullptr},
    Procedure{"cuDeviceGetAttribute", 2000, entry(cuDeviceGetAttribute), nullptr},
    Procedure{"cuDeviceGetByPCIBusId", 4010, entry(cuDeviceGetByPCIBusId), nullptr},
    Procedure{"cuDeviceGetCount", 2000, entry(cuDeviceGetCount), nullptr},
    Procedure{"cuDeviceGetDefaultMemPool", 11020, entry(cuDeviceGetDefaultMemPool), nullptr},
    Procedure{"cuDeviceGetMemPool", 11020, entry(cuDeviceGetMemPool), nullptr},
    Procedure{"cuDeviceGetName", 2000, entry(cuDeviceGetName), nullptr},
    Procedure{"cuDeviceGetP2PAttribute", 8000, entry(cuDeviceGetP2PAttribute), nullptr},
    Procedure{"cuDeviceGetPCIBusId", 4010, entry(cuDeviceGetPCIBusId), nullptr},
    Procedure{"cuDeviceGetUuid", 9020, entry(cuDeviceGetUuid), nullptr},
    Procedure{"cuDeviceGetUuid", 11040, entry(cuDeviceGetUuid_v2), nullptr},
    Procedure{"cuDevicePrimaryCtxGetState", 7000, entry(cuDevicePrimaryCtxGetState), nullptr},
    Procedure{"cuDevicePrimaryCtxRelease", 7000, entry(cuDevicePrimaryCtxRelease), nullptr},
    Procedure{"cuDevicePrimaryCtxRelease", 11000, entry(cuDevicePrimaryCtxRelease_v2), nullptr},
    Procedure{"cuDevicePrimaryCtxReset", 7000, entry(cuDevicePrimaryCtxReset), nullptr},
    Procedure{"cuDevicePrimaryCtxReset", 11000, entry(cuDevicePrimaryCtxReset_v2), nullptr},
    Procedure{"cuDevicePrimaryCtxRetain", 7000, entry(cuDevicePrimaryCtxRetain), nullptr},
    Procedure{"cuDevicePrimaryCtxSetFlags", 7000, entry(cuDevicePrimaryCtxSetFlags), nullptr},
    Procedure{"cuDevicePrimaryCtxSetFlags", 11000, entry(cuDevicePrimaryCtxSetFlags_v2), nullptr},
    Procedure{"cuDeviceSetMemPool", 11020, entry(cuDeviceSetMemPool), nullptr},
    Procedure{"cuDeviceTotalMem", 3020, entry(cuDeviceTotalMem_v2), nullptr},
    Procedure{"cuDriverGetVersion", 2020, entry(cuDriverGetVersion), nullptr},
    Procedure{"cuEventCreate", 2000, entry(cuEventCreate), nullptr},
    Procedure{"cuEventDestroy", 4000, entry(cuEventDestroy_v2), nullptr},
    Procedure{"cuEventElapsedTime", 2000, entry(cuEventElapsedTime), nullptr},
    Procedure{"cuEventElapsedTime", 12080, entry(cuEventElapsedTime_v2), nullptr},
    Procedure{"cuEventQuery", 2000, entry(cuEventQuery), nullptr},
    Procedure{"cuEventRecord", 2000, entry(cuEventRecord), entry(cuEventRecord_ptsz)},
    Procedure{"cuEventRecordWithFlags", 11010, entry(cuEventRecordWithFlags), entry(cuEventRecordWithFlags_ptsz)},
    Procedure{"cuEventSynchronize", 2000, entry(cuEventSynchronize), nullptr},
    Procedure{"cuFlushGPUDirectRDMAWrites", 11030, entry(cuFlushGPUDirectRDMAWrites), nullptr},
    Procedure{"cuFuncGetAttribute", 2020, entry(cuFuncGetAttribute), nullptr},
    Procedure{"cuFuncGetModule", 11000, entry(cuFuncGetModule), nullptr},
    Procedure{"cuFuncGetName", 12030, entry(cuFuncGetName), nullptr},
    Procedure{"cuFuncGetParamInfo", 12040, entry(cuFuncGetParamInfo), nullptr},
    Procedure{"cuFuncSetAttribute", 9000, entry(cuFuncSetAttribute), nullptr},
    Procedure{"cuFuncSetCacheConfig", 3000, entry(cuFuncSetCacheConfig), nullptr},
    Procedure{"cuGetErrorName", 6000, entry(cuGetErrorName), nullptr},
    Procedure{"cuGetErrorString", 6000, entry(cuGetErrorString), nullptr},
    Procedure{"cuGetProcAddress", 11030, entry(cuGetProcAddress), nullptr},
    Procedure{"cuGetProcAddress", 12000, entry(cuGetProcAddress_v2), nullptr},
    Procedure{"cuGraphCreate", 10000, entry(cuGraphCreate), nullptr},
    Procedure{"cuGraphDestroy", 10000, entry(cuGraphDestroy), nullptr},
    Procedure{"cuGraphExecDestroy", 10000, entry(cuGraphExecDestroy), nullptr},
    Procedure{"cuGraphGetNodes", 10000, entry(cuGraphGetNodes), nullptr},
    Procedure{"cuGraphInstantiate", 12000, entry(cuGraphInstantiateWithFlags), nullptr},
    Procedure{"cuGraphInstantiateWithFlags", 11040, entry(cuGraphInstantiateWithFlags), nullptr},
    Procedure{"cuGraphLaunch", 10000, entry(cuGraphLaunch), entry(cuGraphLaunch_ptsz)},
    Procedure{"cuInit", 2000, entry(cuInit), nullptr},
    Procedure{"cuKernelGetFunction", 12000, entry(cuKernelGetFunction), nullptr},
    Procedure{"cuKernelGetName", 12030, entry(cuKernelGetName), nullptr},
    Procedure{"cuLaunchHostFunc", 10000, entry(cuLaunchHostFunc), entry(cuLaunchHostFunc_ptsz)},
    Procedure{"cuLaunchKernel", 4000, entry(cuLaunchKernel), entry(cuLaunchKernel_ptsz)},
    Procedure{"cuLaunchKernelEx", 11060, entry(cuLaunchKernelEx), entry(cuLaunchKernelEx_ptsz)},
    Procedure{"cuLibraryGetKernel", 12000, entry(cuLibraryGetKernel), nullptr},
    Procedure{"cuLibraryGetKernelCount", 12040, entry(cuLibraryGetKernelCount), nullptr},
    Procedure{"cuLibraryGetModule", 12000, entry(cuLibraryGetModule), nullptr},
    Procedure{"cuLibraryLoadData", 12000, entry(cuLibraryLoadData), nullptr},
    Procedure{"cuLibraryUnload", 12000, entry(cuLibraryUnload), nullptr},
    Procedure{"cuMemAddressFree", 10020, entry(cuMemAddressFree), nullptr},
    Procedure{"cuMemAddressReserve", 10020, entry(cuMemAddressReserve), nullptr},
    Procedure{"cuMemAdvise", 8000, entry(cuMemAdvise), nullptr},
    Procedure{"cuMemAdvise", 12020, entry(cuMemAdvise_v2), nullptr},
    Procedure{"cuMemAlloc", 3020, entry(cuMemAlloc_v2), nullptr},
    Procedure{"cuMemAllocAsync", 11020, entry(cuMemAllocAsync), entry(cuMemAllocAsync_ptsz)},
    Procedure{"cuMemAllocFromPoolAsync", 11020, entry(cuMemAllocFromPoolAsync), entry(cuMemAllocFromPoolAsync_ptsz)},
    Procedure{"cuMemAllocHost", 3020, entry(cuMemAllocHost_v2), nullptr},
    Procedure{"cuMemAllocManaged", 6000, entry(cuMemAllocManaged), nullptr},
    Procedure{"cuMemAllocPitch", 3020, entry(cuMemAllocPitch_v2), nullptr},
    Procedure{"cuMemCreate", 10020, entry(cuMemCreate), nullptr},
    Procedure{"cuMemExportToShareableHandle", 10020, entry(cuMemExportToShareableHandle), nullptr},
    Procedure{"cuMemFree", 3020, entry(cuMemFree_v2), nullptr},
    Procedure{"cuMemFreeAsync", 11020, entry(cuMemFreeAsync), entry(cuMemFreeAsync_ptsz)},
    Procedure{"cuMemFreeHost", 2000, entry(cuMemFreeHost), nullptr},
    Procedure{"cuMemGetAccess", 10020, entry(cuMemGetAccess), nullptr},
    Procedure{"cuMemGetAddressRange", 3020, entry(cuMemGetAddressRange_v2), nullptr},
    Procedure{"cuMemGetAllocationGranularity", 10020, entry(cuMemGetAllocationGranularity), nullptr},
    Procedure{"cuMemGetAllocationPropertiesFromHandle", 10020, entry(cuMemGetAllocationPropertiesFromHandle), nullptr},
    Procedure{"cuMemGetHandleForAddressRange", 11070, entry(cuMemGetHandleForAddressRange), nullptr},
    Procedure{"cuMemGetInfo", 3020, entry(cuMemGetInfo_v2), nullptr},
    Procedure{"cuMemHostAlloc", 2020, entry(cuMemHostAlloc), nullptr},
    Procedure{"cuMemHostGetDevicePointer", 3020, entry(cuMemHostGetDevicePointer_v2), nullptr},
    Procedure{"cuMemHostGetFlags", 2030, entry(cuMemHostGetFlags), nullptr},
    Procedure{"cuMemHostRegister", 6050, entry(cuMemHostRegister_v2), nullptr},
    Procedure{"cuMemHostUnregister", 4000, entry(cuMemHostUnregister), nullptr},
    Procedure{"cuMemImportFromShareableHandle", 10020, entry(cuMemImportFromShareableHandle), nullptr},
    Procedure{"cuMemMap", 10020, entry(cuMemMap), nullptr},
    Procedure{"cuMemPoolCreate", 11020, entry(cuMemPoolCreate), nullptr},
    Procedure{"cuMemPoolDestroy", 11020, entry(cuMemPoolDestroy), nullptr},
    Procedure{"cuMemPoolGetAccess", 11020, entry(cuMemPoolGetAccess), nullptr},
    Procedure{"cuMemPoolGetAttribute", 11020, entry(cuMemPoolGetAttribute), nullptr},
    Procedure{"cuMemPoolSetAccess", 11020, entry(cuMemPoolSetAccess), nullptr},
    Procedure{"cuMemPoolSetAttribute", 11020, entry(cuMemPoolSetAttribute), nullptr},
    Procedure{"cuMemPoolTrimTo", 11020, entry(cuMemPoolTrimTo), nullptr},
    Procedure{"cuMemPrefetchAsync", 8000, entry(cuMemPrefetchAsync), entry(cuMemPrefetchAsync_ptsz)},
    Procedure{"cuMemPrefetchAsync", 12020, entry(cuMemPrefetchAsync_v2), entry(cuMemPrefetchAsync_v2_ptsz)},
    Procedure{"cuMemRelease", 10020, entry(cuMemRelease), nullptr},
    Procedure{"cuMemRetainAllocationHandle", 11000, entry(cuMemRetainAllocationHandle), nullptr},
    Procedure{"cuMemSetAccess", 10020, entry(cuMemSetAccess), nullptr},
    Procedure{"cuMemUnmap", 10020, entry(cuMemUnmap), nullptr},
    Procedure{"cuMemcpy", 4000, entry(cuMemcpy), entry(cuMemcpy_ptds)},
    Procedure{"cuMemcpy2D", 3020, entry(cuMemcpy2D_v2), entry(cuMemcpy2D_v2_ptds)},
    Procedure{"cuMemcpy2DAsync", 3020, entry(cuMemcpy2DAsync_v2), entry(cuMemcpy2DAsync_v2_ptsz)},
    Procedure{"cuMemcpy2DUnaligned", 3020, entry(cuMemcpy2DUnaligned_v2), entry(cuMemcpy2DUnaligned_v2_ptds)},
    Procedure{"cuMemcpy3D", 3020, entry(cuMemcpy3D_v2), entry(cuMemcpy3D_v2_ptds)},
    Procedure{"cuMemcpy3DAsync", 3020, entry(cuMemcpy3DAsync_v2), entry(cuMemcpy3DAsync_v2_ptsz)},
    Procedure{"cuMemcpy3DPeer", 4000, entry(cuMemcpy3DPeer), entry(cuMemcpy3DPeer_ptds)},
    Procedure{"cuMemcpy3DPeerAsync", 4000, entry(cuMemcpy3DPeerAsync), entry(cuMemcpy3DPeerAsync_ptsz)},
    Procedure{"cuMemcpyAsync", 4000, entry(cuMemcpyAsync), entry(cuMemcpyAsync_ptsz)},
    Procedure{"cuMemcpyBatchAsync", 12080, entry(cuMemcpyBatchAsync), entry(cuMemcpyBatchAsync_ptsz)},
    Procedure{"cuMemcpyBatchAsync", 13000, entry(cuMemcpyBatchAsync_v2), entry(cuMemcpyBatchAsync_v2_ptsz)},
    Procedure{"cuMemcpyDtoD", 3020, entry(cuMemcpyDtoD_v2), entry(cuMemcpyDtoD_v2_ptds)},
    Procedure{"cuMemcpyDtoDAsync", 3020, entry(cuMemcpyDtoDAsync_v2), entry(cuMemcpyDtoDAsync_v2_ptsz)},
    Procedure{"cuMemcpyDtoH", 3020, entry(cuMemcpyDtoH_v2), entry(cuMemcpyDtoH_v2_ptds)},
    Procedure{"cuMemcpyDtoHAsync", 3020, entry(cuMemcpyDtoHAsync_v2), entry(cuMemcpyDtoHAsync_v2_ptsz)},
    Procedure{"cuMemcpyHtoD", 3020, entry(cuMemcpyHtoD_v2), entry(cuMemcpyHtoD_v2_ptds)},
    Procedure{"cuMemcpyHtoDAsync", 3020, entry(cuMemcpyHtoDAsync_v2), entry(cuMemcpyHtoDAsync_v2_ptsz)},
    Procedure{"cuMemcpyPeer", 4000, entry(cuMemcpyPeer), entry(cuMemcpyPeer_ptds)},
    Procedure{"cuMemcpyPeerAsync", 4000, entry(cuMemcpyPeerAsync), entry(cuMemcpyPeerAsync_ptsz)},
    Procedure{"cuMemsetD16", 3020, entry(cuMemsetD16_v2), entry(cuMemsetD16_v2_ptds)},
    Procedure{"cuMemsetD16Async", 3020, entry(cuMemsetD16Async), entry(cuMemsetD16Async_ptsz)},
    Procedure{"cuMemsetD32", 3020, entry(cuMemsetD32_v2), entry(cuMemsetD32_v2_ptds)},
    Procedure{"cuMemsetD32Async", 3020, entry(cuMemsetD32Async), entry(cuMemsetD32Async_ptsz)},
    Procedure{"cuMemsetD8", 3020, entry(cuMemsetD8_v2), entry(cuMemsetD8_v2_ptds)},
    Procedure{"cuMemsetD8Async", 3020, entry(cuMemsetD8Async), entry(cuMemsetD8Async_ptsz)},
    Procedure{"cuModuleGetFunction", 2000, entry(cuModuleGetFunction), nullptr},
    Procedure{"cuModuleGetFunctionCount", 12040, entry(cuModuleGetFunctionCount), nullptr},
    Procedure{"cuModuleGetGlobal", 3020, entry(cuModuleGetGlobal_v2), nullptr},
    Procedure{"cuModuleGetLoadingMode", 11070, entry(cuModuleGetLoadingMode), nullptr},
    Procedure{"cuModuleLoad", 2000, entry(cuModuleLoad), nullptr},
    Procedure{"cuModuleLoadData", 2000, entry(cuModuleLoadData), nullptr},
    Procedure{"cuModuleLoadDataEx", 2010, entry(cuModuleLoadDataEx), nullptr},
    Procedure{"cuModuleLoadFatBinary", 2000, entry(cuModuleLoadFatBinary), nullptr},
    Procedure{"cuModuleUnload", 2000, entry(cuModuleUnload), nullptr},
    Procedure{"cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, entry(cuOccupancyMaxActiveBlocksPerMultiprocessor),
              nullptr},
    Procedure{"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 7000,
              entry(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags), nullptr},
    Procedure{"cuPointerGetAttribute", 4000, entry(cuPointerGetAttribute), nullptr},
    Procedure{"cuPointerGetAttributes", 7000, entry(cuPointerGetAttributes), nullptr},
    Procedure{"cuPointerSetAttribute", 6000, entry(cuPointerSetAttribute), nullptr},
    Procedure{"cuStreamAddCallback", 5000, entry(cuStreamAddCallback), entry(cuStreamAddCallback_ptsz)},
    Procedure{"cuStreamBatchMemOp", 8000, entry(cuStreamBatchMemOp), entry(cuStreamBatchMemOp_ptsz)},
    Procedure{"cuStreamBatchMemOp", 11070, entry(cuStreamBatchMemOp_v2), entry(cuStreamBatchMemOp_v2_ptsz)},
    Procedure{"cuStreamBeginCapture", 10010, entry(cuStreamBeginCapture_v2), entry(cuStreamBeginCapture_v2_ptsz)},
    Procedure{"cuStreamCreate", 2000, entry(cuStreamCreate), nullptr},
    Procedure{"cuStreamCreateWithPriority", 5050, entry(cuStreamCreateWithPriority), nullptr},
    Procedure{"cuStreamDestroy", 4000, entry(cuStreamDestroy_v2), nullptr},
    Procedure{"cuStreamEndCapture", 10000, entry(cuStreamEndCapture), entry(cuStreamEndCapture_ptsz)},
    Procedure{"cuStreamGetCtx", 9020, entry(cuStreamGetCtx), entry(cuStreamGetCtx_ptsz)},
    Procedure{"cuStreamGetCtx", 12050, entry(cuStreamGetCtx_v2), entry(cuStreamGetCtx_v2_ptsz)},
    Procedure{"cuStreamGetDevice", 12080, entry(cuStreamGetDevice), entry(cuStreamGetDevice_ptsz)},
    Procedure{"cuStreamGetFlags", 5050, entry(cuStreamGetFlags), entry(cuStreamGetFlags_ptsz)},
    Procedure{"cuStreamGetId", 12000, entry(cuStreamGetId), entry(cuStreamGetId_ptsz)},
    Procedure{"cuStreamGetPriority", 5050, entry(cuStreamGetPriority), entry(cuStreamGetPriority_ptsz)},
    Procedure{"cuStreamIsCapturing", 10000, entry(cuStreamIsCapturing), entry(cuStreamIsCapturing_ptsz)},
    Procedure{"cuStreamQuery", 2000, entry(cuStreamQuery), entry(cuStreamQuery_ptsz)},
    Procedure{"cuStreamSynchronize", 2000, entry(cuStreamSynchronize), entry(cuStreamSynchronize_ptsz)},
    Procedure{"cuStreamWaitEvent", 3020, entry(cuStreamWaitEvent), entry(cuStreamWaitEvent_ptsz)},
    Procedure{"cuStreamWaitValue32", 8000, entry(cuStreamWaitValue32), entry(cuStreamWaitValue32_ptsz)},
    Procedure{"cuStreamWaitValue32", 11070, entry(cuStreamWaitValue32_v2), entry(cuStreamWaitValue32_v2_ptsz)},
    Procedure{"cuStreamWaitValue64", 9000, entry(cuStreamWaitValue64), entry(cuStreamWaitValue64_ptsz)},
    Procedure{"cuStreamWaitValue64", 11070, entry(cuStreamWaitValue64_v2), entry(cuStreamWaitValue64_v2_ptsz)},
    Procedure{"cuStreamWriteValue32", 8000, entry(cuStreamWriteValue32), entry(cuStreamWriteValue32_ptsz)},
    Procedure{"cuStreamWriteValue32", 11070, entry(cuStreamWriteValue32_v2), entry(cuStreamWriteValue32_v2_ptsz)},
    Procedure{"cuStreamWriteValue64", 9000, entry(cuStreamWriteValue64), entry(cuStreamWriteValue64_ptsz)},
    Procedure{"cuStreamWriteValue64", 11070, entry(cuStreamWriteValue64_v2), entry(cuStreamWriteValue64_v2_ptsz)},
    Procedure{"cuThreadExchangeStreamCaptureMode", 10010, entry(cuThreadExchangeStreamCaptureMode), nullptr},
};

struct Found {
  void* function = nullptr;
  cuda::ProcAddressStatus status = cuda::proc_not_found;
};

// The newest form that a caller compiled for `version` can use.
Found look_up(std::string_view name, int version, std::uint64_t flags) {
  Found found;
  for (const Procedure& procedure : procedures) {
    if (procedure.name != name) continue;
    if (procedure.since > version) {
      if (found.function == nullptr) found.status = cuda::proc_version_not_sufficient;
      continue;
    }
    const bool per_thread = flags == cuda::proc_address_per_thread_stream && procedure.per_thread != nullptr;
    found = {per_thread ? procedure.per_thread : procedure.function, cuda::proc_found};
  }
  return found;
}

void check_query(const char* symbol, void** function, int version, std::uint64_t flags) {
  require(symbol != nullptr && function != nullptr && flags <= cuda::proc_address_per_thread_stream);
  int ours = 0;
  cuDriverGetVersion(&ours);
  require(version <= ours);
}

}  // namespace

cuda::Result cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  return answer_early(__func__, [&] {
    check_query(symbol, function, version, flags);
    *function = look_up(symbol, version, flags).function;
    require(*function != nullptr, cuda::error_not_found);
  });
}

cuda::Result cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, int* status) {
  return answer_early(__func__, [&] {
    check_query(symbol, function, version, flags);
    const Found found = look_up(symbol, version, flags);
    *function = found.function;
    if (status != nullptr) *status = found.status;
  });
}

}  // namespace sluice::softgpu
