// SPDX-License-Identifier: Apache-2.0
// The program defines the functions in question and exports them, so that the loader gives them to libcufile.
#include "contract/quiet/witness.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> allocations{0};
std::atomic<std::size_t> locks{0};
std::atomic<const void*> first_caller{nullptr};
std::atomic<const char*> first_call{nullptr};

// Where the library's code lies.
std::uintptr_t library_begin = 0;
std::uintptr_t library_end = 0;

int find_library(dl_phdr_info* info, std::size_t, void*) {
  if (std::strstr(info->dlpi_name, "libcufile.so") == nullptr) return 0;
  library_begin = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type == PT_LOAD) library_end = std::max(library_end, info->dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  return 1;
}

void count(std::atomic<std::size_t>& counter, const char* call, const void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (address < library_begin || address >= library_end) return;
  if (counter.fetch_add(1) == 0 && first_caller.load() == nullptr) {
    first_call.store(call);
    first_caller.store(caller);
  }
}

template <typename Function>
Function* next(std::atomic<Function*>& known, const char* name) {
  Function* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
    known.store(function, std::memory_order_relaxed);
  }
  return function;
}

}  // namespace

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): the C library's choice of names
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t number, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

#define SEEN_BY_ALL __attribute__((visibility("default")))

SEEN_BY_ALL void* malloc(std::size_t size) noexcept {
  count(allocations, "malloc", __builtin_return_address(0));
  return __libc_malloc(size);
}
SEEN_BY_ALL void* calloc(std::size_t number, std::size_t size) noexcept {
  count(allocations, "calloc", __builtin_return_address(0));
  return __libc_calloc(number, size);
}
SEEN_BY_ALL void* realloc(void* memory, std::size_t size) noexcept {
  count(allocations, "realloc", __builtin_return_address(0));
  return __libc_realloc(memory, size);
}
SEEN_BY_ALL void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count(allocations, "aligned_alloc", __builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
SEEN_BY_ALL int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  count(allocations, "posix_memalign", __builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

#define COUNTED_LOCK(name, type)                       \
  SEEN_BY_ALL int name(type* lock) noexcept {          \
    static std::atomic<int (*)(type*)> known{nullptr}; \
    count(locks, #name, __builtin_return_address(0));  \
    return next<int(type*)>(known, #name)(lock);       \
  }
COUNTED_LOCK(pthread_mutex_lock, pthread_mutex_t)
COUNTED_LOCK(pthread_mutex_trylock, pthread_mutex_t)
COUNTED_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t)
COUNTED_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t)
COUNTED_LOCK(pthread_spin_lock, pthread_spinlock_t)
}

namespace {

using Size = std::size_t;
using Alignment = std::align_val_t;
using NoThrow = std::nothrow_t;

void* aligned(Size size, Alignment alignment) {
  return __libc_memalign(static_cast<Size>(alignment), size);
}

}  // namespace

// All the forms that libcufile calls: the C++ library's own of one form call another, and who asks is not seen there.
// The matching deletes end in free().
#define COUNTED_NEW(form, ...)                                       \
  SEEN_BY_ALL void* operator form {                                  \
    count(allocations, "operator new", __builtin_return_address(0)); \
    void* const memory = __VA_ARGS__;                                \
    if (memory == nullptr) throw std::bad_alloc();                   \
    return memory;                                                   \
  }
#define COUNTED_NEW_OR_NULL(form, ...)                               \
  SEEN_BY_ALL void* operator form noexcept {                         \
    count(allocations, "operator new", __builtin_return_address(0)); \
    return __VA_ARGS__;                                              \
  }
COUNTED_NEW(new (Size size), __libc_malloc(size))
COUNTED_NEW(new[](Size size), __libc_malloc(size))
COUNTED_NEW(new (Size size, Alignment alignment), aligned(size, alignment))
COUNTED_NEW(new[](Size size, Alignment alignment), aligned(size, alignment))
COUNTED_NEW_OR_NULL(new (Size size, const NoThrow& /*unused*/), __libc_malloc(size))
COUNTED_NEW_OR_NULL(new[](Size size, const NoThrow& /*unused*/), __libc_malloc(size))
COUNTED_NEW_OR_NULL(new (Size size, Alignment alignment, const NoThrow& /*unused*/), aligned(size, alignment))
COUNTED_NEW_OR_NULL(new[](Size size, Alignment alignment, const NoThrow& /*unused*/), aligned(size, alignment))

namespace sluice::contract {

void start_counting() {
  if (library_begin == 0) ::dl_iterate_phdr(find_library, nullptr);
  allocations.store(0);
  locks.store(0);
  first_call.store(nullptr);
  first_caller.store(nullptr);
  counting.store(true);
}

Asked stop_counting() {
  counting.store(false);
  Asked asked{allocations.load(), locks.load(), {}};
  if (const char* const call = first_call.load()) {
    std::array<char, 96> text{};
    const auto place = reinterpret_cast<std::uintptr_t>(first_caller.load()) - library_begin;
    std::snprintf(text.data(), text.size(), "%s, called from libcufile.so.0+0x%zx", call, std::size_t{place});
    asked.first = text.data();
  }
  return asked;
}

}  // namespace sluice::contract
