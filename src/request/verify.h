// SPDX-License-Identifier: Apache-2.0
// SLUICE_VERIFY=1: the second opinion on a transfer.
#pragma once

#include "request/request.h"

namespace sluice::request {

// Reads the file's bytes once more, plainly, and compares them with what the memory holds. Answers `moved`, or a
// refusal with CU_FILE_IO_ERROR and a line in the log that says where the first difference is. What cannot be read
// back (a descriptor and a file that cannot be opened) is left unverified, which the log says. A file that another
// thread or process writes to at the same time may differ without fault.
base::Outcome verified(const Request& request, const paths::Ends& ends, base::Outcome moved) noexcept;

}  // namespace sluice::request
