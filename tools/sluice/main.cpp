// SPDX-License-Identifier: Apache-2.0
// The `sluice` command: reads the command line, calls the subcommand, says in one sentence what went wrong.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include "common/error.h"
#include "common/error_json.h"
#include "common/written.h"
#include "sluice.h"
#include "sluice/command_table.h"
#include "sluice/lessons.h"
#include "sluice/statuses.h"
#include "sluice/words.h"

namespace sluice::tools {
namespace {

// Reports on stderr for people and, where JSON was asked for, on stdout for programs.
int report(const ToolError& error, Output output) {
  tell("sluice: {}\n", error.what());
  if (!error.remedy().empty()) tell("        {}\n", error.remedy());
  if (output == Output::json) print_error_json(error.what(), error.remedy());
  return error.status();
}

// Of a command line that cannot be read it is not known yet what its options are.
bool asks_for_json(std::span<char*> words) {
  return std::any_of(words.begin(), words.end(), [](const char* word) { return std::strcmp(word, "--json") == 0; });
}

int run_main(std::span<char*> arguments) {
  const Words words = split(arguments);
  CLI::App app(about, "sluice");
  app.footer(examples);
  // One: what follows belongs to it, also where a section of `doctor` is called like a subcommand.
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("sluice ") + sluice_version());
  CommandTable commands(app);
  try {
    if (arguments.size() > 1 && arguments[1][0] != '-') want_subcommand(app, arguments[1]);
  } catch (const ToolError& error) {
    return report(error, Output::text);
  }
  try {
    app.parse(static_cast<int>(words.own.size()), words.own.data());
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) == 0) return 0;
    if (asks_for_json(words.own)) print_error_json(fmt::format("{}.", error.what()), "sluice --help tells more.");
    return status_usage;
  }
  try {
    if (const int status = commands.call(words); status >= 0) return status;
  } catch (const ToolError& error) {
    return report(error, commands.output());
  }
  fmt::print("{}", app.help());
  return 0;
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  using namespace sluice::tools;
  hold_standard_descriptors();
  try {
    return finish("sluice", run_main({argv, static_cast<std::size_t>(argc)}));
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return finish("sluice", 1);
    tell("sluice: {}\n", error.what());
    return 1;
  }
}
