// SPDX-License-Identifier: Apache-2.0
// A .gdsio file.
#include "common/error.h"
#include "gdsio/command_line.h"
#include "input.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  file.holds(fuzz::text_of(data, size));
  try {
    const tools::Settings settings = tools::read_configuration(file.path());
    tools::check_settings(settings);
    for (const tools::JobSettings& job : settings.jobs) {
      fuzz::require(tools::depth_of(settings, job) > 0 && tools::threads_of(settings, job) > 0, "a job of nothing\n");
    }
  } catch (const tools::ToolError&) {  // refused, with why
  }
  return 0;
}
