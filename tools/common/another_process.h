// SPDX-License-Identifier: Apache-2.0
// Looking at a process that this one may not look at.
#pragma once

#include <unistd.h>

namespace sluice::tools {

// Root is refused, too: without CAP_SYS_PTRACE, as in most containers, or by a security module.
inline const char* who_may_look() {
  return geteuid() == 0 ? "Ask outside of this container, or give it CAP_SYS_PTRACE: root alone is not enough here."
                        : "Ask as the user that it runs as, or as root.";
}

}  // namespace sluice::tools
