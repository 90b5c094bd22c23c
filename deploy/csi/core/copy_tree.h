// SPDX-License-Identifier: Apache-2.0
// Copies a folder so that both sides share their blocks: how snapshots and clones are made on xfs.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::csi {

enum class Sharing : std::uint8_t { require, prefer };

struct CopyResult {
  std::int64_t files = 0;
  std::int64_t bytes = 0;   // allocated in the source
  std::int64_t copied = 0;  // of these, bytes that were written anew because they cannot be shared
};

// `to` is an empty folder. Modes, owners, times, extended attributes, links (hard ones, too), FIFOs, sockets and
// devices come along. Each file is copied at one moment; that is not one moment for all of them while they are being
// written.
CopyResult copy_tree(const std::string& from, const std::string& to, Sharing sharing);

}  // namespace sluice::csi
