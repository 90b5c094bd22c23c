// Section container: what this container was given and what it does not need.
#include <fmt/format.h>

#include "doctor/sections.h"

namespace sluice::doctor {

void judge_container(const Machine& machine, Report& report) {
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
  constexpr std::int64_t enough = 64 << 20;
  const std::string memlock = machine.probes.get("memlock");
  const std::optional<std::int64_t> bytes = to_number(memlock);
  report.fact(Section::container, "memory that may be locked: " + memlock);
  if (bytes && *bytes < enough && machine.tree.has("/dev/infiniband")) {
    report.add(finding_at("container.memlock"), {{"size", size_words(static_cast<std::uint64_t>(*bytes))}});
  }
}

}  // namespace sluice::doctor
