// SPDX-License-Identifier: Apache-2.0
// The part of GDRCopy's binary interface (libgdrapi.so.2) that Sluice speaks, in our own words. The library calls it
// (gpu/bar_mapping.h), the soft GPU's stand-in implements it (softgpu/gdr_calls.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::gdr {

inline constexpr const char* soname = "libgdrapi.so.2";

// What gdrdrv pins at a time.
inline constexpr std::uint64_t page = 65536;

// The library's own, from open to close.
struct Connection;

// A piece of device memory that is pinned.
struct Handle {
  unsigned long value;
};

enum MappingType : int {
  mapping_none = 0,
  mapping_write_combined = 1,
  mapping_caching = 2,
  mapping_device = 3,  // takes aligned stores alone
};

struct Info {
  std::uint64_t start;  // the device address that the pinned pages, and a mapping of them, begin with
  std::uint64_t size;   // of all of them
  std::uint32_t page_size;
  std::uint64_t cycles;         // of no use any more
  std::uint32_t cycles_per_ms;  // of no use any more
  unsigned mapped : 1;
  unsigned write_combined : 1;
  int mapping_type;
};

// The functions, by the names that they have behind "gdr_". Those that give an int answer an errno, or 0.
struct Calls {
  Connection* (*open)() = nullptr;
  int (*close)(Connection*) = nullptr;
  int (*pin_buffer)(Connection*, unsigned long address, std::size_t size, std::uint64_t token, std::uint32_t space,
                    Handle*) = nullptr;
  int (*unpin_buffer)(Connection*, Handle) = nullptr;
  int (*get_info_v2)(Connection*, Handle, Info*) = nullptr;
  int (*map)(Connection*, Handle, void** address, std::size_t size) = nullptr;
  int (*unmap)(Connection*, Handle, void* address, std::size_t size) = nullptr;
};

}  // namespace sluice::gdr
