// SPDX-License-Identifier: Apache-2.0
// Tables for people.
#include "gds_stats/report.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <span>

#include "common/text.h"
#include "gds_stats/latency.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

using Text = std::back_insert_iterator<std::string>;

std::string latency_text(double microseconds) {
  if (microseconds <= 0) return "-";
  return microseconds < 10 ? fmt::format("{:.1f} us", microseconds) : fmt::format("{:.0f} us", microseconds);
}

void direction_row(Text out, const char* name, const sluice_stats_direction& direction, double seconds) {
  fmt::format_to(out, "{:<22} {:>12} {:>10} {:>12} {:>14} {:>12}\n", name, direction.operations.ok,
                 direction.operations.err, format_bytes(direction.bytes), format_rate(direction.bytes, seconds),
                 latency_text(rates_of(direction, seconds).microseconds));
}

void way_rows(Text out, const Sample& sample) {
  fmt::format_to(out, "\n{:<40} {:>10} {:>12} {:>10} {:>12} {:>8}\n", "path (reason)", "reads", "bytes", "writes",
                 "bytes", "errors");
  for (int path = 0; path < SLUICE_PATH_COUNT; ++path) {
    for (int reason = 0; reason < SLUICE_REASON_COUNT; ++reason) {
      const sluice_stats_way& way = way_of(sample, path, reason);
      if (way.reads + way.writes == 0) continue;
      const std::string name = fmt::format("{} ({})", sluice_path_name(static_cast<sluice_path_t>(path)),
                                           sluice_reason_name(static_cast<sluice_reason_t>(reason)));
      fmt::format_to(out, "{:<40} {:>10} {:>12} {:>10} {:>12} {:>8}\n", name, way.reads, format_bytes(way.read_bytes),
                     way.writes, format_bytes(way.written_bytes), way.errors);
    }
  }
}

void carrier_row(Text out, const Sample& sample) {
  const auto& carriers = sample.sum.carriers;
  std::uint64_t all = 0;
  for (const std::uint64_t count : carriers) all += count;
  if (all == 0) return;
  fmt::format_to(out,
                 "\ncarried by: gather kernel {} (called off {}), copy engine {}, "
                 "slabs {}; of batches: scatter kernel {}, copy engine {}; small ones: resident kernel {}, CPU {}; "
                 "in place {}\n",
                 carriers[SLUICE_STATS_KERNEL], carriers[SLUICE_STATS_KERNEL_CALLED_OFF],
                 carriers[SLUICE_STATS_COPY_ENGINE], carriers[SLUICE_STATS_SLAB], carriers[SLUICE_STATS_SCATTER_KERNEL],
                 carriers[SLUICE_STATS_MANY_COPIES], carriers[SLUICE_STATS_RESIDENT_KERNEL],
                 carriers[SLUICE_STATS_CPU_WINDOW], carriers[SLUICE_STATS_COHERENT]);
}

void latency_rows(Text out, const Sample& sample) {
  bool first = true;
  for (std::size_t direction = 0; direction < 2; ++direction) {
    for (std::size_t path = 0; path < SLUICE_PATH_COUNT; ++path) {
      for (std::size_t size_class = 0; size_class < SLUICE_STATS_CLASS_COUNT; ++size_class) {
        const std::span counts = latencies_of(sample, direction, path, size_class);
        const std::uint64_t all = count_of(counts);
        if (all == 0) continue;
        if (first)
          fmt::format_to(out, "\n{:<34} {:>12} {:>12} {:>12} {:>12}\n", "latency", "count", "p50", "p90", "p99");
        first = false;
        const auto at = [counts](double part) { return latency_text(quantile(counts, part) / 1000); };
        const std::string name =
            fmt::format("{} {} {}", direction == 0 ? "reads" : "writes",
                        sluice_path_name(static_cast<sluice_path_t>(path)), class_name(size_class));
        fmt::format_to(out, "{:<34} {:>12} {:>12} {:>12} {:>12}\n", name, all, at(0.5), at(0.9), at(0.99));
      }
    }
  }
}

void under_way_row(Text out, const Sample& sample) {
  const std::uint64_t waiting = batch_entries_waiting(sample);
  if (sample.under_way[0] + sample.under_way[1] + waiting == 0) return;
  fmt::format_to(out, "\nunder way: {} reads ({}), {} writes ({}); {} entries of batches wait\n", sample.under_way[0],
                 format_bytes(sample.bytes_under_way[0]), sample.under_way[1], format_bytes(sample.bytes_under_way[1]),
                 waiting);
}

void call_row(Text out, const char* name, const sluice_stats_pair& pair) {
  if (pair.ok + pair.err != 0) fmt::format_to(out, "{:<22} {:>12} {:>10}\n", name, pair.ok, pair.err);
}

