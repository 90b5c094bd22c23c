// SPDX-License-Identifier: Apache-2.0
// The one table of what is counted: each has a name, which `sluice stats`, its JSON, `sluice exporter` and
// docs/reference/statistics.md use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gds_stats/sample.h"

namespace sluice::tools {

// Counters never fall. What is no counter is what holds now.
enum class MetricKind : std::uint8_t { counter, gauge, histogram };
// Of the numbers as they are counted; those in nanoseconds are told in seconds.
enum class MetricUnit : std::uint8_t { number, nanoseconds };

struct Label {
  std::string_view name;
  std::string value;
};
using Labels = std::vector<Label>;

// Each bucket counts what is at most `last`, and so what the ones before it count; `all` is what the last one, without
// an end, counts.
struct Histogram {
  struct Bucket {
    std::uint64_t last = 0;
    std::uint64_t count = 0;
  };
  std::vector<Bucket> buckets;
  std::uint64_t all = 0;
  double sum = 0;
  std::vector<std::uint64_t> steps;  // of the latencies: what quantiles are made of
};

// Takes the series of one metric.
class SeriesSink {
 public:
  SeriesSink() = default;
  SeriesSink(const SeriesSink&) = delete;
  SeriesSink& operator=(const SeriesSink&) = delete;
  virtual ~SeriesSink() = default;
  virtual void number(const Labels& labels, std::uint64_t value) = 0;
  virtual void histogram(const Labels& labels, const Histogram& histogram) = 0;
};

struct Metric {
  const char* name;
  MetricKind kind;
  MetricUnit unit;
  unsigned level;      // from which on `sluice stats` shows it; 0: of the exporter itself
  const char* labels;  // "direction, path": in the order in which they come
  const char* help;
  void (*collect)(const Sample& sample, SeriesSink& sink);  // null: of the exporter itself
};

std::span<const Metric> metrics();

const char* kind_name(MetricKind kind);

// The table as rows of Markdown.
std::string metric_rows();

// "GPU-5ab1c3d4-...", as other tools name a device; "" when it has no name.
std::string gpu_name(const std::array<unsigned char, 16>& uuid);

}  // namespace sluice::tools
