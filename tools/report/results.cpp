// SPDX-License-Identifier: Apache-2.0
#include "report/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "common/error.h"
#include "common/text.h"
#include "report/charts.h"
#include "report/page.h"
#include "report/read_file.h"

namespace sluice::tools {
namespace {

using ReadJson = nlohmann::json;

double number_in(const ReadJson& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number() ? found->get<double>() : 0;
}

std::string word_in(const ReadJson& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? printable(found->get<std::string>()) : std::string();
}

Row& row_of(Results& results, const std::string& name) {
  if (!results.rows.contains(name)) results.order.push_back(name);
  return results.rows[name];
}

void add(Row& row, const ReadJson& from, const char* p50 = "p50_us", const char* p99 = "p99_us") {
  if (const double speed = number_in(from, "gib_per_s"); speed > 0) row.speeds.push_back(speed);
  if (const double time = number_in(from, p50); time > 0) row.p50_us.push_back(time);
  if (const double time = number_in(from, p99); time > 0) row.p99_us.push_back(time);
}

void read_gdsio(const ReadJson& json, Results& results) {
  results.about = fmt::format("{} on {}{}", word_in(json, "library"), word_in(json, "device"),
                              json.value("soft", false) ? " (the soft GPU: its speed says nothing of a GPU)" : "");
  for (const ReadJson& pass : json["passes"]) {
    const ReadJson& sizes = pass.at("io_size");
    const auto size = static_cast<std::uint64_t>(number_in(sizes, "max"));
    Row& row = row_of(results, fmt::format("{} {} {} x{}", word_in(pass, "io_type"), word_in(pass, "xfer_type"),
                                           format_bytes(size), static_cast<int>(number_in(pass, "threads"))));
    row.speeds.push_back(number_in(pass, "gib_per_second"));
    const ReadJson& times = pass.at("latency_us");
    row.p50_us.push_back(number_in(times, "p50"));
    row.p99_us.push_back(number_in(times, "p99"));
  }
}

// {"results": {kind: {row: {"pairs": [{"ours:row": {...}, "theirs:row": {...}}]}}}}
void read_comparison(const ReadJson& json, Results& results) {
  results.about = word_in(json, "device");
  for (const auto& [kind, rows] : json["results"].items()) {
    for (const auto& [name, one] : rows.items()) {
      if (!one.is_object() || !one.contains("pairs")) continue;
      Row& row = row_of(results, printable(std::string(kind).append(" ").append(name)));
      for (const ReadJson& pair : one["pairs"]) {
        double ours = 0;
        double theirs = 0;
        for (const auto& [which, slice] : pair.items()) {
          if (which.starts_with("ours:")) {
            add(row, slice);
            ours = number_in(slice, "gib_per_s");
          } else if (which.starts_with("theirs:")) {
            theirs = number_in(slice, "gib_per_s");
          }
        }
        if (ours > 0 && theirs > 0) row.ratios.push_back(ours / theirs);
      }
    }
  }
}

// An object a line, as cufile_bench writes; a list of such will do.
void read_rows(const ReadJson& one, Results& results) {
  const std::string name = word_in(one, "row");
  if (!name.empty()) add(row_of(results, name), one);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Student's t for 95 %, two-sided, by degrees of freedom.
double student(double freedom) {
  constexpr std::array<double, 12> table{12.71, 4.303, 3.182, 2.776, 2.571, 2.447,
                                         2.365, 2.306, 2.262, 2.228, 2.201, 2.179};
  if (freedom < 1) return table.front();
  if (freedom <= static_cast<double>(table.size())) return table[static_cast<std::size_t>(freedom) - 1];
  return freedom < 30 ? 2.09 : 1.98;
}

struct Logarithms {
  double mean = 0;
  double variance = 0;  // of the mean
  double freedom = 0;

  explicit Logarithms(const std::vector<double>& values) {
    const auto count = static_cast<double>(values.size());
    for (const double value : values) mean += std::log(value) / count;
    double sum = 0;
    for (const double value : values) sum += (std::log(value) - mean) * (std::log(value) - mean);
    freedom = count - 1;
    if (freedom > 0) variance = sum / freedom / count;
  }
};

Ratio ratio_between(double mean, double variance, double freedom) {
  Ratio ratio;
  ratio.mean = std::exp(mean);
  ratio.has_bounds = freedom >= 1;
  if (!ratio.has_bounds) return ratio;
  const double away = student(freedom) * std::sqrt(variance);
  ratio.low = std::exp(mean - away);
  ratio.high = std::exp(mean + away);
  return ratio;
}

std::string speed_text(double gib) {
  return gib >= 10 ? fmt::format("{:.1f} GiB/s", gib) : fmt::format("{:.2f} GiB/s", gib);
}

std::string ratio_text(const Ratio& ratio) {
  if (!ratio.has_bounds) return fmt::format("{:.2f}x, of one measurement", ratio.mean);
  return fmt::format("{:.2f}x ({:.2f} to {:.2f})", ratio.mean, ratio.low, ratio.high);
}

void draw_ratios(Page& page, const std::vector<std::pair<std::string, Ratio>>& ratios, const std::string& caption) {
  std::vector<Bar> drawn;
  for (const auto& [name, ratio] : ratios) {
    const int colour = ratio.has_bounds && ratio.low > 1 ? 2 : ratio.has_bounds && ratio.high < 1 ? 1 : 0;
    drawn.push_back({name, ratio.mean, ratio_text(ratio), ratio.low, ratio.high, colour});
  }
  page.picture(bars(drawn, 0, 1), caption);
}

}  // namespace

Ratio ratio_of(const std::vector<double>& after, const std::vector<double>& before) {
  if (after.empty() || before.empty()) return {};
  const Logarithms a(after);
  const Logarithms b(before);
  return ratio_between(a.mean - b.mean, a.variance + b.variance, std::min(a.freedom, b.freedom));
}

Ratio ratio_of_pairs(const std::vector<double>& ratios) {
  if (ratios.empty()) return {};
  const Logarithms all(ratios);
  return ratio_between(all.mean, all.variance, all.freedom);
}

Results read_results(const std::string& file) {
  constexpr const char* remedy =
      "Name files that `gdsio --json`, `cufile_bench --json` or bench/compare.py have written.";
  const std::string text = read_file(file, remedy);
  Results results;
  results.name = printable(file.substr(file.rfind('/') + 1));
  try {
    const ReadJson whole = ReadJson::parse(text, nullptr, false);
    if (whole.is_object() && whole.contains("passes")) {
      read_gdsio(whole, results);
    } else if (whole.is_object() && whole.contains("results")) {
      read_comparison(whole, results);
    } else if (whole.is_array()) {
      for (const ReadJson& one : whole) read_rows(one, results);
    } else {
      // Several objects, a line each.
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        const ReadJson one = ReadJson::parse(line, nullptr, false);
        if (one.is_object()) read_rows(one, results);
      }
    }
  } catch (const ReadJson::exception&) {
    results.rows.clear();
  }
  std::erase_if(results.rows, [](const auto& row) { return row.second.speeds.empty(); });
  std::erase_if(results.order, [&](const std::string& name) { return !results.rows.contains(name); });
  if (results.rows.empty()) {
    throw ToolError(fmt::format("{} holds no results that this tool knows.", printable(file)), remedy);
  }
  return results;
}

std::string results_page(const std::vector<Results>& all) {
  std::string names;
  for (const Results& results : all) names += (names.empty() ? "" : ", ") + results.name;
  Page page("Sluice: report of measurements", names);
  const Results& first = all.front();
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Results& other = all[i];
    page.heading(fmt::format("{} by {}", other.name, first.name));
    std::vector<std::pair<std::string, Ratio>> ratios;
    for (const std::string& name : first.order) {
      const auto found = other.rows.find(name);
      if (found != other.rows.end())
        ratios.emplace_back(name, ratio_of(found->second.speeds, first.rows.at(name).speeds));
    }
    if (ratios.empty()) {
      page.paragraph("They have no row in common.");
      continue;
    }
    draw_ratios(
        page, ratios,
        "Speed after by speed before; the upright line is 1. Whiskers: what the true ratio lies between with 95 % "
        "certainty. Green: quicker, orange: slower, blue: it cannot be told.");
  }
  for (const Results& results : all) {
    page.heading(results.name);
    if (!results.about.empty()) page.paragraph(results.about);
    std::vector<Bar> speeds;
    std::vector<std::pair<std::string, Ratio>> pairs;
    Page::Table table{{"row", "measurements", "speed, median", "from", "to", "p50", "p99"}, {}, {}};
    table.numbers = {false, true, true, true, true, true, true};
    for (const std::string& name : results.order) {
      const Row& row = results.rows.at(name);
      const auto [low, high] = std::minmax_element(row.speeds.begin(), row.speeds.end());
      speeds.push_back({name, median(row.speeds), speed_text(median(row.speeds)), *low, *high, 0});
      if (!row.ratios.empty()) pairs.emplace_back(name, ratio_of_pairs(row.ratios));
      const auto time = [](const std::vector<double>& times) {
        return times.empty() ? std::string("-") : time_text(median(times) * 1e3);
      };
      table.rows.push_back({name, fmt::format("{}", row.speeds.size()), speed_text(median(row.speeds)),
                            speed_text(*low), speed_text(*high), time(row.p50_us), time(row.p99_us)});
    }
    page.picture(bars(speeds), "Speed: the median of all measurements; whiskers: the slowest and the quickest.");
    if (!pairs.empty()) {
      draw_ratios(page, pairs, "By the other library of the comparison, measured in turns; the upright line is 1.");
    }
    page.folded_table("Numbers", table);
  }
  return std::move(page).html();
}

}  // namespace sluice::tools
