// SPDX-License-Identifier: Apache-2.0
// The same for programs. Numbers are bytes, seconds and microseconds.
#include "gds_stats/report.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

Json pair_json(const sluice_stats_pair& pair) {
  return {{"ok", pair.ok}, {"errors", pair.err}};
}

Json direction_json(const sluice_stats_direction& direction, double seconds) {
  const Rates rates = rates_of(direction, seconds);
  return {{"ok", direction.operations.ok},   {"errors", direction.operations.err}, {"bytes", direction.bytes},
          {"bytes_per_second", rates.bytes}, {"per_second", rates.operations},     {"latency_us", rates.microseconds}};
}

Json ways_json(const Sample& sample) {
  Json ways = Json::array();
  for (int path = 0; path < SLUICE_PATH_COUNT; ++path) {
    for (int reason = 0; reason < SLUICE_REASON_COUNT; ++reason) {
      const sluice_stats_way& way = sample.sum.ways[path][reason];
      if (way.reads + way.writes == 0) continue;
      ways.push_back({{"path", sluice_path_name(static_cast<sluice_path_t>(path))},
                      {"reason", sluice_reason_name(static_cast<sluice_reason_t>(reason))},
                      {"reads", way.reads},
                      {"read_bytes", way.read_bytes},
                      {"writes", way.writes},
                      {"written_bytes", way.written_bytes},
                      {"errors", way.errors}});
    }
  }
  return ways;
}

Json calls_json(const sluice_stats_shard& sum) {
  Json calls = Json::object();
  for (std::size_t i = 0; i < SLUICE_STATS_OPERATION_COUNT; ++i) {
    calls[operation_name(i)] = pair_json(sum.operations[i]);
  }
  calls["batch_processed"] = pair_json(sum.batch_processed);
  calls["batch_processed_by_drive"] = pair_json(sum.batch_processed_by_drive);
  return calls;
}

Json sizes_json(const sluice_stats_shard& sum) {
  Json sizes = Json::array();
  for (std::size_t i = 0; i < SLUICE_STATS_SIZE_COUNT; ++i) {
    const std::uint64_t reads = sum.directions[0].sizes[i];
    const std::uint64_t writes = sum.directions[1].sizes[i];
    if (reads + writes == 0) continue;
    sizes.push_back({{"from_bytes", size_begin(i)}, {"reads", reads}, {"writes", writes}});
  }
  return sizes;
}

Json device_direction_json(const sluice_stats_device_direction& part) {
  return {{"ok", part.total},          {"errors", part.errors},       {"bytes", part.bytes},
          {"by_drive", part.by_drive}, {"unaligned", part.unaligned}, {"microseconds", part.nanoseconds / 1000}};
}

Json devices_json(const Sample& sample) {
  Json devices = Json::array();
  for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
    const sluice_stats_device& device = sample.sum.devices[i];
    if (!has_been_used(device)) continue;
    devices.push_back({{"gpu", i},
                       {"uuid", uuid_text(sample.uuids[i])},
                       {"reads", device_direction_json(device.directions[0])},
                       {"writes", device_direction_json(device.directions[1])},
                       {"registrations", device.registrations},
                       {"deregistrations", device.deregistrations},
                       {"registered_bytes", sample.registered_bytes[i]}});
  }
  return devices;
}

// Of the reads and writes, these were vectored calls.
Json vectored_json(const sluice_stats_vectored& calls) {
  return {{"ok", calls.operations.ok}, {"errors", calls.operations.err}, {"bytes", calls.bytes}};
}

}  // namespace

void add_directions(Json& json, const Sample& sample) {
  json["reads"] = direction_json(sample.sum.directions[0], sample.seconds);
  json["writes"] = direction_json(sample.sum.directions[1], sample.seconds);
}

Json json_of(const Sample& sample, unsigned level) {
  Json json;
  json["library"] = sample.library;
  json["libraries"] = sample.libraries;
  json["level"] = sample.level;
  json["running"] = sample.running;
  json["seconds"] = sample.seconds;
  add_directions(json, sample);
  json["readv"] = vectored_json(sample.sum.vectored[0]);
  json["writev"] = vectored_json(sample.sum.vectored[1]);
  json["batches"] = {{"read_bytes", sample.sum.directions[0].batch_bytes},
                     {"written_bytes", sample.sum.directions[1].batch_bytes},
                     {"last_read_bytes", sample.last_batch_bytes[0]},
                     {"last_written_bytes", sample.last_batch_bytes[1]}};
  json["ways"] = ways_json(sample);
  const auto& carriers = sample.sum.carriers;
  json["carriers"] = {{"kernel", carriers[SLUICE_STATS_KERNEL]},
                      {"kernel_called_off", carriers[SLUICE_STATS_KERNEL_CALLED_OFF]},
                      {"copy_engine", carriers[SLUICE_STATS_COPY_ENGINE]},
                      {"scatter_kernel", carriers[SLUICE_STATS_SCATTER_KERNEL]},
                      {"many_copies", carriers[SLUICE_STATS_MANY_COPIES]},
                      {"slab", carriers[SLUICE_STATS_SLAB]},
                      {"resident_kernel", carriers[SLUICE_STATS_RESIDENT_KERNEL]},
                      {"small_together", carriers[SLUICE_STATS_SMALL_TOGETHER]},
                      {"cpu_window", carriers[SLUICE_STATS_CPU_WINDOW]}};
  json["calls"] = calls_json(sample.sum);
  if (level >= 2) json["sizes"] = sizes_json(sample.sum);
  if (level >= 3) json["devices"] = devices_json(sample);
  return json;
}

}  // namespace sluice::tools
