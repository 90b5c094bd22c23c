// SPDX-License-Identifier: Apache-2.0
// How far two devices are from each other on the bus.
#pragma once

#include <cstdint>

#include "topology/machine.h"

namespace sluice::topology {

enum class Nearness : std::uint8_t {
  same_switch,  // they share a bridge: what they say to each other need not reach the host
  same_root,    // one host bridge, no bridge below it
  same_node,    // host bridges of one NUMA node
  far,          // of different nodes: across the link between the processors
  unknown,      // the bus does not tell
};

// "same switch", "same host bridge", "same NUMA node", "other NUMA node", "unknown".
const char* words_of(Nearness nearness);
// "switch", "root", "node", "far", "?".
const char* short_words_of(Nearness nearness);

struct Distance {
  Nearness nearness = Nearness::unknown;
  // As nvidia-fs counts: the bridges of both below the one that they share, and 1; with access control on there, its
  // own depth on top, for then requests go up; without a shared bridge all bridges of both, and 128 within a node, 255
  // across. 0 where it is not known.
  int steps = 0;
  // The narrowest link on the way, GB/s in one direction; 0 where none is told. What is common is left out.
  double bandwidth = 0;
};

Distance distance_between(const Machine& machine, const Device& a, const Device& b);

// The nearest bridge above both; none where they share none.
const Bridge* shared_bridge(const Machine& machine, const Device& a, const Device& b);

// Whether access control, at the bridge that both share or below it, is known to send what they say to each other up to
// the host.
bool goes_up(const Machine& machine, const Device& a, const Device& b);

// The same as one number, as files of static routes have it: from 1 for what shares a switch, from 0x1000 a host
// bridge, from 0x2000 a node, from 0x4000 across nodes; 0x7000 where it is not known.
inline constexpr int near_limit = 0x1000;
inline constexpr int worst_preference = 0x7000;
int preference_of(const Distance& distance);

}  // namespace sluice::topology
