// SPDX-License-Identifier: Apache-2.0
// Reading a large range of a file into device memory by the links of several GPUs.
#pragma once

#include <optional>

#include "base/outcome.h"
#include "staging/staging_buffer.h"
#include "transfer/file_range.h"

namespace sluice::transfer {

// With lending rules. Of what the page cache has, or a disk brings by io_uring. Nothing where no neighbour lends its
// link: then no byte has been read.
std::optional<base::Outcome> read_by_links(const FileRange& range, staging::StagingLease& lease, const Target& target,
                                           CopyEngine engine, unsigned others) noexcept;

}  // namespace sluice::transfer
