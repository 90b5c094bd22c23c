// SPDX-License-Identifier: Apache-2.0
// Section uring: which forms of io_uring this process gets, and who refuses the others.
#include <fmt/format.h>

#include "doctor/sections.h"

namespace sluice::doctor {
namespace {

bool under_seccomp(const Machine& machine) {
  return contains(machine.tree.text("/proc/self/status"), "Seccomp:\t2");
}

void judge_refusal(const Machine& machine, const std::string& answer, Report& report) {
  const std::string disabled = machine.tree.value("/proc/sys/kernel/io_uring_disabled");
  const Values values = {{"kernel", machine.kernel}, {"value", disabled}, {"error", answer}};
  if (answer == "ENOSYS") {
    report.add(finding_at("uring.missing"), values);
  } else if (answer == "EPERM" && (disabled == "1" || disabled == "2")) {
    report.add(finding_at("uring.switched_off"), values);
  } else if (answer == "EPERM" && under_seccomp(machine)) {
    report.add(finding_at("uring.seccomp"), values);
  } else if (answer == "ENOMEM" && machine.kernel_version().before(5, 12)) {
    const std::int64_t bytes = to_number(machine.probes.get("memlock")).value_or(0);
    report.add(finding_at("uring.memlock"), {{"size", size_words(static_cast<std::uint64_t>(bytes))}});
  } else {
    report.add(finding_at("uring.refused"), values);
  }
}

}  // namespace

void judge_uring(const Machine& machine, Report& report) {
  std::vector<std::string> modes;
  std::string plain;
  for (const std::string& line : machine.probes.all("uring")) {
    report.fact(Section::uring, "io_uring " + line);
    const std::vector<std::string> parts = words(line);
    if (parts.size() != 2) continue;
    if (parts[0] == "plain") plain = parts[1];
    if (parts[1] == "ok") modes.push_back(parts[0]);
  }
  if (plain.empty()) return;
  if (plain != "ok") return judge_refusal(machine, plain, report);
  report.can(Ability::uring);
  report.add(finding_at("uring.works"), {{"modes", joined(modes, ", ")}});
}

}  // namespace sluice::doctor
