// SPDX-License-Identifier: Apache-2.0
// Entry points that copy. The synchronous ones work on the default stream, the per-thread one for _ptds.
#include "answer.h"
#include "copy.h"
#include "entry_points.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

// What the address arguments of a family may be.
enum class Family { any, host_to_device, device_to_host, device_to_device };

// The driver looks at the addresses, not at the name of the call: the "host" end may be anything that the host or a
// device can reach, the "device" end anything but pageable memory.
Place target(Family family, Ptr address, std::size_t size) {
  const bool anything = family == Family::any || family == Family::device_to_host;
  return anything ? place_of(address, size) : device_place(address, size);
}

Place source(Family family, Ptr address, std::size_t size) {
  const bool anything = family == Family::any || family == Family::host_to_device;
  return anything ? place_of(address, size) : device_place(address, size);
}

cuda::Result move(const char* name, Family family, Ptr to, Ptr from, std::size_t size, cuda::Stream stream,
                  CopyCall call) {
  // A stream says which context is meant; only the default streams need a current one.
  return answer(name, [&] {
    const StreamUse use = use_stream(stream);
    if (size == 0) return;
    copy(use, target(family, to, size), source(family, from, size), call);
  });
}

cuda::Result move_now(const char* name, Family family, Ptr to, Ptr from, std::size_t size, cuda::Stream stream) {
  return move(name, family, to, from, size, stream, CopyCall::synchronous);
}

cuda::Result move_later(const char* name, Family family, Ptr to, Ptr from, std::size_t size, cuda::Stream stream) {
  return move(name, family, to, from, size, stream, CopyCall::asynchronous);
}

// With unified addressing the addresses say which device is meant; the contexts must only be ones.
cuda::Result move_between(const char* name, Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context,
                          std::size_t size, cuda::Stream stream, CopyCall call) {
  return answer(name, [&] {
    current_workspace();
    const StreamUse use = use_stream(stream);
    context_of(to_context)->living_workspace();
    context_of(from_context)->living_workspace();
    if (size == 0) return;
    copy(use, device_place(to, size), device_place(from, size), call);
  });
}

Ptr as_pointer(const void* address) {
  return reinterpret_cast<Ptr>(address);
}

}  // namespace

cuda::Result cuMemcpy(Ptr to, Ptr from, std::size_t size) {
  return move_now(__func__, Family::any, to, from, size, default_stream);
}

cuda::Result cuMemcpy_ptds(Ptr to, Ptr from, std::size_t size) {
  return move_now("cuMemcpy", Family::any, to, from, size, per_thread_stream);
}

cuda::Result cuMemcpyAsync(Ptr to, Ptr from, std::size_t size, cuda::Stream stream) {
  return move_later(__func__, Family::any, to, from, size, stream);
}

cuda::Result cuMemcpyHtoD_v2(Ptr to, const void* from, std::size_t size) {
  return move_now(__func__, Family::host_to_device, to, as_pointer(from), size, default_stream);
}

cuda::Result cuMemcpyHtoD_v2_ptds(Ptr to, const void* from, std::size_t size) {
  return move_now("cuMemcpyHtoD", Family::host_to_device, to, as_pointer(from), size, per_thread_stream);
}

cuda::Result cuMemcpyHtoDAsync_v2(Ptr to, const void* from, std::size_t size, cuda::Stream stream) {
  return move_later(__func__, Family::host_to_device, to, as_pointer(from), size, stream);
}

cuda::Result cuMemcpyDtoH_v2(void* to, Ptr from, std::size_t size) {
  return move_now(__func__, Family::device_to_host, as_pointer(to), from, size, default_stream);
}

cuda::Result cuMemcpyDtoH_v2_ptds(void* to, Ptr from, std::size_t size) {
  return move_now("cuMemcpyDtoH", Family::device_to_host, as_pointer(to), from, size, per_thread_stream);
}

cuda::Result cuMemcpyDtoHAsync_v2(void* to, Ptr from, std::size_t size, cuda::Stream stream) {
  return move_later(__func__, Family::device_to_host, as_pointer(to), from, size, stream);
}

cuda::Result cuMemcpyDtoD_v2(Ptr to, Ptr from, std::size_t size) {
  return move_now(__func__, Family::device_to_device, to, from, size, default_stream);
}

cuda::Result cuMemcpyDtoD_v2_ptds(Ptr to, Ptr from, std::size_t size) {
  return move_now("cuMemcpyDtoD", Family::device_to_device, to, from, size, per_thread_stream);
}

cuda::Result cuMemcpyDtoDAsync_v2(Ptr to, Ptr from, std::size_t size, cuda::Stream stream) {
  return move_later(__func__, Family::device_to_device, to, from, size, stream);
}

cuda::Result cuMemcpyPeer(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context, std::size_t size) {
  return move_between(__func__, to, to_context, from, from_context, size, default_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpyPeer_ptds(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context,
                               std::size_t size) {
  return move_between("cuMemcpyPeer", to, to_context, from, from_context, size, per_thread_stream,
                      CopyCall::synchronous);
}

cuda::Result cuMemcpyPeerAsync(Ptr to, cuda::Context to_context, Ptr from, cuda::Context from_context, std::size_t size,
                               cuda::Stream stream) {
  return move_between(__func__, to, to_context, from, from_context, size, stream, CopyCall::asynchronous);
}

}  // namespace sluice::softgpu
