// SPDX-License-Identifier: Apache-2.0
// The same for programs: every metric under its name, as a list of its series. Numbers are bytes and seconds.
#include "gds_stats/latency.h"
#include "gds_stats/metrics.h"
#include "gds_stats/report.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

class JsonSeries final : public SeriesSink {
 public:
  explicit JsonSeries(MetricUnit unit) : unit_(unit) {}

  void number(const Labels& labels, std::uint64_t value) override {
    Json series = with(labels);
    series["value"] = in_unit(value);
    all_.push_back(std::move(series));
  }

  void histogram(const Labels& labels, const Histogram& histogram) override {
    Json series = with(labels);
    series["count"] = histogram.all;
    series["sum"] = scaled(histogram.sum);
    if (!histogram.steps.empty()) {
      series["p50"] = scaled(quantile(histogram.steps, 0.5));
      series["p90"] = scaled(quantile(histogram.steps, 0.9));
      series["p99"] = scaled(quantile(histogram.steps, 0.99));
    }
    Json& buckets = series["buckets"] = Json::array();
    std::uint64_t before = 0;
    for (const Histogram::Bucket& bucket : histogram.buckets) {
      if (bucket.count != before) buckets.push_back({{"le", in_unit(bucket.last)}, {"count", bucket.count}});
      before = bucket.count;
    }
    all_.push_back(std::move(series));
  }

  Json take() { return std::move(all_); }

 private:
  static Json with(const Labels& labels) {
    Json series = Json::object();
    for (const Label& label : labels) series[std::string(label.name)] = label.value;
    return series;
  }
  double scaled(double value) const { return unit_ == MetricUnit::nanoseconds ? value / 1e9 : value; }
  Json in_unit(std::uint64_t value) const {
    if (unit_ == MetricUnit::nanoseconds) return static_cast<double>(value) / 1e9;
    return value;
  }

  MetricUnit unit_;
  Json all_ = Json::array();
};

}  // namespace

Json metrics_json(const Sample& sample, unsigned level) {
  Json all = Json::object();
  for (const Metric& metric : metrics()) {
    if (metric.collect == nullptr || metric.level > level) continue;
    JsonSeries series(metric.unit);
    metric.collect(sample, series);
    if (Json found = series.take(); !found.empty()) all[metric.name] = std::move(found);
  }
  return all;
}

Json json_of(const Sample& sample, unsigned level) {
  Json json;
  json["library"] = sample.library;
  json["libraries"] = sample.libraries;
  json["level"] = sample.level;
  json["running"] = sample.running;
  json["seconds"] = sample.seconds;
  json["metrics"] = metrics_json(sample, level);
  return json;
}

}  // namespace sluice::tools
