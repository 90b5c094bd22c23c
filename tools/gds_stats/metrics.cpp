// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/metrics.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "gds_stats/collect.h"

namespace sluice::tools {
namespace {

using enum MetricKind;
using enum MetricUnit;

constexpr const char* gpu_labels = "UUID, gpu";
constexpr const char* gpu_direction_labels = "UUID, gpu, direction";

constexpr std::array table = {
    Metric{"sluice_build_info", gauge, number, 1, "version", "Always 1; the version of the library in the process.",
           collect_build},
    Metric{"sluice_statistics_level", gauge, number, 1, "", "The level of the statistics, 1 to 3.", collect_level},
    Metric{"sluice_statistics_seconds_total", counter, nanoseconds, 1, "", "How long the statistics have run.",
           collect_running},
    Metric{"sluice_transfers_total", counter, number, 1, "direction, path, reason",
           "Transfers by the way that the bytes went, and why.", collect_transfers},
    Metric{"sluice_transferred_bytes_total", counter, number, 1, "direction, path, reason",
           "Bytes by the way that they went, and why.", collect_bytes},
    Metric{"sluice_errors_total", counter, number, 1, "path, reason", "Transfers that failed.", collect_errors},
    Metric{"sluice_calls_total", counter, number, 1, "call, result",
           "Calls of the library. An entry of a batch and a transfer in a stream count as a read or a write.",
           collect_calls},
    Metric{"sluice_busy_seconds_total", counter, nanoseconds, 1, "direction",
           "The time that good reads and writes took, added up.", collect_busy},
    Metric{"sluice_transfer_seconds", histogram, nanoseconds, 1, "direction, path, size",
           "How long good reads and writes took, by the class of their size. The sum is made of the buckets' middles, "
           "within 5 %.",
           collect_latencies},
    Metric{"sluice_transfers_under_way", gauge, number, 1, "direction", "Transfers that have begun and not ended.",
           collect_under_way},
    Metric{"sluice_bytes_under_way", gauge, number, 1, "direction", "Bytes that the transfers under way ask for.",
           collect_bytes_under_way},
    Metric{"sluice_batch_entries_waiting", gauge, number, 1, "",
           "Entries of batches that were submitted and have not ended.", collect_waiting},
    Metric{"sluice_batch_entries_total", counter, number, 1, "result", "Entries of batches that have ended.",
           collect_entries},
    Metric{"sluice_batch_drive_entries_total", counter, number, 1, "result",
           "Entries of batches that the drive moved by itself.", collect_drive_entries},
    Metric{"sluice_batch_bytes_total", counter, number, 1, "direction", "The bytes of batches.", collect_batch_bytes},
    Metric{"sluice_last_batch_entry_bytes", gauge, number, 1, "direction", "The bytes of the last entry that ended.",
           collect_last_batch},
    Metric{"sluice_vectored_bytes_total", counter, number, 1, "direction", "The bytes of vectored calls.",
           collect_vectored_bytes},
    Metric{"sluice_carrier_requests_total", counter, number, 1, "carrier",
           "Requests by what carried them between host memory and device.", collect_carriers},
    Metric{"sluice_registered_host_bytes", gauge, number, 1, "", "Host memory in registered buffers.",
           collect_registered_host},
    Metric{"sluice_transfer_size_bytes", histogram, number, 2, "direction",
           "The sizes that good reads and writes asked for. The sum is what they moved.", collect_sizes},
    Metric{"sluice_device_transfers_total", counter, number, 3, gpu_direction_labels,
           "Good transfers of each GPU's memory.", collect_device_transfers},
    Metric{"sluice_device_bytes_total", counter, number, 3, gpu_direction_labels,
           "Bytes to and from each GPU's memory.", collect_device_bytes},
    Metric{"sluice_device_busy_seconds_total", counter, nanoseconds, 3, gpu_direction_labels,
           "The time that good transfers of each GPU's memory took, added up.", collect_device_busy},
    Metric{"sluice_device_drive_transfers_total", counter, number, 3, gpu_direction_labels,
           "Good transfers of each GPU's memory that the drive made by itself.", collect_device_by_drive},
    Metric{"sluice_device_unaligned_transfers_total", counter, number, 3, gpu_direction_labels,
           "Good transfers of each GPU's memory whose offset, size or address is no whole page.",
           collect_device_unaligned},
    Metric{"sluice_device_errors_total", counter, number, 3, gpu_direction_labels,
           "Transfers of each GPU's memory that failed.", collect_device_errors},
    Metric{"sluice_device_registrations_total", counter, number, 3, "UUID, gpu, call",
           "Buffers in each GPU's memory that were registered and deregistered.", collect_device_registrations},
    Metric{"sluice_registered_bytes", gauge, number, 3, gpu_labels, "Each GPU's memory in registered buffers.",
           collect_registered},
    Metric{"sluice_device_link_bytes_per_second", gauge, number, 3, gpu_labels,
           "What the PCI link of each GPU carries each way at most, by its width and generation, before what packets "
           "cost.",
           collect_links},
    Metric{"sluice_exporter_processes", gauge, number, 0, "", "Processes whose statistics the exporter follows.",
           nullptr},
    Metric{"sluice_exporter_processes_left_out", gauge, number, 0, "why",
           "Processes that show statistics, and are not followed.", nullptr},
    Metric{"sluice_exporter_scrape_seconds", gauge, nanoseconds, 0, "", "How long the last look took.", nullptr},
};

}  // namespace

std::span<const Metric> metrics() {
  return table;
}

const char* kind_name(MetricKind kind) {
  constexpr std::array<const char*, 3> names = {"counter", "gauge", "histogram"};
  return names[static_cast<std::size_t>(kind)];
}

std::string metric_rows() {
  std::string text;
  for (const Metric& metric : table) {
    const std::string_view labels = metric.labels;
    fmt::format_to(std::back_inserter(text), "| `{}` | {} | {} | {} | {} |\n", metric.name, kind_name(metric.kind),
                   labels.empty() ? std::string("–") : fmt::format("{}", labels),
                   metric.level == 0 ? std::string("–") : fmt::format("{}", metric.level), metric.help);
  }
  return text;
}

std::string gpu_name(const std::array<unsigned char, 16>& uuid) {
  std::string text;
  bool any = false;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    any = any || uuid[i] != 0;
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    fmt::format_to(std::back_inserter(text), "{}{:02x}", dash ? "-" : "", uuid[i]);
  }
  return any ? "GPU-" + text : std::string();
}

}  // namespace sluice::tools
