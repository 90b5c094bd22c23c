// SPDX-License-Identifier: Apache-2.0
// Switches the recorder of a process that runs already: the note of the static probe sluice_switch:recorder, in the
// library or program that has it, says where the switch lies; the kernel lets its user's debuggers and root write
// there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace sluice::tools {

class RemoteSwitch {
 public:
  // Finds it. Throws ToolError where there is none, or it must not be reached, and says which.
  explicit RemoteSwitch(pid_t process);

  bool is_on() const;
  // As it was when it is left: on stays on.
  void set(bool on);

 private:
  pid_t process_;
  std::uint64_t address_ = 0;
};

// The address of the counter in the file's note of that probe, as the file has it; 0 where there is none. Files may
// hold anything.
std::uint64_t counter_in_file(const std::string& path, const std::string& provider, const std::string& probe);

}  // namespace sluice::tools
