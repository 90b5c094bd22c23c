// SPDX-License-Identifier: Apache-2.0
// What no file tells and has to be tried: does CUDA start, which forms of io_uring are there, how much may be locked.
// On the machine itself they are tried; a recorded tree has the answers in /sluice/probes, one a line: "key words...".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "doctor/tree.h"

namespace sluice::doctor {

class Probes {
 public:
  Probes() = default;
  explicit Probes(const std::string& text);

  // What stands behind the key, of the last line that has it; "" where none has.
  std::string get(const std::string& key) const;
  // Of each line that has the key.
  std::vector<std::string> all(const std::string& key) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::multimap<std::string, std::string> lines_;
};

// Whether memory of each GPU is exported as a dma-buf, which takes a context on it: only where there is a network card
// with RDMA, or because it was asked for.
enum class Exports : std::uint8_t { where_useful, always };

// Tries them on this machine, in well under two seconds, or five where exports are always to be tried: what does not
// come back in time is "hangs".
std::string try_probes(Exports exports);

// The tree's own, or what trying them gives where it is the machine: tried once, at the first call. That has to be
// before this process starts CUDA: in a child of one that has, cuInit fails.
Probes probes_of(const Tree& tree, Exports exports = Exports::where_useful);

// Lines of the kernel's log that speak of GPUs, storage and the IOMMU. Needs root, or dmesg_restrict=0.
std::string kernel_log();

}  // namespace sluice::doctor
