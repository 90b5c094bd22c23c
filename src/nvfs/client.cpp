// SPDX-License-Identifier: Apache-2.0
// The node stays open for a driver's life: the module looks for hooks as a node is opened, and forgets them with the
// last one.
#include "nvfs/client.h"

#include "base/never_destroyed.h"

namespace sluice::nvfs {

void Client::attach(const facts::Root& root) {
  if (++users_ > 1) return;
  dropped_ = false;
  facts_ = facts::of_nvfs(root);
  if (!facts_.loaded || !facts_.is_recent()) return;
  node_ = Node::open(open_error_);
  if (node_) facts_ = facts::of_nvfs(root);
}

void Client::detach() noexcept {
  if (--users_ == 0) node_ = Node();
}

void Client::after_fork(bool in_child) {
  mappings_.after_fork(in_child);
  if (!in_child) return;
  windows_after_fork_in_child();
  node_ = Node();
}

Client& client() {
  static base::NeverDestroyed<Client> instance;
  return instance.get();
}

}  // namespace sluice::nvfs
