// SPDX-License-Identifier: Apache-2.0
// What is left of a writer's files after the power was cut, held against the last number that it acknowledged.
#pragma once

#include <cstdint>
#include <string>

#include "lab/power/operations.h"

namespace sluice::lab {

// Empty when all that operations 1 to `acknowledged` wrote is there; of the next one, which may have been under way,
// each byte may be there or not, and each copy as a whole. Else what is wrong.
std::string what_is_lost(Writer writer, const std::string& folder, std::uint64_t acknowledged);

}  // namespace sluice::lab
