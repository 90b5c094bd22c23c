// SPDX-License-Identifier: Apache-2.0
// `sluice version`: what is installed here and what it found.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/driver.h"
#include "common/layout.h"
#include "common/registered_file.h"
#include "sluice/build_facts.h"
#include "sluice/commands.h"

namespace sluice::tools {
namespace {

// 13000 is 13.0, as the CUDA driver counts.
std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_words(const Driver& driver) {
  switch (driver.kind) {
    case DriverKind::none:
      return fmt::format("none: {}", driver.why_not_real);
    case DriverKind::soft:
      return fmt::format("soft GPU, CUDA {}, {} ({})", cuda_version(driver.version), driver.path, driver.why_not_real);
    case DriverKind::real:
      break;
  }
  return fmt::format("CUDA {}, {} device{}, {}", cuda_version(driver.version), driver.devices,
                     driver.devices == 1 ? "" : "s", driver.path);
}

}  // namespace

int version_command(Output output) {
  const Driver& driver = choose_driver();
  int api = 0;
  check(cuFileGetVersion(&api), "the library does not tell its version");
  const Layout files = layout();
  const BuildFacts build = build_facts();
  if (output == Output::text) {
    fmt::print("Sluice     {}\n", sluice_version());
    fmt::print("cuFile API {}.{} ({})\n", api / 1000, api % 1000 / 10, api);
    fmt::print("library    {}\n", files.library);
    fmt::print("driver     {}\n", driver_words(driver));
    fmt::print("built      from {} by {}, {} for {}\n", build.description, build.compiler, build.type, build.machine);
    return 0;
  }
  nlohmann::ordered_json json;
  json["sluice"] = sluice_version();
  json["cufile_api"] = api;
  json["library"] = files.library;
  json["driver"] = driver_kind_name(driver.kind);
  json["driver_path"] = driver.path;
  json["driver_version"] = driver.version;
  json["devices"] = driver.devices;
  json["why_not_real"] = driver.why_not_real;
  json["build"] = {
      {"description", build.description},
      {"compiler", build.compiler},
      {"machine", build.machine},
      {"type", build.type},
      {"flags", build.flags},
      {"options",
       {{"sanitizers", build.sanitizers}, {"by_folders", build.by_folders}, {"reproducible", build.reproducible}}}};
  fmt::print("{}\n", json.dump(2));
  return 0;
}

}  // namespace sluice::tools
