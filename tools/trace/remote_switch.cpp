// SPDX-License-Identifier: Apache-2.0
#include "trace/remote_switch.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "common/another_process.h"
#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

using Bytes = std::span<const char>;

template <typename T>
std::optional<T> value_at(Bytes file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

Bytes part(Bytes file, std::uint64_t offset, std::uint64_t size) {
  if (offset > file.size() || file.size() - offset < size) return {};
  return file.subspan(offset, size);
}

// The text from there to its 0, and behind it.
std::string text_at(Bytes& from) {
  const auto end = std::find(from.begin(), from.end(), '\0');
  std::string text(from.begin(), end);
  from = end == from.end() ? Bytes() : from.subspan(text.size() + 1);
  return text;
}

// Notes: three words, the owner's name, the descriptor, each to a multiple of 4.
std::uint64_t counter_in_notes(Bytes notes, const std::string& provider, const std::string& probe) {
  const auto padded = [](std::uint64_t size) { return (size + 3) / 4 * 4; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    const Elf64_Nhdr head = *value_at<Elf64_Nhdr>(notes, 0);
    const std::uint64_t size = sizeof head + padded(head.n_namesz) + padded(head.n_descsz);
    if (size > notes.size()) return 0;
    Bytes about = part(notes, sizeof head + padded(head.n_namesz), head.n_descsz);
    constexpr std::uint64_t words = 3 * sizeof(std::uint64_t);  // where the probe is, the base, the counter
    if (about.size() > words) {
      const std::uint64_t counter = *value_at<std::uint64_t>(about, 2 * sizeof(std::uint64_t));
      about = about.subspan(words);
      const std::string its_provider = text_at(about);
      if (its_provider == provider && text_at(about) == probe) return counter;
    }
    notes = notes.subspan(size);
  }
  return 0;
}

struct Mapped {
  std::string file;
  std::uint64_t start = 0;
};

// Files that are mapped from their beginning, in the order of their addresses.
std::vector<Mapped> mapped_files(pid_t process) {
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  if (!maps) {
    const int why = errno;
    throw ToolError(fmt::format("Process {} does not let you look: {}.", process, system_words(why)),
                    why == ENOENT ? "`pgrep -a NAME` shows the numbers of a program." : who_may_look());
  }
  std::vector<Mapped> files;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long start = 0;
    unsigned long long offset = 0;
    int path_at = 0;
    const int found = std::sscanf(line.c_str(), "%llx-%*x %*4s %llx %*x:%*x %*u %n", &start, &offset, &path_at);
    if (found != 2 || path_at == 0 || offset != 0) continue;
    std::string path = line.substr(static_cast<std::size_t>(path_at));
    if (path.starts_with('/') && (files.empty() || files.back().file != path))
      files.push_back({std::move(path), start});
  }
  return files;
}

// Where the file begins in its own addresses: what its first loaded part says.
std::uint64_t own_start(Bytes file) {
  const auto head = value_at<Elf64_Ehdr>(file, 0);
  if (!head) return 0;
  for (unsigned i = 0; i < head->e_phnum; ++i) {
    const auto loaded = value_at<Elf64_Phdr>(file, head->e_phoff + std::uint64_t{i} * head->e_phentsize);
    if (loaded && loaded->p_type == PT_LOAD) return loaded->p_vaddr - loaded->p_offset;
  }
  return 0;
}

std::vector<char> content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::uint64_t counter_in(Bytes file, const std::string& provider, const std::string& probe) {
  const auto head = value_at<Elf64_Ehdr>(file, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64) return 0;
  for (unsigned i = 0; i < head->e_shnum; ++i) {
    const auto section = value_at<Elf64_Shdr>(file, head->e_shoff + std::uint64_t{i} * head->e_shentsize);
    if (!section || section->sh_type != SHT_NOTE) continue;
    const std::uint64_t counter = counter_in_notes(part(file, section->sh_offset, section->sh_size), provider, probe);
    if (counter != 0) return counter;
  }
  return 0;
}

int open_memory(pid_t process, int flags) {
  return open(fmt::format("/proc/{}/mem", process).c_str(), flags | O_CLOEXEC);
}

constexpr const char* provider_of_switch = "sluice_switch";
constexpr const char* name_of_switch = "recorder";

}  // namespace

std::uint64_t counter_in_file(const std::string& path, const std::string& provider, const std::string& probe) {
  const std::vector<char> bytes = content(path);
  return counter_in(bytes, provider, probe);
}

RemoteSwitch::RemoteSwitch(pid_t process) : process_(process) {
  bool has_library = false;
  const std::vector<Mapped> files = mapped_files(process);
  for (const Mapped& mapped : files) {
    const std::string name = mapped.file.substr(mapped.file.rfind('/') + 1);
    const bool is_library = name.starts_with("libcufile");
    // The program itself may have it built in; others are not worth reading.
    if (!is_library && &mapped != &files.front()) continue;
    has_library = has_library || is_library;
    const std::vector<char> bytes = content(fmt::format("/proc/{}/root{}", process, mapped.file));
    const std::uint64_t counter = counter_in(bytes, provider_of_switch, name_of_switch);
    if (counter == 0) continue;
    address_ = mapped.start + counter - own_start(bytes);
    return;
  }
  throw ToolError(has_library ? fmt::format("Process {} runs on a libcufile that cannot be traced.", process)
                              : fmt::format("Process {} has no libcufile.so.0 loaded.", process),
                  "Start it with `sluice trace -- CMD`.");
}

bool RemoteSwitch::is_on() const {
  const int fd = open_memory(process_, O_RDONLY);
  std::uint16_t value = 0;
  const bool seen = fd >= 0 && pread(fd, &value, sizeof value, static_cast<off_t>(address_)) == sizeof value;
  if (fd >= 0) close(fd);
  return seen && value != 0;
}

void RemoteSwitch::set(bool on) {
  const int fd = open_memory(process_, O_WRONLY);
  const std::uint16_t value = on ? 1 : 0;
  const bool done = fd >= 0 && pwrite(fd, &value, sizeof value, static_cast<off_t>(address_)) == sizeof value;
  const int why = errno;
  if (fd >= 0) close(fd);
  if (done || !on) return;
  throw ToolError(fmt::format("The recorder of process {} cannot be switched on: {}.", process_, system_words(why)),
                  "Ask as root (or where kernel.yama.ptrace_scope is 0 as its user), or start the program with "
                  "SLUICE_TRACE=on: then nothing has to be switched.");
}

}  // namespace sluice::tools
