// SPDX-License-Identifier: Apache-2.0
#include "gdsio/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/text.h"

namespace sluice::tools {
namespace {

constexpr double bytes_in_gib = 1024.0 * 1024 * 1024;

double gib_per_second(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / bytes_in_gib / seconds : 0;
}

// Whole KiB; a ragged size has three digits more, which tell one byte from the next.
std::string kib(std::uint64_t bytes) {
  return bytes % 1024 == 0 ? fmt::format("{}", bytes / 1024) : fmt::format("{:.3f}", static_cast<double>(bytes) / 1024);
}

// A whole number, as scripts know it, and 0 for nothing alone.
std::uint64_t whole_kib(std::uint64_t bytes) {
  return (bytes + 1023) / 1024;
}

std::string io_size(const SizeRange& sizes) {
  if (sizes.smallest == sizes.largest) return kib(sizes.smallest);
  return fmt::format("{}-{}-{}", kib(sizes.smallest), kib(sizes.largest), kib(sizes.step));
}

std::string latency_line(const Latencies& times) {
  return fmt::format("Latency (usecs): min {:.1f} p50 {:.1f} p90 {:.1f} p99 {:.1f} p99.9 {:.1f} max {:.1f}",
                     times.smallest(), times.percentile(0.5), times.percentile(0.9), times.percentile(0.99),
                     times.percentile(0.999), times.largest());
}

void print_ways(const Settings& settings, const PassResult& result) {
  if (!uses_cufile(settings.transfer)) {
    fmt::print("Path: none, because -x {} moves the bytes without cuFile\n", static_cast<int>(settings.transfer));
  } else if (!result.library_tells) {
    fmt::print("Path: unknown, because this libcufile.so.0 is not Sluice's and does not tell\n");
  }
  for (const WayTaken& way : result.ways) {
    fmt::print("Path: {} Reason: {} Ops: {} Bytes: {}: {}\n", way.path, way.reason, way.ops, way.bytes, way.sentence);
  }
}

nlohmann::ordered_json as_json(const Settings& settings, const JobResult& result, double seconds) {
  nlohmann::ordered_json json;
  json["io_type"] = operation_name(settings.operation);
  json["xfer_type"] = transfer_name(settings.transfer);
  json["threads"] = result.threads;
  json["io_depth"] = result.depth;
  json["bytes"] = result.bytes;
  json["data_set_bytes"] = result.size;
  json["io_size"] = {{"min", settings.sizes.smallest}, {"max", settings.sizes.largest}, {"step", settings.sizes.step}};
  json["ops"] = result.latencies.count();
  json["seconds"] = seconds;
  json["gib_per_second"] = gib_per_second(result.bytes, seconds);
  const Latencies& times = result.latencies;
  json["latency_us"] = {{"avg", times.average()},        {"min", times.smallest()},
                        {"p50", times.percentile(0.5)},  {"p90", times.percentile(0.9)},
                        {"p99", times.percentile(0.99)}, {"p99_9", times.percentile(0.999)},
                        {"max", times.largest()}};
  return json;
}

}  // namespace

std::string result_line(const Settings& settings, const JobResult& result, double seconds) {
  const std::string depth = is_batch(settings.transfer) ? fmt::format(" IoDepth: {}", result.depth) : std::string();
  return fmt::format(
      "IoType: {} XferType: {} Threads: {}{} DataSetSize: {}/{}(KiB) IOSize: {}(KiB) Throughput: {:.6f} GiB/sec, "
      "Avg_Latency: {:.6f} usecs ops: {} total_time {:.6f} secs",
      operation_name(settings.operation), transfer_name(settings.transfer), result.threads, depth,
      whole_kib(result.bytes), whole_kib(result.size), io_size(settings.sizes), gib_per_second(result.bytes, seconds),
      result.latencies.average(), result.latencies.count(), seconds);
}

void print_pass(const Settings& settings, const PassResult& result) {
  fmt::print("{}\n", result_line(settings, result.total, result.seconds));
  if (settings.latency) fmt::print("{}\n", latency_line(result.total.latencies));
  if (settings.a_line_a_job) {
    for (const JobResult& job : result.jobs) {
      fmt::print("{}: {}\n", printable(job.name), result_line(settings, job, result.seconds));
    }
  }
  if (settings.path) print_ways(settings, result);
  std::fflush(stdout);
}

void print_json(const std::vector<std::pair<Settings, PassResult>>& passes, const Grounds& grounds) {
  nlohmann::ordered_json json;
  json["gdsio"] = SLUICE_VERSION;
  json["library"] = grounds.library;
  json["device"] = grounds.device;
  json["soft"] = grounds.soft;
  json["passes"] = nlohmann::ordered_json::array();
  for (const auto& [settings, result] : passes) {
    nlohmann::ordered_json pass = as_json(settings, result.total, result.seconds);
    pass["verified"] = settings.verify && !is_write(settings.operation);
    pass["paths"] = nlohmann::ordered_json::array();
    for (const WayTaken& way : result.ways) {
      pass["paths"].push_back({{"path", way.path},
                               {"reason", way.reason},
                               {"sentence", way.sentence},
                               {"ops", way.ops},
                               {"bytes", way.bytes}});
    }
    pass["jobs"] = nlohmann::ordered_json::array();
    for (const JobResult& job : result.jobs) {
      nlohmann::ordered_json one = as_json(settings, job, result.seconds);
      one["name"] = job.name;
      pass["jobs"].push_back(std::move(one));
    }
    json["passes"].push_back(std::move(pass));
  }
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace sluice::tools
