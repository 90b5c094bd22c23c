// SPDX-License-Identifier: Apache-2.0
// The lines that scripts know of gds_stats. What Sluice has no part for (pools, RDMA, a pool of threads) has no lines.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "gds_stats/report.h"

namespace sluice::tools {
namespace {

// Of the layout, in which the rows of operations stand.
constexpr int layout_version = 8;
constexpr std::size_t shown_sizes = 16;

double mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

double gibibytes(double bytes) {
  return bytes / (1 << 30);
}

std::string ok_err(const char* name, const sluice_stats_pair& pair) {
  return fmt::format("{}: ok = {} err = {}\n", name, pair.ok, pair.err);
}

std::string operations(const sluice_stats_shard& sum) {
  constexpr std::array names = {"HandleRegister", "HandleDeregister", "BufRegister", "BufDeregister", "BatchSubmit",
                                "BatchComplete",  "BatchSetup",       "BatchCancel", "BatchDestroy",  "BatchEnqueued"};
  std::string text =
      ok_err("Read", whole_direction(sum, 0).operations) + ok_err("Write", whole_direction(sum, 1).operations);
  for (std::size_t i = 0; i < names.size(); ++i) text += ok_err(names[i], sum.operations[i]);
  const sluice_stats_pair& by_drive = sum.batch_processed_by_drive;
  const auto less = [](std::uint64_t all, std::uint64_t part) { return all - std::min(all, part); };
  sluice_stats_pair enqueued = sum.operations[SLUICE_STATS_BATCH_ENQUEUED];
  enqueued.ok = less(enqueued.ok, by_drive.ok + by_drive.err);
  text += ok_err("PosixBatchEnqueued", enqueued) + ok_err("BatchProcessed", sum.batch_processed);
  return text + ok_err("PosixBatchProcessed",
                       {less(sum.batch_processed.ok, by_drive.ok), less(sum.batch_processed.err, by_drive.err)});
}

std::string totals(const char* name, const sluice_stats_direction& direction, double seconds) {
  const Rates rates = rates_of(direction, seconds);
  return fmt::format("Total {0} Size (MiB): {1:.0f}\n{0} BandWidth (GiB/s): {2:.6f}\nAvg {0} Latency (us): {3:.0f}\n",
                     name, mebibytes(direction.bytes), gibibytes(rates.bytes), rates.microseconds);
}

std::string batch_totals(const sluice_stats_shard& sum, double seconds) {
  std::string text;
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    text += fmt::format("Total Batch {} Size (MiB): {:.0f}\n", which == 0 ? "Read" : "Write",
                        mebibytes(sum.directions[which].batch_bytes));
  }
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}}) {
    const auto bytes = static_cast<double>(sum.directions[which].batch_bytes);
    text += fmt::format("Batch {} BandWidth (GiB/s): {:.6f}\n", which == 0 ? "Read" : "Write",
                        seconds > 0 ? gibibytes(bytes / seconds) : 0);
  }
  return text;
}

std::string sizes(const sluice_stats_shard& sum) {
  std::string text = "READ-WRITE SIZE HISTOGRAM :\n";
  std::array<std::uint64_t, shown_sizes> reads{};
  std::array<std::uint64_t, shown_sizes> writes{};
  for (std::size_t i = 0; i < SLUICE_STATS_SIZE_COUNT; ++i) {
    reads[std::min(i, shown_sizes - 1)] += sum.directions[0].sizes[i];
    writes[std::min(i, shown_sizes - 1)] += sum.directions[1].sizes[i];
  }
  for (std::size_t i = 0; i < shown_sizes; ++i) {
    const std::string end = i + 1 == shown_sizes ? "..." : fmt::format("{}", size_begin(i + 1) >> 10);
    text += fmt::format("{}-{}(KiB): {} {}\n", size_begin(i) >> 10, end, reads[i], writes[i]);
  }
  return text;
}

std::string device_part(const char* name, const sluice_stats_device_direction& part, double seconds,
                        const char* sparse) {
  const double busy = seconds > 0 ? static_cast<double>(part.nanoseconds) / 1e7 / seconds : 0;
  const double rate = seconds > 0 ? gibibytes(static_cast<double>(part.bytes) / seconds) : 0;
  return fmt::format(" {}: bw={:.2f} util(%)={:.0f} n={} posix={} unalign={} dr=0 {}err={} MiB={:.0f}", name, rate,
                     busy, part.total, part.total - std::min(part.total, part.by_drive), part.unaligned, sparse,
                     part.errors, mebibytes(part.bytes));
}

std::string devices(const Sample& sample) {
  std::string text = "PER_GPU STATS:\n";
  for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
    const sluice_stats_device& device = sample.sum.devices[i];
    if (!has_been_used(device)) continue;
    text += fmt::format("GPU {}(UUID: {})", i, uuid_text(sample.uuids[i]));
    text += device_part("Read", device.directions[0], sample.seconds, "r_sparse=0 r_inline=0 ");
    text += device_part("Write", device.directions[1], sample.seconds, "");
    text += fmt::format(" BufRegister: n={} err=0 free={} MiB={:.0f}\n", device.registrations, device.deregistrations,
                        mebibytes(sample.registered_bytes[i]));
  }
  return text;
}

}  // namespace

std::string known_text_of(const Sample& sample, unsigned level) {
  const sluice_stats_shard& sum = sample.sum;
  std::string text = fmt::format("cuFile STATS VERSION : {}\nGLOBAL STATS:\n", layout_version);
  text += operations(sum);
  text += totals("Read", whole_direction(sum, 0), sample.seconds) +
          totals("Write", whole_direction(sum, 1), sample.seconds);
  text += batch_totals(sum, sample.seconds);
  if (level >= 2) text += sizes(sum);
  if (level >= 3) text += devices(sample);
  return text;
}

}  // namespace sluice::tools
