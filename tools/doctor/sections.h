// SPDX-License-Identifier: Apache-2.0
// The sections of the examination. Each is a function of what was read: it reports facts and findings, changes nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "doctor/machine.h"
#include "doctor/report.h"

namespace sluice::doctor {

void judge_gpu(const Machine& machine, Report& report);
void judge_nvidia_fs(const Machine& machine, Report& report);
void judge_p2pdma(const Machine& machine, Report& report);
void judge_storage(const Machine& machine, Report& report);
void judge_fabrics(const Machine& machine, Report& report);
void judge_rdma(const Machine& machine, Report& report);
void judge_vm(const Machine& machine, Report& report);
void judge_container(const Machine& machine, Report& report);
void judge_uring(const Machine& machine, Report& report);
// After p2pdma: what the file wants is held against what the machine can do.
void judge_config(const Machine& machine, Report& report);
void judge_topology(const Machine& machine, Report& report);
// The trial that was recorded with a tree.
void judge_recorded_trial(const Machine& machine, Report& report);

// What cuInit came to.
enum class Cuda { works, missing, hangs, fails, unknown };
Cuda cuda_of(const Machine& machine);
// Of a probe's line about a CUDA device: the CPU shares its memory by hardware.
bool says_coherent(const std::string& device_line);

// "NVIDIA H200 at 0000:17:00.0".
std::string name_of(const Card& card);
// "8.0 GiB".
std::string size_words(std::uint64_t bytes);

// "32.0 GT/s PCIe"; "?" for a speed that is not told.
std::string speed_words(double gigatransfers);

// The nearest bridge above both; "" where they share none.
std::string common_bridge(const Card& a, const Card& b);

// "same switch", "same host bridge", "same NUMA node", "other NUMA node", "unknown".
const char* distance_words(const Machine& machine, const Card& a, const Card& b);
// The bridges whose access control sends requests upwards. Needs root; none where configuration space cannot be read.
std::vector<std::string> bridges_with_acs(const Machine& machine);

// Why the file that the library's log is to go to cannot be written; "" where it can, or none is wanted. Of a recorded
// tree what was found when it was recorded.
std::string log_refusal(const Machine& machine);
// In the same way: why nothing of the profile counts that sluice.profile names, and what profile.trace says that is
// neither "on" nor a socket.
std::string profile_refusal(const Machine& machine);
std::string trace_word(const Machine& machine);
// What that file and the environment come to, of a tree that was recorded or of this machine.
config::Config configuration_of(const Tree& tree);
// Whether that file, or the environment, sets a key to this value ("true"). Stock values count as not given.
bool configures(const Machine& machine, const std::string& key, const std::string& value);

}  // namespace sluice::doctor
