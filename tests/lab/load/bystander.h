// SPDX-License-Identifier: Apache-2.0
// What the rest of a program does with the library while a load waits for its drive.
#pragma once

#include <atomic>
#include <string>

namespace sluice::lab {

// Registers and deregisters files and buffers, transfers on a file in memory, asks for statistics and explanations, and
// forks: round after round until `stopping`. After each round the number of rounds is written to the file `progress`.
// Throws when a call fails or bytes are wrong. A lock that the library held over a waiting transfer would stop it.
void stand_by(const std::string& progress, const std::atomic<bool>& stopping);

// What the library's statistics say of the transfers of this process: "as many, none failed" when `transfers`, those of
// the load, have succeeded and none has failed; else the numbers.
std::string statistics_against(unsigned long transfers, unsigned long rounds);

// Rounds so far.
unsigned long rounds_stood_by();

}  // namespace sluice::lab
