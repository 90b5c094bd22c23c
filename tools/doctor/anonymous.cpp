// SPDX-License-Identifier: Apache-2.0
// One rule a kind of name, each a pattern of which the second group is replaced.
#include "doctor/anonymous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <regex>
#include <vector>

namespace sluice::doctor {
namespace {

enum class Where : unsigned char {
  everywhere,  // in contents and in paths
  contents,
  no_versions,  // in contents, but not where versions with four parts stand
  mounts,       // in tables of mounts and on the kernel's command line
};

struct Rule {
  std::string_view kind;
  Where where;
  std::regex pattern;  // group 1 stays, group 2 is replaced
};

const std::vector<Rule>& rules() {
  using enum Where;
  const auto flags = std::regex::ECMAScript | std::regex::optimize;
  static const std::vector<Rule> all = {
      {"nqn", contents, std::regex("(nqn\\.)([0-9]{4}-[0-9]{2}\\.[^\\s,\":]+:[^\\s,\"]+)", flags)},
      {"link", contents, std::regex("(/by-(?:id|uuid|partuuid|label|partlabel)/)([^\\s,\"]+)", flags)},
      {"label", contents, std::regex("(\\b(?:PART)?(?:UUID|LABEL)=\"?)([^\\s,\"]+)", flags)},
      {"uuid", everywhere, std::regex("()([0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12})", flags)},
      {"volume", contents, std::regex("(\\bLVM-)([A-Za-z0-9]{32,64})", flags)},
      {"wwn", contents, std::regex("(\\b(?:eui\\.|naa\\.|wwn-0x))([0-9a-fA-F]{8,32})", flags)},
      {"hex", everywhere, std::regex("()([0-9a-fA-F]{32,128})", flags)},
      {"serial", contents, std::regex("([Ss]erial [Nn]umber:?\\s*)([A-Za-z0-9]+)", flags)},
      {"mac", everywhere, std::regex("()(\\b(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}\\b)", flags)},
      {"ipv4", no_versions, std::regex("()(\\b(?:[0-9]{1,3}\\.){3}[0-9]{1,3}\\b)", flags)},
      {"ipv6", contents,
       std::regex("(^|[^0-9A-Za-z.:])((?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|"
                  "(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6})(?![0-9A-Za-z.:])",
                  flags)},
      {"server", mounts, std::regex("([ =])([A-Za-z0-9][A-Za-z0-9.-]*)(?=(?:@[a-z0-9]+)?:/)", flags)},
      {"server", mounts, std::regex("([ =]//)([A-Za-z0-9][A-Za-z0-9.-]*)(?=/)", flags)},
      {"user", contents, std::regex("(/home/)([^/\\s:,\"]+)", flags)},
      {"builder", contents, std::regex("(\\()([A-Za-z0-9._+-]+@[A-Za-z0-9._+-]+)(?=\\))", flags)},
  };
  return all;
}

bool holds_versions(std::string_view path) {
  constexpr std::array<std::string_view, 7> places = {"/proc/version", "/proc/sys/kernel/osrelease", "/boot/",
                                                      "/lib/modules/", "/sluice/modinfo/",           "/proc/cpuinfo",
                                                      "/usr/lib/"};
  return std::any_of(places.begin(), places.end(), [path](std::string_view place) { return path.starts_with(place); });
}

bool holds_mounts(std::string_view path) {
  return path == "/proc/self/mountinfo" || path == "/etc/fstab" || path == "/proc/cmdline";
}

bool applies(const Rule& rule, std::string_view path) {
  switch (rule.where) {
    case Where::no_versions:
      return !holds_versions(path);
    case Where::mounts:
      return holds_mounts(path);
    default:
      return true;
  }
}

bool is_padded(std::string_view kind) {
  return kind == "hex" || kind == "uuid" || kind == "mac" || kind == "wwn" || kind == "volume" || kind == "serial";
}

bool is_address_of_documents(const std::string& text) {
  constexpr std::array<std::string_view, 6> ranges = {"127.", "0.", "255.", "192.0.2.", "198.51.100.", "203.0.113."};
  return std::any_of(ranges.begin(), ranges.end(), [&text](std::string_view range) { return text.starts_with(range); });
}

// What stands for every machine or for none, and what is a stand-in already.
bool names_no_machine(std::string_view kind, const std::string& text) {
  if (is_padded(kind)) {
    constexpr auto most_digits_of_a_number = 3;
    const auto telling =
        std::count_if(text.begin(), text.end(), [](unsigned char c) { return c != '0' && std::isalnum(c) != 0; });
    return telling <= most_digits_of_a_number;
  }
  if (kind == "ipv6") return text.starts_with("2001:db8:") || text.starts_with("00:00:");
  if (kind == "ipv4") return is_address_of_documents(text);
  if (kind == "builder") return text == "user@host";
  if (kind == "nqn") return text.starts_with("2014-08.org.example:subsystem-");
  if (kind == "server" && is_address_of_documents(text)) return true;
  return text.starts_with(std::string(kind) + "-");
}

std::string numbered(std::string_view kind, std::size_t number, const std::string& original) {
  if (kind == "nqn") return fmt::format("2014-08.org.example:subsystem-{}", number);
  if (kind == "uuid") return fmt::format("00000000-0000-0000-0000-{:012x}", number);
  if (kind == "mac") {
    const std::string zeros = original.substr(0, original.size() - 5);
    std::string text;
    for (const char c : zeros) text += c == ':' ? ':' : '0';
    return text + fmt::format("{:02x}:{:02x}", number / 256 % 256, number % 256);
  }
  if (kind == "ipv6") return fmt::format("2001:db8::{:x}", number);
  if (kind == "ipv4") {
    constexpr std::array<const char*, 3> ranges = {"192.0.2.", "198.51.100.", "203.0.113."};
    constexpr std::size_t most = 254;
    return ranges[std::min((number - 1) / most, ranges.size() - 1)] + std::to_string((number - 1) % most + 1);
  }
  if (kind == "builder") return "user@host";
  if (is_padded(kind)) return fmt::format("{:0{}x}", number, original.size());
  return fmt::format("{}-{}", kind, number);
}

bool is_an_ordinary_word(const std::string& name) {
  constexpr std::array<std::string_view, 12> ordinary = {"localhost", "nvidia", "nvme",   "linux",  "debian", "ubuntu",
                                                         "host",      "data",   "kernel", "server", "root",   "home"};
  return name.size() < 3 || std::find(ordinary.begin(), ordinary.end(), name) != ordinary.end();
}

using Replace = std::function<std::string(const std::string&)>;

std::string replaced_all(const std::string& text, const std::regex& pattern, const Replace& replace) {
  std::string made;
  auto from = text.cbegin();
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    made.append(from, (*match)[2].first).append(replace(match->str(2)));
    from = (*match)[2].second;
  }
  return made.append(from, text.cend());
}

}  // namespace

