// SPDX-License-Identifier: Apache-2.0
// What `sluice profile` has measured on this machine may choose what is not configured: where sluice.profile names it.
#pragma once

#include "config/config.h"

namespace sluice::config {

// Last: only keys of that file's "best" that measurement can choose, and that no source has given. What cannot be used
// is noted, and left.
void apply_profile(Config& config);

}  // namespace sluice::config
