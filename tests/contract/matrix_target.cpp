// SPDX-License-Identifier: Apache-2.0
// Files and memory for the matrix.
#include "contract/matrix_target.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <stdexcept>

namespace sluice::contract {
namespace {

using support::MemoryKind;

// Not a multiple of any block size, and long enough for the largest size with its guards.
constexpr std::uint64_t kFileSize = 34 * kMebibyte + 1001;

MemoryKind kind_of(Buffer buffer) {
  switch (buffer) {
    case Buffer::device:
    case Buffer::device_registered:
    case Buffer::device_interior:
      return MemoryKind::device;
    case Buffer::managed:
    case Buffer::managed_registered:
      return MemoryKind::managed;
    case Buffer::pinned:
    case Buffer::pinned_registered:
      return MemoryKind::pinned;
    case Buffer::plain:
    case Buffer::plain_registered:
      return MemoryKind::plain;
  }
  return MemoryKind::plain;
}

bool wants_registration(Buffer buffer) {
  return buffer == Buffer::device_registered || buffer == Buffer::managed_registered ||
         buffer == Buffer::pinned_registered || buffer == Buffer::plain_registered;
}

std::string reopen_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace

const support::Bytes& base_content() {
  static const support::Bytes content = support::random_bytes(36 * kMebibyte, 0xba5e);
  return content;
}

Target::Target(const std::string& place) {
  const std::span<const unsigned char> content{base_content().data(), kFileSize};
  if (place == "memfd") {
    plain_ = support::Fd(memfd_create("sluice-matrix", MFD_CLOEXEC));
    support::plain_write(plain_.get(), 0, content);
    path_ = reopen_path(plain_.get());
  } else if (place == "unlinked") {
    file_.emplace(content);
    plain_ = file_->open(O_RDWR);
    file_->unlink();
    path_ = reopen_path(plain_.get());
  } else if (place == "loop") {
    held_ = support::hold(*support::find_place(place));
    path_ = support::find_place(place)->path;
    plain_ = support::Fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    growth_ = Growth::fixed;
  } else {
    file_.emplace(content, support::find_place(place)->path);
    path_ = file_->path();
    plain_ = file_->open(O_RDWR);
  }
  size_ = support::file_size(plain_.get());
  if (size_ > base_content().size()) throw std::runtime_error(place + " is larger than the matrix expects");
  if (growth_ == Growth::fixed) support::plain_write(plain_.get(), 0, {base_content().data(), size_});
}

support::Fd Target::open(int flags) const {
  return support::Fd(::open(path_.c_str(), flags | O_CLOEXEC));
}

Buffers::Buffers() {
  for (std::size_t i = 0; i < kBuffers; ++i) {
    const auto buffer = static_cast<Buffer>(i);
    if (buffer == Buffer::device_interior || !available(buffer)) continue;
    memory_[i].emplace(kind_of(buffer), kBufferSize);
    if (wants_registration(buffer)) registration_[i].emplace(*memory_[i]);
  }
}

bool Buffers::available(Buffer buffer) {
  return support::available(kind_of(buffer));
}

}  // namespace sluice::contract
