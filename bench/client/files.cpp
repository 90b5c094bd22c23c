// SPDX-License-Identifier: Apache-2.0
#include "client/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "client/pattern.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

constexpr std::size_t block = 4096;
constexpr std::size_t piece = std::size_t{8} << 20;
constexpr std::uint64_t target_salt = 0x7461726765746564;
constexpr std::uint64_t set_salt = 0x6f6e656f66736574;

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Trouble(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

struct Descriptor {
  int number;
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

bool block_is_pattern(int file, std::uint64_t offset, std::uint64_t salt) {
  std::vector<std::byte> bytes(block);
  return ::pread(file, bytes.data(), block, static_cast<off_t>(offset)) == static_cast<ssize_t>(block) &&
         first_difference(bytes, offset, salt) == block;
}

void write_pattern(int file, const std::string& path, std::uint64_t begin, std::uint64_t end, std::uint64_t salt) {
  std::vector<std::byte> bytes(piece);
  for (std::uint64_t at = begin; at < end;) {
    const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(piece, end - at));
    fill_pattern(std::span(bytes).first(part), at, salt);
    const ssize_t written = ::pwrite(file, bytes.data(), part, static_cast<off_t>(at));
    if (written <= 0) fail(path, "cannot be written");
    at += static_cast<std::uint64_t>(written);
  }
}

// The file's size; makes it when it is not there. The block that tells whose file it is, is the last.
std::uint64_t made(const std::string& path, std::uint64_t size, std::uint64_t salt, bool last_block_only) {
  const Descriptor file(::open(path.c_str(), O_RDWR | (size == 0 ? 0 : O_CREAT) | O_CLOEXEC, 0644));
  if (file.number < 0 && errno == ENOENT && size == 0) {
    throw Trouble(path + " is not there: say how large to make it (--size)");
  }
  if (file.number < 0) fail(path, "cannot be opened");
  struct stat status {};
  if (::fstat(file.number, &status) != 0) fail(path, "cannot be looked at");
  const auto there = static_cast<std::uint64_t>(status.st_size);
  if (there != 0) {
    const bool ours = there % block == 0 && block_is_pattern(file.number, there - block, salt) &&
                      (last_block_only || block_is_pattern(file.number, 0, salt));
    if (!ours) throw Trouble(path + " is no file of this benchmark: remove it or name another");
    if (size == 0 || size == there) return there;
    if (::ftruncate(file.number, 0) != 0) fail(path, "cannot be made anew");
  }
  if (size == 0) throw Trouble(path + " is empty: say how large to make it (--size)");
  // Space is taken from the start to the end, and bytes are there, so that no row meets a hole.
  write_pattern(file.number, path, 0, size, salt);
  if (::fsync(file.number) != 0) fail(path, "cannot be written");
  return size;
}

void warm(const TestFile& file) {
  std::vector<std::byte> bytes(piece);
  for (std::uint64_t at = 0; at < file.size(); at += piece) {
    if (::pread(file.descriptor(), bytes.data(), piece, static_cast<off_t>(at)) <= 0)
      fail(file.path(), "cannot be read");
  }
}

}  // namespace

TestFile::TestFile(std::string path, Opened how, std::uint64_t size) : path_(std::move(path)), how_(how), size_(size) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | (is_direct() ? O_DIRECT : 0));
  if (descriptor_ < 0) fail(path_, is_direct() ? "cannot be opened with O_DIRECT" : "cannot be opened");
}
TestFile::TestFile(TestFile&& other) noexcept
    : path_(std::move(other.path_)),
      how_(other.how_),
      size_(other.size_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}
TestFile::~TestFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

TestFile source_file(const std::string& path, Opened how, std::uint64_t size) {
  TestFile file(path, how, made(path, size, 0, false));
  if (file.is_direct()) {
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  } else {
    warm(file);
  }
  return file;
}

TestFile target_file(const std::string& path, Opened how, std::uint64_t size) {
  const std::string beside = path + ".written";
  return {beside, how, made(beside, size + block, target_salt, true) - block};
}

std::vector<std::string> file_set(const std::string& path, std::uint64_t size, std::size_t count) {
  const std::string folder = fmt::format("{}.set-{}", path, size);
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) fail(folder, "cannot be made");
  std::vector<std::string> files;
  for (std::size_t i = 0; i < count; ++i) {
    files.push_back(fmt::format("{}/{}", folder, i));
    warm(TestFile(files.back(), Opened::buffered, made(files.back(), size, salt_in_set(i), false)));
  }
  return files;
}

std::uint64_t salt_in_set(std::size_t index) {
  return set_salt + index;
}

}  // namespace sluice::bench
