// SPDX-License-Identifier: Apache-2.0
// Sizes, rates and names as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::tools {

// "4096", "64K", "1.5G", "16MiB", "2 MB": powers of 1024, whatever the letters after the first say. nullopt for
// anything else, negative and too large values included.
std::optional<std::uint64_t> parse_size(std::string_view text);

// parse_size, or a ToolError that names `option`.
std::uint64_t size_option(std::string_view option, std::string_view text);

// "0 bytes", "1 byte", "1000 bytes", "64.0 KiB", "1.5 GiB".
std::string format_bytes(std::uint64_t bytes);

// "3.1 GiB/s"; "-" for no time at all.
std::string format_rate(std::uint64_t bytes, double seconds);

// Text from elsewhere made safe for a terminal and for JSON: control characters and what is no UTF-8 become '?'.
std::string printable(std::string_view text);

// "EACCES"-free words for an errno: "Permission denied".
std::string system_words(int error);

}  // namespace sluice::tools
