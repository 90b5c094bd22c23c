// SPDX-License-Identifier: Apache-2.0
// The numbers of the layout are little-endian. Layouts of Lustre from 1.8 on; those of pieces come from 2.10 on.
#include "doctor/lustre.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <functional>

#include "doctor/sections.h"

namespace sluice::doctor {
namespace {

constexpr std::uint32_t plain_layout = 0x0bd10bd0;
constexpr std::uint32_t layout_with_pool = 0x0bd30bd0;
constexpr std::uint32_t layout_of_pieces = 0x0bd60bd0;
constexpr std::uint32_t on_metadata_server = 0x100;  // a bit of the pattern
constexpr std::size_t most_stripes = 2000;

// Little-endian numbers at places of the attribute; `ok` turns false when one lies beyond its end.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  template <typename Number>
  Number number(std::size_t at) {
    Number value = 0;
    if (at + sizeof(Number) > bytes_.size()) {
      ok = false;
      return value;
    }
    for (std::size_t i = sizeof(Number); i-- > 0;) {
      value = static_cast<Number>(value << 8U | static_cast<unsigned char>(bytes_[at + i]));
    }
    return value;
  }
  std::string text(std::size_t at, std::size_t size) const {
    const std::string_view field = bytes_.substr(std::min(at, bytes_.size()), size);
    return std::string(field.substr(0, field.find('\0')));
  }
  std::size_t size() const { return bytes_.size(); }

  bool ok = true;

 private:
  std::string_view bytes_;
};

// Magic, pattern, object (16 bytes), stripe size, count (16 bits), generation (16 bits), then 24 bytes a target.
LustreComponent parse_component(Bytes& bytes, std::size_t at, std::size_t end) {
  constexpr std::size_t pool_size = 16;
  const auto magic = bytes.number<std::uint32_t>(at);
  bytes.ok = bytes.ok && (magic == plain_layout || magic == layout_with_pool);
  LustreComponent component;
  component.on_metadata_server = (bytes.number<std::uint32_t>(at + 4) & on_metadata_server) != 0;
  component.stripe_size = bytes.number<std::uint32_t>(at + 24);
  component.stripes = bytes.number<std::uint16_t>(at + 28);
  std::size_t target = at + 32;
  if (magic == layout_with_pool) {
    component.pool = bytes.text(target, pool_size);
    target += pool_size;
  }
  constexpr std::size_t target_size = 24;
  constexpr std::size_t index_of_target = 20;
  // A folder, and a piece that has not been written to yet, have no targets.
  for (std::size_t i = 0; i < component.stripes && i < most_stripes && target + target_size <= end; ++i) {
    component.targets.push_back(bytes.number<std::uint32_t>(target + index_of_target));
    target += target_size;
  }
  return component;
}

// Magic, size, generation, flags, count of pieces at 14, mirrors without one at 16; from 32 on 48 bytes a piece.
LustreLayout parse_pieces(Bytes& bytes) {
  LustreLayout layout;
  layout.mirrors = bytes.number<std::uint16_t>(16) + 1U;
  const auto count = bytes.number<std::uint16_t>(14);
  for (std::size_t i = 0; i < count && bytes.ok; ++i) {
    const std::size_t entry = 32 + 48 * i;
    const auto offset = bytes.number<std::uint32_t>(entry + 24);
    const std::size_t end = std::size_t{offset} + bytes.number<std::uint32_t>(entry + 28);
    LustreComponent component = parse_component(bytes, offset, std::min(end, bytes.size()));
    component.begin = bytes.number<std::uint64_t>(entry + 8);
    component.end = bytes.number<std::uint64_t>(entry + 16);
    layout.components.push_back(std::move(component));
  }
  return layout;
}

std::string words_of(const LustreComponent& component) {
  if (component.on_metadata_server) return "on the metadata server";
  std::string stripes = fmt::format("{} stripes", component.stripes);
  if (component.stripes == 1) stripes = "1 stripe";
  if (component.stripes == 0) stripes = "the usual count of stripes";
  if (component.stripes == every_target) stripes = "a stripe on every OST";
  std::string text = fmt::format("{} of {} KiB", stripes, component.stripe_size / 1024);
  if (component.stripe_size == 0) text = stripes + " of the usual size";
  std::vector<std::string> targets;
  for (const std::uint32_t target : component.targets) targets.push_back(std::to_string(target));
  if (!targets.empty()) text += " on OST " + joined(targets, "+");
  return component.pool.empty() ? text : text + " of the pool " + component.pool;
}

void tell_layout(const std::string& path, const LustreLayout& layout, Report& report) {
  for (const LustreComponent& component : layout.components) {
    std::string place;
    if (layout.components.size() > 1) {
      place = component.end == UINT64_MAX ? fmt::format("from {} MiB on: ", component.begin >> 20)
                                          : fmt::format("{} to {} MiB: ", component.begin >> 20, component.end >> 20);
    }
    report.fact(Section::storage, fmt::format("{}: Lustre, {}{}", path, place, words_of(component)));
  }
}

void judge_layout(const std::string& path, std::uint64_t size, const LustreLayout& layout, Report& report) {
  constexpr std::uint64_t large_file = 1U << 30;
  constexpr std::uint32_t small_stripe = 1U << 20;
  std::uint32_t most = 0;
  std::uint32_t smallest = UINT32_MAX;
  for (const LustreComponent& component : layout.components) {
    if (component.on_metadata_server || component.begin >= std::max<std::uint64_t>(size, 1)) continue;
    most = std::max(most, component.stripes);
    if (component.stripe_size != 0 && component.stripes > 1) smallest = std::min(smallest, component.stripe_size);
  }
  const Values values = {{"file", path}, {"size", size_words(size)}, {"stripe", std::to_string(smallest / 1024)}};
  if (most == 1 && size >= large_file) report.add(finding_at("storage.lustre_one_stripe"), values);
  if (smallest < small_stripe) report.add(finding_at("storage.lustre_small_stripes"), values);
}

// The values of one parameter in each folder below `home`, by the name of the folder.
void for_each_target(const Machine& machine, const std::string& home, const char* parameter,
                     const std::function<void(const std::string&, std::int64_t)>& act) {
  for (const std::string& target : machine.tree.names(home)) {
    const std::string path = below(below(home, target), parameter);
    if (const std::optional<std::int64_t> value = machine.tree.number(path)) act(target, *value);
  }
}

void judge_servers(const Machine& machine, const std::string& servers, Report& report) {
  for_each_target(machine, servers, "max_rpcs_in_flight", [&](const std::string& target, std::int64_t value) {
    constexpr std::int64_t fewest = 16;
    report.fact(Section::storage, fmt::format("{}: {} RPCs in flight at most", target, value));
    if (value >= fewest) return;
    report.add(finding_at("storage.lustre_rpcs"), {{"target", target}, {"rpcs", std::to_string(value)}});
  });
  for_each_target(machine, servers, "max_pages_per_rpc", [&](const std::string& target, std::int64_t value) {
    constexpr std::int64_t four_mib = 1024;
    if (value >= four_mib) return;
    report.add(finding_at("storage.lustre_pages"), {{"target", target}, {"pages", std::to_string(value)}});
  });
  for_each_target(machine, servers, "checksums", [&](const std::string& target, std::int64_t value) {
    if (value != 0) report.add(finding_at("storage.lustre_checksums"), {{"target", target}});
  });
}

void judge_client(const Machine& machine, const std::string& clients, Report& report) {
  for_each_target(machine, clients, "max_read_ahead_mb", [&](const std::string& target, std::int64_t value) {
    constexpr std::int64_t least = 256;
    report.fact(Section::storage, fmt::format("{}: reads ahead {} MiB at most", target, value));
    if (value >= least) return;
    report.add(finding_at("storage.lustre_read_ahead"), {{"target", target}, {"size", std::to_string(value)}});
  });
  for_each_target(machine, clients, "parallel_dio", [&](const std::string& target, std::int64_t value) {
    if (value == 0) report.add(finding_at("storage.lustre_serial_dio"), {{"target", target}});
  });
}

// "PATH SIZE HEX", a comma after four bytes each: an identity that is longer is told from it.
void judge_line(const std::string& line, Report& report) {
  const std::vector<std::string> parts = words(line);
  if (parts.size() != 3) return;
  std::string attribute;
  for (const std::string& word : split(parts[2], ',')) {
    for (std::size_t i = 0; i + 1 < word.size(); i += 2) {
      attribute += static_cast<char>(to_number(std::string_view(word).substr(i, 2), 16).value_or(0));
    }
  }
  const std::optional<LustreLayout> layout = parse_lustre_layout(attribute);
  if (!layout) {
    report.fact(Section::storage, fmt::format("{}: Lustre, a layout that is not known here", parts[0]));
    return;
  }
  tell_layout(parts[0], *layout, report);
  judge_layout(parts[0], static_cast<std::uint64_t>(to_number(parts[1]).value_or(0)), *layout, report);
}

}  // namespace

