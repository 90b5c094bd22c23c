// SPDX-License-Identifier: Apache-2.0
// Writing device memory into a file: the copy engine fills a staging buffer, the calling thread and workers empty it
// meanwhile.
#pragma once

#include "transfer/device_read.h"

namespace sluice::transfer {

// Bytes written: all of them, or up to the first refusal. With O_DIRECT, range and length are whole blocks. With
// lending rules neighbours' links bring a part of a large one to the host.
base::Outcome write_from_device(const FileRange& range, staging::StagingLease& lease, const Target& from) noexcept;

}  // namespace sluice::transfer
