// SPDX-License-Identifier: Apache-2.0
// The memory in which a process shows its statistics, opened for reading.
#pragma once

#include <memory>
#include <vector>

#include "gds_stats/process.h"
#include "sluice_stats.h"

namespace sluice::tools {

class ShownRegion {
 public:
  // What `mapping` of the process is, by a descriptor of its own or, where it has closed that one, by its memory. Null
  // when it is not the process's own. Throws ToolError when it cannot be read or has another layout.
  static std::unique_ptr<ShownRegion> open(const WatchedProcess& process, const ShownMapping& mapping);

  // The same of any process, whatever it does to harm its reader: only kernel memory that keeps its size and its pages
  // is opened, and nothing is thrown. Null for all else.
  static std::unique_ptr<ShownRegion> open_carefully(const WatchedProcess& process, const ShownMapping& mapping);

  ShownRegion(const ShownRegion&) = delete;
  ShownRegion& operator=(const ShownRegion&) = delete;
  virtual ~ShownRegion() = default;

  // The counters as they are now. When the process has ended: as they were at the end or, where only its memory was to
  // be had, as they were last read.
  virtual const sluice_stats_region& read() = 0;
  bool is(const ShownMapping& mapping) const noexcept { return inode_ == mapping.inode; }

 protected:
  explicit ShownRegion(ino_t inode) : inode_(inode) {}

 private:
  ino_t inode_;
};

// All that a process shows: usually one, two when a second copy of the library is in it. Throws ToolError, with why,
// when there is none.
std::vector<std::unique_ptr<ShownRegion>> open_regions(const WatchedProcess& process);

}  // namespace sluice::tools
