// SPDX-License-Identifier: Apache-2.0
// The parts of section storage.
#pragma once

#include <string>
#include <string_view>

#include "doctor/machine.h"
#include "doctor/report.h"

namespace sluice::doctor {

bool has_option(const std::string& options, std::string_view wanted);
// The value of "name=value" among mount options; "" where it is not there.
std::string option_of(const std::string& options, const std::string& name);

// "/data: ext4 on nvme0n1 (nvme, pcie), blocks of 512 bytes, addresses in steps of 4".
std::string describe_mount(const MountedFs& mounted, const Machine& machine);

// NVMe drives: link, scheduler, queues.
void judge_drives(const Machine& machine, Report& report);

}  // namespace sluice::doctor
