// SPDX-License-Identifier: Apache-2.0
// Section trial.
#include "doctor/trial.h"

#include <fmt/format.h>

#include "doctor/sections.h"

namespace sluice::doctor {

void judge_trial(const Trial& trial, Report& report) {
  const Values values = {{"file", trial.file},
                         {"device", trial.device},
                         {"path", trial.path},
                         {"reason", trial.reason},
                         {"remedy", trial.remedy},
                         {"error", trial.error},
                         {"place", std::to_string(trial.wrong)},
                         {"bytes", fmt::format("{} bytes", trial.bytes)}};
  report.fact(Section::trial, fmt::format("{}: {} bytes into {} by {}: {}", trial.file, trial.bytes, trial.device,
                                          trial.path, trial.error.empty() ? trial.reason : trial.error));
  if (!trial.error.empty()) {
    report.add(finding_at("trial.failed"), values);
  } else if (trial.wrong >= 0) {
    report.add(finding_at("trial.wrong_bytes"), values);
  } else if (trial.path == "posix") {
    report.add(finding_at("trial.host"), values);
  } else {
    report.add(finding_at("trial.direct"), values);
  }
}

std::string trial_lines(const Trial& trial) {
  return fmt::format(
      "trial_file {}\ntrial_device {}\ntrial_path {}\ntrial_reason {}\ntrial_remedy {}\ntrial_error {}\n"
      "trial_bytes {}\ntrial_wrong {}\n",
      trial.file, trial.device, trial.path, trial.reason, trial.remedy, trial.error, trial.bytes, trial.wrong);
}

void judge_recorded_trial(const Machine& machine, Report& report) {
  const Probes& probes = machine.probes;
  Trial trial;
  trial.file = probes.get("trial_file");
  if (trial.file.empty()) return;
  trial.device = probes.get("trial_device");
  trial.path = probes.get("trial_path");
  trial.reason = probes.get("trial_reason");
  trial.remedy = probes.get("trial_remedy");
  trial.error = probes.get("trial_error");
  trial.bytes = static_cast<std::uint64_t>(to_number(probes.get("trial_bytes")).value_or(0));
  trial.wrong = to_number(probes.get("trial_wrong")).value_or(-1);
  judge_trial(trial, report);
}

}  // namespace sluice::doctor
