// SPDX-License-Identifier: Apache-2.0
// Reading .modinfo without a tool: it is a row of "field=value" texts, each with an end of its own.
#include "doctor/kernel_modules.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace sluice::doctor {
namespace {

constexpr std::size_t largest_module = 256U << 20;  // nvidia.ko with debug information is some 100 MB

// What `tool -dc FILE` writes.
std::string unpacked(const char* tool, const std::string& file) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execlp(tool, tool, "-dcq", file.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 65536> piece{};
  while (child > 0 && text.size() < largest_module) {
    const ssize_t got = read(ends[0], piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return text;
}

constexpr std::array<std::string_view, 5> fields = {"license", "version", "vermagic", "depends", "srcversion"};

ModInfo parse_object(std::string_view object) {
  ModInfo info;
  for (const std::string_view field : fields) {
    const std::string wanted = '\0' + std::string(field) + '=';
    const std::size_t at = object.find(wanted);
    if (at == std::string_view::npos) continue;
    const std::size_t begin = at + wanted.size();
    const std::string_view value = object.substr(begin, object.find('\0', begin) - begin);
    if (value.size() < 512) info[std::string(field)] = value;
  }
  return info;
}

ModInfo parse_lines(const std::string& text) {
  ModInfo info;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(' ', colon + 1);
    info[line.substr(0, colon)] = begin == std::string::npos ? "" : line.substr(begin);
  }
  return info;
}

}  // namespace

std::string module_file(const Machine& machine, const std::string& name) {
  const std::string wanted = "/" + name + ".ko";
  for (const std::string& line : split(machine.tree.text("/lib/modules/" + machine.kernel + "/modules.dep"), '\n')) {
    std::string file = line.substr(0, line.find(':'));
    const std::size_t at = file.rfind(wanted);
    // The end of the name, or of that of a packed module.
    if (at != std::string::npos && file.find('/', at + 1) == std::string::npos) return file;
  }
  return {};
}

ModInfo modinfo_of(const Machine& machine, const std::string& name) {
  const Tree& tree = machine.tree;
  if (!tree.is_the_machine()) return parse_lines(tree.text("/sluice/modinfo/" + name));
  const std::string file = module_file(machine, name);
  if (file.empty()) return {};
  const std::string path = file.front() == '/' ? file : "/lib/modules/" + machine.kernel + "/" + file;
  if (path.ends_with(".xz")) return parse_object(unpacked("xz", path));
  if (path.ends_with(".zst")) return parse_object(unpacked("zstd", path));
  if (path.ends_with(".gz")) return parse_object(unpacked("gzip", path));
  return parse_object(tree.text(path));
}

DkmsState dkms_of(const Machine& machine, const std::string& name) {
  DkmsState state;
  const std::string home = "/var/lib/dkms/" + name;
  for (const std::string& version : machine.tree.names(home)) {
    // "kernel-6.1.0-x86_64" are links to what is built.
    if (version.starts_with("kernel-") || !machine.tree.has(below(home, version) + "/source")) continue;
    state.versions.push_back(version);
    for (const std::string& kernel : machine.tree.names(below(home, version))) {
      if (kernel != "source" && kernel != "build") state.kernels.push_back(kernel);
    }
  }
  std::sort(state.versions.begin(), state.versions.end(),
            [](const std::string& a, const std::string& b) { return Version(a).parts < Version(b).parts; });
  if (!state.versions.empty()) state.version = state.versions.back();
  return state;
}

std::string symbol_in_log(const Machine& machine, std::string name, std::string_view before) {
  const std::string log = machine.tree.is_the_machine() ? kernel_log() : machine.tree.text("/sluice/kernel-log");
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '-', '_');
  std::replace(name.begin(), name.end(), '_', '-');
  std::string symbol;
  for (const std::string& line : split(log, '\n')) {
    const std::size_t at = line.find(before);
    if (at == std::string::npos || (!contains(line, plain) && !contains(line, name))) continue;
    const std::vector<std::string> behind = words(std::string_view(line).substr(at + before.size()));
    if (!behind.empty()) symbol = behind.front();
  }
  return symbol;
}

}  // namespace sluice::doctor
