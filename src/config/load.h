// SPDX-License-Identifier: Apache-2.0
// The configuration file's part in a Config.
#pragma once

#include "config/config.h"

namespace sluice::config {

// Reads the file that CUFILE_ENV_PATH_JSON names, else sources.default_file, and sets what it says. No default file is
// no matter; anything else that is wrong becomes a note that names file, line and key. A file that is no JSON, or
// cannot be read, sets nothing at all.
void apply_file(const Sources& sources, Config& config);

// The same for a text that stands in for the file `path`.
void apply_text(const std::string& path, std::string_view text, Config& config);

}  // namespace sluice::config
