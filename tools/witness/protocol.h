// SPDX-License-Identifier: Apache-2.0
// What the witness in a program tells `sluice run`: datagrams of text lines, sent to an abstract Unix socket whose name
// stands in the environment. Lines of one datagram belong to one process; the kernel adds who sent them.
//
//   map PATH                                      a libcufile is mapped from PATH
//   use PATH REASON READS BYTES WRITES BYTES      what it has carried (names and numbers of sluice_path_counter_t)
//   end                                           the process leaves in good order: these were its last numbers
#pragma once

#include <cstddef>

namespace sluice::tools {

// Holds the socket's abstract name, without the leading zero byte.
inline constexpr const char* witness_variable = "SLUICE_WITNESS";
inline constexpr std::size_t witness_message_limit = 8192;

}  // namespace sluice::tools
