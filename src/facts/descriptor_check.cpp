// SPDX-License-Identifier: Apache-2.0
#include "facts/descriptor_check.h"

#include <sys/stat.h>

namespace sluice::facts {

void DescriptorCheck::ask() noexcept {
  struct stat status {};
  asked_ = true;
  found_ = ::fstat(fd_, &status) == 0 && status.st_dev == registered_.device && status.st_ino == registered_.inode;
  if (!found_) return;
  size_ = registered_.kind == FileKind::block_device ? ~std::uint64_t{0} : static_cast<std::uint64_t>(status.st_size);
}

}  // namespace sluice::facts
