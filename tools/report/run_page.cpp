// SPDX-License-Identifier: Apache-2.0
#include "report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>

#include "common/text.h"
#include "report/charts.h"
#include "report/page.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

constexpr std::size_t parts_of_a_run = 96;

std::uint64_t end_of(const RequestSpan& request, std::uint64_t run_ends) {
  return request.slice.has_ended ? request.slice.end.time : run_ends;
}

struct Sum {
  std::uint64_t requests = 0;
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0;
  double nanoseconds = 0;
  double file_ns = 0;
  double device_ns = 0;
  std::vector<std::uint64_t> times;

  void add(const RequestSpan& request) {
    ++requests;
    if (!request.slice.has_ended) return;
    if (request.slice.result() < 0) ++failed;
    bytes += request.moved();
    const std::uint64_t took = request.slice.nanoseconds();
    nanoseconds += static_cast<double>(took);
    file_ns += static_cast<double>(request.file_ns);
    device_ns += static_cast<double>(request.device_ns);
    times.push_back(took);
  }
  std::string percentile(double share) {
    if (times.empty()) return "-";
    std::sort(times.begin(), times.end());
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(times.size())));
    return time_text(static_cast<double>(times[std::max<std::size_t>(rank, 1) - 1]));
  }
};

std::string count_text(std::uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, " ");
  return digits;
}

std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : std::string("-");
}

class RunPage {
 public:
  RunPage(const Recording& recording, const std::string& what)
      : recording_(recording),
        requests_(requests_of(recording)),
        pace_(pace_of(requests_, parts_of_a_run)),
        page_("Sluice: report of a run", fmt::format("{} · {}", what, when())) {
    for (const RequestSpan& request : requests_) all_.add(request);
  }

  std::string html() {
    if (requests_.empty()) {
      nothing();
      return std::move(page_).html();
    }
    figures();
    what_stands_out();
    over_time();
    latencies();
    ways();
    files();
    slowest();
    return std::move(page_).html();
  }

