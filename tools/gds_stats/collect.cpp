// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gds_stats/latency.h"
#include "gds_stats/link.h"
#include "gds_stats/report.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

constexpr std::array<const char*, 2> directions = {"read", "write"};
constexpr std::array<const char*, SLUICE_STATS_CARRIER_COUNT> carrier_names = {
    "kernel", "kernel_called_off", "copy_engine",    "scatter_kernel", "many_copies",
    "slab",   "resident_kernel",   "small_together", "cpu_window",     "coherent"};

Labels way_labels(int path, int reason) {
  return {{"path", sluice_path_name(static_cast<sluice_path_t>(path))},
          {"reason", sluice_reason_name(static_cast<sluice_reason_t>(reason))}};
}

template <typename Visitor>
void each_way(const Sample& sample, const Visitor& visit) {
  for (int path = 0; path < SLUICE_PATH_COUNT; ++path) {
    for (int reason = 0; reason < SLUICE_REASON_COUNT; ++reason) {
      const sluice_stats_way& way = way_of(sample, path, reason);
      if ((way.reads | way.writes) != 0) visit(way_labels(path, reason), way);
    }
  }
}

void way_number(SeriesSink& sink, Labels labels, std::size_t direction, std::uint64_t transfers, std::uint64_t value) {
  if (transfers == 0) return;
  labels.insert(labels.begin(), {"direction", directions[direction]});
  sink.number(labels, value);
}

void pair_numbers(SeriesSink& sink, const char* name, const std::string& value, const sluice_stats_pair& pair) {
  if ((pair.ok | pair.err) == 0) return;
  sink.number({{name, value}, {"result", "ok"}}, pair.ok);
  sink.number({{name, value}, {"result", "error"}}, pair.err);
}

void result_numbers(SeriesSink& sink, const sluice_stats_pair& pair) {
  if ((pair.ok | pair.err) == 0) return;
  sink.number({{"result", "ok"}}, pair.ok);
  sink.number({{"result", "error"}}, pair.err);
}

template <typename Values>
void each_direction(SeriesSink& sink, const Values& values) {
  for (std::size_t i = 0; i < directions.size(); ++i) sink.number({{"direction", directions[i]}}, values(i));
}

Labels device_labels(const Sample& sample, std::size_t device) {
  return {{"UUID", gpu_name(sample.uuids[device])}, {"gpu", fmt::format("{}", device)}};
}

bool is_shown(const Sample& sample, std::size_t device) {
  return has_been_used(sample.sum.devices[device]) || sample.registered_bytes[device] != 0;
}

template <typename Visitor>
void each_device(const Sample& sample, const Visitor& visit) {
  for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
    if (is_shown(sample, i)) visit(i, device_labels(sample, i));
  }
}

void device_numbers(const Sample& sample, SeriesSink& sink, std::uint64_t sluice_stats_device_direction::*member) {
  each_device(sample, [&](std::size_t device, const Labels& labels) {
    for (std::size_t i = 0; i < directions.size(); ++i) {
      Labels own = labels;
      own.push_back({"direction", directions[i]});
      sink.number(own, sample.sum.devices[device].directions[i].*member);
    }
  });
}

// Steps that end at 2^n - 1 and half-way to the next one, from 1 us to 13 s.
std::vector<Histogram::Bucket> time_buckets(std::span<const std::uint64_t> counts) {
  std::vector<Histogram::Bucket> buckets;
  std::uint64_t sum = 0;
  constexpr unsigned half = SLUICE_STATS_LATENCY_STEPS / 2;
  for (unsigned place = 0; place + 1 < counts.size(); ++place) {
    sum = plus(sum, counts[place]);
    const bool ends_here = place >= SLUICE_STATS_LATENCY_STEPS && place % half == 0;
    if (ends_here) buckets.push_back({sluice_stats_latency_begin(place + 1) - 1, sum});
  }
  return buckets;
}

}  // namespace

void collect_build(const Sample& sample, SeriesSink& sink) {
  sink.number({{"version", sample.library}}, 1);
}

void collect_level(const Sample& sample, SeriesSink& sink) {
  sink.number({}, sample.level);
}

void collect_running(const Sample& sample, SeriesSink& sink) {
  sink.number({}, static_cast<std::uint64_t>(std::clamp(sample.seconds, 0.0, 1e9) * 1e9));
}

void collect_transfers(const Sample& sample, SeriesSink& sink) {
  each_way(sample, [&sink](const Labels& labels, const sluice_stats_way& way) {
    way_number(sink, labels, 0, way.reads, way.reads);
    way_number(sink, labels, 1, way.writes, way.writes);
  });
}

void collect_bytes(const Sample& sample, SeriesSink& sink) {
  each_way(sample, [&sink](const Labels& labels, const sluice_stats_way& way) {
    way_number(sink, labels, 0, way.reads, way.read_bytes);
    way_number(sink, labels, 1, way.writes, way.written_bytes);
  });
}

void collect_errors(const Sample& sample, SeriesSink& sink) {
  each_way(sample, [&sink](const Labels& labels, const sluice_stats_way& way) { sink.number(labels, way.errors); });
}

void collect_calls(const Sample& sample, SeriesSink& sink) {
  for (std::size_t i = 0; i < directions.size(); ++i) {
    const sluice_stats_pair& vectored = sample.sum.vectored[i].operations;
    pair_numbers(sink, "call", directions[i], sample.sum.directions[i].operations);
    pair_numbers(sink, "call", fmt::format("{}v", directions[i]), vectored);
  }
  for (std::size_t i = 0; i < SLUICE_STATS_OPERATION_COUNT; ++i) {
    pair_numbers(sink, "call", operation_name(i), sample.sum.operations[i]);
  }
}

