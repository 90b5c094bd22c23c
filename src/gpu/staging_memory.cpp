// SPDX-License-Identifier: Apache-2.0
// More is mapped than asked for, and what lies around the place where the bulk begins on a huge page is given back.
#include "gpu/staging_memory.h"

#include <sys/mman.h>

#include <cstdint>

namespace sluice::gpu {

namespace {

void unmap(std::byte* memory, std::size_t size) noexcept {
  if (size > 0) ::munmap(memory, size);
}

}  // namespace

std::byte* map_staging(const StagingShape& shape) noexcept {
  const std::size_t spare = shape.bulk > 0 ? huge_page_bytes : 0;
  void* const mapping =
      ::mmap(nullptr, shape.size() + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapping);
  const std::size_t into_page = (reinterpret_cast<std::uintptr_t>(begin) + shape.ahead) % huge_page_bytes;
  const std::size_t skip = spare > 0 && into_page > 0 ? huge_page_bytes - into_page : 0;
  std::byte* const memory = begin + skip;
  unmap(begin, skip);
  unmap(memory + shape.size(), spare - skip);
  if (shape.bulk > 0) ::madvise(memory + shape.ahead, shape.bulk, MADV_HUGEPAGE);
  ::madvise(memory, shape.size(), MADV_DONTFORK);
  return memory;
}

void unmap_staging(std::byte* memory, const StagingShape& shape) noexcept {
  unmap(memory, shape.size());
}

}  // namespace sluice::gpu
