// SPDX-License-Identifier: Apache-2.0
// What `sluice doctor` and other subcommands share: recorded trees; the trial, in which bytes of a file go into GPU
// memory through the library and are compared.
#pragma once

#include <memory>
#include <string>

#include "doctor/record.h"
#include "doctor/trial.h"

namespace sluice::tools {

// The folder of the tree that is to be judged: "" for this machine; of a tar file what it holds. Throws ToolError where
// it cannot be read.
std::string recorded_tree(const std::string& given, std::unique_ptr<doctor::Unpacked>& unpacked);

// Of a folder: a file that is made in it, and taken away. Never throws: what goes wrong is the trial's error. May start
// this program anew (common/driver.h), so nothing is printed before.
doctor::Trial make_trial(const std::string& path, int gpu);

}  // namespace sluice::tools
