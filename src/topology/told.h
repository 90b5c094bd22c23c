// SPDX-License-Identifier: Apache-2.0
// What the bus does not tell: addresses of interfaces, and how GPUs reach each other.
#pragma once

#include "topology/machine.h"

namespace sluice::topology {

// From the lines of a recorded tree's /sluice/probes:
//   address INTERFACE IPV4
//   peer ADDRESS ADDRESS access=1 nvlink=1 links=18
//   peers asked
Told told_in(const facts::Root& root);
Told told_by_lines(const std::string& text);
// Its lines again.
std::string to_lines(const Told& told);

// IPv4 addresses of this machine's interfaces, the loopback left out.
std::vector<Address> own_addresses();

}  // namespace sluice::topology
