// SPDX-License-Identifier: Apache-2.0
// What `sluice profile` has measured on this machine may choose what is not configured: where sluice.profile names it.
#pragma once

#include "config/config.h"

namespace sluice::config {

// Last: only keys that measurement can choose, and that no source has given: those of that file's "best" for all files,
// and for each mounted file system its own, as Config::measured. What cannot be used is noted, and left, and so is a
// profile of another machine, or one of the soft GPU where a real one works.
void apply_profile(const Sources& sources, Config& config);

}  // namespace sluice::config
