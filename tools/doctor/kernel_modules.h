// SPDX-License-Identifier: Apache-2.0
// What a module on the disk says of itself (modinfo), and what DKMS knows of it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/machine.h"

namespace sluice::doctor {

// "license", "version", "vermagic", "depends", "srcversion". A recorded tree has them in /sluice/modinfo/NAME.
using ModInfo = std::map<std::string, std::string>;

// The file of a module for the running kernel, as modules.dep names it: "updates/dkms/nvidia-fs.ko.zst"; "" for none.
std::string module_file(const Machine& machine, const std::string& name);

// Empty where there is no such module, or it cannot be unpacked. Runs xz or zstd for packed ones.
ModInfo modinfo_of(const Machine& machine, const std::string& name);

struct DkmsState {
  std::vector<std::string> versions;  // that have sources
  std::string version;                // the newest of them
  std::vector<std::string> kernels;   // that it is built for
};
DkmsState dkms_of(const Machine& machine, const std::string& name);

// The word behind `before` in the last line of the kernel's log about this module that has it: the symbol that the
// kernel names. "" where there is none, or no log.
std::string symbol_in_log(const Machine& machine, std::string name, std::string_view before);

}  // namespace sluice::doctor
