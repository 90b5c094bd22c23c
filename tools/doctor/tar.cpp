// SPDX-License-Identifier: Apache-2.0
// Headers of 512 bytes, contents in blocks of 512.
#include "doctor/tar.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "common/error.h"
#include "config/json.h"

namespace sluice::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t block = 512;
using Header = std::array<char, block>;
constexpr std::string_view long_link_name = "././@LongLink";
constexpr char long_link_kind = 'K';

struct Field {
  std::size_t at;
  std::size_t size;
};
constexpr Field name_field{0, 100};
constexpr Field mode_field{100, 8};
constexpr Field size_field{124, 12};
constexpr Field sum_field{148, 8};
constexpr Field kind_field{156, 1};
constexpr Field link_field{157, 100};
constexpr Field magic_field{257, 8};
constexpr Field prefix_field{345, 155};

void put(Header& header, Field field, std::string_view text) {
  std::memcpy(header.data() + field.at, text.data(), std::min(text.size(), field.size));
}

std::string_view get(const Header& header, Field field) {
  const char* const begin = header.data() + field.at;
  return {begin, strnlen(begin, field.size)};
}

unsigned sum_of(Header header) {
  std::fill_n(header.begin() + sum_field.at, sum_field.size, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  return sum;
}

// A name longer than its field has its folders in another one. False where neither way fits.
bool put_name(Header& header, std::string_view name) {
  if (name.size() <= name_field.size) {
    put(header, name_field, name);
    return true;
  }
  const std::size_t slash = name.find('/', name.size() - name_field.size - 1);
  if (slash > prefix_field.size) return false;  // nor where there is none
  put(header, prefix_field, name.substr(0, slash));
  put(header, name_field, name.substr(slash + 1));
  return true;
}

std::size_t octal(std::string_view text) {
  std::size_t value = 0;
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  std::from_chars(text.data() + begin, text.data() + text.size(), value, 8);
  return value;
}

// Where a name leads, below the folder: "." and ".." are no parts of recorded names.
fs::path place_of(const std::string& folder, std::string name) {
  while (!name.empty() && name.front() == '/') name.erase(0, 1);
  for (const fs::path& part : fs::path(name)) {
    if (part == "..") throw std::runtime_error("the archive has a name that leads out of it: " + name);
  }
  return fs::path(folder) / name;
}

// Names of an archive may be in each other's way; that the disk takes no more is another matter: what is judged has to
// be whole.
void want_unpacked(const fs::path& place, int error) {
  for (const int of_names : {0, EEXIST, EISDIR, ENOTDIR, ENOENT, ELOOP, ENAMETOOLONG}) {
    if (error == of_names) return;
  }
  throw tools::ToolError(fmt::format("A recording cannot be unpacked: {} cannot be written: {}.",
                                     config::printable(place.string()), std::generic_category().message(error)),
                         "Name a folder with room for it: TMPDIR=DIR.");
}

// 0, or the errno of what went wrong.
int put_file(const fs::path& place, std::string_view content) {
  const int fd = ::open(place.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  int error = 0;
  while (error == 0 && !content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno != EINTR) error = errno;
    if (count > 0) content.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

void TarWriter::add(const std::string& path, Entry entry) {
  const std::string name = path.substr(std::min(path.find_first_not_of('/'), path.size()));
  if (name.empty() || entries_.contains(name)) return;
  for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    entries_.try_emplace(name.substr(0, slash), Entry{'5', ""});
  }
  entries_.emplace(name, std::move(entry));
}

void TarWriter::folder(const std::string& path) {
  add(path, {'5', ""});
}

void TarWriter::file(const std::string& path, const std::string& content) {
  add(path, {'0', content});
}

void TarWriter::link(const std::string& path, const std::string& target) {
  add(path, {'2', target});
}

namespace {

void put_entry(std::string& out, std::string_view name, char kind, std::string_view target,
               const std::string& content) {
  Header header{};
  put_name(header, name);
  put(header, mode_field, kind == '5' ? "0000755" : "0000644");
  put(header, size_field, fmt::format("{:011o}", content.size()));
  put(header, kind_field, {&kind, 1});
  put(header, link_field, target);
  put(header, magic_field, std::string_view("ustar\00000", 8));
  put(header, sum_field, fmt::format("{:06o}", sum_of(header)));
  out.append(header.data(), header.size());
  if (!content.empty()) out.append(content).append((block - content.size() % block) % block, '\0');
}

}  // namespace

std::string TarWriter::whole() const {
  std::string out;
  for (const auto& [name, entry] : entries_) {
    Header fits{};
    if (!put_name(fits, name)) continue;
    const std::string target = entry.kind == '2' ? entry.content : "";
    // A longer target stands in an entry of its own in front, as GNU tar writes and reads it.
    if (target.size() > link_field.size) put_entry(out, long_link_name, long_link_kind, "", target + '\0');
    put_entry(out, name, entry.kind, target, entry.kind == '0' ? entry.content : "");
  }
  return out.append(2 * block, '\0');
}

void unpack_tar(const std::string& path, const std::string& folder) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
  Header header{};
  std::string long_target;
  bool any = false;
  while (in.read(header.data(), header.size()) && header[0] != '\0') {
    if (octal(get(header, sum_field)) != sum_of(header)) throw std::runtime_error(path + " is no tar archive");
    std::string name(get(header, name_field));
    if (const std::string_view above = get(header, prefix_field); !above.empty()) {
      name.insert(0, "/").insert(0, above);
    }
    const fs::path place = place_of(folder, name);
    const std::size_t size = octal(get(header, size_field));
    if (size > (64U << 20))
      throw std::runtime_error(fmt::format("{} holds a file that is too large to be one of ours: {}", path, name));
    std::string content((size + block - 1) / block * block, '\0');
    in.read(content.data(), static_cast<std::streamsize>(content.size()));
    any = true;
    const char kind = header[kind_field.at];
    if (kind == long_link_kind) {
      long_target = content.substr(0, content.find('\0'));
      continue;
    }
    std::error_code error;
    fs::create_directories(kind == '5' ? place : place.parent_path(), error);
    want_unpacked(place, error.value());
    if (kind == '2') {
      const std::string target = long_target.empty() ? std::string(get(header, link_field)) : long_target;
      long_target.clear();
      place_of(folder,
               (fs::path(name).parent_path() / target).lexically_normal().string());  // throws where it leads out
      if (!target.starts_with('/')) {
        fs::create_symlink(target, place, error);
        want_unpacked(place, error.value());
      }
    } else if (kind != '5') {
      want_unpacked(place, put_file(place, std::string_view(content).substr(0, size)));
    }
  }
  if (!any) throw std::runtime_error(path + " is no tar archive");
}

}  // namespace sluice::doctor
