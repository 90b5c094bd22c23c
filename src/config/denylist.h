// SPDX-License-Identifier: Apache-2.0
// Places that the denylists of the configuration keep the library away from.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "config/config.h"

namespace sluice::config {

// Where a file lives. Empty where it is not known.
struct Place {
  std::string_view file_system;            // "ext4"
  std::string_view mount;                  // "/data"
  std::string_view device;                 // "nvme0n1"
  std::string_view driver;                 // "nvme"
  std::span<const std::string> members{};  // of an array or mapping: the disks at the bottom
};

// Whether there is an entry in any of the lists.
bool denies_anything(const Config& config);

// Why files of this place are refused, in a clause that names key and entry; nothing when they are welcome.
std::optional<std::string> denial(const Config& config, const Place& place);

}  // namespace sluice::config
