// SPDX-License-Identifier: Apache-2.0
// A stand-in for GDRCopy's libgdrapi.so.2, which maps the memory of the soft GPU and of no other: where the process has
// another driver, or none, gdr_open answers NULL.
#include <dlfcn.h>

#include <atomic>
#include <cerrno>

#include "entry_points.h"
#include "gpu/gdr_abi.h"

namespace gdr = sluice::gdr;

namespace {

// Those of the soft GPU; of no use before it is known.
std::atomic<const gdr::Calls*> driver_calls{nullptr};

const gdr::Calls* find_calls() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  using Ask = decltype(sluice::softgpu::cuSluiceSoftGpuGdrCalls);
  auto* const ask = reinterpret_cast<Ask*>(::dlsym(driver, "cuSluiceSoftGpuGdrCalls"));
  const gdr::Calls* const found = ask != nullptr ? ask() : nullptr;
  ::dlclose(driver);  // the soft GPU stays all the same
  return found;
}

template <typename Call, typename... Arguments>
int forward(Call gdr::Calls::*call, Arguments... arguments) {
  const gdr::Calls* const calls = driver_calls.load(std::memory_order_acquire);
  return calls != nullptr ? (calls->*call)(arguments...) : EINVAL;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

gdr::Connection* gdr_open();
int gdr_close(gdr::Connection* connection);
int gdr_pin_buffer(gdr::Connection* connection, unsigned long address, std::size_t size, std::uint64_t token,
                   std::uint32_t space, gdr::Handle* handle);
int gdr_unpin_buffer(gdr::Connection* connection, gdr::Handle handle);
int gdr_get_info_v2(gdr::Connection* connection, gdr::Handle handle, gdr::Info* info);
int gdr_map(gdr::Connection* connection, gdr::Handle handle, void** address, std::size_t size);
int gdr_unmap(gdr::Connection* connection, gdr::Handle handle, void* address, std::size_t size);
void gdr_runtime_get_version(int* major, int* minor);

gdr::Connection* gdr_open() {
  const gdr::Calls* const found = find_calls();
  if (found == nullptr) return nullptr;
  driver_calls.store(found, std::memory_order_release);
  return found->open();
}

int gdr_close(gdr::Connection* connection) {
  return forward(&gdr::Calls::close, connection);
}

int gdr_pin_buffer(gdr::Connection* connection, unsigned long address, std::size_t size, std::uint64_t token,
                   std::uint32_t space, gdr::Handle* handle) {
  return forward(&gdr::Calls::pin_buffer, connection, address, size, token, space, handle);
}

int gdr_unpin_buffer(gdr::Connection* connection, gdr::Handle handle) {
  return forward(&gdr::Calls::unpin_buffer, connection, handle);
}

int gdr_get_info_v2(gdr::Connection* connection, gdr::Handle handle, gdr::Info* info) {
  return forward(&gdr::Calls::get_info_v2, connection, handle, info);
}

int gdr_map(gdr::Connection* connection, gdr::Handle handle, void** address, std::size_t size) {
  return forward(&gdr::Calls::map, connection, handle, address, size);
}

int gdr_unmap(gdr::Connection* connection, gdr::Handle handle, void* address, std::size_t size) {
  return forward(&gdr::Calls::unmap, connection, handle, address, size);
}

void gdr_runtime_get_version(int* major, int* minor) {
  *major = 2;
  *minor = 5;
}

#pragma GCC visibility pop
}
