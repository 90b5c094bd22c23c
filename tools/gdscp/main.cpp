// SPDX-License-Identifier: Apache-2.0
// gdscp: a file to a file, through GPU memory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "common/driver.h"
#include "common/error.h"
#include "common/error_json.h"
#include "common/notes.h"
#include "common/written.h"
#include "gdscp/copy.h"

namespace sluice::tools {
namespace {

constexpr int usage_status = 2;

int run_gdscp(int argc, char** argv) {
  CopyOptions options;
  CLI::App app("gdscp: copy a file through GPU memory", "gdscp");
  app.set_version_flag("--version", "gdscp (Sluice " SLUICE_VERSION ")");
  declare_copy_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    constexpr const char* remedy = "Use: gdscp SOURCE DESTINATION; gdscp --help tells more.";
    tell("gdscp: {}.\n       {}\n", error.what(), remedy);
    const bool json =
        std::any_of(argv, argv + argc, [](const char* word) { return word == std::string_view("--json"); });
    if (json) print_error_json(fmt::format("{}.", error.what()), remedy);
    return usage_status;
  }
  try {
    choose_driver();  // first: it may start this program anew
    tell_unknown_keys("gdscp");
    copy_file(options, "gdscp");
    return 0;
  } catch (const ToolError& error) {
    std::fflush(stdout);
    tell("gdscp: {}\n       {}\n", error.what(), error.remedy());
    return error.status();
  }
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  sluice::tools::hold_standard_descriptors();
  try {
    return sluice::tools::finish("gdscp", sluice::tools::run_gdscp(argc, argv));
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return sluice::tools::finish("gdscp", 1);
    std::fprintf(stderr, "gdscp: %s\n", error.what());
    return 1;
  }
}
