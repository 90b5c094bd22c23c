// SPDX-License-Identifier: Apache-2.0
// The one table of findings: report, JSON, fix script and docs/reference/doctor.md are made of it.
#pragma once

#include <array>
#include <string_view>

#include "doctor/finding.h"
#include "doctor/findings_driver.h"
#include "doctor/findings_host.h"
#include "doctor/findings_rdma.h"
#include "doctor/findings_storage.h"

namespace sluice::doctor {

inline constexpr std::size_t finding_count =
    driver_findings.size() + host_findings.size() + storage_findings.size() + rdma_findings.size();

inline constexpr std::array<Finding, finding_count> findings = [] {
  std::array<Finding, finding_count> all{};
  std::size_t next = 0;
  for (const Finding& finding : driver_findings) all[next++] = finding;
  for (const Finding& finding : storage_findings) all[next++] = finding;
  for (const Finding& finding : rdma_findings) all[next++] = finding;
  for (const Finding& finding : host_findings) all[next++] = finding;
  return all;
}();

// The index of a finding that the code names: a misspelt id does not compile.
consteval std::size_t finding_at(std::string_view id) {
  for (std::size_t i = 0; i < finding_count; ++i) {
    if (findings[i].id == id) return i;
  }
  throw "no such finding";  // reached at compile time only, where it is the error
}

}  // namespace sluice::doctor
