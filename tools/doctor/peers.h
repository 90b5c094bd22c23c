// SPDX-License-Identifier: Apache-2.0
// How the GPUs of this machine reach each other, asked of the driver and of its management library.
#pragma once

#include <string>

namespace sluice::doctor {

// "peers asked" and a line for each two devices, as src/topology/told.h reads them. `cuda` is a loaded libcuda.so.1
// after cuInit. Whether NVLinks are between two GPUs the management library says; where it is not there, atomics of one
// in the other's memory tell, which PCIe does not have between GPUs.
std::string ask_peers(void* cuda, int devices);

}  // namespace sluice::doctor
