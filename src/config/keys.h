// SPDX-License-Identifier: Apache-2.0
// All keys of cufile.json: the one table that reading, documentation and gdscheck share, and how a name is found in it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "config/general_keys.h"
#include "config/storage_keys.h"

namespace sluice::config {

inline constexpr std::size_t key_count = general_keys.size() + storage_keys.size();

inline constexpr std::array<Key, key_count> keys = [] {
  std::array<Key, key_count> all{};
  std::size_t next = 0;
  for (const Key& key : general_keys) all[next++] = key;
  for (const Key& key : storage_keys) all[next++] = key;
  return all;
}();

// The index of a key that the code names: a misspelt name does not compile.
consteval std::size_t key_at(std::string_view name) {
  for (std::size_t i = 0; i < key_count; ++i) {
    if (keys[i].name == name) return i;
  }
  throw "no such key";  // reached at compile time only, where it is the error
}

std::optional<std::size_t> find_key(std::string_view name) noexcept;

// Another spelling of a key: an older home, a newer one, the name that gdscheck prints.
struct Alias {
  std::string_view name;
  std::size_t key;
};

inline constexpr std::array aliases{
    Alias{"profile.io_batchsize", key_at("properties.io_batchsize")},
    Alias{"properties.max_batch_io_size", key_at("properties.io_batchsize")},
    Alias{"properties.max_batch_io_timeout_msecs", key_at("properties.batch_io_timeout_ms")},
    Alias{"properties.batch_io_timeout_msecs", key_at("properties.batch_io_timeout_ms")},
    Alias{"properties.vanilla_posix_mode", key_at("properties.vanilla_posix_io_mode")},
    Alias{"properties.posix_io_mode", key_at("properties.vanilla_posix_io_mode")},
    Alias{"properties.use_compat_mode", key_at("properties.allow_compat_mode")},
    Alias{"properties.rdma_peer_affinity_policy", key_at("properties.rdma_load_balancing_policy")},
    Alias{"properties.gpu_bounce_buffer_slab_size_kb", key_at("properties.gpu_bounce_buffer_slab_config.slab_size_kb")},
    Alias{"properties.gpu_bounce_buffer_slab_count", key_at("properties.gpu_bounce_buffer_slab_config.slab_count")},
    Alias{"sparse.enable_static_routing", key_at("miscellaneous.enable_static_routing")},
    Alias{"sparse.static_routing_filepath", key_at("miscellaneous.static_routing_filepath")},
    Alias{"blacklist.drivers", key_at("denylist.drivers")},
    Alias{"blacklist.devices", key_at("denylist.devices")},
    Alias{"blacklist.mounts", key_at("denylist.mounts")},
    Alias{"blacklist.filesystems", key_at("denylist.filesystems")},
};

// How a name of the file was understood, from the best to the worst.
enum class Match : std::uint8_t { exact, alias, misplaced, unknown };

struct Found {
  Match match = Match::unknown;
  std::size_t key = 0;  // unless unknown
};

// A key under its own name or another spelling; or, from a section that does not know it, a key whose last part is
// its alone, so that the meaning is certain ("nvfs.rdma.max_direct_io_size_kb").
Found resolve(std::string_view name);

// True for what other keys lie in: "fs", "fs.lustre", "blacklist".
bool is_section(std::string_view name) noexcept;

// What to say of a name that resolve() does not know: a foreign key that is known to circulate is explained, for
// others the nearest known name is given where one is near. A clause, never empty.
std::string advice_on(std::string_view name);

}  // namespace sluice::config
