// SPDX-License-Identifier: Apache-2.0
// Parsing of mountinfo: "36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue".
#include "facts/mount.h"

#include <sys/sysmacros.h>

#include <charconv>
#include <cstddef>

#include "facts/read.h"

namespace sluice::facts {

namespace {

// The text up to the next blank or the end; what is left starts behind that blank.
std::string_view take_field(std::string_view& text, char blank = ' ') {
  const std::size_t end = text.find(blank);
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return field;
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<dev_t> device_in(std::string_view text) {
  const std::optional<unsigned> major_number = number_in<unsigned>(take_field(text, ':'));
  const std::optional<unsigned> minor_number = number_in<unsigned>(text);
  if (!major_number || !minor_number) return std::nullopt;
  return makedev(*major_number, *minor_number);
}

bool has_option(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    if (take_field(options, ',') == wanted) return true;
  }
  return false;
}

// Read-only is decided by the mount when it says so: "ro" over "rw" would read as a contradiction.
std::string merged_options(std::string_view of_mount, std::string_view of_super_block) {
  std::string merged(of_mount);
  while (!of_super_block.empty()) {
    const std::string_view option = take_field(of_super_block, ',');
    if (option.empty() || option == "rw" || option == "ro" || has_option(of_mount, option)) continue;
    if (!merged.empty()) merged += ',';
    merged += option;
  }
  return merged;
}

bool is_octal(char digit) {
  return digit >= '0' && digit <= '7';
}

}  // namespace

std::string unescaped(std::string_view field) {
  std::string plain;
  plain.reserve(field.size());
  for (std::size_t at = 0; at < field.size(); ++at) {
    if (field[at] == '\\' && field.size() - at > 3 && field[at + 1] <= '3' && is_octal(field[at + 1]) &&
        is_octal(field[at + 2]) && is_octal(field[at + 3])) {
      const int code = (field[at + 1] - '0') * 64 + (field[at + 2] - '0') * 8 + (field[at + 3] - '0');
      plain += static_cast<char>(code);
      at += 3;
    } else {
      plain += field[at];
    }
  }
  return plain;
}

std::optional<Mount> parse_mount(std::string_view line) {
  const std::optional<std::uint64_t> id = number_in<std::uint64_t>(take_field(line));
  const std::string_view parent = take_field(line);
  const std::optional<dev_t> device = device_in(take_field(line));
  if (!id || parent.empty() || !device) return std::nullopt;

  Mount mount;
  mount.id = *id;
  mount.device = *device;
  mount.root = unescaped(take_field(line));
  mount.point = unescaped(take_field(line));
  const std::string_view options = take_field(line);
  // Any number of optional fields ("shared:5"), closed by a single dash.
  std::string_view field = take_field(line);
  while (field != "-") {
    if (line.empty()) return std::nullopt;
    field = take_field(line);
  }
  mount.type = unescaped(take_field(line));
  mount.source = unescaped(take_field(line));
  if (mount.point.empty() || mount.type.empty()) return std::nullopt;
  mount.options = merged_options(unescaped(options), unescaped(take_field(line)));
  return mount;
}

std::optional<Mount> find_mount(std::string_view mountinfo, std::optional<std::uint64_t> id, dev_t device) {
  // Hosts with thousands of mounts exist: only the first fields of a line are looked at before it is the right one.
  std::string_view with_device;
  while (!mountinfo.empty()) {
    const std::string_view line = take_field(mountinfo, '\n');
    std::string_view rest = line;
    const std::optional<std::uint64_t> line_id = number_in<std::uint64_t>(take_field(rest));
    if (id && line_id == id) {
      if (std::optional<Mount> mount = parse_mount(line)) return mount;
    }
    take_field(rest);
    if (device_in(take_field(rest)) == device) with_device = line;
  }
  return with_device.empty() ? std::nullopt : parse_mount(with_device);
}

std::optional<std::uint64_t> mount_id_in_fdinfo(std::string_view fdinfo) {
  constexpr std::string_view label = "mnt_id:";
  while (!fdinfo.empty()) {
    const std::string_view line = take_field(fdinfo, '\n');
    if (line.substr(0, label.size()) == label) return number_in<std::uint64_t>(trimmed(line.substr(label.size())));
  }
  return std::nullopt;
}

}  // namespace sluice::facts
