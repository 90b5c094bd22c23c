// SPDX-License-Identifier: Apache-2.0
// Cutting text of sysfs into pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::topology {

// Pieces between separators; empty ones are left out.
class Words {
 public:
  Words(std::string_view text, char separator);
  const std::vector<std::string>& all() const { return all_; }
  // What follows this beginning in the first piece that has it; "" where none has.
  std::string after(std::string_view beginning) const;

 private:
  std::vector<std::string> all_;
};

// "0000:3b:00.0"; domains may have more digits.
bool is_pci_address(std::string_view name);

}  // namespace sluice::topology
