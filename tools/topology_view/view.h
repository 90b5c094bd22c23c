// SPDX-License-Identifier: Apache-2.0
// The machine's tree for people and programs: what `sluice topology` prints.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::topology_view {

enum class Form : std::uint8_t { text, routes, json, svg };

struct Wishes {
  std::string root;  // the folder of a recorded tree; "" for this machine
  Form form = Form::text;
  std::string file;  // of the routes: to this file alone; "" for all devices
};

// Of this machine the driver is asked how GPUs reach each other. `routes` is the text with a line for each device and
// GPU: which way dynamic routing takes, and why.
std::string show(const Wishes& wishes);

}  // namespace sluice::topology_view
