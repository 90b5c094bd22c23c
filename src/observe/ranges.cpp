// SPDX-License-Identifier: Apache-2.0
// The protocol of NVTX version 3, as far as we need it. The profiler's InitializeInjectionNvtx2 is given a function
// that hands out tables; it asks for the functions of a module, and stores its own into the places that it is shown. A
// place that it leaves alone stays null.
#include "observe/ranges.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "observe/log.h"
#include "observe/probe_switch.h"

namespace sluice::observe {

namespace {

namespace nvtx {

using Function = void (*)();

// Of module CORE2, by number.
enum Core2 : std::size_t {
  domain_mark = 1,
  domain_range_push = 4,
  domain_range_pop = 5,
  domain_name_category = 8,
  domain_register_string = 10,
  domain_create = 12,
  core2_size = 16,
};
constexpr std::uint32_t module_core2 = 5;
constexpr std::uint32_t largest_module = 6;
constexpr std::uint32_t callbacks = 1;
constexpr std::uint32_t version_info = 3;
constexpr std::uint32_t version = 3;

struct Callbacks {
  std::size_t size;
  int (*function_table)(std::uint32_t module, Function*** table, unsigned* size);
};
struct VersionInfo {
  std::size_t size;
  std::uint32_t version;
  std::uint32_t reserved;
  void (*set_injection_version)(std::uint32_t version);
};

struct Attributes {
  std::uint16_t version = nvtx::version;
  std::uint16_t size = 48;
  std::uint32_t category = 0;
  std::int32_t color_type = 0;
  std::uint32_t color = 0;
  std::int32_t payload_type = 1;  // an unsigned number of 64 bits
  std::int32_t reserved = 0;
  std::uint64_t payload = 0;
  std::int32_t message_type = 3;  // a registered string
  const void* message = nullptr;
};
static_assert(sizeof(Attributes) == 48);

using Push = int (*)(const void* domain, const Attributes* attributes);
using Pop = int (*)(const void* domain);
using NameCategory = void (*)(const void* domain, std::uint32_t category, const char* name);
using RegisterString = const void* (*)(const void* domain, const char* text);
using CreateDomain = const void* (*)(const char* name);
using GetTable = const void* (*)(std::uint32_t table);
using Initialize = int (*)(GetTable get_table);

}  // namespace nvtx

// Places for a profiler's functions.
constinit std::array<nvtx::Function, nvtx::core2_size> core2{};
constinit std::array<nvtx::Function, 64> of_no_interest{};  // modules that we have nothing of
constinit std::array<nvtx::Function*, nvtx::core2_size + 1> core2_places{};
constinit std::array<nvtx::Function*, 65> other_places{};

// What was made once the profiler was there; never changed afterwards.
struct Profiler {
  const void* domain = nullptr;
  std::array<const void*, 2> names{};
};
constinit Profiler profiler{};

int function_table(std::uint32_t module, nvtx::Function*** table, unsigned* size) {
  if (module == 0 || module > nvtx::largest_module) return 0;
  const bool ours = module == nvtx::module_core2;
  if (table != nullptr) *table = ours ? core2_places.data() : other_places.data();
  if (size != nullptr) *size = static_cast<unsigned>(ours ? core2.size() : of_no_interest.size());
  return 1;
}

void ignore_version(std::uint32_t /*version*/) {}

const void* export_table(std::uint32_t table) {
  static constexpr nvtx::Callbacks callbacks{sizeof(nvtx::Callbacks), function_table};
  static constexpr nvtx::VersionInfo version{sizeof(nvtx::VersionInfo), nvtx::version, 0, ignore_version};
  if (table == nvtx::callbacks) return &callbacks;
  return table == nvtx::version_info ? &version : nullptr;
}

// As it is now: a profiler may take its functions back, and unload itself.
template <typename As>
As function(nvtx::Core2 which) noexcept {
  return reinterpret_cast<As>(std::atomic_ref(core2[which]).load(std::memory_order_acquire));
}

// What went wrong, or "".
std::string load(const char* path) {
  for (std::size_t i = 1; i < core2.size(); ++i) core2_places[i] = &core2[i];
  for (std::size_t i = 1; i < of_no_interest.size(); ++i) other_places[i] = &of_no_interest[i];
  void* const library = ::dlopen(path, RTLD_LAZY);
  if (library == nullptr) return ::dlerror();
  const auto initialize = reinterpret_cast<nvtx::Initialize>(::dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize == nullptr) return "it has no InitializeInjectionNvtx2";
  if (initialize(export_table) != 1) return "it does not want to";
  const auto create = function<nvtx::CreateDomain>(nvtx::domain_create);
  if (create == nullptr || function<nvtx::Push>(nvtx::domain_range_push) == nullptr ||
      function<nvtx::Pop>(nvtx::domain_range_pop) == nullptr) {
    return "it takes no ranges of domains";
  }
  profiler.domain = create("sluice");
  if (const auto name = function<nvtx::NameCategory>(nvtx::domain_name_category); name != nullptr) {
    constexpr std::array words{"read", "write", "batch", "stream"};
    for (std::uint32_t i = 0; i < words.size(); ++i) name(profiler.domain, i + 1, words[i]);
  }
  if (const auto put = function<nvtx::RegisterString>(nvtx::domain_register_string); put != nullptr) {
    profiler.names = {put(profiler.domain, "read"), put(profiler.domain, "write")};
  }
  return "";
}

}  // namespace

void start_ranges(bool wanted) {
  static std::atomic<bool> tried{false};
  static std::atomic<bool> loaded{false};
  if (!wanted) {
    Watchers::remove(Watchers::ranges);
    return;
  }
  const char* const path = ::secure_getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  if (!tried.exchange(true)) {
    const std::string why = load(path);
    loaded = why.empty();
    if (!loaded) {
      log(config::LogLevel::warn, "nvtx", "no ranges: the library of NVTX_INJECTION64_PATH cannot be used: " + why);
    }
  }
  if (loaded.load()) Watchers::add(Watchers::one_for_ranges);
}

void push_range(RangeOf category, base::Direction direction, std::uint64_t bytes) noexcept {
  nvtx::Attributes attributes;
  attributes.category = static_cast<std::uint32_t>(category) + 1;
  attributes.payload = bytes;
  attributes.message = profiler.names[static_cast<std::size_t>(direction)];
  if (attributes.message == nullptr) {
    attributes.message_type = 1;  // plain text
    attributes.message = direction == base::Direction::read ? "read" : "write";
  }
  if (const auto push = function<nvtx::Push>(nvtx::domain_range_push); push != nullptr)
    push(profiler.domain, &attributes);
}

void pop_range() noexcept {
  if (const auto pop = function<nvtx::Pop>(nvtx::domain_range_pop); pop != nullptr) pop(profiler.domain);
}

}  // namespace sluice::observe