 private:
  std::string when() const {
    const auto seconds = static_cast<std::time_t>(recording_.realtime / 1'000'000'000);
    std::tm local{};
    localtime_r(&seconds, &local);
    std::array<char, 64> text{};
    strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S %Z", &local);
    return text.data();
  }

  double seconds() const { return static_cast<double>(pace_.end - pace_.begin) / 1e9; }

  bool has_lost() const { return recording_.lost() > 0 || recording_.threads_without_ring() > 0; }

  // What was lost may have been transfers: that there were none is not known then.
  void nothing() {
    if (!has_lost()) {
      figures();
      page_.paragraph("No transfer went through cuFile.");
      return;
    }
    tell_lost();
    page_.paragraph(
        "No whole transfer is in what was recorded; how many there were is not known. sluice stats counts them, and a "
        "larger --events keeps more of them.");
  }

  void tell_lost() {
    page_.paragraph(fmt::format("Not all was recorded: {} events were lost, and {} threads had no room.",
                                count_text(recording_.lost()), recording_.threads_without_ring()));
  }

  void figures() {
    std::vector<std::pair<std::string, std::string>> shown{
        {count_text(all_.requests), "transfers"},
        {format_bytes(all_.bytes), "moved"},
        {format_rate(all_.bytes, seconds()), "from the first to the last"},
        {all_.percentile(0.5), "median"},
        {all_.percentile(0.99), "99 of 100 are quicker"},
        {all_.percentile(1), "slowest"},
    };
    if (all_.failed > 0) shown.emplace_back(count_text(all_.failed), "failed");
    page_.figures(shown);
    if (has_lost()) tell_lost();
  }

  // Requests that were under way in a stretch, with the part of them that lies in it.
  void what_stands_out() {
    page_.heading("What stands out");
    const SlowStretch slow = slow_stretch_of(pace_);
    const auto red = std::count(pace_.slow.begin(), pace_.slow.end(), true);
    if (slow.end != 0) tell_slow(slow);
    if (red == 0) {
      page_.paragraph("No part of the run moved less than half of what is usual in it.");
    } else {
      page_.paragraph(fmt::format("{} of {} parts of {} moved less than half of what is usual{}: red below.", red,
                                  pace_.slow.size(), time_text(pace_.seconds_a_part() * 1e9),
                                  slow.end == 0 ? ", no two of them in a row" : ""));
    }
    std::map<std::string, std::uint64_t> left;
    for (const TracedProcess& process : recording_.processes) {
      for (const TracedThread& thread : process.threads) {
        for (const sluice_trace_event& event : thread.events) {
          if (event.kind == SLUICE_TRACE_FALLBACK) ++left[way_text(event.detail)];
        }
      }
    }
    for (const auto& [way, count] : left) {
      page_.paragraph(fmt::format("{} transfers left the direct path and went on by {}.", count_text(count), way));
    }
    std::uint64_t open = 0;
    for (const RequestSpan& request : requests_) open += request.slice.has_ended ? 0 : 1;
    if (open > 0) page_.paragraph(fmt::format("{} transfers had not ended when the recording did.", count_text(open)));
  }

  void tell_slow(const SlowStretch& slow) {
    std::map<std::string, double> files;
    double all = 0;
    double file = 0;
    double device = 0;
    for (const RequestSpan& request : requests_) {
      const std::uint64_t end = end_of(request, pace_.end);
      const std::uint64_t from = std::max(request.slice.begin.time, slow.begin);
      const std::uint64_t to = std::min(end, slow.end);
      if (to <= from) continue;
      const double share = static_cast<double>(to - from) /
                           static_cast<double>(std::max<std::uint64_t>(1, end - request.slice.begin.time));
      all += static_cast<double>(to - from);
      file += share * static_cast<double>(request.file_ns);
      device += share * static_cast<double>(request.device_ns);
      files[request.file()] += static_cast<double>(to - from);
    }
    const auto most =
        std::max_element(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    std::string sentence = fmt::format("From {} to {} transfers moved {}, where {} is usual in this run. ",
                                       clock_text(recording_, slow.begin), clock_text(recording_, slow.end),
                                       format_rate(static_cast<std::uint64_t>(slow.rate), 1),
                                       format_rate(static_cast<std::uint64_t>(slow.usual), 1));
    const char* where = "between the file and the device";
    double part = all - file - device;
    if (file >= device && file >= part) {
      where = "waiting for the file";
      part = file;
    } else if (device >= part) {
      where = "waiting for the device";
      part = device;
    }
    sentence += fmt::format("{} of their time went by {}", share_text(part, all), where);
    if (most != files.end())
      sentence += fmt::format("; {} of it was at {}", share_text(most->second, all), most->first);
    page_.paragraph(sentence + ".");
  }

  void over_time() {
    page_.heading("Over time");
    Columns chart;
    chart.unit = "GiB/s";
    for (std::size_t i = 0; i < pace_.bytes.size(); ++i) {
      chart.values.push_back(pace_.bytes[i] / pace_.seconds_a_part() / (1 << 30));
      if (pace_.slow[i]) chart.marked.push_back(i);
    }
    for (int i = 0; i <= 4; ++i) {
      const auto at = pace_.begin + (pace_.end - pace_.begin) / 4 * static_cast<std::uint64_t>(i);
      chart.labels.push_back(clock_text(recording_, at));
    }
    page_.picture(columns(chart),
                  fmt::format("What was moved, in parts of {}. Red: transfers were under way, and moved less "
                              "than half of what is usual.",
                              time_text(pace_.seconds_a_part() * 1e9)));
  }

  // Four columns for each doubling.
  void latencies() {
    page_.heading("How long transfers took");
    const auto bin_of = [](double ns) { return static_cast<int>(std::floor(std::log2(std::max(ns, 1.0)) * 4)); };
    if (all_.times.empty()) return;
    std::sort(all_.times.begin(), all_.times.end());
    const int first = bin_of(static_cast<double>(all_.times.front()));
    const int last = bin_of(static_cast<double>(all_.times.back()));
    Columns chart;
    chart.unit = "count";
    chart.values.resize(static_cast<std::size_t>(last) - static_cast<std::size_t>(first) + 1);
    for (const std::uint64_t time : all_.times)
      ++chart.values[static_cast<std::size_t>(bin_of(static_cast<double>(time)) - first)];
    chart.labels = {time_text(std::exp2(first / 4.0)), time_text(std::exp2((first + last + 1) / 8.0)),
                    time_text(std::exp2((last + 1) / 4.0))};
    page_.picture(columns(chart), "Transfers by their time, on a scale that doubles every four columns.");
  }

  void ways() {
    page_.heading("Which way, and why");
    std::map<std::uint16_t, Sum> by_way;
    for (const RequestSpan& request : requests_) {
      if (request.slice.has_ended) by_way[request.slice.end.detail].add(request);
    }
    Page::Table table{{"path (reason)", "transfers", "bytes", "median", "99 of 100", "file", "device", "rest"}, {}, {}};
    table.numbers = {false, true, true, true, true, true, true, true};
    for (auto& [way, sum] : by_way) {
      table.rows.push_back({way_text(way), count_text(sum.requests), format_bytes(sum.bytes), sum.percentile(0.5),
                            sum.percentile(0.99), share_text(sum.file_ns, sum.nanoseconds),
                            share_text(sum.device_ns, sum.nanoseconds),
                            share_text(sum.nanoseconds - sum.file_ns - sum.device_ns, sum.nanoseconds)});
    }
    page_.table(table);
    page_.paragraph(
        "File, device, rest: where the calling threads spent the time of these transfers. What workers did "
        "meanwhile is not in it.");
    for (const auto& [way, sum] : by_way) {
      const auto reason = static_cast<sluice_reason_t>(way & 0xffU);
      page_.paragraph(fmt::format("{}: {} {}", sluice_reason_name(reason), sluice_reason_sentence(reason),
                                  sluice_reason_remedy(reason)));
    }
  }

  void files() {
    page_.heading("Files");
    std::map<std::string, Sum> by_file;
    for (const RequestSpan& request : requests_) by_file[request.file()].add(request);
    std::vector<std::pair<std::string, Sum*>> order;
    order.reserve(by_file.size());
    for (auto& [name, sum] : by_file) order.emplace_back(name, &sum);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second->nanoseconds > b.second->nanoseconds; });
    Page::Table table{
        {"file", "transfers", "bytes", "median", "99 of 100", "slowest"}, {}, {false, true, true, true, true, true}};
    Page::Table rest = table;
    constexpr std::size_t at_once = 10;
    for (const auto& [name, sum] : order) {
      Page::Table& there = table.rows.size() < at_once ? table : rest;
      there.rows.push_back({name, count_text(sum->requests), format_bytes(sum->bytes), sum->percentile(0.5),
                            sum->percentile(0.99), sum->percentile(1)});
    }
    page_.table(table);
    if (!rest.rows.empty()) page_.folded_table(fmt::format("{} more files", rest.rows.size()), rest);
  }

