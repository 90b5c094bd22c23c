// SPDX-License-Identifier: Apache-2.0
#include "nvfs/rig.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace sluice::nvfs_test {

namespace {

// On ext4 where the tests have one.
std::string folder() {
  const char* const places = std::getenv("SLUICE_TEST_PLACES");
  std::ifstream list(places != nullptr ? places : "");
  constexpr std::string_view wanted = "ext4=";
  for (std::string line; std::getline(list, line);) {
    if (line.starts_with(wanted)) return line.substr(wanted.size());
  }
  return ".";
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Bytes pattern(std::uint64_t size, std::uint64_t seed) {
  Bytes bytes(size);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(1 + (state >> 33U) % 255);  // never 0, as a hole is
  }
  return bytes;
}

DeviceMemory::DeviceMemory(std::uint64_t size) : size_(size), reserved_size_(size + nvfs::window_bytes) {
  const int fd = memfd_create(FakeModule::device_memory, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) fail("memfd_create");
  void* const place = mmap(nullptr, reserved_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) fail("mmap");
  reserved_ = static_cast<std::byte*>(place);
  const auto from = reinterpret_cast<std::uint64_t>(place);
  begin_ = reserved_ + (nvfs::window_bytes - from % nvfs::window_bytes) % nvfs::window_bytes;
  if (mmap(begin_, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) fail("mmap");
  close(fd);
}

DeviceMemory::~DeviceMemory() {
  munmap(reserved_, reserved_size_);
}

void DeviceMemory::fill(int value) const {
  std::memset(begin_, value, size_);
}

File::File(std::uint64_t size, std::uint64_t seed) {
  static const std::string place = folder();
  fd_ = open(place.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (fd_ < 0) fail("a file for O_DIRECT");
  write(0, pattern(size, seed));
}

File::~File() {
  close(fd_);
}

nvfs::FileName File::name() const {
  struct stat status {};
  if (fstat(fd_, &status) != 0) fail("fstat");
  return {fd_, status.st_ino, major(status.st_dev), minor(status.st_dev)};
}

namespace {

// By a description without O_DIRECT.
int buffered(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int plain = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (plain < 0) fail("open");
  return plain;
}

}  // namespace

Bytes File::content() const {
  struct stat status {};
  if (fstat(fd_, &status) != 0) fail("fstat");
  return content(0, static_cast<std::uint64_t>(status.st_size));
}

Bytes File::content(std::uint64_t at, std::uint64_t size) const {
  Bytes bytes(size);
  const int plain = buffered(fd_);
  const ssize_t got = pread(plain, bytes.data(), size, static_cast<off_t>(at));
  close(plain);
  if (got < 0) fail("pread");
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

void File::write(std::uint64_t at, std::span<const std::byte> bytes) const {
  if (bytes.empty()) return;
  const int plain = buffered(fd_);
  const ssize_t put = pwrite(plain, bytes.data(), bytes.size(), static_cast<off_t>(at));
  const int synced = fdatasync(plain);  // its extents are there, then
  close(plain);
  if (put != static_cast<ssize_t>(bytes.size()) || synced != 0) fail("pwrite");
}

void File::resize(std::uint64_t size) const {
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) fail("ftruncate");
}

void File::punch(std::uint64_t at, std::uint64_t size) const {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(fd_, mode, static_cast<off_t>(at), static_cast<off_t>(size)) != 0) fail("fallocate");
}

nvfs::Filled Clearing::fill(std::uint64_t begin, std::uint64_t length) noexcept {
  if (answer_ != nvfs::Filled::cleared) return answer_;
  std::memset(begin_ + begin, 0, length);
  cleared_ += length;
  return answer_;
}

nvfs::Windows ClientTest::windows_onto(const DeviceMemory& memory) {
  return nvfs::Windows(client_.mappings(), memory.address(), memory.bytes().size(), 0x300);
}

nvfs::Member ClientTest::member(base::Direction direction, const File& file, std::uint64_t at, std::uint64_t address,
                                std::uint64_t length, nvfs::Windows& windows) {
  nvfs::Member member;
  member.direction = direction;
  member.file = file.name();
  member.at = at;
  member.address = address;
  member.length = length;
  member.windows = &windows;
  return member;
}

nvfs::Member ClientTest::move(nvfs::Member member) {
  nvfs::Group::run(client_.node(), {&member, 1});
  return member;
}

}  // namespace sluice::nvfs_test
