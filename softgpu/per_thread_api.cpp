// SPDX-License-Identifier: Apache-2.0
// The entry points for programs compiled for per-thread default streams: a null stream is the thread's own.
#include "entry_points.h"
#include "stream_use.h"

namespace sluice::softgpu {

CUresult cuMemcpyAsync_ptsz(Ptr to, Ptr from, std::size_t size, cuda::Stream stream) {
  return cuMemcpyAsync(to, from, size, per_thread_if_null(stream));
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(Ptr to, const void* from, std::size_t size, cuda::Stream stream) {
  return cuMemcpyHtoDAsync_v2(to, from, size, per_thread_if_null(stream));
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, Ptr from, std::size_t size, cuda::Stream stream) {
  return cuMemcpyDtoHAsync_v2(to, from, size, per_thread_if_null(stream));
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(Ptr to, Ptr from, std::size_t size, cuda::Stream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, size, per_thread_if_null(stream));
}

CUresult cuMemcpyPeerAsync_ptsz(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context,
                                std::size_t size, cuda::Stream stream) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, size, per_thread_if_null(stream));
}

CUresult cuMemsetD8Async_ptsz(Ptr to, unsigned char value, std::size_t count, cuda::Stream stream) {
  return cuMemsetD8Async(to, value, count, per_thread_if_null(stream));
}

CUresult cuMemsetD16Async_ptsz(Ptr to, unsigned short value, std::size_t count, cuda::Stream stream) {
  return cuMemsetD16Async(to, value, count, per_thread_if_null(stream));
}

CUresult cuMemsetD32Async_ptsz(Ptr to, unsigned value, std::size_t count, cuda::Stream stream) {
  return cuMemsetD32Async(to, value, count, per_thread_if_null(stream));
}

CUresult cuStreamSynchronize_ptsz(cuda::Stream stream) {
  return cuStreamSynchronize(per_thread_if_null(stream));
}

CUresult cuStreamQuery_ptsz(cuda::Stream stream) {
  return cuStreamQuery(per_thread_if_null(stream));
}

CUresult cuStreamGetCtx_ptsz(cuda::Stream stream, cuda::Context* context) {
  return cuStreamGetCtx(per_thread_if_null(stream), context);
}

CUresult cuStreamGetCtx_v2_ptsz(cuda::Stream stream, cuda::Context* context, void** green_context) {
  return cuStreamGetCtx_v2(per_thread_if_null(stream), context, green_context);
}

CUresult cuStreamGetDevice_ptsz(cuda::Stream stream, cuda::Device* device) {
  return cuStreamGetDevice(per_thread_if_null(stream), device);
}

CUresult cuStreamGetId_ptsz(cuda::Stream stream, unsigned long long* id) {
  return cuStreamGetId(per_thread_if_null(stream), id);
}

CUresult cuStreamGetFlags_ptsz(cuda::Stream stream, unsigned* flags) {
  return cuStreamGetFlags(per_thread_if_null(stream), flags);
}

CUresult cuStreamGetPriority_ptsz(cuda::Stream stream, int* priority) {
  return cuStreamGetPriority(per_thread_if_null(stream), priority);
}

CUresult cuStreamWaitEvent_ptsz(cuda::Stream stream, cuda::Event event, unsigned flags) {
  return cuStreamWaitEvent(per_thread_if_null(stream), event, flags);
}

CUresult cuStreamIsCapturing_ptsz(cuda::Stream stream, int* status) {
  return cuStreamIsCapturing(per_thread_if_null(stream), status);
}

CUresult cuStreamBeginCapture_v2_ptsz(cuda::Stream stream, int mode) {
  return cuStreamBeginCapture_v2(per_thread_if_null(stream), mode);
}

CUresult cuStreamEndCapture_ptsz(cuda::Stream stream, cuda::Graph* graph) {
  return cuStreamEndCapture(per_thread_if_null(stream), graph);
}

CUresult cuLaunchHostFunc_ptsz(cuda::Stream stream, HostFunction function, void* data) {
  return cuLaunchHostFunc(per_thread_if_null(stream), function, data);
}

CUresult cuStreamAddCallback_ptsz(cuda::Stream stream, StreamCallback callback, void* data, unsigned flags) {
  return cuStreamAddCallback(per_thread_if_null(stream), callback, data, flags);
}

CUresult cuStreamWaitValue32_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return cuStreamWaitValue32(per_thread_if_null(stream), address, value, flags);
}

CUresult cuStreamWaitValue32_v2_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return cuStreamWaitValue32_v2(per_thread_if_null(stream), address, value, flags);
}

CUresult cuStreamWaitValue64_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return cuStreamWaitValue64(per_thread_if_null(stream), address, value, flags);
}

CUresult cuStreamWaitValue64_v2_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return cuStreamWaitValue64_v2(per_thread_if_null(stream), address, value, flags);
}

CUresult cuStreamWriteValue32_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return cuStreamWriteValue32(per_thread_if_null(stream), address, value, flags);
}

CUresult cuStreamWriteValue32_v2_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return cuStreamWriteValue32_v2(per_thread_if_null(stream), address, value, flags);
}

CUresult cuStreamWriteValue64_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return cuStreamWriteValue64(per_thread_if_null(stream), address, value, flags);
}

CUresult cuStreamWriteValue64_v2_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return cuStreamWriteValue64_v2(per_thread_if_null(stream), address, value, flags);
}

CUresult cuStreamBatchMemOp_ptsz(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                 unsigned flags) {
  return cuStreamBatchMemOp(per_thread_if_null(stream), count, operations, flags);
}

CUresult cuStreamBatchMemOp_v2_ptsz(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                    unsigned flags) {
  return cuStreamBatchMemOp_v2(per_thread_if_null(stream), count, operations, flags);
}

CUresult cuGraphLaunch_ptsz(cuda::GraphExec exec, cuda::Stream stream) {
  return cuGraphLaunch(exec, per_thread_if_null(stream));
}

CUresult cuMemAllocAsync_ptsz(Ptr* pointer, std::size_t size, cuda::Stream stream) {
  return cuMemAllocAsync(pointer, size, per_thread_if_null(stream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(Ptr* pointer, std::size_t size, cuda::MemoryPool pool, cuda::Stream stream) {
  return cuMemAllocFromPoolAsync(pointer, size, pool, per_thread_if_null(stream));
}

CUresult cuMemFreeAsync_ptsz(Ptr pointer, cuda::Stream stream) {
  return cuMemFreeAsync(pointer, per_thread_if_null(stream));
}

CUresult cuEventRecord_ptsz(cuda::Event event, cuda::Stream stream) {
  return cuEventRecord(event, per_thread_if_null(stream));
}

CUresult cuEventRecordWithFlags_ptsz(cuda::Event event, cuda::Stream stream, unsigned flags) {
  return cuEventRecordWithFlags(event, per_thread_if_null(stream), flags);
}

}  // namespace sluice::softgpu
