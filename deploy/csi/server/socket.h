// SPDX-License-Identifier: Apache-2.0
// A unix socket that belongs to one process: a lock beside it is taken before listening. Without, a second server takes
// the path over in silence, and the first one removes the second one's socket when it ends.
#pragma once

#include <chrono>
#include <string>

#include "base/unique_fd.h"

namespace sluice::csi {

class SocketLock {
 public:
  // Waits for an old process that is ending; then refuses. Paths have at most 107 bytes.
  SocketLock(const std::string& path, std::chrono::seconds wait);

 private:
  base::UniqueFd file_;
};

}  // namespace sluice::csi
