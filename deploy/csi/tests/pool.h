// SPDX-License-Identifier: Apache-2.0
// An xfs of its own for a test, on a loop device, in a mount namespace of the test's process: nothing is left behind,
// however the test ends.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::csi {

// "" when this machine can have one; else why not.
std::string why_no_pool();

// Goes into a mount namespace of its own, once a process. Before threads are started.
void enter_own_mounts();

class LoopPool {
 public:
  explicit LoopPool(std::int64_t bytes = std::int64_t{320} << 20);
  ~LoopPool();
  LoopPool(const LoopPool&) = delete;
  LoopPool& operator=(const LoopPool&) = delete;

  const std::string& folder() const { return folder_; }   // a folder of the test's own, on tmpfs
  std::string path() const { return folder_ + "/pool"; }  // where the xfs is mounted
  std::string at(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);  // "" when there is none
bool is_mounted(const std::string& path);
int count_mounts_below(const std::string& path);

}  // namespace sluice::csi
