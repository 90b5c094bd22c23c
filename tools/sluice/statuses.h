// SPDX-License-Identifier: Apache-2.0
// Exit statuses that several files of the command give.
#pragma once

namespace sluice::tools {

inline constexpr int status_usage = 2;

}  // namespace sluice::tools
