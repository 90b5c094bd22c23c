// SPDX-License-Identifier: Apache-2.0
// What a tool tells of the configuration before it goes to work.
#pragma once

namespace sluice::tools {

// Keys that are not known, a line each on stderr, a few at most: a misspelt key changes nothing, and its author ought
// to hear of it. The library itself tells of values that cannot be used. Nothing where the library is not Sluice's.
void tell_unknown_keys(const char* tool);

}  // namespace sluice::tools
