// SPDX-License-Identifier: Apache-2.0
// A throw-away tree that stands for the machine's /proc, /sys and /dev.
#pragma once

#include <filesystem>
#include <string>

#include "facts/root.h"

namespace sluice::facts {

class Tree {
 public:
  Tree();
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // Paths are absolute ones of the machine that is laid out; folders above them are made.
  Tree& file(const std::string& path, const std::string& text);
  Tree& folder(const std::string& path);
  // A symbolic link with this text, as it stands.
  Tree& link(const std::string& path, const std::string& target);

  // A disk below /sys/devices with its links in /sys/dev/block and /sys/class/block. `device` is the place without
  // the leading "/sys/": "devices/virtual/block/loop0".
  Tree& disk(const std::string& device, const std::string& number, int logical_block = 512);
  Tree& partition(const std::string& disk_device, const std::string& name, const std::string& number);

  Root root() const { return Root(folder_.string()); }
  std::string at(const std::string& path) const { return folder_.string() + path; }

 private:
  void name_in_sysfs(const std::string& device, const std::string& number);

  std::filesystem::path folder_;
};

}  // namespace sluice::facts