  void slowest() {
    page_.heading("The slowest");
    std::vector<const RequestSpan*> order;
    for (const RequestSpan& request : requests_) order.push_back(&request);
    std::stable_sort(order.begin(), order.end(), [&](const RequestSpan* a, const RequestSpan* b) {
      return end_of(*a, pace_.end) - a->slice.begin.time > end_of(*b, pace_.end) - b->slice.begin.time;
    });
    Page::Table table{{"began", "took", "what", "file", "offset", "in file", "in device", "workers"}, {}, {}};
    table.numbers = {true, true, false, false, true, true, true, true};
    for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 10); ++i) {
      const RequestSpan& request = *order[i];
      table.rows.push_back(
          {clock_text(recording_, request.slice.begin.time),
           request.slice.has_ended ? time_text(static_cast<double>(request.slice.nanoseconds())) : "still going on",
           title_of(request.slice.begin), request.file(), count_text(request.slice.begin.a),
           time_text(static_cast<double>(request.file_ns)), time_text(static_cast<double>(request.device_ns)),
           fmt::format("{}", request.helpers)});
    }
    page_.table(table);
    draw(*order.front());
  }

  // One request: its thread, and those that helped.
  void draw(const RequestSpan& request) {
    const std::uint64_t begin = request.slice.begin.time;
    const std::uint64_t end = end_of(request, pace_.end);
    const auto at = [begin](std::uint64_t time) { return static_cast<double>(time - begin) / 1e3; };
    std::vector<std::string> rows;
    std::vector<Stretch> stretches;
    std::vector<Mark> marks;
    for (const TracedThread& thread : request.process->threads) {
      unsigned base = ~0U;
      for (const Slice& slice : slices_of(thread)) {
        if (slice.begin.request != request.slice.begin.request || slice.begin.time < begin || slice.begin.time > end)
          continue;
        if (slice.is_moment) {
          const bool tells = slice.begin.kind == SLUICE_TRACE_FIRST_BYTE || slice.begin.kind == SLUICE_TRACE_LAST_BYTE;
          if (tells) marks.push_back({at(slice.begin.time), title_of(slice.begin)});
          continue;
        }
        if (base == ~0U) {
          rows.push_back(&thread == request.thread ? "caller" : thread.name);
          base = slice.depth;
        }
        const std::string category = category_of(slice.begin.kind);
        const int colour = category == "file" ? 2 : category == "device" ? 1 : category == "worker" ? 3 : 0;
        stretches.push_back({rows.size() - 1, at(slice.begin.time), at(slice.has_ended ? slice.end.time : end),
                             slice.depth - std::min(slice.depth, base), colour, title_of(slice.begin)});
      }
    }
    page_.picture(
        timeline(rows, stretches, marks, static_cast<double>(end - begin) / 1e3),
        fmt::format("The slowest one, {} of {}, in time: file (green), device (orange), help by a worker (purple). "
                    "Point at a part to read it.",
                    title_of(request.slice.begin), request.file()));
  }

  const Recording& recording_;
  const std::vector<RequestSpan> requests_;
  const Pace pace_;
  Page page_;
  Sum all_;
};

}  // namespace

