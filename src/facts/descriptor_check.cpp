// SPDX-License-Identifier: Apache-2.0
#include "facts/descriptor_check.h"

#include <sys/stat.h>

namespace sluice::facts {

namespace {

bool is_of(const struct stat& status, const FileFacts& file) noexcept {
  return status.st_dev == file.device && status.st_ino == file.inode;
}

}  // namespace

bool DescriptorCheck::belongs_to_another() const noexcept {
  struct stat status {};
  return ::fstat(fd_, &status) == 0 && !is_of(status, registered_);
}

void DescriptorCheck::ask() noexcept {
  struct stat status {};
  asked_ = true;
  found_ = ::fstat(fd_, &status) == 0 && is_of(status, registered_);
  if (!found_) return;
  size_ = registered_.kind == FileKind::block_device ? ~std::uint64_t{0} : static_cast<std::uint64_t>(status.st_size);
}

}  // namespace sluice::facts
