// SPDX-License-Identifier: Apache-2.0
// Exit statuses that several files of the command give.
#pragma once

namespace sluice::tools {

inline constexpr int status_usage = 2;
// Of what runs a program, as env, nohup and timeout have it: the tool itself has failed. Where the program has run, its
// own status goes before this one, unless it is 0.
inline constexpr int status_own_failure = 125;

}  // namespace sluice::tools
