// SPDX-License-Identifier: Apache-2.0
// gdsio: measures reads and writes between files and GPU memory, and tells of them in the line that scripts know.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include "common/cufile_words.h"
#include "common/driver.h"
#include "common/error.h"
#include "common/error_json.h"
#include "common/layout.h"
#include "common/notes.h"
#include "common/written.h"
#include "gdsio/command_line.h"
#include "gdsio/report.h"
#include "gdsio/run.h"

namespace sluice::tools {
namespace {

bool takes_part(const Settings& settings) {
  return settings.transfer != Transfer::cpu_only &&
         (needs_gpu(settings.memory) || settings.transfer == Transfer::gpu_async ||
          settings.transfer == Transfer::gpu_batch_stream);
}

Grounds find_grounds(const Settings& settings) {
  Grounds grounds;
  grounds.library = layout().library;
  if (!takes_part(settings)) return grounds;
  const Driver& driver = choose_driver();
  for (const JobSettings& job : settings.jobs) {
    if (driver.kind == DriverKind::none) want_device(job.gpu);  // says what is missing
    if (job.gpu < driver.devices) continue;
    throw ToolError(fmt::format("There is no GPU {}: the driver has {}, counted from 0.", job.gpu, driver.devices),
                    driver.devices == 1 ? "Use: -d 0" : fmt::format("Use: -d 0 to {}", driver.devices - 1), 2);
  }
  grounds.device = describe_device(settings.jobs.front().gpu);
  grounds.soft = note_soft_gpu("gdsio");
  tell_unknown_keys("gdsio");
  return grounds;
}

// What a write with -V does afterwards.
Settings reading_back(const Settings& settings) {
  Settings back = settings;
  back.operation = settings.operation == Operation::write ? Operation::read : Operation::random_read;
  return back;
}

void measure(Settings settings) {
  const Grounds grounds = find_grounds(settings);  // first: it may start this program anew
  if (settings.verify && settings.seconds) {
    tell("gdsio: note: with -T nothing is verified, and -V has no effect.\n");
    settings.verify = false;
  }
  std::optional<OpenDriver> driver;
  if (uses_cufile(settings.transfer)) driver.emplace();
  std::vector<std::pair<Settings, PassResult>> passes;
  passes.emplace_back(settings, run_pass(settings));
  if (!settings.json) print_pass(settings, passes.back().second);
  if (settings.verify && is_write(settings.operation)) {
    const Settings back = reading_back(settings);
    if (!settings.json) fmt::print("Verifying data \n");
    std::fflush(stdout);
    passes.emplace_back(back, run_pass(back));
    if (!settings.json) print_pass(back, passes.back().second);
  }
  if (settings.json) print_json(passes, grounds);
}

int run_gdsio(std::span<char*> words) {
  try {
    const std::optional<Settings> settings = read_command_line(words);
    if (settings) measure(*settings);
    return 0;
  } catch (const ToolError& error) {
    std::fflush(stdout);
    tell("gdsio: {}\n", error.what());
    if (!error.remedy().empty()) tell("       {}\n", error.remedy());
    // As it is written: what cannot be understood may stand beside it.
    const bool json =
        std::any_of(words.begin(), words.end(), [](const char* word) { return word == std::string_view("--json"); });
    if (json) print_error_json(error.what(), error.remedy());
    return error.status();
  }
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  sluice::tools::hold_standard_descriptors();
  try {
    return sluice::tools::finish("gdsio", sluice::tools::run_gdsio({argv, static_cast<std::size_t>(argc)}));
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return sluice::tools::finish("gdsio", 1);
    std::fprintf(stderr, "gdsio: %s\n", error.what());
    return 1;
  }
}
