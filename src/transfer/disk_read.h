// SPDX-License-Identifier: Apache-2.0
// Reading what a disk has to bring first into device memory: many reads on their way at a time, by io_uring, and the
// copy engine behind them. One thread does it, and sleeps while the disk works.
#pragma once

#include <optional>

#include "base/outcome.h"
#include "staging/staging_buffer.h"
#include "transfer/device_read.h"

namespace sluice::transfer {

// As read_to_device(), for a descriptor with O_DIRECT. Nothing where there is no io_uring, or it is not wanted. Large
// reads of an array of drives take several staging buffers, so that each drive is kept busy.
std::optional<base::Outcome> read_from_disk(const FileRange& range, staging::StagingLease& lease,
                                            const Target& target) noexcept;

}  // namespace sluice::transfer