Anonymizer::Anonymizer(const std::string& host) : host_(host.substr(0, host.find('.'))) {
  if (is_an_ordinary_word(host_)) host_.clear();
}

std::string Anonymizer::stand_in(std::string_view kind, const std::string& original) {
  if (names_no_machine(kind, original)) return original;
  ++replaced_;
  std::string& known = known_[fmt::format("{} {}", kind, original)];
  if (known.empty()) known = numbered(kind, ++counts_[std::string(kind)], original);
  return known;
}

void Anonymizer::replace_host(std::string& text, const std::string& name) {
  const auto is_word = [&text](std::size_t place) {
    return place < text.size() && std::isalnum(static_cast<unsigned char>(text[place])) != 0;
  };
  for (std::size_t at = name.empty() ? std::string::npos : text.find(name); at != std::string::npos;
       at = text.find(name, at + 1)) {
    if ((at > 0 && is_word(at - 1)) || is_word(at + name.size())) continue;
    text.replace(at, name.size(), "this-host");
    ++replaced_;
  }
}

std::string Anonymizer::content(const std::string& path, std::string text) {
  text = this->path(std::move(text));
  for (const Rule& rule : rules()) {
    if (rule.where == Where::everywhere || !applies(rule, path)) continue;
    text = replaced_all(text, rule.pattern,
                        [this, &rule](const std::string& original) { return stand_in(rule.kind, original); });
  }
  return text;
}

std::string Anonymizer::path(std::string text) {
  for (const Rule& rule : rules()) {
    if (rule.where != Where::everywhere) continue;
    text = replaced_all(text, rule.pattern,
                        [this, &rule](const std::string& original) { return stand_in(rule.kind, original); });
  }
  replace_host(text, host_);
  // The device mapper doubles the dashes of its names.
  std::string doubled;
  for (const char c : host_) doubled += c == '-' ? "--" : std::string(1, c);
  if (doubled != host_) replace_host(text, doubled);
  return text;
}

}  // namespace sluice::doctor