std::string clock_text(const Recording& recording, std::uint64_t monotonic) {
  const std::uint64_t wall = recording.realtime - recording.monotonic + monotonic;
  const auto seconds = static_cast<std::time_t>(wall / 1'000'000'000);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", local.tm_hour, local.tm_min, local.tm_sec, wall / 1'000'000 % 1000);
}

Pace pace_of(const std::vector<RequestSpan>& requests, std::size_t parts) {
  Pace pace;
  if (requests.empty()) return pace;
  pace.begin = ~std::uint64_t{0};
  for (const RequestSpan& request : requests) {
    pace.begin = std::min(pace.begin, request.slice.begin.time);
    pace.end = std::max({pace.end, request.slice.begin.time + 1, request.slice.end.time});
  }
  pace.bytes.resize(parts);
  pace.under_way_ns.resize(parts);
  pace.slow.resize(parts);
  const double part = static_cast<double>(pace.end - pace.begin) / static_cast<double>(parts);
  for (const RequestSpan& request : requests) {
    const double from = static_cast<double>(request.slice.begin.time - pace.begin);
    const double to = static_cast<double>(end_of(request, pace.end) - pace.begin);
    const auto first = std::min(parts - 1, static_cast<std::size_t>(from / part));
    const auto last = std::min(parts - 1, static_cast<std::size_t>(to / part));
    for (std::size_t i = first; i <= last; ++i) {
      const double inside =
          std::min(to, part * static_cast<double>(i + 1)) - std::max(from, part * static_cast<double>(i));
      pace.under_way_ns[i] += std::max(inside, 0.0);
      const double share = to > from ? std::max(inside, 0.0) / (to - from) : 1;
      pace.bytes[i] += share * static_cast<double>(request.moved());
    }
  }
  std::vector<double> active;
  for (std::size_t i = 0; i < parts; ++i) {
    if (pace.under_way_ns[i] > part / 2) active.push_back(pace.bytes[i]);
  }
  if (active.empty()) return pace;
  std::nth_element(active.begin(), active.begin() + static_cast<std::ptrdiff_t>(active.size() / 2), active.end());
  const double usual = active[active.size() / 2];
  for (std::size_t i = 0; i < parts; ++i) pace.slow[i] = pace.under_way_ns[i] > part / 2 && pace.bytes[i] < usual / 2;
  return pace;
}

SlowStretch slow_stretch_of(const Pace& pace) {
  std::size_t best = 0;
  std::size_t best_begin = 0;
  std::size_t run = 0;
  for (std::size_t i = 0; i < pace.slow.size(); ++i) {
    run = pace.slow[i] ? run + 1 : 0;
    if (run > best) {
      best = run;
      best_begin = i + 1 - run;
    }
  }
  if (best < 2) return {};
  SlowStretch found;
  const std::uint64_t part = (pace.end - pace.begin) / pace.slow.size();
  found.begin = pace.begin + part * best_begin;
  found.end = pace.begin + part * (best_begin + best);
  std::vector<double> active;
  for (std::size_t i = 0; i < pace.bytes.size(); ++i) {
    if (i >= best_begin && i < best_begin + best) {
      found.rate += pace.bytes[i];
    } else if (pace.under_way_ns[i] > static_cast<double>(part) / 2) {
      active.push_back(pace.bytes[i]);
    }
  }
  found.rate /= pace.seconds_a_part() * static_cast<double>(best);
  if (active.empty()) return {};
  std::nth_element(active.begin(), active.begin() + static_cast<std::ptrdiff_t>(active.size() / 2), active.end());
  found.usual = active[active.size() / 2] / pace.seconds_a_part();
  return found;
}

std::string run_page(const Recording& recording, const std::string& what) {
  return RunPage(recording, what).html();
}

}  // namespace sluice::tools
