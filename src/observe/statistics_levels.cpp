// SPDX-License-Identifier: Apache-2.0
// What cuFileGetStatsL1 to L3 answer. Rates are over the time that the statistics have been running.
#include <algorithm>
#include <cstring>

#include "observe/statistics.h"
#include "observe/statistics_words.h"

namespace sluice::observe {

namespace {

sluice_stats_shard totals(Vectored vectored) noexcept {
  sluice_stats_shard sum{};
  for (sluice_stats_shard& shard : statistics_region().shards) {
    const std::span words = words_of(shard);
    const std::span sums = words_of(sum);
    for (std::size_t i = 0; i < words.size(); ++i) sums[i] += value(words[i]);
  }
  if (vectored == Vectored::apart) return sum;
  for (std::size_t i = 0; i < 2; ++i) {
    const sluice_stats_vectored& more = sum.vectored[i];
    sluice_stats_direction& all = sum.directions[i];
    all.operations.ok += more.operations.ok;
    all.operations.err += more.operations.err;
    all.bytes += more.bytes;
    all.nanoseconds += more.nanoseconds;
  }
  return sum;
}

CUfileOpCounter_t pair_of(const sluice_stats_pair& pair) noexcept {
  CUfileOpCounter_t counter{};
  counter.ok = pair.ok;
  counter.err = pair.err;
  return counter;
}

// Whole seconds would round short runs away: rates are computed in floating point.
double running_seconds() noexcept {
  std::uint64_t nanoseconds = value(statistics_region().head.ran);
  if (const std::uint64_t since = value(statistics_region().head.started_at); since != 0)
    nanoseconds += nanoseconds_now() - since;
  return std::max(1e-9, static_cast<double>(nanoseconds) / 1e9);
}

std::uint64_t per_second(std::uint64_t amount, double seconds) {
  return static_cast<std::uint64_t>(static_cast<double>(amount) / seconds);
}

std::uint64_t average(std::uint64_t sum, std::uint64_t count) {
  return count == 0 ? 0 : sum / count;
}

void fill(CUfileStatsLevel1_t& out, const sluice_stats_shard& sum, double seconds) noexcept {
  const sluice_stats_direction& reads = sum.directions[0];
  const sluice_stats_direction& writes = sum.directions[1];
  const auto operation = [&sum](Operation which) { return pair_of(sum.operations[static_cast<std::size_t>(which)]); };
  out.read_ops = pair_of(reads.operations);
  out.write_ops = pair_of(writes.operations);
  out.hdl_register_ops = operation(Operation::handle_register);
  out.hdl_deregister_ops = operation(Operation::handle_deregister);
  out.buf_register_ops = operation(Operation::buffer_register);
  out.buf_deregister_ops = operation(Operation::buffer_deregister);
  out.read_bytes = reads.bytes;
  out.write_bytes = writes.bytes;
  out.read_bw_bytes_per_sec = per_second(out.read_bytes, seconds);
  out.write_bw_bytes_per_sec = per_second(out.write_bytes, seconds);
  out.read_lat_sum_us = reads.nanoseconds / 1000;
  out.write_lat_sum_us = writes.nanoseconds / 1000;
  out.read_lat_avg_us = average(out.read_lat_sum_us, out.read_ops.ok);
  out.write_lat_avg_us = average(out.write_lat_sum_us, out.write_ops.ok);
  out.read_ops_per_sec = per_second(out.read_ops.ok, seconds);
  out.write_ops_per_sec = per_second(out.write_ops.ok, seconds);
  out.batch_submit_ops = operation(Operation::batch_submit);
  out.batch_complete_ops = operation(Operation::batch_complete);
  out.batch_setup_ops = operation(Operation::batch_setup);
  out.batch_cancel_ops = operation(Operation::batch_cancel);
  out.batch_destroy_ops = operation(Operation::batch_destroy);
  out.batch_enqueued_ops = operation(Operation::batch_enqueued);
  out.batch_processed_ops = pair_of(sum.batch_processed);
  const CUfileOpCounter_t by_drive = pair_of(sum.batch_processed_by_drive);
  out.batch_posix_processed_ops.ok = out.batch_processed_ops.ok - by_drive.ok;
  out.batch_posix_processed_ops.err = out.batch_processed_ops.err - by_drive.err;
  // Which way an entry goes is known when it has gone.
  out.batch_posix_enqueued_ops = out.batch_enqueued_ops;
  out.batch_posix_enqueued_ops.ok -= std::min(by_drive.ok + by_drive.err, out.batch_enqueued_ops.ok);
  out.batch_total_submit_ops = out.batch_submit_ops;
  out.batch_read_bytes = reads.batch_bytes;
  out.batch_write_bytes = writes.batch_bytes;
  out.batch_read_bw_bytes = per_second(out.batch_read_bytes, seconds);
  out.batch_write_bw_bytes = per_second(out.batch_write_bytes, seconds);
  out.batch_submit_ops_per_sec = per_second(out.batch_submit_ops.ok, seconds);
  out.batch_complete_ops_per_sec = per_second(out.batch_complete_ops.ok, seconds);
  out.last_batch_read_bytes = value(statistics_region().head.last_batch_bytes[0]);
  out.last_batch_write_bytes = value(statistics_region().head.last_batch_bytes[1]);
}

void fill(CUfileStatsLevel2_t& out, const sluice_stats_shard& sum, double seconds) noexcept {
  fill(out.basic, sum, seconds);
  for (std::size_t i = 0; i < SLUICE_STATS_SIZE_COUNT; ++i) {
    const std::size_t bin = std::min(i, size_bins_in_use - 1);
    out.read_size_kb_hist[bin] += sum.directions[0].sizes[i];
    out.write_size_kb_hist[bin] += sum.directions[1].sizes[i];
  }
}

std::uint64_t utilization(std::uint64_t nanoseconds, double seconds) noexcept {
  return static_cast<std::uint64_t>(static_cast<double>(nanoseconds) / 1e7 / seconds);  // percent of the time
}

void fill(CUfilePerGpuStats_t& gpu, const sluice_stats_device& device, double seconds) noexcept {
  const sluice_stats_device_direction& reads = device.directions[0];
  gpu.read_bytes = reads.bytes;
  gpu.read_bw_bytes_per_sec = per_second(gpu.read_bytes, seconds);
  gpu.read_utilization = utilization(reads.nanoseconds, seconds);
  gpu.read_duration_us = reads.nanoseconds / 1000;
  gpu.n_total_reads = reads.total;
  gpu.n_p2p_reads = reads.by_drive;
  gpu.n_posix_reads = gpu.n_total_reads - std::min(gpu.n_p2p_reads, gpu.n_total_reads);
  gpu.n_unaligned_reads = reads.unaligned;
  gpu.n_reads_err = reads.errors;
  const sluice_stats_device_direction& writes = device.directions[1];
  gpu.writes_bytes = writes.bytes;
  gpu.write_bw_bytes_per_sec = per_second(gpu.writes_bytes, seconds);
  gpu.write_utilization = utilization(writes.nanoseconds, seconds);
  gpu.write_duration_us = writes.nanoseconds / 1000;
  gpu.n_total_writes = writes.total;
  gpu.n_p2p_writes = writes.by_drive;
  gpu.n_posix_writes = gpu.n_total_writes - std::min(gpu.n_p2p_writes, gpu.n_total_writes);
  gpu.n_unaligned_writes = writes.unaligned;
  gpu.n_writes_err = writes.errors;
  gpu.n_mmap = device.registrations;
  gpu.n_mmap_ok = gpu.n_mmap;
  gpu.n_mmap_free = device.deregistrations;
}

bool is_named(std::size_t device) noexcept {
  auto& uuid = statistics_region().head.devices[device].uuid;
  return (value(uuid[0]) | value(uuid[1])) != 0;
}

bool has_been_used(const sluice_stats_device& device) noexcept {
  const auto any = [](const sluice_stats_device_direction& part) { return part.total + part.errors != 0; };
  return any(device.directions[0]) || any(device.directions[1]) || device.registrations + device.deregistrations != 0;
}

}  // namespace

void read_statistics(CUfileStatsLevel1_t& out, Vectored vectored) noexcept {
  out = {};
  fill(out, totals(vectored), running_seconds());
}

void read_statistics(CUfileStatsLevel2_t& out, Vectored vectored) noexcept {
  out = {};
  fill(out, totals(vectored), running_seconds());
}

void read_statistics(VectoredCounters& out) noexcept {
  const double seconds = running_seconds();
  const sluice_stats_shard sum = totals(Vectored::apart);
  const sluice_stats_vectored& reads = sum.vectored[0];
  const sluice_stats_vectored& writes = sum.vectored[1];
  out.readv_ops = pair_of(reads.operations);
  out.writev_ops = pair_of(writes.operations);
  out.readv_bytes = reads.bytes;
  out.writev_bytes = writes.bytes;
  out.readv_bw_bytes_per_sec = per_second(reads.bytes, seconds);
  out.writev_bw_bytes_per_sec = per_second(writes.bytes, seconds);
  out.readv_lat_sum_us = reads.nanoseconds / 1000;
  out.writev_lat_sum_us = writes.nanoseconds / 1000;
  out.readv_lat_avg_us = average(out.readv_lat_sum_us, reads.operations.ok);
  out.writev_lat_avg_us = average(out.writev_lat_sum_us, writes.operations.ok);
  out.readv_ops_per_sec = per_second(reads.operations.ok, seconds);
  out.writev_ops_per_sec = per_second(writes.operations.ok, seconds);
}

void read_statistics(CUfileStatsLevel3_t& out, Vectored vectored) noexcept {
  out = {};
  const double seconds = running_seconds();
  const sluice_stats_shard sum = totals(vectored);
  fill(out.detailed, sum, seconds);
  for (std::size_t ordinal = 0; ordinal < SLUICE_STATS_DEVICE_COUNT; ++ordinal) {
    if (!has_been_used(sum.devices[ordinal]) && !is_named(ordinal)) continue;
    CUfilePerGpuStats_t& gpu = out.per_gpu_stats[out.num_gpus++];
    fill(gpu, sum.devices[ordinal], seconds);
    gpu.n_dr_reads = by_neighbours(base::Direction::read, ordinal);
    gpu.n_dr_writes = by_neighbours(base::Direction::write, ordinal);
    auto& device = statistics_region().head.devices[ordinal];
    gpu.reg_bytes = value(device.registered_bytes);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::uint64_t part = value(device.uuid[i]);
      std::memcpy(gpu.uuid + i * sizeof part, &part, sizeof part);
    }
  }
}

}  // namespace sluice::observe
