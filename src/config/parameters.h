// SPDX-License-Identifier: Apache-2.0
// Which keys cuFileSetParameter* and cuFileDriverSet* can change: their numbers in the C API, from the table of keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cufile.h"

namespace sluice::config {

struct SizeParameter {
  CUFileSizeTConfigParameter_t id;
  std::size_t index;     // in the table of keys
  std::string_view key;  // as cufile.json spells it
  std::size_t standard;  // the stock value
  std::size_t lowest;
  std::size_t highest;
  std::size_t step;  // values are multiples of it
};

struct BoolParameter {
  CUFileBoolConfigParameter_t id;
  std::size_t index;
  std::string_view key;
  bool standard;
};

inline constexpr std::size_t size_parameter_count = 12;
inline constexpr std::size_t bool_parameter_count = 14;
inline constexpr std::size_t string_parameter_count = 4;

// In the order of their enumerations, so that a valid id is an index.
extern const std::array<SizeParameter, size_parameter_count> size_parameters;
extern const std::array<BoolParameter, bool_parameter_count> bool_parameters;

// The index of an id that came through the C ABI, where any integer may arrive: by reference, since a copy would read
// it as an enumerator.
std::optional<std::size_t> index_of(const CUFileSizeTConfigParameter_t& id) noexcept;
std::optional<std::size_t> index_of(const CUFileBoolConfigParameter_t& id) noexcept;
std::optional<std::size_t> index_of(const CUFileStringConfigParameter_t& id) noexcept;

// Whether a library of that version knows them: the last two switches and the last text came with 1.19.
bool is_known(const CUFileBoolConfigParameter_t& id, std::int64_t api_version) noexcept;
bool is_known(const CUFileStringConfigParameter_t& id, std::int64_t api_version) noexcept;

bool in_range(const SizeParameter& parameter, std::size_t value) noexcept;

}  // namespace sluice::config
