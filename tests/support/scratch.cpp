// SPDX-License-Identifier: Apache-2.0
// Places, scratch files, and plain system calls as the reference that results are compared with.
#include "support/scratch.h"

#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace sluice::support {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::vector<Place> default_places() {
  const char* given = std::getenv("SLUICE_TEST_DIR");
  std::vector<Place> found{{"here", given != nullptr ? given : ".", ""}};
  if (access("/dev/shm", W_OK) == 0) found.push_back({"shm", "/dev/shm", ""});
  return found;
}

// Lines of the list: `name=path`, or `skipped name: reason`.
std::vector<Place> read_list(const std::string& file) {
  std::ifstream list(file);
  if (!list) throw std::runtime_error("SLUICE_TEST_PLACES names " + file + ", which cannot be read");
  const std::string skipped = "skipped ";
  std::vector<Place> found;
  for (std::string line; std::getline(list, line);) {
    if (line.rfind(skipped, 0) == 0) {
      const std::size_t colon = line.find(": ");
      found.push_back({line.substr(skipped.size(), colon - skipped.size()), "", line.substr(colon + 2)});
    } else if (const std::size_t equals = line.find('='); equals != std::string::npos) {
      found.push_back({line.substr(0, equals), line.substr(equals + 1), ""});
    }
  }
  return found;
}

// No two files of a run hold the same bytes: what an earlier test left in memory is never taken for a good read.
std::uint64_t next_content() {
  static std::atomic<std::uint64_t> serial{0xf11e};
  return serial++;
}

bool takes_direct(const std::string& directory) {
  const std::string probe = directory + "/direct-probe-" + std::to_string(getpid());
  const Fd fd(open(probe.c_str(), O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
  unlink(probe.c_str());
  return fd.valid();
}

std::string choose_disk_directory() {
  for (const char* name : {"ext4", "xfs", "here"}) {
    const Place* place = find_place(name);
    if (place != nullptr && takes_direct(place->path)) return place->path;
  }
  for (const Place& place : places()) {
    struct stat status {};
    if (!place.why_not.empty() || stat(place.path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    if (place.name != "tiny" && takes_direct(place.path)) return place.path;
  }
  return ".";
}

}  // namespace

Fd::Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

// These two are asked to the very end of a process, by destructors and exit handlers, too: they are never destroyed.
const std::vector<Place>& places() {
  static const auto* const found = [] {
    const char* list = std::getenv("SLUICE_TEST_PLACES");
    return new std::vector<Place>(list != nullptr ? read_list(list) : default_places());
  }();
  return *found;
}

const Place* find_place(const std::string& name) {
  for (const Place& place : places()) {
    if (place.name == name && place.why_not.empty()) return &place;
  }
  return nullptr;
}

Fd hold(const Place& place) {
  Fd fd(open(place.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() || flock(fd.get(), LOCK_EX) != 0) fail("cannot lock " + place.path);
  return fd;
}

const std::string& disk_directory() {
  static const auto* const directory = new std::string(choose_disk_directory());
  return *directory;
}

ScratchFile::ScratchFile(std::span<const unsigned char> content, const std::string& directory)
    : content_(content.begin(), content.end()) {
  static std::atomic<unsigned> serial{0};
  Fd fd;
  do {  // a process that was killed may have left one of these names
    path_ = directory + "/sluice-test-" + std::to_string(getpid()) + "-" + std::to_string(serial++);
    fd = Fd(::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  } while (!fd.valid() && errno == EEXIST);
  if (!fd.valid()) fail("cannot create " + path_);
  plain_write(fd.get(), 0, content_);
}

ScratchFile::ScratchFile(std::size_t random_length) : ScratchFile(random_bytes(random_length, next_content())) {}

ScratchFile::~ScratchFile() {
  unlink();
}

void ScratchFile::unlink() const {
  ::unlink(path_.c_str());
}

Fd ScratchFile::open(int flags) const {
  Fd fd(::open(path_.c_str(), flags | O_CLOEXEC));
  if (!fd.valid()) fail("cannot open " + path_);
  return fd;
}

Bytes plain_read(int fd, std::uint64_t offset, std::size_t length) {
  Bytes bytes(length);
  std::size_t done = 0;
  while (done < length) {
    const ssize_t count = pread(fd, bytes.data() + done, length - done, static_cast<off_t>(offset + done));
    if (count < 0) fail("plain read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

void plain_write(int fd, std::uint64_t offset, std::span<const unsigned char> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count <= 0) fail("plain write");
    done += static_cast<std::size_t>(count);
  }
}

std::uint64_t file_size(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail("fstat");
  std::uint64_t size = static_cast<std::uint64_t>(status.st_size);
  if (S_ISBLK(status.st_mode) && ioctl(fd, BLKGETSIZE64, &size) != 0) fail("BLKGETSIZE64");
  return size;
}

Bytes content_of(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) fail("cannot open " + path);
  return plain_read(fd.get(), 0, file_size(fd.get()));
}

}  // namespace sluice::support
