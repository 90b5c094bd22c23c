// SPDX-License-Identifier: Apache-2.0
// Laying out a tree.
#include "facts/tree.h"

#include <cstdlib>

#include <fstream>
#include <stdexcept>
#include <system_error>

namespace sluice::facts {

Tree::Tree() {
  std::string name = (std::filesystem::temp_directory_path() / "sluice-tree-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for the tree: " + name);
  folder_ = name;
}

Tree::~Tree() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Tree& Tree::file(const std::string& path, const std::string& text) {
  const std::filesystem::path place = at(path);
  std::filesystem::create_directories(place.parent_path());
  std::ofstream(place, std::ios::binary) << text;
  return *this;
}

Tree& Tree::folder(const std::string& path) {
  std::filesystem::create_directories(at(path));
  return *this;
}

Tree& Tree::link(const std::string& path, const std::string& target) {
  const std::filesystem::path place = at(path);
  std::filesystem::create_directories(place.parent_path());
  std::filesystem::create_symlink(target, place);
  return *this;
}

Tree& Tree::disk(const std::string& device, const std::string& number, int logical_block) {
  file("/sys/" + device + "/queue/logical_block_size", std::to_string(logical_block) + "\n");
  folder("/sys/" + device + "/slaves");
  name_in_sysfs(device, number);
  return *this;
}

Tree& Tree::partition(const std::string& disk_device, const std::string& name, const std::string& number) {
  file("/sys/" + disk_device + "/" + name + "/partition", "1\n");
  name_in_sysfs(disk_device + "/" + name, number);
  return *this;
}

void Tree::name_in_sysfs(const std::string& device, const std::string& number) {
  link("/sys/dev/block/" + number, "../../" + device);
  link("/sys/class/block/" + std::filesystem::path(device).filename().string(), "../../" + device);
}

}  // namespace sluice::facts
