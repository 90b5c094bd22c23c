// SPDX-License-Identifier: Apache-2.0
#include "core/refusal.h"

#include <cerrno>
#include <system_error>

namespace sluice::csi {

void refuse_errno(const std::string& doing, int error) {
  const bool no_room = error == ENOSPC || error == EDQUOT;
  refuse(no_room ? Code::resource_exhausted : Code::internal,
         doing + ": " + std::generic_category().message(error) + ".");
}

}  // namespace sluice::csi
