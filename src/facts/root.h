// SPDX-License-Identifier: Apache-2.0
// Where facts are read from: the machine's own tree, or one that a test has laid out.
#pragma once

#include <string>
#include <utility>

namespace sluice::facts {

class Root {
 public:
  Root() = default;
  explicit Root(std::string prefix) : prefix_(std::move(prefix)) {}

  // `path` is absolute: "/proc/self/mountinfo".
  std::string at(const std::string& path) const { return prefix_ + path; }
  bool is_the_machine() const { return prefix_.empty(); }

 private:
  std::string prefix_;
};

}  // namespace sluice::facts
