// SPDX-License-Identifier: Apache-2.0
// Rows as lines of a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/top/rows.h"

namespace sluice::tools {

enum class Colour : std::uint8_t { none, some };

struct Screen {
  std::size_t width = 80;
  std::size_t height = 24;  // 0: as many lines as there are rows
  Colour colour = Colour::none;
};

struct View {
  std::size_t chosen = 0;  // row
  bool has_choice = false;
  bool paused = false;
  bool explains = false;
  double seconds = 1;
};

// No line is wider than the screen, nor are there more than it has.
std::vector<std::string> draw(const std::vector<TopRow>& rows, const View& view, const Screen& screen);

}  // namespace sluice::tools
