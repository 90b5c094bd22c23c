// SPDX-License-Identifier: Apache-2.0
// Pictures as SVG that stands in a page of HTML and takes its colours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::tools {

// Bars side by side along an axis of time. `labels` stand below, from the first to the last.
struct Columns {
  std::vector<double> values;
  std::vector<std::size_t> marked;  // these in another colour
  std::vector<std::string> labels;
  std::string unit;  // of the values, for the axis on the left
};
std::string columns(const Columns& chart);

// A line a name, with a bar each.
struct Bar {
  std::string name;
  double value = 0;
  std::string text;  // what stands behind it
  double low = 0;    // bounds of the value; both 0: none
  double high = 0;
  int colour = 0;  // 0 to 3
};
// `whole` is the length of the longest bar that may be; 0: that of the longest there is. `line`: a mark at that value.
std::string bars(const std::vector<Bar>& all, double whole = 0, double line = 0);

// Stretches of time in rows; rows are drawn from the top in their order.
struct Stretch {
  std::size_t row = 0;
  double begin = 0;  // in microseconds from the left edge
  double end = 0;
  unsigned depth = 0;
  int colour = 0;
  std::string title;  // shown when pointed at, and inside where there is room
};
struct Mark {
  double at = 0;
  std::string text;
};
std::string timeline(const std::vector<std::string>& rows, const std::vector<Stretch>& stretches,
                     const std::vector<Mark>& marks, double microseconds);

// "1.2 ms", "340 us".
std::string time_text(double nanoseconds);

}  // namespace sluice::tools
