// SPDX-License-Identifier: Apache-2.0
// What a process has of nvidia-fs.ko: one node, and the windows that are mapped by it.
#pragma once

#include <atomic>
#include <string>

#include "facts/nvfs.h"
#include "nvfs/mappings.h"
#include "nvfs/node.h"

namespace sluice::nvfs {

class Client {
 public:
  // For each session of the driver, from its begin to its end: not by two threads at a time. The first opens a node
  // where the module is loaded and recent enough; hooks are looked for as that is done. Nothing else is asked of the
  // module here.
  void attach(const facts::Root& root);
  // With the last one the node is closed. Windows are gone by then.
  void detach() noexcept;

  // All that follows: between the two.
  const facts::NvfsFacts& facts() const noexcept { return facts_; }
  bool is_open() const noexcept { return static_cast<bool>(node_); }
  int open_error() const noexcept { return open_error_; }  // why there is no node: an errno
  const Node& node() const noexcept { return node_; }
  Mappings& mappings() noexcept { return mappings_; }

  // The module was seen to answer what is not so. It is not spoken to any more, until the driver is opened anew: then
  // trials come first. True for the first.
  bool drop() noexcept { return !dropped_.exchange(true); }
  bool is_dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

  void before_fork() { mappings_.before_fork(); }
  // The child has no windows, no device memory and no node.
  void after_fork(bool in_child);

 private:
  facts::NvfsFacts facts_;
  Node node_;
  int open_error_ = 0;
  int users_ = 0;
  Mappings mappings_;
  std::atomic<bool> dropped_{false};
};

Client& client();

}  // namespace sluice::nvfs
