// SPDX-License-Identifier: Apache-2.0
// `sluice top`: the processes that show statistics, live.
#pragma once

#include <cstdint>

#include "sluice/commands.h"

namespace sluice::tools {

struct TopOptions {
  double interval = 1;  // seconds
  bool once = false;
  unsigned long long count = 0;  // of tables where there is no terminal; 0: no end
  Output output = Output::text;
};

int top_command(const TopOptions& options);

extern const char* const top_about;
extern const char* const top_lesson;

}  // namespace sluice::tools
