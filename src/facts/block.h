// SPDX-License-Identifier: Apache-2.0
// The block device below a file, from sysfs. Nothing is opened under /dev.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "facts/file.h"
#include "facts/root.h"

namespace sluice::facts {

// The disk that has this number, or the disk of the partition that has it. Empty where sysfs does not know.
BlockFacts block_with_number(dev_t device, const Root& root);

// The same for a mount's source: "/dev/nvme0n1p2", "/dev/mapper/data". Empty for what is no path under /dev.
BlockFacts block_of_source(std::string_view source, const Root& root);

}  // namespace sluice::facts
