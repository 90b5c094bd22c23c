// SPDX-License-Identifier: Apache-2.0
// Memory, as the program hands it out: the loader gives these functions to libcufile and to the C++ library. A
// library's own mappings are system calls (system_calls.cpp).
#include <cerrno>
#include <cstddef>
#include <new>

#include "failures/point.h"

using sluice::failures::is_to_fail;
using sluice::failures::Kind;

// Who hands it out in the end: the C library, or the sanitizer that this was built with.
#ifdef SLUICE_SANITIZED
#define LENDER(name) __interceptor_##name
#else
#define LENDER(name) __libc_##name
#endif

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): their choice of names
void* LENDER(malloc)(std::size_t size);
void* LENDER(calloc)(std::size_t number, std::size_t size);
void* LENDER(realloc)(void* memory, std::size_t size);
void* LENDER(memalign)(std::size_t alignment, std::size_t size);
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
}

namespace {

using Size = std::size_t;
using Alignment = std::align_val_t;
using NoThrow = std::nothrow_t;

bool fails(const char* name, const void* caller) noexcept {
  if (!is_to_fail(Kind::allocation, name, caller)) return false;
  errno = ENOMEM;
  return true;
}

void* aligned(Size size, Alignment alignment) {
  return LENDER(memalign)(static_cast<Size>(alignment), size);
}

}  // namespace

#define SEEN_BY_ALL __attribute__((visibility("default")))
#define FAILS(name) fails(name, __builtin_return_address(0))

extern "C" {

SEEN_BY_ALL void* malloc(Size size) noexcept {
  return FAILS("malloc") ? nullptr : LENDER(malloc)(size);
}
SEEN_BY_ALL void* calloc(Size number, Size size) noexcept {
  return FAILS("calloc") ? nullptr : LENDER(calloc)(number, size);
}
SEEN_BY_ALL void* realloc(void* memory, Size size) noexcept {
  return FAILS("realloc") ? nullptr : LENDER(realloc)(memory, size);
}
SEEN_BY_ALL void* aligned_alloc(Size alignment, Size size) noexcept {
  return FAILS("aligned_alloc") ? nullptr : LENDER(memalign)(alignment, size);
}
SEEN_BY_ALL int posix_memalign(void** memory, Size alignment, Size size) noexcept {
  if (FAILS("posix_memalign")) return ENOMEM;
  *memory = LENDER(memalign)(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

// All the forms: the C++ library's own of one form call another, and who asks is not seen there. The matching deletes
// end in free().
#define FAILING_NEW(form, ...)                                   \
  SEEN_BY_ALL void* operator form {                              \
    void* const memory = FAILS("new") ? nullptr : (__VA_ARGS__); \
    if (memory == nullptr) throw std::bad_alloc();               \
    return memory;                                               \
  }
#define FAILING_NEW_OR_NULL(form, ...)             \
  SEEN_BY_ALL void* operator form noexcept {       \
    return FAILS("new") ? nullptr : (__VA_ARGS__); \
  }
FAILING_NEW(new (Size size), LENDER(malloc)(size))
FAILING_NEW(new[](Size size), LENDER(malloc)(size))
FAILING_NEW(new (Size size, Alignment alignment), aligned(size, alignment))
FAILING_NEW(new[](Size size, Alignment alignment), aligned(size, alignment))
FAILING_NEW_OR_NULL(new (Size size, const NoThrow& /*unused*/), LENDER(malloc)(size))
FAILING_NEW_OR_NULL(new[](Size size, const NoThrow& /*unused*/), LENDER(malloc)(size))
FAILING_NEW_OR_NULL(new (Size size, Alignment alignment, const NoThrow& /*unused*/), aligned(size, alignment))
FAILING_NEW_OR_NULL(new[](Size size, Alignment alignment, const NoThrow& /*unused*/), aligned(size, alignment))
