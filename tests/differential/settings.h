// SPDX-License-Identifier: Apache-2.0
// What a library is set to, so that one process can play many scripts: each finds what the first one found.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "differential/library.h"

namespace sluice::differential {

class Settings {
 public:
  // Properties are asked for where the driver is open: asking may open it.
  static Settings of(const Library& library, bool open);
  // Sets back what is another now. What the library will not take back is told by a comparison.
  void restore(const Library& library) const;
  // An empty mask clears no P2P flag: the last close forgets them all.
  bool has_other_flags(const Library& library) const;
  // Counting stops, and what was counted is forgotten.
  void restore_statistics(const Library& library) const;
  friend bool operator==(const Settings&, const Settings&) = default;

 private:
  bool open_ = false;
  std::array<std::size_t, 12> sizes_{};
  std::array<bool, 12> switches_{};
  std::array<std::string, 3> texts_;
  std::array<int, 14> p2p_{};
  int level_ = 0;
  unsigned control_ = 0;
  std::size_t poll_ = 0;
  std::size_t direct_ = 0;
  std::size_t cache_ = 0;
  std::size_t pinned_ = 0;
};

}  // namespace sluice::differential
