// SPDX-License-Identifier: Apache-2.0
// The driver's functions, as libcufile finds them: dlsym() hands it one of ours for each, which fails or calls the
// driver's. What the test calls itself goes to the driver as ever.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "failures/point.h"

namespace {

using sluice::failures::driver_code;
using sluice::failures::is_in_library;
using sluice::failures::is_to_fail;
using sluice::failures::Kind;

// As many as cuLaunchKernel has, and one more. What a caller has not passed is read from its frame and handed on
// unused.
using Forward = long(long, long, long, long, long, long, long, long, long, long, long, long);
constexpr std::size_t kMost = 128;

struct Entry {
  std::atomic<Forward*> driver{nullptr};
  const char* name = nullptr;
};
std::array<Entry, kMost> entries;
std::size_t entry_count = 0;  // guarded by entries_mutex
std::mutex entries_mutex;

template <std::size_t Number>
long call(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l) {
  const Entry& entry = entries[Number];
  if (is_to_fail(Kind::driver_call, entry.name, __builtin_return_address(0))) return driver_code();
  return entry.driver.load(std::memory_order_acquire)(a, b, c, d, e, f, g, h, i, j, k, l);
}

template <std::size_t... Numbers>
constexpr std::array<Forward*, kMost> calls_of(std::index_sequence<Numbers...> /*unused*/) {
  return {call<Numbers>...};
}
constexpr std::array<Forward*, kMost> calls = calls_of(std::make_index_sequence<kMost>());

// The soft GPU's own and texts answer no code; a pop that fails would leave the test's thread with another context.
bool may_fail(std::string_view name) {
  return name.starts_with("cu") && !name.starts_with("cuSluice") && !name.starts_with("cuGetError") &&
         !name.starts_with("cuCtxPopCurrent");
}

void* ours_for(void* driver, const char* name) {
  const std::lock_guard lock(entries_mutex);
  for (std::size_t i = 0; i < entry_count; ++i) {
    if (std::strcmp(entries[i].name, name) == 0) return reinterpret_cast<void*>(calls[i]);
  }
  if (entry_count == kMost) return driver;
  Entry& entry = entries[entry_count];
  entry.name = name;  // a literal of the library's, which is never unloaded
  entry.driver.store(reinterpret_cast<Forward*>(driver), std::memory_order_release);
  return reinterpret_cast<void*>(calls[entry_count++]);
}

using Find = void*(void*, const char*) noexcept;

Find* real_dlsym() {
  // The versions of x86-64 and of aarch64, and the one since dlsym() is part of libc itself.
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Find*>(found);
  }
  return nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* library, const char* name) noexcept {
  static Find* const real = real_dlsym();
  // A jump, not a call: who asks for the next function of a name, as a sanitizer does, is known by where this returns
  // to.
  if (!is_in_library(__builtin_return_address(0))) return real(library, name);
  void* const found = real(library, name);
  return found != nullptr && may_fail(name) ? ours_for(found, name) : found;
}
