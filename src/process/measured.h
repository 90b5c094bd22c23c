// SPDX-License-Identifier: Apache-2.0
// What a profile has measured of the file system that a file is on.
#pragma once

#include <string>

#include "config/config.h"
#include "facts/file.h"
#include "paths/options.h"

namespace sluice::process {

// Null: its mount was not measured, or is another file system by now.
const config::MeasuredMount* measured_for(const config::Measured& measured, const facts::FileFacts& file) noexcept;

// The options of a session, with what was measured there.
paths::Options options_as_measured(const paths::Options& options, const config::MeasuredMount& mount);

// For an explanation: "by the profile of DATE: ...", or why nothing of it is taken; "" where it says nothing of the
// mount, or there is none.
std::string words_of_profile(const config::Measured& measured, const facts::FileFacts& file);

}  // namespace sluice::process
