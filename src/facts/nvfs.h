// SPDX-License-Identifier: Apache-2.0
// What nvidia-fs.ko and the kernel tell of the module's way to a file: whether it may be spoken to about it at all.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "facts/file.h"
#include "facts/root.h"

namespace sluice::facts {

struct NvfsFacts {
  bool loaded = false;
  std::string version;  // "2.28"; "" where the module does not tell
  int major = 0;
  int minor = 0;
  // The keys of /proc/driver/nvidia-fs/modules: drivers that have taken the module's hooks. Empty until a node has been
  // opened. Without wekafsio, which stands there always.
  std::vector<std::string> hooked;

  // 2.12 is the first that programs of today rely on.
  bool is_recent() const noexcept { return major > 2 || (major == 2 && minor >= 12); }
};

// Never fails: what cannot be read is not there.
NvfsFacts of_nvfs(const Root& root);

// Whether reads and writes of a file reach the module's hooks.
enum class NvfsHooks : std::uint8_t {
  present,     // all drivers below the file have registered with the module
  not_listed,  // the module does not list a driver of this file
  foreign,     // it lists the driver's name, and another module than the one that drives this drive has the hooks
  unknown,     // what the file lies on has no such driver
};

// Knows which module of the kernel exports hooks. The list of symbols is long, so each module is looked up once.
class NvfsHookSearch {
 public:
  explicit NvfsHookSearch(Root root) : root_(std::move(root)) {}

  // Of this file, with a node of the module open. Any thread; control plane, may take 50 ms.
  NvfsHooks hooks_below(const FileFacts& file, const NvfsFacts& nvfs);

  // No child inherits the lock held.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  NvfsHooks hooks_of(const BlockFacts& disk, const NvfsFacts& nvfs);
  const std::vector<std::string>& keys_exported_by(const std::string& module);

  const Root root_;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> exported_;  // by module: keys; guarded by mutex_
};

}  // namespace sluice::facts
