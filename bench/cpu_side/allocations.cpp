// SPDX-License-Identifier: Apache-2.0
#include "cpu_side/allocations.h"

#include <link.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

namespace {

thread_local std::uint64_t allocations = 0;

// Where the driver's code lies; empty until it is known.
std::uintptr_t driver_begin = 0;
std::uintptr_t driver_end = 0;

// `caller` is the return address of the function that was asked for memory.
void count(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (address < driver_begin || address >= driver_end) ++allocations;
}

int find_driver(dl_phdr_info* library, std::size_t, void*) {
  if (std::strstr(library->dlpi_name, "libcuda.so") == nullptr) return 0;
  driver_begin = library->dlpi_addr;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    if (part.p_type == PT_LOAD) driver_end = std::max(driver_end, library->dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  return 1;
}

}  // namespace

// The C library's own, under the names that it keeps for those who take its place.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the C library's choice of names
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

#define SEEN_BY_ALL __attribute__((visibility("default")))

SEEN_BY_ALL void* malloc(std::size_t size) noexcept {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}
SEEN_BY_ALL void* calloc(std::size_t number, std::size_t size) noexcept {
  count(__builtin_return_address(0));
  return __libc_calloc(number, size);
}
SEEN_BY_ALL void* realloc(void* memory, std::size_t size) noexcept {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
SEEN_BY_ALL void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
SEEN_BY_ALL int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  count(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

// The forms for arrays, and those that do not throw, call these; the matching deletes end in free().
SEEN_BY_ALL void* operator new(std::size_t size) {
  count(__builtin_return_address(0));
  void* const memory = __libc_malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
SEEN_BY_ALL void* operator new(std::size_t size, std::align_val_t alignment) {
  count(__builtin_return_address(0));
  void* const memory = __libc_memalign(static_cast<std::size_t>(alignment), size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

namespace sluice::bench {

std::uint64_t allocations_of_this_thread() {
  return allocations;
}

void leave_out_the_driver() {
  ::dl_iterate_phdr(find_driver, nullptr);
}

}  // namespace sluice::bench
