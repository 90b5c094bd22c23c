// SPDX-License-Identifier: Apache-2.0
// More is mapped than asked for, and what lies around the place where the bulk begins on a huge page is given back.
#include "gpu/staging_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>

namespace sluice::gpu {

namespace {

void unmap(std::byte* memory, std::size_t size) noexcept {
  if (size > 0) ::munmap(memory, size);
}

}  // namespace

std::size_t huge_page_within(std::size_t bytes, const char* folder) noexcept {
  std::array<char, 256> name{};
  for (std::size_t size = std::bit_floor(bytes); size > base::page_size(); size /= 2) {
    std::snprintf(name.data(), name.size(), "%s/hugepages-%zukB", folder, size >> 10U);
    if (::access(name.data(), F_OK) == 0) return size;
  }
  return 0;
}

std::byte* map_staging(const StagingShape& shape) noexcept {
  const std::size_t spare = huge_page_within(shape.bulk);
  void* const mapping =
      ::mmap(nullptr, shape.size() + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapping);
  const std::size_t into_page = spare > 0 ? (reinterpret_cast<std::uintptr_t>(begin) + shape.ahead) % spare : 0;
  const std::size_t skip = into_page > 0 ? spare - into_page : 0;
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
