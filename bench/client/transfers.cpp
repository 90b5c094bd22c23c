// SPDX-License-Identifier: Apache-2.0
// Rows of cuFileRead and cuFileWrite: a thread a request, each with memory of its own.
#include <optional>
#include <random>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/offsets.h"
#include "client/pattern.h"

namespace sluice::bench {
namespace {

struct Lane {
  DeviceMemory memory;
  std::optional<RegisteredBuffer> registration;
  Offsets offsets;
  std::optional<std::uint64_t> last;  // the offset of the last step
  std::uint64_t salt = 0;             // of what the memory holds, when it is to be written
};

// Readers of random places share the file; all others have a part of it each.
std::vector<Lane> make_lanes(Bench& bench, const Row& row, const TestFile& file, bool shared) {
  const std::uint64_t part = shared ? file.size() : file.size() / row.count / 4096 * 4096;
  want_room(file, part, row);
  std::random_device seed;
  std::vector<Lane> lanes;
  for (unsigned i = 0; i < row.count; ++i) {
    const std::uint64_t begin = shared ? 0 : i * part;
    lanes.push_back({DeviceMemory(bench.gpu(), row.size), std::nullopt,
                     Offsets(begin, begin + part, row.size,
                             row.random ? Offsets::Order::random : Offsets::Order::ascending, seed()),
                     std::nullopt});
    if (row.registered) lanes.back().registration.emplace(lanes.back().memory.pointer(), row.size);
  }
  return lanes;
}

class ReadJob : public Job {
 public:
  ReadJob(Bench& bench, const Row& row)
      : bench_(bench),
        row_(row),
        handle_(bench.source_handle()),
        lanes_(make_lanes(bench, row, bench.source(), row.random)) {}

  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size);
    bench_.workers().run(row_.count, [&](unsigned thread) {
      Lane& lane = lanes_[thread];
      for (unsigned i = 0; i < rounds; ++i) {
        poison(bench_.gpu(), lane.memory.address(), row_.size);
        read(lane, lane.offsets.anywhere(bench_.source().alignment()));
        compare(lane);
      }
    });
    return std::uint64_t{rounds} * row_.count * row_.size;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), row_.count, seconds, [&](unsigned thread) {
      Lane& lane = lanes_[thread];
      return read(lane, lane.offsets.next());
    });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(row_.count, [&](unsigned thread) { compare(lanes_[thread]); });
    return std::uint64_t{row_.count} * row_.size;
  }

 private:
  std::uint64_t read(Lane& lane, std::uint64_t offset) {
    lane.last = offset;
    want_all(cuFileRead(handle_, lane.memory.pointer(), row_.size, static_cast<off_t>(offset), 0), row_.size,
             "cuFileRead");
    return row_.size;
  }

  void compare(const Lane& lane) const {
    if (lane.last) want_device_pattern(bench_.gpu(), lane.memory.address(), row_.size, *lane.last, row_);
  }

  Bench& bench_;
  Row row_;
  CUfileHandle_t handle_;
  std::vector<Lane> lanes_;
};

class WriteJob : public Job {
 public:
  WriteJob(Bench& bench, const Row& row)
      : bench_(bench),
        row_(row),
        handle_(bench.target_handle()),
        lanes_(make_lanes(bench, row, bench.target(), false)) {
    for (Lane& lane : lanes_) renew(lane);
  }

  // Each time other bytes: what an earlier run has left in the file does not pass for written.
  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size);
    bench_.workers().run(row_.count, [&](unsigned thread) {
      Lane& lane = lanes_[thread];
      for (unsigned i = 0; i < rounds; ++i) {
        renew(lane);
        write(lane, lane.offsets.anywhere(bench_.target().alignment()));
        compare(lane);
      }
    });
    return std::uint64_t{rounds} * row_.count * row_.size;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), row_.count, seconds, [&](unsigned thread) {
      Lane& lane = lanes_[thread];
      return write(lane, lane.offsets.next());
    });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(row_.count, [&](unsigned thread) { compare(lanes_[thread]); });
    return std::uint64_t{row_.count} * row_.size;
  }

 private:
  void renew(Lane& lane) {
    lane.salt = std::random_device()() | 1u;
    std::vector<std::byte> bytes(row_.size);
    fill_pattern(bytes, 0, lane.salt);
    fill_device(bench_.gpu(), lane.memory.address(), bytes);
  }

  std::uint64_t write(Lane& lane, std::uint64_t offset) {
    lane.last = offset;
    want_all(cuFileWrite(handle_, lane.memory.pointer(), row_.size, static_cast<off_t>(offset), 0), row_.size,
             "cuFileWrite");
    return row_.size;
  }

  void compare(const Lane& lane) {
    if (!lane.last) return;
    want_file_pattern(bench_.target(), *lane.last, row_.size, lane.salt, row_);
  }

  Bench& bench_;
  Row row_;
  CUfileHandle_t handle_;
  std::vector<Lane> lanes_;
};

}  // namespace

std::unique_ptr<Job> make_read(Bench& bench, const Row& row) {
  return std::make_unique<ReadJob>(bench, row);
}
std::unique_ptr<Job> make_write(Bench& bench, const Row& row) {
  return std::make_unique<WriteJob>(bench, row);
}

}  // namespace sluice::bench
