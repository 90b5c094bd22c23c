// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/link.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "sluice_stats.h"

namespace sluice::tools {
namespace {

// A test gives devices of its own.
std::string folder_of_devices() {
  const char* const given = std::getenv("SLUICE_TEST_PCI_DEVICES");
  return given != nullptr ? given : "/sys/bus/pci/devices";
}

std::string line_of(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

std::uint64_t link_bytes_per_second(const std::string& speed, unsigned width) {
  const double transfers = std::strtod(speed.c_str(), nullptr);  // "Unknown" is 0
  if (!(transfers > 0 && transfers < 1e4) || width > 32) return 0;
  const double code = transfers < 8 ? 8.0 / 10 : transfers < 64 ? 128.0 / 130 : 242.0 / 256;
  return static_cast<std::uint64_t>(transfers * 1e9 * code / 8 * width);
}

std::uint64_t link_bytes_per_second(std::uint64_t pci) {
  if ((pci & SLUICE_STATS_PCI_KNOWN) == 0) return 0;
  const std::string device = fmt::format("{}/{:04x}:{:02x}:{:02x}.{:x}", folder_of_devices(), (pci >> 16) & 0xffffffff,
                                         (pci >> 8) & 0xff, (pci >> 3) & 0x1f, pci & 7);
  const unsigned long width = std::strtoul(line_of(device + "/current_link_width").c_str(), nullptr, 10);
  return link_bytes_per_second(line_of(device + "/max_link_speed"), width > 32 ? 0 : static_cast<unsigned>(width));
}

}  // namespace sluice::tools
