// SPDX-License-Identifier: Apache-2.0
// Which paths the library took, where the library is one that counts them.
#pragma once

#include <vector>

#include "gdsio/run.h"

namespace sluice::tools {

class WayCounts {
 public:
  WayCounts();  // as it is now

  // Whether this library counts at all.
  bool known() const noexcept { return known_; }
  // What has been added since.
  std::vector<WayTaken> since() const;

 private:
  bool known_;
  std::vector<WayTaken> before_;
};

}  // namespace sluice::tools
