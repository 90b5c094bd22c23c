// SPDX-License-Identifier: Apache-2.0
// The terminal of a live view: its own screen while this lives, keys without Enter, and all as it was at the end, also
// when a signal asks for it.
#pragma once

#include <termios.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::tools {

enum class Key : std::uint8_t { none, quit, pause, explain, up, down };

struct Size {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;
  void show(const std::vector<std::string>& lines);
  // Waits for a key, for `milliseconds` at most (-1: without an end), and no longer than until the size changes.
  Key wait(int milliseconds);
  bool is_asked_to_end() const;

 private:
  termios before_{};
  std::string pending_;  // bytes of keys that were not looked at
};

// The key that `bytes` begin with, which is taken off; none for what is no key.
Key take_key(std::string& bytes);

}  // namespace sluice::tools