std::optional<LustreLayout> parse_lustre_layout(std::string_view attribute) {
  Bytes bytes(attribute);
  LustreLayout layout;
  if (bytes.number<std::uint32_t>(0) == layout_of_pieces) {
    layout = parse_pieces(bytes);
  } else {
    layout.components.push_back(parse_component(bytes, 0, bytes.size()));
  }
  if (!bytes.ok || layout.components.empty()) return std::nullopt;
  return layout;
}

std::string lustre_line(const std::string& path) {
  std::string attribute(65536, '\0');
  struct stat status {};
  const ssize_t size = getxattr(path.c_str(), "lustre.lov", attribute.data(), attribute.size());
  if (size <= 0 || path.find_first_of(" \n") != std::string::npos || stat(path.c_str(), &status) != 0) return {};
  std::string line = fmt::format("lov {} {} ", path, S_ISREG(status.st_mode) ? status.st_size : 0);
  attribute.resize(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < attribute.size(); ++i) {
    line += fmt::format("{}{:02x}", i > 0 && i % 4 == 0 ? "," : "", static_cast<unsigned char>(attribute[i]));
  }
  return line + "\n";
}

void judge_named_file(const std::string& path, Report& report) {
  const std::string line = lustre_line(path);
  if (!line.empty()) judge_line(line.substr(line.find(' ') + 1), report);
}

void judge_lustre(const Machine& machine, Report& report) {
  for (const char* top : {"/sys/fs/lustre", "/proc/fs/lustre"}) {
    judge_servers(machine, std::string(top) + "/osc", report);
    judge_client(machine, std::string(top) + "/llite", report);
  }
  for (const std::string& line : machine.probes.all("lov")) judge_line(line, report);
}

}  // namespace sluice::doctor
