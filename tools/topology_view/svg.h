// SPDX-License-Identifier: Apache-2.0
// The tree as a picture.
#pragma once

#include <string>

#include "topology/machine.h"

namespace sluice::topology_view {

std::string as_svg(const topology::Machine& machine);

}  // namespace sluice::topology_view
