// SPDX-License-Identifier: Apache-2.0
#include "sluice/top/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace sluice::tools {
namespace {

constexpr std::size_t narrowest = 40;
constexpr std::size_t fixed_columns = 63;  // all but reason and history
constexpr std::size_t shortest_history = 7;
constexpr std::size_t shortest_reason = 10;
constexpr std::size_t longest_reason = 24;

// Names of programs are made printable when they are read; a byte beyond ASCII may be half a letter after the cut.
std::string cut(std::string_view text, std::size_t width) {
  std::string part(text.substr(0, width));
  while (!part.empty() && (static_cast<unsigned char>(part.back()) & 0x80) != 0) part.pop_back();
  if (part.size() < text.size() && !part.empty()) part.back() = '+';
  return part + std::string(width - std::min(width, part.size()), ' ');
}

// At most five letters.
std::string time_text(double nanoseconds) {
  if (nanoseconds <= 0) return "-";
  constexpr std::array<const char*, 4> units = {"ns", "us", "ms", "s"};
  std::size_t unit = 0;
  while (nanoseconds >= 999.5 && unit + 1 < units.size()) {
    nanoseconds /= 1000;
    ++unit;
  }
  return nanoseconds < 9.95 ? fmt::format("{:.1f}{}", nanoseconds, units[unit])
                            : fmt::format("{:.0f}{}", nanoseconds, units[unit]);
}

std::string rate_text(double bytes) {
  const double gibibytes = bytes / (1 << 30);
  if (bytes <= 0) return "-";
  if (gibibytes >= 1000) return fmt::format("{:.0f}", std::min(gibibytes, 99999.0));
  return gibibytes < 100 ? fmt::format("{:.2f}", gibibytes) : fmt::format("{:.1f}", gibibytes);
}

std::string gpu_text(const TopRow& row) {
  if (row.gpus.empty()) return "-";
  if (row.gpus.size() == 1) return fmt::format("{}", row.gpus.front().gpu);
  return fmt::format("{}+", row.gpus.front().gpu);  // and others
}

std::string share_text(const TopRow& row) {
  if (row.gpus.empty() || row.gpus.front().share <= 0) return "-";
  return fmt::format("{:.0f}%", std::min(row.gpus.front().share * 100, 999.0));
}

// Eight heights of a letter; where colours are not wanted, letters of ASCII.
std::string history_text(const std::vector<double>& history, std::size_t width, Colour colour) {
  constexpr std::array<const char*, 9> blocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::string_view letters = " ._-:=+*#";
  const std::size_t begin = history.size() - std::min(history.size(), width);
  double most = 0;
  for (std::size_t i = begin; i < history.size(); ++i) most = std::max(most, history[i]);
  std::string text(width - (history.size() - begin), ' ');
  for (std::size_t i = begin; i < history.size(); ++i) {
    const double part = most > 0 ? history[i] / most : 0;
    const std::size_t step =
        part <= 0 ? 0 : std::clamp<std::size_t>(static_cast<std::size_t>(std::lround(part * 8)), 1, 8);
    if (colour == Colour::none) {
      text += letters[step];
    } else {
      text += blocks[step];
    }
  }
  return text;
}

const char* colour_of(sluice_path_t path) {
  switch (path) {
    case SLUICE_PATH_P2PDMA:
      return "\x1b[32m";
    case SLUICE_PATH_POSIX:
      return "\x1b[33m";
    default:
      return "\x1b[36m";
  }
}

std::string painted(const std::string& text, const char* colour, const Screen& screen) {
  return screen.colour == Colour::none ? text : colour + text + "\x1b[39m";
}

struct Widths {
  std::size_t reason = shortest_reason;
  std::size_t history = shortest_history;
};

// What a wider screen has beyond 80 goes to the reason first.
Widths widths_of(const Screen& screen) {
  Widths widths;
  std::size_t room = screen.width - std::min(screen.width, fixed_columns + shortest_reason + shortest_history);
  const std::size_t more = std::min(room, longest_reason - shortest_reason);
  widths.reason += more;
  room -= more;
  widths.history += std::min<std::size_t>(room, 60 - shortest_history);
  return widths;
}

std::string heading(const Widths& widths) {
  return fmt::format("{:>7} {:<10} {:>5} {:>5} {:>5} {:>5} {:<9} {} {:>3} {:>4} {}", "PID", "PROGRAM", "READ", "WRITE",
                     "P50", "P99", "PATH", cut("REASON", widths.reason), "GPU", "LINK", cut("HISTORY", widths.history));
}

std::string line_of(const TopRow& row, const Widths& widths, const Screen& screen) {
  const char* const path = row.has_way ? sluice_path_name(row.path) : "-";
  const char* const reason = row.has_way ? sluice_reason_name(row.reason) : "-";
  const std::string way = cut(path, 9) + " " + cut(row.ended ? "(ended)" : reason, widths.reason);
  return fmt::format("{:>7} {} {:>5} {:>5} {:>5} {:>5} {} {:>3} {:>4} {}", row.pid, cut(row.program, 10),
                     rate_text(row.read_bytes), rate_text(row.write_bytes), time_text(row.p50), time_text(row.p99),
                     painted(way, colour_of(row.path), screen), gpu_text(row), share_text(row),
                     history_text(row.history, widths.history, screen.colour));
}

std::string first_line(const std::vector<TopRow>& rows, const View& view) {
  double reads = 0;
  double writes = 0;
  for (const TopRow& row : rows) {
    reads += row.read_bytes;
    writes += row.write_bytes;
  }
  constexpr double gibibyte = 1 << 30;
  return fmt::format("sluice top: {} process{}, {:.2f} GiB/s in, {:.2f} out, over {:.1f} s{}", rows.size(),
                     rows.size() == 1 ? "" : "es", reads / gibibyte, writes / gibibyte, view.seconds,
                     view.paused ? "   PAUSED" : "");
}

void add_wrapped(std::vector<std::string>& lines, std::string_view text, std::size_t width) {
  while (text.size() > width) {
    std::size_t end = text.rfind(' ', width);
    if (end == text.npos || end == 0) end = width;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  lines.emplace_back(text);
}

std::vector<std::string> explanation(const TopRow& row, std::size_t width) {
  std::vector<std::string> lines;
  if (!row.has_detour) {
    const char* const why = row.has_way ? "all of it goes the drive's own way" : "it has moved nothing yet";
    add_wrapped(lines, fmt::format("{} ({}): {}.", row.pid, row.program, why), width);
    return lines;
  }
  add_wrapped(lines,
              fmt::format("{} ({}): {}: {}", row.pid, row.program, sluice_reason_name(row.detour),
                          sluice_reason_sentence(row.detour)),
              width);
  add_wrapped(lines, sluice_reason_remedy(row.detour), width);
  return lines;
}

std::vector<std::string> advice(std::size_t width) {
  std::vector<std::string> lines;
  add_wrapped(lines,
              "No process that you may look at shows statistics. Start one with SLUICE_STATS=1 in its environment "
              "(sluice run -- CMD), or set \"profile\": {\"cufile_stats\": 1} in its cufile.json.",
              width);
  return lines;
}

// Of a line without escapes.
std::string fitted(std::string text, std::size_t width) {
  if (text.size() > width) text.resize(width);
  return text;
}

}  // namespace

std::vector<std::string> draw(const std::vector<TopRow>& rows, const View& view, const Screen& screen) {
  std::vector<std::string> lines{fitted(first_line(rows, view), screen.width)};
  std::vector<std::string> below;
  if (rows.empty()) below = advice(std::max(screen.width, narrowest));
  if (view.explains && view.chosen < rows.size()) below = explanation(rows[view.chosen], screen.width);
  if (!rows.empty()) {
    const Widths widths = widths_of(screen);
    const bool fits = screen.width >= fixed_columns + shortest_reason + shortest_history;
    const std::size_t taken = 2 + below.size() + (view.has_choice ? 1 : 0);
    const std::size_t room = screen.height == 0 ? rows.size() : screen.height - std::min(screen.height, taken);
    const std::size_t begin = view.chosen < room ? 0 : view.chosen - room + 1;
    lines.push_back(fitted(heading(widths), screen.width));
    for (std::size_t i = begin; i < rows.size() && i - begin < room; ++i) {
      // A narrow screen shows what comes first; escapes would not be counted.
      std::string line = line_of(rows[i], widths, fits ? screen : Screen{screen.width, screen.height, Colour::none});
      if (!fits) line = fitted(std::move(line), screen.width);
      lines.push_back(view.has_choice && i == view.chosen ? "\x1b[7m" + line + "\x1b[27m" : line);
    }
  }
  for (const std::string& line : below) lines.push_back(fitted(line, screen.width));
  if (view.has_choice) lines.push_back(fitted("q quit   p pause   e explain   up, down: choose", screen.width));
  if (screen.height != 0 && lines.size() > screen.height) lines.resize(screen.height);
  return lines;
}

}  // namespace sluice::tools