void call_rows(Text out, const Sample& sample) {
  fmt::format_to(out, "\n{:<22} {:>12} {:>10}\n", "calls", "ok", "errors");
  for (std::size_t i = 0; i < SLUICE_STATS_OPERATION_COUNT; ++i) {
    call_row(out, operation_name(i), sample.sum.operations[i]);
  }
  call_row(out, "batch_processed", sample.sum.batch_processed);
}

void size_rows(Text out, const Sample& sample) {
  fmt::format_to(out, "\n{:<22} {:>12} {:>10}\n", "size", "reads", "writes");
  for (std::size_t i = 0; i < SLUICE_STATS_SIZE_COUNT; ++i) {
    const std::uint64_t reads = sample.sum.directions[0].sizes[i];
    const std::uint64_t writes = sample.sum.directions[1].sizes[i];
    if (reads + writes == 0) continue;
    const std::string name = i == 0 ? std::string("below 4.0 KiB") : "from " + format_bytes(size_begin(i));
    fmt::format_to(out, "{:<22} {:>12} {:>10}\n", name, reads, writes);
  }
}

void device_row(Text out, const char* name, const sluice_stats_device_direction& part, double seconds) {
  fmt::format_to(out, "  {:<20} {:>12} {:>10} {:>12} {:>14} {:>10} {:>10}\n", name, part.total, part.errors,
                 format_bytes(part.bytes), format_rate(part.bytes, seconds), part.by_drive, part.unaligned);
}

void device_rows(Text out, const Sample& sample) {
  for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
    const sluice_stats_device& device = sample.sum.devices[i];
    if (!has_been_used(device)) continue;
    fmt::format_to(out, "\nGPU {} (UUID {}), {} in registered buffers\n", i, uuid_text(sample.uuids[i]),
                   format_bytes(sample.registered_bytes[i]));
    fmt::format_to(out, "  {:<20} {:>12} {:>10} {:>12} {:>14} {:>10} {:>10}\n", "", "ok", "errors", "bytes", "rate",
                   "by drive", "unaligned");
    device_row(out, "reads", device.directions[0], sample.seconds);
    device_row(out, "writes", device.directions[1], sample.seconds);
  }
}

}  // namespace

const char* operation_name(std::size_t operation) {
  constexpr std::array<const char*, SLUICE_STATS_OPERATION_COUNT> names = {
      "handle_register", "handle_deregister", "buffer_register", "buffer_deregister", "batch_submit",
      "batch_complete",  "batch_setup",       "batch_cancel",    "batch_destroy",     "batch_enqueued"};
  return names[operation];
}

std::uint64_t size_begin(std::size_t place) {
  return place == 0 ? 0 : std::uint64_t{2048} << place;
}

std::string uuid_text(const std::array<unsigned char, 16>& uuid) {
  std::string text;
  for (const unsigned char byte : uuid) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

std::string text_of(const Sample& sample, unsigned level) {
  std::string text;
  const Text out = std::back_inserter(text);
  fmt::format_to(out, "{:<22} {:>12} {:>10} {:>12} {:>14} {:>12}\n", "", "ok", "errors", "bytes", "rate", "latency");
  direction_row(out, "reads", whole_direction(sample.sum, 0), sample.seconds);
  direction_row(out, "writes", whole_direction(sample.sum, 1), sample.seconds);
  under_way_row(out, sample);
  way_rows(out, sample);
  latency_rows(out, sample);
  carrier_row(out, sample);
  call_rows(out, sample);
  if (level >= 2) size_rows(out, sample);
  if (level >= 3) device_rows(out, sample);
  return text;
}

std::string rates_heading() {
  return fmt::format("{:>10} {:>14} {:>10} {:>10} {:>14} {:>10} {:>8}\n", "reads/s", "bytes", "latency", "writes/s",
                     "bytes", "latency", "errors");
}

std::string rates_line(const Sample& sample) {
  const sluice_stats_direction reads = whole_direction(sample.sum, 0);
  const sluice_stats_direction writes = whole_direction(sample.sum, 1);
  const Rates in = rates_of(reads, sample.seconds);
  const Rates out = rates_of(writes, sample.seconds);
  return fmt::format("{:>10.0f} {:>14} {:>10} {:>10.0f} {:>14} {:>10} {:>8}\n", in.operations,
                     format_rate(reads.bytes, sample.seconds), latency_text(in.microseconds), out.operations,
                     format_rate(writes.bytes, sample.seconds), latency_text(out.microseconds),
                     reads.operations.err + writes.operations.err);
}

}  // namespace sluice::tools
