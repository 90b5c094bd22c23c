// SPDX-License-Identifier: Apache-2.0
// Registering and deregistering memory: any actor's, since only its owner touches it.
#include <limits>

#include "fuzz/families.h"

namespace sluice::fuzz {
namespace {

// Starts that several actors will hit upon.
std::size_t any_start(Actor& actor) {
  return actor.one_of<std::size_t>({0, 0, 4096, 77, 65536});
}

std::string named(const support::Memory& memory, std::size_t start, std::size_t size) {
  return joined(support::name_of(memory.kind()), " + ", start, ", ", size);
}

}  // namespace

void register_buffer(Actor& actor) {
  const support::Memory& memory = *actor.any(actor.world().areas());
  const std::size_t start = any_start(actor);
  const std::size_t size = actor.one_in(2) ? memory.size() - start : 1 + actor.draw(memory.size() - start);
  const int flags = actor.one_of({0, 0, 0, CU_FILE_RDMA_REGISTER, CU_FILE_RDMA_RELAXED_ORDERING});
  // 5013: host memory was switched off by a parameter.
  actor.expect(actor.call("cuFileBufRegister", named(memory, start, size),
                          [&] { return cuFileBufRegister(memory.at(start), size, flags); }),
               {CU_FILE_SUCCESS, CU_FILE_MEMORY_ALREADY_REGISTERED, CU_FILE_CUDA_MEMORY_TYPE_INVALID});
}

void register_wrong_buffer(Actor& actor) {
  const support::Memory& memory = *actor.any(actor.world().areas());
  switch (actor.draw(4)) {
    case 0:
      actor.expect(actor.call("cuFileBufRegister", "NULL, 4096", [] { return cuFileBufRegister(nullptr, 4096, 0); }),
                   {CU_FILE_INVALID_VALUE});
      break;
    case 1:
      actor.expect(actor.call("cuFileBufRegister", named(memory, 0, 0),
                              [&] { return cuFileBufRegister(memory.address(), 0, 0); }),
                   {CU_FILE_INVALID_VALUE});
      break;
    case 2: {
      const int flags = actor.one_of({4, 64, -1, 1 << 30});
      actor.expect(actor.call("cuFileBufRegister", joined("flags ", flags),
                              [&] { return cuFileBufRegister(memory.at(64), 4096, flags); }),
                   {CU_FILE_SUCCESS, CU_FILE_MEMORY_ALREADY_REGISTERED, CU_FILE_CUDA_MEMORY_TYPE_INVALID});
      break;
    }
    default: {
      const std::size_t size =
          actor.one_of<std::size_t>({std::size_t{1} << 40U, std::numeric_limits<std::size_t>::max()});
      if (memory.kind() != support::MemoryKind::device) return;
      actor.expect(actor.call("cuFileBufRegister", named(memory, 0, size),
                              [&] { return cuFileBufRegister(memory.address(), size, 0); }),
                   {CU_FILE_CUDA_POINTER_RANGE_ERROR, CU_FILE_INVALID_VALUE, CU_FILE_MEMORY_ALREADY_REGISTERED});
    }
  }
}

void deregister_buffer(Actor& actor) {
  const support::Memory& memory = *actor.any(actor.world().areas());
  const std::size_t start = any_start(actor);
  const void* base = memory.at(start);
  std::string what = named(memory, start, 0);
  if (actor.one_in(8)) {
    base = nullptr;
    what = "NULL";
  } else if (actor.one_in(8)) {
    base = actor.garbage_address();
    what = "garbage";
  }
  const CUfileError_t answer = actor.call("cuFileBufDeregister", what, [&] { return cuFileBufDeregister(base); });
  if (base == nullptr) {
    actor.expect(answer, {CU_FILE_INVALID_VALUE});
  } else {
    actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_MEMORY_NOT_REGISTERED, CU_FILE_DRIVER_CLOSING,
                          CU_FILE_DRIVER_NOT_INITIALIZED});
  }
}

void free_registered_buffer(Actor& actor) {
  const support::MemoryKind kind =
      actor.one_of({support::MemoryKind::plain, support::MemoryKind::pinned, support::MemoryKind::device});
  if (!support::available(kind)) return;
  support::Memory memory(kind, 65536);
  const void* const base = memory.address();
  actor.expect(actor.call("cuFileBufRegister", joined("fresh ", support::name_of(kind)),
                          [&] { return cuFileBufRegister(base, 65536, 0); }),
               {CU_FILE_SUCCESS, CU_FILE_MEMORY_ALREADY_REGISTERED, CU_FILE_CUDA_MEMORY_TYPE_INVALID});
  memory.free();
  actor.expect(
      actor.call("cuFileBufDeregister", "freed memory", [&] { return cuFileBufDeregister(base); }),
      {CU_FILE_SUCCESS, CU_FILE_MEMORY_NOT_REGISTERED, CU_FILE_DRIVER_CLOSING, CU_FILE_DRIVER_NOT_INITIALIZED});
}

}  // namespace sluice::fuzz
