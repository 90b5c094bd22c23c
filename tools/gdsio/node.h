// SPDX-License-Identifier: Apache-2.0
// Where threads run.
#pragma once

namespace sluice::tools {

// Throws ToolError when there is no NUMA node of that number.
void want_node(int node);

// Lets the calling thread run on the processors of that node alone, as far as it may run there at all; memory that it
// touches first then comes from there.
void bind_to_this_node(int node);

}  // namespace sluice::tools
