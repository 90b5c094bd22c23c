// SPDX-License-Identifier: Apache-2.0
// Reading PTX as far as the soft GPU needs it: which entry points there are, and what parameters they take.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::softgpu {

struct PtxEntry {
  std::string name;
  std::vector<std::size_t> parameter_sizes;
};

struct PtxModule {
  int target = 0;  // 60 for sm_60
  std::vector<PtxEntry> entries;
};

// Throws Refusal with what a driver answers to an image that it cannot use.
PtxModule read_ptx(std::string_view text);

}  // namespace sluice::softgpu
