// gdscheck: is the platform fit, what is configured, can this file be registered.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "common/driver.h"
#include "common/error.h"
#include "common/text.h"
#include "gdscheck/sections.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

constexpr int status_usage = 2;

constexpr const char* about = "gdscheck: the platform and the configuration as this libcufile.so.0 sees them";
constexpr const char* examples =
    "Examples:\n"
    "  gdscheck -p                 the platform, and every key of the configuration: value, origin, effect\n"
    "  gdscheck -f /data/big.bin   can cuFile use this file, and which way its bytes go\n"
    "  CUFILE_ENV_PATH_JSON=my.json gdscheck -p   what the library makes of this file\n"
    "\n"
    "Exit status: 0; 1 when the platform or the file is not fit; 2 when the command line is not understood.";

struct Options {
  bool platform = false;
  bool version = false;
  bool details = false;
  std::string file;
};

int act(const Options& options) {
  choose_driver();  // first: it may start this program anew
  int status = 0;
  if (options.platform) {
    const bool opened = cuFileDriverOpen().err == CU_FILE_SUCCESS;
    const std::string failure = opened ? "" : printable(sluice_last_error());
    print_versions();
    print_environment();
    print_driver();
    print_cufile_configuration();
    print_whole_configuration();
    print_gpus();
    print_platform(failure);
    status = opened ? 0 : 1;
  } else if (options.version) {
    print_versions();
  }
  if (options.details) print_details();
  if (!options.file.empty()) check_file(options.file);
  if (cuFileUseCount() > 0) cuFileDriverClose();
  return status;
}

int run_main(int count, char** words) {
  CLI::App app(about, "gdscheck");
  app.footer(examples);
  Options options;
  app.add_flag("-p", options.platform, "Platform and configuration");
  app.add_flag("-v", options.version, "Versions");
  app.add_flag("-V", options.details, "File systems and their devices");
  app.add_option("-f", options.file, "Register this file and tell which way its bytes go")->type_name("FILE");
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : status_usage;
  }
  if (!options.platform && !options.version && !options.details && options.file.empty()) {
    fmt::print("{}", app.help());
    return status_usage;
  }
  try {
    return act(options);
  } catch (const ToolError& error) {
    std::fflush(stdout);
    fmt::print(stderr, "gdscheck: {}\n          {}\n", error.what(), error.remedy());
    return error.status();
  }
}

}  // namespace
}  // namespace sluice::tools

int main(int count, char** words) {
  try {
    return sluice::tools::run_main(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gdscheck: %s\n", error.what());
    return 1;
  }
}
