// SPDX-License-Identifier: Apache-2.0
#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "report/page.h"

namespace sluice::tools {
namespace {

constexpr double width = 960;
constexpr std::array<const char*, 4> colours{"var(--a)", "var(--b)", "var(--c)", "var(--d)"};

const char* colour(int number) {
  return colours[static_cast<std::size_t>(number) % colours.size()];
}

std::string text(double x, double y, const char* anchor, const std::string& words, bool quiet = false) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                     quiet ? " class=\"quiet\"" : "", escaped(words));
}

std::string rectangle(double x, double y, double w, double h, const char* fill, const std::string& title) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}</title></rect>\n", x, y,
      std::max(w, 0.5), h, fill, escaped(title));
}

std::string line(double x1, double y1, double x2, double y2, const char* stroke = "var(--line)") {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2,
                     stroke);
}

std::string framed(double height, const std::string& inside) {
  return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\">\n{}</svg>\n", width, height, inside);
}

// 1, 2 or 5 times a power of ten, so that about `parts` of it make the whole.
double step_for(double whole, int parts) {
  if (whole <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(whole / parts)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (whole / (factor * power) <= parts) return factor * power;
  }
  return 10 * power;
}

std::string short_number(double value) {
  return fmt::format("{:g}", value);
}

}  // namespace

std::string time_text(double nanoseconds) {
  if (nanoseconds < 1e4) return fmt::format("{:.1f} us", nanoseconds / 1e3);
  if (nanoseconds < 1e6) return fmt::format("{:.0f} us", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return fmt::format("{:.{}f} ms", nanoseconds / 1e6, nanoseconds < 1e7 ? 2 : 1);
  return fmt::format("{:.2f} s", nanoseconds / 1e9);
}

std::string columns(const Columns& chart) {
  constexpr double left = 56;
  constexpr double top = 26;
  constexpr double height = 180;
  const double most = chart.values.empty() ? 0 : *std::max_element(chart.values.begin(), chart.values.end());
  const double step = step_for(most, 4);
  const double whole = std::max(step, std::ceil(most / step) * step);
  std::string inside;
  for (double at = 0; at <= whole * 1.0001; at += step) {
    const double y = top + height * (1 - at / whole);
    inside += line(left, y, width, y) + text(left - 8, y + 4, "end", short_number(at), true);
  }
  inside += text(0, 12, "start", chart.unit, true);
  const double each = (width - left) / static_cast<double>(std::max<std::size_t>(1, chart.values.size()));
  for (std::size_t i = 0; i < chart.values.size(); ++i) {
    const bool marked = std::find(chart.marked.begin(), chart.marked.end(), i) != chart.marked.end();
    if (chart.values[i] <= 0 && !marked) continue;
    // What is marked is seen, also where it is nothing.
    const double tall = std::max(height * chart.values[i] / whole, marked ? 2.0 : 0.0);
    inside += rectangle(left + each * static_cast<double>(i) + each * 0.08, top + height - tall, each * 0.84, tall,
                        marked ? "var(--bad)" : colour(0), fmt::format("{:.3g} {}", chart.values[i], chart.unit));
  }
  const std::size_t labels = chart.labels.size();
  for (std::size_t i = 0; i < labels; ++i) {
    const double share = labels < 2 ? 0 : static_cast<double>(i) / static_cast<double>(labels - 1);
    inside += text(left + (width - left) * share, top + height + 18,
                   i == 0            ? "start"
                   : i + 1 == labels ? "end"
                                     : "middle",
                   chart.labels[i], true);
  }
  return framed(top + height + 26, inside);
}

std::string bars(const std::vector<Bar>& all, double whole, double mark) {
  constexpr double left = 300;
  constexpr double right = 250;
  constexpr double row = 28;
  for (const Bar& bar : all) whole = std::max({whole, bar.value, bar.high});
  if (whole <= 0) whole = 1;
  const auto x_of = [whole](double value) { return left + (width - left - right) * value / whole; };
  std::string inside;
  double y = 4;
  for (const Bar& bar : all) {
    inside += text(left - 10, y + 16, "end", bar.name);
    inside += rectangle(left, y + 4, x_of(bar.value) - left, 16, colour(bar.colour), bar.name + ": " + bar.text);
    if (bar.high > bar.low) {
      const double middle = y + 12;
      inside += line(x_of(bar.low), middle, x_of(bar.high), middle, "var(--text)");
      for (const double end : {bar.low, bar.high})
        inside += line(x_of(end), middle - 5, x_of(end), middle + 5, "var(--text)");
    }
    inside += text(x_of(std::max(bar.value, bar.high)) + 8, y + 16, "start", bar.text, true);
    y += row;
  }
  if (mark > 0) inside += line(x_of(mark), 0, x_of(mark), y, "var(--text)");
  return framed(y + 4, inside);
}

std::string timeline(const std::vector<std::string>& rows, const std::vector<Stretch>& stretches,
                     const std::vector<Mark>& marks, double microseconds) {
  constexpr double left = 130;
  constexpr double top = 34;
  constexpr double bar = 17;
  constexpr double letter = 6.6;  // about as wide as one is
  std::vector<unsigned> depths(rows.size(), 1);
  for (const Stretch& each : stretches) depths[each.row] = std::max(depths[each.row], each.depth + 1);
  std::vector<double> begins;
  double y = top;
  for (const unsigned depth : depths) {
    begins.push_back(y);
    y += depth * (bar + 2) + 10;
  }
  const auto x_of = [microseconds](double at) { return left + (width - left - 4) * at / std::max(microseconds, 1e-3); };
  std::string inside;
  const double step = step_for(microseconds, 8);
  for (double at = 0; at <= microseconds * 1.0001; at += step) {
    inside += line(x_of(at), top - 6, x_of(at), y) + text(x_of(at), y + 16, "middle", short_number(at), true);
  }
  inside += text(left - 10, y + 16, "end", "us", true);
  for (std::size_t i = 0; i < rows.size(); ++i) inside += text(left - 10, begins[i] + 13, "end", rows[i]);
  for (const Stretch& each : stretches) {
    const double x = x_of(each.begin);
    const double wide = std::max(0.5, x_of(each.end) - x - 0.4);
    const double at = begins[each.row] + each.depth * (bar + 2);
    inside +=
        rectangle(x, at, wide, bar, colour(each.colour), each.title + ": " + time_text((each.end - each.begin) * 1e3));
    if (wide > letter * static_cast<double>(each.title.size()) + 6) {
      inside += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" style=\"fill:var(--paper)\">{}</text>\n", x + 4, at + 13,
                            escaped(each.title));
    }
  }
  double free_from = 0;
  for (const Mark& mark : marks) {
    const double x = x_of(mark.at);
    const bool low = x < free_from;
    inside += line(x, low ? 26 : 12, x, y, "var(--bad)");
    const bool at_right = x > width - 80;
    inside += text(x + (at_right ? -4 : 4), low ? 26 : 12, at_right ? "end" : "start", mark.text);
    free_from = x + letter * static_cast<double>(mark.text.size()) + 8;
  }
  return framed(y + 24, inside);
}

}  // namespace sluice::tools
