// SPDX-License-Identifier: Apache-2.0
// What a process is doing that should have ended long ago.
#pragma once

#include <sys/types.h>

#include <string>

namespace sluice::life {

// Its threads, a paragraph each: name, state, where the kernel holds it, and the addresses of code that its stack still
// remembers, as FILE+OFFSET for addr2line. As much of it as this process may look at.
std::string what_it_does(pid_t process);

}  // namespace sluice::life
