// SPDX-License-Identifier: Apache-2.0
// Section container: what this container was given and what it does not need.
#include <fmt/format.h>

#include "doctor/sections.h"

namespace sluice::doctor {
namespace {

// CDI's file of the NVIDIA devices names the driver's libraries with their version: one that is gone cannot be given.
void judge_cdi(const Machine& machine, Report& report) {
  for (const char* home : {"/etc/cdi", "/var/run/cdi"}) {
    for (const std::string& name : machine.tree.names(home)) {
      const std::string text = machine.tree.text(below(home, name));
      constexpr std::string_view library = "libcuda.so.";
      std::string version;
      for (std::size_t at = text.find(library); at != std::string::npos; at = text.find(library, at + 1)) {
        const std::size_t begin = at + library.size();
        const std::string found = text.substr(begin, text.find_first_not_of("0123456789.", begin) - begin);
        if (Version(found).parts.size() > 1) version = found;
      }
      if (version.empty()) continue;
      report.fact(Section::container, fmt::format("CDI: {} gives driver {}", below(home, name), version));
      if (machine.driver.empty() || version == machine.driver) continue;
      report.add(finding_at("container.stale_cdi"),
                 {{"file", below(home, name)}, {"version", version}, {"driver", machine.driver}});
    }
  }
}

void judge_huge_pages(const Machine& machine, Report& report) {
  for (const std::string& line : split(machine.tree.text("/proc/meminfo"), '\n')) {
    const std::vector<std::string> parts = words(line);
    if (parts.size() < 2 || parts[0] != "HugePages_Total:" || parts[1] == "0") continue;
    report.add(finding_at("container.huge_pages"), {{"count", parts[1]}});
  }
}

}  // namespace

void judge_container(const Machine& machine, Report& report) {
  judge_cdi(machine, report);
  if (!machine.in_container) {
    report.fact(Section::container, "no container");
    return;
  }
  report.fact(Section::container, "inside of a container");
  if (machine.tree.names("/sys").empty()) report.add(finding_at("container.no_sysfs"));
  if (!machine.tree.has("/run/udev")) report.add(finding_at("container.no_udev"));
  for (const std::string& variable : machine.probes.all("env")) {
    if (variable == "NVIDIA_GDS=enabled" && !machine.tree.has("/dev/nvidia-fs0")) {
      report.add(finding_at("container.gds_ignored"));
    }
  }
  judge_huge_pages(machine, report);
  constexpr std::int64_t enough = 64 << 20;
  const std::string memlock = machine.probes.get("memlock");
  const std::optional<std::int64_t> bytes = to_number(memlock);
  report.fact(Section::container, "memory that may be locked: " + memlock);
  if (bytes && *bytes < enough && machine.tree.has("/dev/infiniband")) {
    report.add(finding_at("container.memlock"), {{"size", size_words(static_cast<std::uint64_t>(*bytes))}});
  }
}

}  // namespace sluice::doctor
