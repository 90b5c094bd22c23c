// SPDX-License-Identifier: Apache-2.0
#include "core/trial.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/mounts.h"
#include "core/process.h"
#include "core/record.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

using nlohmann::json;

Direct direct_of(const std::string& finding) {
  if (finding == "trial.direct") return Direct::verified;
  if (finding == "trial.host") return Direct::through_host;
  return finding == "trial.wrong_bytes" ? Direct::wrong_bytes : Direct::failed;
}

int rank(Direct direct) {
  switch (direct) {
    case Direct::wrong_bytes:
      return 4;
    case Direct::verified:
      return 3;
    case Direct::through_host:
      return 2;
    case Direct::failed:
      return 1;
    case Direct::no_gpu:
      break;
  }
  return 0;
}

}  // namespace

const char* name_of(Direct direct) {
  switch (direct) {
    case Direct::verified:
      return "verified";
    case Direct::through_host:
      return "host";
    case Direct::wrong_bytes:
      return "wrong-bytes";
    case Direct::failed:
      return "failed";
    case Direct::no_gpu:
      break;
  }
  return "no-gpu";
}

Verdict verdict_of(const std::string& doctor_json) {
  Verdict failed = {Direct::failed, "the trial printed nothing that can be read", "Run it by hand: sluice doctor FILE"};
  const std::size_t begin = doctor_json.find('{');
  const json report = json::parse(begin == std::string::npos ? "" : doctor_json.substr(begin), nullptr, false);
  if (!report.is_object() || !report.contains("findings") || !report["findings"].is_array()) return failed;
  for (const json& finding : report["findings"]) {
    if (finding.value("section", "") != "trial") continue;
    Verdict verdict = {direct_of(finding.value("id", "")),
                       finding.value("sign", "") + " · " + finding.value("cause", ""), finding.value("remedy", "")};
    if (verdict.text.find("the soft GPU") != std::string::npos) verdict.direct = Direct::no_gpu;
    return verdict;
  }
  failed.text = "the trial was not made";
  return failed;
}

void write_feature(const std::string& folder, const std::string& domain, Direct direct) {
  const std::string path = folder + "/" + domain;
  const std::string text = fmt::format("{}/direct-path={}\n", domain, name_of(direct));
  if (facts::read_text(path) == text) return;
  make_folder(folder, 0755);
  write_durably(path, text, Readers::all);
}

std::vector<std::string> Trials::gpus() const {
  return facts::list_names(options_.root.at("/proc/driver/nvidia/gpus"));
}

std::string Trials::machine() const {
  return facts::read_value(options_.root.at("/proc/sys/kernel/osrelease")).value_or("") + "|" +
         facts::read_value(options_.root.at("/proc/driver/nvidia/version")).value_or("");
}

Verdict Trials::of(const std::string& drive, const std::string& file) {
  const std::vector<std::string> present = gpus();
  if (present.empty()) return {Direct::no_gpu, "this node has no GPU", "Schedule the pod on a node with one."};
  std::string key = drive + "|" + machine();
  for (const std::string& gpu : present) key += "|" + gpu;
  const std::lock_guard lock(mutex_);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  Verdict best;
  for (std::size_t gpu = 0; gpu < present.size(); ++gpu) {
    constexpr std::chrono::seconds limit(20);
    const ProgramResult run =
        run_program({options_.tool, "doctor", "--json", "--gpu", std::to_string(gpu), file}, limit);
    Verdict verdict = verdict_of(run.output);
    if (run.timed_out)
      verdict = {Direct::failed, "the trial did not end", "See dmesg: a GPU or a drive does not answer."};
    verdict.text = fmt::format("GPU {} ({}): {}", gpu, present[gpu], verdict.text);
    if (rank(verdict.direct) > rank(best.direct)) best = verdict;
  }
  // What failed may work the next time.
  if (best.direct != Direct::failed) known_[key] = best;
  return best;
}

void Trials::want(DirectPath wish, const Verdict& verdict) {
  if (wish != DirectPath::require || verdict.direct == Direct::verified) return;
  refuse(Code::failed_precondition,
         fmt::format("The class wants a direct path (directPath: require), and there is none: {}. {}", verdict.text,
                     verdict.remedy));
}

}  // namespace sluice::csi
