// SPDX-License-Identifier: Apache-2.0
// A recording as Perfetto and Chrome open it (ui.perfetto.dev, chrome://tracing).
#pragma once

#include <string>

#include "trace/recording.h"

namespace sluice::tools {

// Perfetto's TrackEvent protobuf, written by hand: a track a thread, requests joined to the workers that helped by
// flows, a counter of requests under way, and the wall clock.
std::string perfetto_trace(const Recording& recording);

// Chrome's JSON, which Perfetto takes as well; times are in microseconds.
std::string chrome_trace(const Recording& recording);

}  // namespace sluice::tools
