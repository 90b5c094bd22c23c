// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/prometheus.h"

#include <fmt/format.h>

#include <chrono>
#include <iterator>

#include "common/text.h"

namespace sluice::tools {
namespace {

void add_label(std::string& text, const Label& label) {
  if (text.back() != '{') text += ',';
  text += label.name;
  text += "=\"";
  for (const char letter : label.value) {
    if (letter == '\\' || letter == '"') text += '\\';
    if (letter == '\n') {
      text += "\\n";
    } else {
      text += letter;
    }
  }
  text += '"';
}

class TextSeries final : public SeriesSink {
 public:
  TextSeries(const Metric& metric, std::string& text) : metric_(metric), text_(text) {}

  void of(const Labels* process) { process_ = process; }

  void number(const Labels& labels, std::uint64_t value) override {
    line("", labels, {});
    fmt::format_to(std::back_inserter(text_), " {}\n", in_unit(value));
  }

  void histogram(const Labels& labels, const Histogram& histogram) override {
    for (const Histogram::Bucket& bucket : histogram.buckets) {
      line("_bucket", labels, in_unit(bucket.last));
      fmt::format_to(std::back_inserter(text_), " {}\n", bucket.count);
    }
    line("_bucket", labels, "+Inf");
    fmt::format_to(std::back_inserter(text_), " {}\n", histogram.all);
    line("_sum", labels, {});
    const double sum = metric_.unit == MetricUnit::nanoseconds ? histogram.sum / 1e9 : histogram.sum;
    fmt::format_to(std::back_inserter(text_), " {}\n", sum);
    line("_count", labels, {});
    fmt::format_to(std::back_inserter(text_), " {}\n", histogram.all);
  }

 private:
  std::string in_unit(std::uint64_t value) const {
    if (metric_.unit == MetricUnit::nanoseconds) return fmt::format("{}", static_cast<double>(value) / 1e9);
    return fmt::format("{}", value);
  }

  // The first one of a metric comes behind what it is about.
  void line(const char* suffix, const Labels& labels, const std::string& bound) {
    if (!introduced_) {
      fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n", metric_.name, metric_.help,
                     kind_name(metric_.kind));
      introduced_ = true;
    }
    text_ += metric_.name;
    text_ += suffix;
    text_ += '{';
    if (process_ != nullptr) {
      for (const Label& label : *process_) add_label(text_, label);
    }
    for (const Label& label : labels) add_label(text_, label);
    if (!bound.empty()) add_label(text_, {"le", bound});
    if (text_.back() == '{') {
      text_.pop_back();
    } else {
      text_ += '}';
    }
  }

  const Metric& metric_;
  std::string& text_;
  const Labels* process_ = nullptr;
  bool introduced_ = false;
};

void own_series(const Metric& metric, const LookFacts& facts, SeriesSink& sink) {
  const std::string_view name = metric.name;
  if (name == "sluice_exporter_processes") {
    sink.number({}, facts.processes);
  } else if (name == "sluice_exporter_processes_left_out") {
    sink.number({{"why", "limit"}}, facts.beyond_limit);
    sink.number({{"why", "unreadable"}}, facts.unreadable);
  } else if (name == "sluice_exporter_scrape_seconds") {
    sink.number({}, static_cast<std::uint64_t>(facts.seconds * 1e9));
  }
}

}  // namespace

Labels process_labels(const FollowedProcess& process) {
  Labels labels = {{"pid", fmt::format("{}", process.pid())}, {"comm", process.program()}};
  if (!process.pod().empty()) labels.push_back({"pod_uid", process.pod()});
  return labels;
}

std::string prometheus_text(std::span<const Exported> processes, const LookFacts& facts) {
  std::string text;
  for (const Metric& metric : metrics()) {
    TextSeries series(metric, text);
    if (metric.collect == nullptr) {
      own_series(metric, facts, series);
      continue;
    }
    for (const Exported& each : processes) {
      series.of(&each.labels);
      metric.collect(*each.sample, series);
    }
  }
  return text;
}

std::string prometheus_text(Follower& follower) {
  const auto begun = std::chrono::steady_clock::now();
  follower.look();
  std::vector<Exported> processes;
  for (const auto& process : follower.processes()) {
    processes.push_back({process_labels(*process), &process->total()});
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  return prometheus_text(processes, {processes.size(), follower.beyond_limit(), follower.unreadable(), took.count()});
}

}  // namespace sluice::tools
