// SPDX-License-Identifier: Apache-2.0
#include "differential/cuda.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice::differential {
namespace {

void* driver_library() {
  static void* const opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return opened;
}

template <typename Function>
void find(const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(driver_library(), symbol));
  if (function == nullptr) {
    std::fprintf(stderr, "player: libcuda.so.1 has no %s\n", symbol);
    std::exit(2);
  }
}

void need(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "player: %s answers %d\n", what, result);
  std::exit(2);
}

Cuda start() {
  if (driver_library() == nullptr) {
    std::fprintf(stderr, "player: %s\n", dlerror());
    std::exit(2);
  }
  Cuda found{};
  find("cuInit", found.init);
  find("cuDeviceGet", found.device_get);
  find("cuDevicePrimaryCtxRetain", found.primary_retain);
  find("cuCtxSetCurrent", found.context_set);
  find("cuCtxGetCurrent", found.context_current);
  find("cuCtxSynchronize", found.context_synchronize);
  find("cuMemAlloc_v2", found.allocate);
  find("cuMemAllocManaged", found.allocate_managed);
  find("cuMemHostRegister_v2", found.pin);
  find("cuMemcpyHtoD_v2", found.to_device);
  find("cuMemcpyDtoH_v2", found.to_host);
  find("cuStreamCreate", found.stream_create);
  find("cuStreamSynchronize", found.stream_synchronize);
  need(found.init(0), "cuInit");
  int device = 0;
  need(found.device_get(&device, 0), "cuDeviceGet");
  void* context = nullptr;
  need(found.primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
  need(found.context_set(context), "cuCtxSetCurrent");
  return found;
}

}  // namespace

const Cuda& cuda() {
  static const Cuda started = start();
  return started;
}

Address map_pieces(int pieces) {
  struct Location {
    int type, id;
  };
  struct Property {
    int type, handle_types;
    Location location;
    void* win32;
    unsigned char flags[32];
  };
  struct Access {
    Location location;
    int flags;
  };
  int (*create)(std::uint64_t*, std::size_t, const Property*, std::uint64_t) = nullptr;
  int (*reserve)(Address*, std::size_t, std::size_t, Address, std::uint64_t) = nullptr;
  int (*map)(Address, std::size_t, std::size_t, std::uint64_t, std::uint64_t) = nullptr;
  int (*permit)(Address, std::size_t, const Access*, std::size_t) = nullptr;
  find("cuMemCreate", create);
  find("cuMemAddressReserve", reserve);
  find("cuMemMap", map);
  find("cuMemSetAccess", permit);
  Property property;
  std::memset(&property, 0, sizeof property);
  property.type = 1;           // pinned
  property.location.type = 1;  // a device's
  const Access access{{1, 0}, 3};
  Address base = 0;
  if (reserve(&base, kPiece * static_cast<std::size_t>(pieces), 0, 0, 0) != 0) return 0;
  for (int piece = 0; piece < pieces; ++piece) {
    const Address at = base + kPiece * static_cast<std::size_t>(piece);
    std::uint64_t memory = 0;
    if (create(&memory, kPiece, &property, 0) != 0 || map(at, kPiece, 0, memory, 0) != 0) return 0;
    if (permit(at, kPiece, &access, 1) != 0) return 0;
  }
  return base;
}

}  // namespace sluice::differential
