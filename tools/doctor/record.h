// SPDX-License-Identifier: Apache-2.0
// A machine as a tar file: what the sections read, and nothing that is secret.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::doctor {

struct Recorded {
  std::string tar;  // (ustar)
  std::size_t files = 0;
  std::size_t masked = 0;    // values of passwords and the like that were left out
  std::size_t replaced = 0;  // names and addresses for which a stand-in was written
};

// The machine, or the tree below `root` where that is not "". What follows "password=", "secret=" and the like is left
// out; names of hosts, addresses, UUIDs and serial numbers are replaced (anonymous.h). `more_probes` are lines for
// /sluice/probes.
Recorded record(const std::string& root, const std::string& more_probes);

// Throws ToolError where the tree below `root` cannot be a machine's, having neither /proc nor /sys nor the answers
// that record() writes: any folder would be one without a GPU. `name` is what the user calls it.
void want_machine(const std::string& root, const std::string& name);

// The folder that a recorded tar file was unpacked into; taken away with this.
class Unpacked {
 public:
  explicit Unpacked(const std::string& tar);  // throws ToolError where it is none
  ~Unpacked();
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace sluice::doctor
