// A machine as a tar file: what the sections read, and nothing that is secret.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::doctor {

struct Recorded {
  std::size_t files = 0;
  std::size_t masked = 0;  // values of passwords and the like that were left out
};

// Writes the machine, or the tree below `root` where that is not "", to `path` (ustar). Serial numbers and UUIDs are
// not read at all; what follows "password=", "key=" and the like is replaced. `more_probes` are lines for
// /sluice/probes. Throws std::runtime_error where the file cannot be written.
Recorded record(const std::string& root, const std::string& path, const std::string& more_probes);

// The folder that a recorded tar file was unpacked into; taken away with this.
class Unpacked {
 public:
  explicit Unpacked(const std::string& tar);
  ~Unpacked();
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace sluice::doctor
