// SPDX-License-Identifier: Apache-2.0
// How a tool fails: one sentence, one remedy, one exit status.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace sluice::tools {

class ToolError : public std::runtime_error {
 public:
  ToolError(const std::string& sentence, std::string remedy, int status = 1)
      : std::runtime_error(sentence), remedy_(std::move(remedy)), status_(status) {}

  const std::string& remedy() const noexcept { return remedy_; }
  int status() const noexcept { return status_; }

 private:
  std::string remedy_;
  int status_;
};

}  // namespace sluice::tools
