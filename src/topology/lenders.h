// SPDX-License-Identifier: Apache-2.0
// Which GPUs' links to the host are worth the most to a large read of another GPU's. Pure functions of the tree.
#pragma once

#include <string>
#include <vector>

#include "topology/machine.h"

namespace sluice::topology {

// The ordinals of all GPUs but `target`, those that are worth the most first: a link of its own on the target's NUMA
// node, then what nothing is known of, then another node's, at last one that shares a bridge with the target's, whose
// uplink both would use. Those alike in order, from the one behind the target on, so that several targets do not ask
// the same. `gpus`: by ordinal, their addresses on the bus in lower case; "" where it is not known.
std::vector<int> lenders_of(const Machine& machine, const std::vector<std::string>& gpus, int target);

}  // namespace sluice::topology
