// Atomics in static storage. Rates are over the time that the statistics have been running.
#include "observe/statistics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <span>

namespace sluice::observe {

namespace {

using Clock = std::chrono::steady_clock;
using Counter = std::atomic<std::uint64_t>;
constexpr auto relaxed = std::memory_order_relaxed;
constexpr std::size_t max_devices = 16;
constexpr std::size_t bucket_count = 32;

struct OkErr {
  Counter ok, err;
};

struct DirectionTotals {
  OkErr operations;
  Counter bytes, microseconds;
  Counter batch_bytes, last_batch_bytes;
  std::array<Counter, bucket_count> histogram;
};

struct DeviceDirection {
  Counter bytes, nanoseconds, total, by_drive, unaligned, errors;
};

struct DeviceTotals {
  std::atomic<bool> seen;
  std::array<std::atomic<unsigned char>, CUFILE_GPU_UUID_LEN> uuid;
  std::array<DeviceDirection, 2> directions;
  Counter maps, unmaps, registered_bytes;
};

struct Totals {
  std::array<DirectionTotals, 2> directions;
  std::array<OkErr, operation_count> operations;
  OkErr batch_processed, batch_processed_by_drive;
  std::array<DeviceTotals, max_devices> devices;
};

constinit Totals totals{};
constinit std::atomic<int> current_level{0};
constinit std::atomic<bool> started{false};
constinit std::atomic<std::int64_t> started_at{0};

void zero(Counter& counter) {
  counter.store(0, relaxed);
}
void zero(OkErr& pair) {
  zero(pair.ok);
  zero(pair.err);
}

DeviceTotals* device_totals(int device) {
  if (device < 0 || static_cast<std::size_t>(device) >= max_devices) return nullptr;
  return &totals.devices[static_cast<std::size_t>(device)];
}

void count(OkErr& pair, bool ok, std::uint64_t times = 1) {
  (ok ? pair.ok : pair.err).fetch_add(times, relaxed);
}

void count_in_batch(const Transfer& transfer, base::Outcome outcome) noexcept {
  count(totals.batch_processed, outcome.ok());
  if (transfer.by_drive) count(totals.batch_processed_by_drive, outcome.ok());
  DirectionTotals& sum = totals.directions[static_cast<std::size_t>(transfer.direction)];
  sum.batch_bytes.fetch_add(outcome.count(), relaxed);
  sum.last_batch_bytes.store(outcome.count(), relaxed);
}

CUfileOpCounter_t read_pair(const OkErr& pair) {
  CUfileOpCounter_t counter{};
  counter.ok = pair.ok.load(relaxed);
  counter.err = pair.err.load(relaxed);
  return counter;
}

CUfileOpCounter_t read_pair(Operation operation) {
  return read_pair(totals.operations[static_cast<std::size_t>(operation)]);
}

// Whole seconds would round short runs away: rates are computed in floating point.
double running_seconds() {
  const auto since = Clock::now().time_since_epoch().count() - started_at.load(relaxed);
  return std::max(1e-9, std::chrono::duration<double>(Clock::duration(since)).count());
}

std::uint64_t per_second(std::uint64_t amount, double seconds) {
  return static_cast<std::uint64_t>(static_cast<double>(amount) / seconds);
}

std::uint64_t average(std::uint64_t sum, std::uint64_t count) {
  return count == 0 ? 0 : sum / count;
}

}  // namespace

int statistics_level() noexcept {
  return current_level.load(relaxed);
}
void set_statistics_level(int level) noexcept {
  current_level.store(level, relaxed);
}

void start_statistics() noexcept {
  if (started.load(relaxed)) return;
  started_at.store(Clock::now().time_since_epoch().count(), relaxed);
  started.store(true, relaxed);
}

void stop_statistics() noexcept {
  started.store(false, relaxed);
}

void reset_statistics() noexcept {
  started.store(false, relaxed);
  for (auto& direction : totals.directions) {
    zero(direction.operations);
    for (Counter* c :
         {&direction.bytes, &direction.microseconds, &direction.batch_bytes, &direction.last_batch_bytes}) {
      zero(*c);
    }
    for (auto& bucket : direction.histogram) zero(bucket);
  }
  for (auto& pair : totals.operations) zero(pair);
  zero(totals.batch_processed);
  zero(totals.batch_processed_by_drive);
  for (auto& device : totals.devices) {
    device.seen.store(false, relaxed);
    for (auto& direction : device.directions) {
      for (Counter* c : {&direction.bytes, &direction.nanoseconds, &direction.total, &direction.by_drive,
                         &direction.unaligned, &direction.errors}) {
        zero(*c);
      }
    }
    for (Counter* c : {&device.maps, &device.unmaps}) zero(*c);
  }
}

bool statistics_running() noexcept {
  return started.load(relaxed) && current_level.load(relaxed) > 0;
}

void count(Operation operation, bool ok, std::uint64_t times) noexcept {
  if (!statistics_running()) return;
  count(totals.operations[static_cast<std::size_t>(operation)], ok, times);
}

void count_transfer(const Transfer& transfer, base::Outcome outcome) noexcept {
  if (!statistics_running()) return;
  const auto direction = static_cast<std::size_t>(transfer.direction);
  DirectionTotals& sum = totals.directions[direction];
  const auto nanoseconds = static_cast<std::uint64_t>(transfer.duration.count());
  if (outcome.ok()) {
    sum.operations.ok.fetch_add(1, relaxed);
    sum.bytes.fetch_add(outcome.count(), relaxed);
    sum.microseconds.fetch_add(nanoseconds / 1000, relaxed);
    sum.histogram[size_bucket(transfer.requested)].fetch_add(1, relaxed);
  } else {
    sum.operations.err.fetch_add(1, relaxed);
  }
  if (transfer.in_batch) count_in_batch(transfer, outcome);
  if (DeviceTotals* device = device_totals(transfer.device)) {
    device->seen.store(true, relaxed);
    DeviceDirection& part = device->directions[direction];
    if (outcome.ok()) {
      part.total.fetch_add(1, relaxed);
      part.bytes.fetch_add(outcome.count(), relaxed);
      part.nanoseconds.fetch_add(nanoseconds, relaxed);
      if (transfer.by_drive) part.by_drive.fetch_add(1, relaxed);
      if (!transfer.aligned) part.unaligned.fetch_add(1, relaxed);
    } else {
      part.errors.fetch_add(1, relaxed);
    }
  }
}

void count_registered_bytes(int device, std::int64_t bytes) noexcept {
  DeviceTotals* entry = device_totals(device);
  if (entry == nullptr) return;
  // Registered memory is a level, not an event: it is kept whether or not the statistics run.
  entry->registered_bytes.fetch_add(static_cast<std::uint64_t>(bytes), relaxed);
  if (!statistics_running()) return;
  entry->seen.store(true, relaxed);
  (bytes >= 0 ? entry->maps : entry->unmaps).fetch_add(1, relaxed);
}

void name_device(int device, const unsigned char (&uuid)[16]) noexcept {
  DeviceTotals* entry = device_totals(device);
  if (entry == nullptr) return;
  for (std::size_t i = 0; i < CUFILE_GPU_UUID_LEN; ++i) entry->uuid[i].store(uuid[i], relaxed);
}

void read_statistics(CUfileStatsLevel1_t& out) noexcept {
  out = {};
  const double seconds = running_seconds();
  const DirectionTotals& reads = totals.directions[0];
  const DirectionTotals& writes = totals.directions[1];
  out.read_ops = read_pair(reads.operations);
  out.write_ops = read_pair(writes.operations);
  out.hdl_register_ops = read_pair(Operation::handle_register);
  out.hdl_deregister_ops = read_pair(Operation::handle_deregister);
  out.buf_register_ops = read_pair(Operation::buffer_register);
  out.buf_deregister_ops = read_pair(Operation::buffer_deregister);
  out.read_bytes = reads.bytes.load(relaxed);
  out.write_bytes = writes.bytes.load(relaxed);
  out.read_bw_bytes_per_sec = per_second(out.read_bytes, seconds);
  out.write_bw_bytes_per_sec = per_second(out.write_bytes, seconds);
  out.read_lat_sum_us = reads.microseconds.load(relaxed);
  out.write_lat_sum_us = writes.microseconds.load(relaxed);
  out.read_lat_avg_us = average(out.read_lat_sum_us, out.read_ops.ok);
  out.write_lat_avg_us = average(out.write_lat_sum_us, out.write_ops.ok);
  out.read_ops_per_sec = per_second(out.read_ops.ok, seconds);
  out.write_ops_per_sec = per_second(out.write_ops.ok, seconds);
  out.batch_submit_ops = read_pair(Operation::batch_submit);
  out.batch_complete_ops = read_pair(Operation::batch_complete);
  out.batch_setup_ops = read_pair(Operation::batch_setup);
  out.batch_cancel_ops = read_pair(Operation::batch_cancel);
  out.batch_destroy_ops = read_pair(Operation::batch_destroy);
  out.batch_enqueued_ops = read_pair(Operation::batch_enqueued);
  out.batch_processed_ops = read_pair(totals.batch_processed);
  const CUfileOpCounter_t by_drive = read_pair(totals.batch_processed_by_drive);
  out.batch_posix_processed_ops.ok = out.batch_processed_ops.ok - by_drive.ok;
  out.batch_posix_processed_ops.err = out.batch_processed_ops.err - by_drive.err;
  // Which way an entry goes is known when it has gone.
  out.batch_posix_enqueued_ops = out.batch_enqueued_ops;
  out.batch_posix_enqueued_ops.ok -= std::min(by_drive.ok + by_drive.err, out.batch_enqueued_ops.ok);
  out.batch_total_submit_ops = out.batch_submit_ops;
  out.batch_read_bytes = reads.batch_bytes.load(relaxed);
  out.batch_write_bytes = writes.batch_bytes.load(relaxed);
  out.batch_read_bw_bytes = per_second(out.batch_read_bytes, seconds);
  out.batch_write_bw_bytes = per_second(out.batch_write_bytes, seconds);
  out.batch_submit_ops_per_sec = per_second(out.batch_submit_ops.ok, seconds);
  out.batch_complete_ops_per_sec = per_second(out.batch_complete_ops.ok, seconds);
  out.last_batch_read_bytes = reads.last_batch_bytes.load(relaxed);
  out.last_batch_write_bytes = writes.last_batch_bytes.load(relaxed);
}

void read_statistics(CUfileStatsLevel2_t& out) noexcept {
  out = {};
  read_statistics(out.basic);
  for (std::size_t i = 0; i < bucket_count; ++i) {
    out.read_size_kb_hist[i] = totals.directions[0].histogram[i].load(relaxed);
    out.write_size_kb_hist[i] = totals.directions[1].histogram[i].load(relaxed);
  }
}

void read_statistics(CUfileStatsLevel3_t& out) noexcept {
  out = {};
  read_statistics(out.detailed);
  const double seconds = running_seconds();
  const auto utilization = [seconds](std::uint64_t nanoseconds) {
    return static_cast<std::uint64_t>(static_cast<double>(nanoseconds) / 1e7 / seconds);  // percent of the time
  };
  for (const DeviceTotals& device : totals.devices) {
    if (!device.seen.load(relaxed)) continue;
    CUfilePerGpuStats_t& gpu = out.per_gpu_stats[out.num_gpus++];
    for (std::size_t i = 0; i < CUFILE_GPU_UUID_LEN; ++i) gpu.uuid[i] = static_cast<char>(device.uuid[i].load(relaxed));
    const DeviceDirection& reads = device.directions[0];
    gpu.read_bytes = reads.bytes.load(relaxed);
    gpu.read_bw_bytes_per_sec = per_second(gpu.read_bytes, seconds);
    gpu.read_utilization = utilization(reads.nanoseconds.load(relaxed));
    gpu.read_duration_us = reads.nanoseconds.load(relaxed) / 1000;
    gpu.n_total_reads = reads.total.load(relaxed);
    gpu.n_p2p_reads = reads.by_drive.load(relaxed);
    gpu.n_posix_reads = gpu.n_total_reads - std::min(gpu.n_p2p_reads, gpu.n_total_reads);
    gpu.n_unaligned_reads = reads.unaligned.load(relaxed);
    gpu.n_reads_err = reads.errors.load(relaxed);
    const DeviceDirection& writes = device.directions[1];
    gpu.writes_bytes = writes.bytes.load(relaxed);
    gpu.write_bw_bytes_per_sec = per_second(gpu.writes_bytes, seconds);
    gpu.write_utilization = utilization(writes.nanoseconds.load(relaxed));
    gpu.write_duration_us = writes.nanoseconds.load(relaxed) / 1000;
    gpu.n_total_writes = writes.total.load(relaxed);
    gpu.n_p2p_writes = writes.by_drive.load(relaxed);
    gpu.n_posix_writes = gpu.n_total_writes - std::min(gpu.n_p2p_writes, gpu.n_total_writes);
    gpu.n_unaligned_writes = writes.unaligned.load(relaxed);
    gpu.n_writes_err = writes.errors.load(relaxed);
    gpu.n_mmap = device.maps.load(relaxed);
    gpu.n_mmap_ok = gpu.n_mmap;
    gpu.n_mmap_free = device.unmaps.load(relaxed);
    gpu.reg_bytes = device.registered_bytes.load(relaxed);
  }
}

std::size_t size_bucket(std::uint64_t bytes) noexcept {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(bytes >> 12)), bucket_count - 1);
}

}  // namespace sluice::observe