void collect_busy(const Sample& sample, SeriesSink& sink) {
  each_direction(sink, [&sample](std::size_t i) { return whole_direction(sample.sum, i).nanoseconds; });
}

void collect_latencies(const Sample& sample, SeriesSink& sink) {
  for (std::size_t i = 0; i < directions.size(); ++i) {
    for (std::size_t path = 0; path < SLUICE_PATH_COUNT; ++path) {
      for (std::size_t size_class = 0; size_class < SLUICE_STATS_CLASS_COUNT; ++size_class) {
        const std::span counts = latencies_of(sample, i, path, size_class);
        const std::uint64_t all = count_of(counts);
        if (all == 0) continue;
        sink.histogram({{"direction", directions[i]},
                        {"path", sluice_path_name(static_cast<sluice_path_t>(path))},
                        {"size", std::string(class_name(size_class))}},
                       {time_buckets(counts), all, approximate_sum(counts), {counts.begin(), counts.end()}});
      }
    }
  }
}

void collect_under_way(const Sample& sample, SeriesSink& sink) {
  each_direction(sink, [&sample](std::size_t i) { return sample.under_way[i]; });
}

void collect_bytes_under_way(const Sample& sample, SeriesSink& sink) {
  each_direction(sink, [&sample](std::size_t i) { return sample.bytes_under_way[i]; });
}

void collect_waiting(const Sample& sample, SeriesSink& sink) {
  sink.number({}, batch_entries_waiting(sample));
}

void collect_entries(const Sample& sample, SeriesSink& sink) {
  result_numbers(sink, sample.sum.batch_processed);
}

void collect_drive_entries(const Sample& sample, SeriesSink& sink) {
  result_numbers(sink, sample.sum.batch_processed_by_drive);
}

void collect_batch_bytes(const Sample& sample, SeriesSink& sink) {
  each_direction(sink, [&sample](std::size_t i) { return sample.sum.directions[i].batch_bytes; });
}

void collect_last_batch(const Sample& sample, SeriesSink& sink) {
  each_direction(sink, [&sample](std::size_t i) { return sample.last_batch_bytes[i]; });
}

void collect_vectored_bytes(const Sample& sample, SeriesSink& sink) {
  each_direction(sink, [&sample](std::size_t i) { return sample.sum.vectored[i].bytes; });
}

void collect_carriers(const Sample& sample, SeriesSink& sink) {
  for (std::size_t i = 0; i < carrier_names.size(); ++i) {
    if (sample.sum.carriers[i] != 0) sink.number({{"carrier", carrier_names[i]}}, sample.sum.carriers[i]);
  }
}

void collect_registered_host(const Sample& sample, SeriesSink& sink) {
  sink.number({}, sample.registered_host_bytes);
}

// The first class ends below 4 KiB; each bound is the last size that a class holds.
void collect_sizes(const Sample& sample, SeriesSink& sink) {
  constexpr std::size_t shown = 21;  // up to 4 GiB
  for (std::size_t i = 0; i < directions.size(); ++i) {
    Histogram histogram;
    const auto& sizes = sample.sum.directions[i].sizes;
    for (std::size_t place = 0; place < SLUICE_STATS_SIZE_COUNT; ++place) {
      histogram.all = plus(histogram.all, sizes[place]);
      if (place < shown) histogram.buckets.push_back({size_begin(place + 1) - 1, histogram.all});
    }
    histogram.sum = static_cast<double>(whole_direction(sample.sum, i).bytes);
    if (histogram.all != 0) sink.histogram({{"direction", directions[i]}}, histogram);
  }
}

void collect_device_transfers(const Sample& sample, SeriesSink& sink) {
  device_numbers(sample, sink, &sluice_stats_device_direction::total);
}

void collect_device_bytes(const Sample& sample, SeriesSink& sink) {
  device_numbers(sample, sink, &sluice_stats_device_direction::bytes);
}

void collect_device_busy(const Sample& sample, SeriesSink& sink) {
  device_numbers(sample, sink, &sluice_stats_device_direction::nanoseconds);
}

void collect_device_by_drive(const Sample& sample, SeriesSink& sink) {
  device_numbers(sample, sink, &sluice_stats_device_direction::by_drive);
}

void collect_device_unaligned(const Sample& sample, SeriesSink& sink) {
  device_numbers(sample, sink, &sluice_stats_device_direction::unaligned);
}

void collect_device_errors(const Sample& sample, SeriesSink& sink) {
  device_numbers(sample, sink, &sluice_stats_device_direction::errors);
}

void collect_device_registrations(const Sample& sample, SeriesSink& sink) {
  each_device(sample, [&](std::size_t device, const Labels& labels) {
    Labels own = labels;
    own.push_back({"call", "buffer_register"});
    sink.number(own, sample.sum.devices[device].registrations);
    own.back().value = "buffer_deregister";
    sink.number(own, sample.sum.devices[device].deregistrations);
  });
}

void collect_registered(const Sample& sample, SeriesSink& sink) {
  each_device(sample,
              [&](std::size_t device, const Labels& labels) { sink.number(labels, sample.registered_bytes[device]); });
}

void collect_links(const Sample& sample, SeriesSink& sink) {
  each_device(sample, [&](std::size_t device, const Labels& labels) {
    const std::uint64_t speed = link_bytes_per_second(sample.pci[device]);
    if (speed != 0) sink.number(labels, speed);
  });
}

}  // namespace sluice::tools
