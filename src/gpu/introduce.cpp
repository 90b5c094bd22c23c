// SPDX-License-Identifier: Apache-2.0
#include "gpu/introduce.h"

#include <array>
#include <charconv>
#include <string>

#include "gpu/memory.h"
#include "sluice_stats.h"

namespace sluice::gpu {

namespace {

constexpr std::uint64_t no_pci_address = 1;  // the device is known, its place is not

}  // namespace

std::uint64_t pci_number(std::string_view address) noexcept {
  constexpr std::array<char, 4> ends{':', ':', '.', '\0'};
  constexpr std::array<unsigned, 4> shifts{16, 8, 3, 0};
  constexpr std::array<std::uint64_t, 4> limits{0xffffffff, 0xff, 0x1f, 0x7};
  std::uint64_t number = SLUICE_STATS_PCI_KNOWN;
  const char* at = address.data();
  const char* const end = at + address.size();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    std::uint64_t part = 0;
    const auto [behind, error] = std::from_chars(at, end, part, 16);
    const bool ended = i + 1 == ends.size() ? behind == end : behind != end && *behind == ends[i];
    if (error != std::errc{} || !ended || part > limits[i]) return no_pci_address;
    number |= part << shifts[i];
    at = behind + 1;
  }
  return number;
}

void introduce_device(int ordinal) noexcept {
  try {
    observe::name_device(ordinal, uuid_of(ordinal).bytes, pci_number(pci_address(ordinal)));
  } catch (...) {  // without memory for the address the next transfer tries again
    return;
  }
}

}  // namespace sluice::gpu
