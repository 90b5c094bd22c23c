// SPDX-License-Identifier: Apache-2.0
// The entry points for programs compiled for per-thread default streams: a null stream is the thread's own.
#include "entry_points.h"
#include "stream_use.h"

namespace sluice::softgpu {

cuda::Result cuMemcpyAsync_ptsz(Ptr to, Ptr from, std::size_t size, cuda::Stream stream) {
  return cuMemcpyAsync(to, from, size, per_thread_if_null(stream));
}

cuda::Result cuMemcpyHtoDAsync_v2_ptsz(Ptr to, const void* from, std::size_t size, cuda::Stream stream) {
  return cuMemcpyHtoDAsync_v2(to, from, size, per_thread_if_null(stream));
}

cuda::Result cuMemcpyDtoHAsync_v2_ptsz(void* to, Ptr from, std::size_t size, cuda::Stream stream) {
  return cuMemcpyDtoHAsync_v2(to, from, size, per_thread_if_null(stream));
}

cuda::Result cuMemcpyDtoDAsync_v2_ptsz(Ptr to, Ptr from, std::size_t size, cuda::Stream stream) {
  return cuMemcpyDtoDAsync_v2(to, from, size, per_thread_if_null(stream));
}

cuda::Result cuMemcpyPeerAsync_ptsz(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context,
                                    std::size_t size, cuda::Stream stream) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, size, per_thread_if_null(stream));
}

cuda::Result cuMemsetD8Async_ptsz(Ptr to, unsigned char value, std::size_t count, cuda::Stream stream) {
  return cuMemsetD8Async(to, value, count, per_thread_if_null(stream));
}

cuda::Result cuMemsetD16Async_ptsz(Ptr to, unsigned short value, std::size_t count, cuda::Stream stream) {
  return cuMemsetD16Async(to, value, count, per_thread_if_null(stream));
}

cuda::Result cuMemsetD32Async_ptsz(Ptr to, unsigned value, std::size_t count, cuda::Stream stream) {
  return cuMemsetD32Async(to, value, count, per_thread_if_null(stream));
}

cuda::Result cuStreamSynchronize_ptsz(cuda::Stream stream) {
  return cuStreamSynchronize(per_thread_if_null(stream));
}

cuda::Result cuStreamQuery_ptsz(cuda::Stream stream) {
  return cuStreamQuery(per_thread_if_null(stream));
}

cuda::Result cuStreamGetCtx_ptsz(cuda::Stream stream, cuda::Context* context) {
  return cuStreamGetCtx(per_thread_if_null(stream), context);
}

cuda::Result cuStreamGetCtx_v2_ptsz(cuda::Stream stream, cuda::Context* context, void** green_context) {
  return cuStreamGetCtx_v2(per_thread_if_null(stream), context, green_context);
}

cuda::Result cuStreamGetDevice_ptsz(cuda::Stream stream, cuda::Device* device) {
  return cuStreamGetDevice(per_thread_if_null(stream), device);
}

cuda::Result cuStreamGetId_ptsz(cuda::Stream stream, unsigned long long* id) {
  return cuStreamGetId(per_thread_if_null(stream), id);
}

cuda::Result cuStreamGetFlags_ptsz(cuda::Stream stream, unsigned* flags) {
  return cuStreamGetFlags(per_thread_if_null(stream), flags);
}

cuda::Result cuStreamGetPriority_ptsz(cuda::Stream stream, int* priority) {
  return cuStreamGetPriority(per_thread_if_null(stream), priority);
}

cuda::Result cuStreamWaitEvent_ptsz(cuda::Stream stream, cuda::Event event, unsigned flags) {
  return cuStreamWaitEvent(per_thread_if_null(stream), event, flags);
}

cuda::Result cuStreamIsCapturing_ptsz(cuda::Stream stream, int* status) {
  return cuStreamIsCapturing(per_thread_if_null(stream), status);
}

cuda::Result cuStreamBeginCapture_v2_ptsz(cuda::Stream stream, int mode) {
  return cuStreamBeginCapture_v2(per_thread_if_null(stream), mode);
}

cuda::Result cuStreamEndCapture_ptsz(cuda::Stream stream, cuda::Graph* graph) {
  return cuStreamEndCapture(per_thread_if_null(stream), graph);
}

cuda::Result cuLaunchHostFunc_ptsz(cuda::Stream stream, HostFunction function, void* data) {
  return cuLaunchHostFunc(per_thread_if_null(stream), function, data);
}

cuda::Result cuStreamAddCallback_ptsz(cuda::Stream stream, StreamCallback callback, void* data, unsigned flags) {
  return cuStreamAddCallback(per_thread_if_null(stream), callback, data, flags);
}

cuda::Result cuStreamWaitValue32_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return cuStreamWaitValue32(per_thread_if_null(stream), address, value, flags);
}

cuda::Result cuStreamWaitValue32_v2_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return cuStreamWaitValue32_v2(per_thread_if_null(stream), address, value, flags);
}

cuda::Result cuStreamWaitValue64_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return cuStreamWaitValue64(per_thread_if_null(stream), address, value, flags);
}

cuda::Result cuStreamWaitValue64_v2_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return cuStreamWaitValue64_v2(per_thread_if_null(stream), address, value, flags);
}

cuda::Result cuStreamWriteValue32_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return cuStreamWriteValue32(per_thread_if_null(stream), address, value, flags);
}

cuda::Result cuStreamWriteValue32_v2_ptsz(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return cuStreamWriteValue32_v2(per_thread_if_null(stream), address, value, flags);
}

cuda::Result cuStreamWriteValue64_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return cuStreamWriteValue64(per_thread_if_null(stream), address, value, flags);
}

cuda::Result cuStreamWriteValue64_v2_ptsz(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return cuStreamWriteValue64_v2(per_thread_if_null(stream), address, value, flags);
}

cuda::Result cuStreamBatchMemOp_ptsz(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                     unsigned flags) {
  return cuStreamBatchMemOp(per_thread_if_null(stream), count, operations, flags);
}

cuda::Result cuStreamBatchMemOp_v2_ptsz(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                        unsigned flags) {
  return cuStreamBatchMemOp_v2(per_thread_if_null(stream), count, operations, flags);
}

cuda::Result cuGraphLaunch_ptsz(cuda::GraphExec exec, cuda::Stream stream) {
  return cuGraphLaunch(exec, per_thread_if_null(stream));
}

cuda::Result cuMemAllocAsync_ptsz(Ptr* pointer, std::size_t size, cuda::Stream stream) {
  return cuMemAllocAsync(pointer, size, per_thread_if_null(stream));
}

cuda::Result cuMemAllocFromPoolAsync_ptsz(Ptr* pointer, std::size_t size, cuda::MemoryPool pool, cuda::Stream stream) {
  return cuMemAllocFromPoolAsync(pointer, size, pool, per_thread_if_null(stream));
}

cuda::Result cuMemFreeAsync_ptsz(Ptr pointer, cuda::Stream stream) {
  return cuMemFreeAsync(pointer, per_thread_if_null(stream));
}

cuda::Result cuEventRecord_ptsz(cuda::Event event, cuda::Stream stream) {
  return cuEventRecord(event, per_thread_if_null(stream));
}

cuda::Result cuEventRecordWithFlags_ptsz(cuda::Event event, cuda::Stream stream, unsigned flags) {
  return cuEventRecordWithFlags(event, per_thread_if_null(stream), flags);
}

}  // namespace sluice::softgpu
