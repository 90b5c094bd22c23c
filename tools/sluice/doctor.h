// SPDX-License-Identifier: Apache-2.0
// The trial of `sluice doctor`: bytes of a file into GPU memory through the library, and compared.
#pragma once

#include <string>

#include "doctor/trial.h"

namespace sluice::tools {

// Of a folder: a file that is made in it, and taken away. Never throws: what goes wrong is the trial's error. May start
// this program anew (common/driver.h), so nothing is printed before.
doctor::Trial make_trial(const std::string& path, int gpu);

}  // namespace sluice::tools
