// SPDX-License-Identifier: Apache-2.0
// Finding libgdrapi.so.2, and pinning and mapping with it.
#include "gpu/bar_mapping.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/never_destroyed.h"
#include "gpu/cuda_api.h"
#include "gpu/library.h"
#include "observe/log.h"

namespace sluice::gpu {

namespace {

// Opened with the first mapping of the process and never let go.
struct Gdr {
  gdr::Calls calls;
  gdr::Connection* connection = nullptr;
};

enum class Search : std::uint8_t { not_begun, found, in_vain };

std::atomic<Search> search{Search::not_begun};
std::mutex gdr_mutex;  // libgdrapi takes one call at a time

// Never destroyed: mappings may be let go while the process ends.
Gdr& opened() {
  static base::NeverDestroyed<Gdr> instance;
  return instance.get();
}

bool resolve_gdr(void* library, gdr::Calls& calls) {
  bool complete = true;
  const auto need = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) complete = false;
  };
  need(calls.open, "gdr_open");
  need(calls.close, "gdr_close");
  need(calls.pin_buffer, "gdr_pin_buffer");
  need(calls.unpin_buffer, "gdr_unpin_buffer");
  need(calls.get_info_v2, "gdr_get_info_v2");
  need(calls.map, "gdr_map");
  need(calls.unmap, "gdr_unmap");
  return complete;
}

// Why there is none; empty when there is.
std::string open_gdr(const CudaApi& driver, Gdr& gdr) {
  std::string refusal;
  void* const library =
      open_library(gdr::soname, driver.soft ? reinterpret_cast<void*>(driver.init) : nullptr, refusal);
  if (library == nullptr) return refusal + ": install GDRCopy and load its driver gdrdrv";
  if (!resolve_gdr(library, gdr.calls))
    return "libgdrapi.so.2 lacks calls that are needed: install GDRCopy 2.4 or newer";
  gdr.connection = gdr.calls.open();
  if (gdr.connection == nullptr) return "gdr_open is refused: load gdrdrv, and let this user open /dev/gdrdrv";
  return {};
}

// Null where there is none.
const Gdr* find_gdr(const CudaApi& driver) {
  if (search.load(std::memory_order_acquire) == Search::not_begun) {
    // No lock of ours is held while the loader takes its own, as in attach_driver(): two threads may open it at the
    // same time, each for itself.
    Gdr gdr;
    const std::string refusal = open_gdr(driver, gdr);
    const std::lock_guard lock(gdr_mutex);
    if (search.load(std::memory_order_relaxed) != Search::not_begun) {
      if (gdr.connection != nullptr) gdr.calls.close(gdr.connection);
    } else if (refusal.empty()) {
      opened() = gdr;
      // The store publishes the calls to threads that load `search` with acquire.
      search.store(Search::found, std::memory_order_release);
    } else {
      search.store(Search::in_vain, std::memory_order_release);
      observe::log(config::LogLevel::warn, "gpu",
                   "sluice.small_reads is window, and small reads go as by auto: " + refusal);
    }
  }
  return search.load(std::memory_order_acquire) == Search::found ? &opened() : nullptr;
}

struct View {
  std::byte* place = nullptr;
  std::uint64_t start = 0;
  gdr::Handle pinned{};
  std::string refusal;
};

std::string refused_by(std::string_view call, int error, std::string_view remedy) {
  const char* const name = ::strerrorname_np(error);
  return fmt::format("{} answers {}: {}", call, name != nullptr ? name : std::to_string(error), remedy);
}

// With gdr_mutex held. What is pinned begins and ends with pages of the device, so it shows more than was asked for.
std::string map_pinned(const Gdr& gdr, std::uint64_t address, std::uint64_t size, View& view) {
  const auto& [calls, connection] = gdr;
  gdr::Info info{};
  if (const int error = calls.get_info_v2(connection, view.pinned, &info); error != 0) {
    return refused_by("gdr_get_info_v2", error, "is the memory still allocated?");
  }
  if (info.start > address || info.size < address - info.start || info.size - (address - info.start) < size) {
    return "gdrdrv has pinned other memory than this: is libgdrapi.so.2 as old as gdrdrv?";
  }
  const std::uint64_t length = address - info.start + size;
  void* place = nullptr;
  if (const int error = calls.map(connection, view.pinned, &place, length); error != 0) {
    return refused_by("gdr_map", error, "is the memory still allocated?");
  }
  const int error = calls.get_info_v2(connection, view.pinned, &info);
  if (error != 0 || (info.mapping_type != gdr::mapping_write_combined && info.mapping_type != gdr::mapping_caching)) {
    calls.unmap(connection, view.pinned, place, length);
    return "this machine maps the memory of its GPUs as device memory, which takes no unaligned stores: choose auto";
  }
  view.place = static_cast<std::byte*>(place);
  view.start = info.start;
  return {};
}

View pin_and_map(const Gdr& gdr, std::uint64_t address, std::uint64_t size) {
  View view;
  const std::lock_guard lock(gdr_mutex);
  const int error = gdr.calls.pin_buffer(gdr.connection, address, size, 0, 0, &view.pinned);
  if (error != 0) {
    view.refusal =
        refused_by("gdr_pin_buffer", error,
                   "register memory of one cuMemAlloc or cudaMalloc, no more than the GPU's BAR1 has room for");
    return view;
  }
  view.refusal = map_pinned(gdr, address, size, view);
  if (!view.refusal.empty()) gdr.calls.unpin_buffer(gdr.connection, view.pinned);
  return view;
}

}  // namespace

BarMapping BarMapping::onto(std::uint64_t address, std::uint64_t size) noexcept try {
  BarMapping mapping;
  const CudaApi* const driver = gpu::driver();
  const Gdr* const gdr = driver != nullptr ? find_gdr(*driver) : nullptr;
  if (gdr == nullptr) return mapping;
  const View view = pin_and_map(*gdr, address, size);
  if (!view.refusal.empty()) {
    observe::log(config::LogLevel::info, "gpu",
                 fmt::format("no window onto a registered buffer of {} bytes: {}", size, view.refusal));
    return mapping;
  }
  mapping.place_ = view.place;
  mapping.start_ = view.start;
  mapping.begin_ = address;
  mapping.end_ = address + size;
  mapping.pinned_ = view.pinned;
  return mapping;
} catch (...) {  // no memory to say why not
  return {};
}

BarMapping::BarMapping(BarMapping&& other) noexcept {
  *this = std::move(other);
}

BarMapping& BarMapping::operator=(BarMapping&& other) noexcept {
  std::swap(place_, other.place_);
  std::swap(start_, other.start_);
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

// A child of fork has none of its parent's mappings, and may have others in their places.
BarMapping::~BarMapping() {
  if (place_ == nullptr || driver_is_lost()) return;
  const Gdr& gdr = opened();
  const std::lock_guard lock(gdr_mutex);
  gdr.calls.unmap(gdr.connection, pinned_, place_, end_ - start_);
  gdr.calls.unpin_buffer(gdr.connection, pinned_);
}

std::byte* BarMapping::at(std::uint64_t address, std::uint64_t length) const noexcept {
  if (place_ == nullptr || address < begin_ || address > end_ || length > end_ - address) return nullptr;
  return place_ + (address - start_);
}

}  // namespace sluice::gpu
