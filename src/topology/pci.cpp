// SPDX-License-Identifier: Apache-2.0
// A small reader of /sys/bus/pci: links tell the tree, one-line files the rest.
#include "topology/pci.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "base/unique_fd.h"

namespace sluice::topology {

namespace {

constexpr const char* devices_folder = "/sys/bus/pci/devices";

std::string read_text(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  const ssize_t length = fd ? ::read(fd.get(), text.data(), text.size()) : 0;
  return {text.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

// "0x1234", "-1", "7"; what follows the number is ignored.
std::optional<std::int64_t> parse_number(std::string_view text) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<DeviceClass> class_of(std::int64_t code) {
  switch (code >> 8) {
    case 0x0300:  // VGA
    case 0x0302:  // 3D
    case 0x1200:  // processing accelerator
      return DeviceClass::gpu;
    case 0x0108:
      return DeviceClass::nvme;
    case 0x0200:  // Ethernet
    case 0x0207:  // InfiniBand
      return DeviceClass::network;
    default:
      return std::nullopt;
  }
}

bool is_address(std::string_view name) {
  return name.size() >= 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

// The device's real folder is nested in those of the bridges above it.
std::vector<std::string> bridges_above(const std::string& link) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(link.c_str(), nullptr), &std::free);
  std::vector<std::string> above;
  if (!real) return above;
  std::string_view rest(real.get());
  rest = rest.substr(0, rest.rfind('/'));
  while (!rest.empty()) {
    const auto slash = rest.rfind('/');
    const auto name = rest.substr(slash == std::string_view::npos ? 0 : slash + 1);
    if (!is_address(name)) break;
    above.emplace_back(name);
    rest = rest.substr(0, slash == std::string_view::npos ? 0 : slash);
  }
  return above;
}

// A line of a device's `resource`: first address, last address, flags.
struct Register {
  std::uint64_t bytes = 0;
  bool is_wide = false;  // 64 bits
};

// Takes one line away; what is no such line tells of nothing.
Register next_register(std::string_view& text) {
  constexpr std::int64_t wide = 0x100000;  // the kernel's IORESOURCE_MEM_64
  std::array<std::optional<std::int64_t>, 3> numbers;
  const auto end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  for (auto& number : numbers) {
    number = parse_number(line);
    line.remove_prefix(std::min(line.find(' '), line.size()));
    if (!line.empty()) line.remove_prefix(1);
  }
  const auto& [first, last, flags] = numbers;
  if (!first || !last || !flags || *last <= *first) return {};
  return {static_cast<std::uint64_t>(*last - *first) + 1, (*flags & wide) != 0};
}

}  // namespace

std::vector<PciDevice> read_pci(const facts::Root& root) {
  std::vector<PciDevice> devices;
  const std::string folder = root.at(devices_folder);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), &::closedir);
  if (!listing) return devices;
  while (const dirent* entry = ::readdir(listing.get())) {
    if (!is_address(entry->d_name)) continue;
    const std::string base = folder + "/" + entry->d_name;
    const auto kind = class_of(parse_number(read_text(base + "/class")).value_or(0));
    if (!kind) continue;
    PciDevice device;
    device.address = entry->d_name;
    device.kind = *kind;
    device.vendor = static_cast<std::uint32_t>(parse_number(read_text(base + "/vendor")).value_or(0));
    device.device = static_cast<std::uint32_t>(parse_number(read_text(base + "/device")).value_or(0));
    device.numa_node = static_cast<int>(parse_number(read_text(base + "/numa_node")).value_or(-1));
    device.above = bridges_above(base);
    devices.push_back(std::move(device));
  }
  std::sort(devices.begin(), devices.end(),
            [](const PciDevice& a, const PciDevice& b) { return a.address < b.address; });
  return devices;
}

std::uint64_t bar_bytes(const facts::Root& root, std::string address, int bar) {
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string table = read_text(root.at(std::string(devices_folder) + "/" + address + "/resource"));
  std::string_view rest(table);
  Register line = next_register(rest);
  // A BAR of 64 bits takes two registers; the second one is an empty line. On GPUs since Hopper BAR0 is one, too.
  for (int number = 0; number < bar; ++number) {
    if (line.is_wide) next_register(rest);
    line = next_register(rest);
  }
  return line.bytes;
}

}  // namespace sluice::topology
