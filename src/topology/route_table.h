// SPDX-License-Identifier: Apache-2.0
// The routes of one session of the driver: for what a file lies on, and a GPU. The tree is read with the first
// question, each route is worked out once. Never on the I/O path.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "facts/root.h"
#include "topology/machine.h"
#include "topology/routing.h"

namespace sluice::topology {

// What a file lies on.
struct Storage {
  std::string file_system;         // the mount's type: "lustre", "ext4"
  std::string mount;               // its point
  std::vector<std::string> disks;  // at the bottom of it: "nvme0n1"
};

struct FileRoute {
  std::string from;            // "nvme0", "fs.lustre.mount_table /lustre/a"
  std::optional<Route> route;  // none: `why_none` says why
  std::string why_none;
};

// "GPU_MEM by host memory of node 1: ...; not GPU_MEM_NVLINKS: ..." For people.
std::string words_of(const FileRoute& route);

class RouteTable {
 public:
  // What the bus does not tell; asked once, with the tree.
  using Teller = Told (*)();

  RouteTable(std::shared_ptr<const config::Config> config, facts::Root root, Teller teller);
  RouteTable(const RouteTable&) = delete;
  RouteTable& operator=(const RouteTable&) = delete;

  bool is_on() const noexcept { return rules_.on; }
  const RoutingRules& rules() const noexcept { return rules_; }
  // Why the file of static routes is not used; "" for no such thing. Asked for once the tree was read.
  const std::string& complaint() const noexcept { return complaint_; }

  // Any thread. `gpu` is its address on the bus, in either case of letters. Null where dynamic routing is off.
  std::shared_ptr<const FileRoute> find(const Storage& storage, std::string_view gpu);
  // The same for a tree that is there already, whatever is switched on.
  static FileRoute route_of(const Machine& machine, const config::Config& config, const RoutingRules& rules,
                            const Storage& storage, std::string_view gpu);

  // No child of fork inherits the lock held.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  const std::shared_ptr<const config::Config> config_;
  const facts::Root root_;
  const Teller teller_;
  RoutingRules rules_;
  std::string complaint_;
  std::mutex mutex_;
  std::unique_ptr<const Machine> machine_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const FileRoute>> known_;
};

}  // namespace sluice::topology
