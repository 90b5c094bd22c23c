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
  const Gpu* gpu;
  DeviceMemory memory;
  std::optional<RegisteredBuffer> registration;
  Offsets offsets;
  std::optional<std::uint64_t> last;  // the offset of the last step
  std::uint64_t salt = 0;             // of what the memory holds, when it is to be written
};

// A worker has the first GPU's context current; a program that works with another makes that one's current.
Lane& entered(Lane& lane, const Bench& bench) {
  if (lane.gpu != &bench.gpu()) lane.gpu->enter();
  return lane;
}

// Lanes in turn on the GPUs that the row is of. Readers of random places share the file; all others have a part of it
// each.
std::vector<Lane> make_lanes(Bench& bench, const Row& row, const TestFile& file, bool shared) {
  std::vector<const Gpu*> gpus{&bench.gpu()};
  if (row.each) gpus = bench.gpus();
  const std::size_t count = row.count * gpus.size();
  const std::uint64_t part = shared ? file.size() : file.size() / count / 4096 * 4096;
  want_room(file, part, row);
  std::random_device seed;
  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t begin = shared ? 0 : i * part;
    const Gpu& gpu = *gpus[i % gpus.size()];
    gpu.enter();
    lanes.push_back({&gpu, DeviceMemory(gpu, row.size), std::nullopt,
                     Offsets(begin, begin + part, row.size,
                             row.random ? Offsets::Order::random : Offsets::Order::ascending, seed()),
                     std::nullopt});
    if (row.registered) lanes.back().registration.emplace(lanes.back().memory.pointer(), row.size);
  }
  bench.gpu().enter();
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
    bench_.workers().run(threads(), [&](unsigned thread) {
      Lane& lane = entered(lanes_[thread], bench_);
      for (unsigned i = 0; i < rounds; ++i) {
        poison(*lane.gpu, lane.memory.address(), row_.size);
        read(lane, lane.offsets.anywhere(bench_.source().alignment()));
        compare(lane);
      }
    });
    return std::uint64_t{rounds} * threads() * row_.size;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), threads(), seconds, [&](unsigned thread) {
      Lane& lane = entered(lanes_[thread], bench_);
      return read(lane, lane.offsets.next());
    });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(threads(), [&](unsigned thread) { compare(entered(lanes_[thread], bench_)); });
    return std::uint64_t{threads()} * row_.size;
  }

 private:
  unsigned threads() const { return static_cast<unsigned>(lanes_.size()); }

  std::uint64_t read(Lane& lane, std::uint64_t offset) {
    lane.last = offset;
    want_all(cuFileRead(handle_, lane.memory.pointer(), row_.size, static_cast<off_t>(offset), 0), row_.size,
             "cuFileRead");
    return row_.size;
  }

  void compare(const Lane& lane) const {
    if (lane.last) want_device_pattern(*lane.gpu, lane.memory.address(), row_.size, *lane.last, row_);
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
    for (Lane& lane : lanes_) renew(entered(lane, bench));
    bench.gpu().enter();
  }

  // Each time other bytes: what an earlier run has left in the file does not pass for written.
  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size);
    bench_.workers().run(threads(), [&](unsigned thread) {
      Lane& lane = entered(lanes_[thread], bench_);
      for (unsigned i = 0; i < rounds; ++i) {
        renew(lane);
        write(lane, lane.offsets.anywhere(bench_.target().alignment()));
        compare(lane);
      }
    });
    return std::uint64_t{rounds} * threads() * row_.size;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), threads(), seconds, [&](unsigned thread) {
      Lane& lane = entered(lanes_[thread], bench_);
      return write(lane, lane.offsets.next());
    });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(threads(), [&](unsigned thread) { compare(entered(lanes_[thread], bench_)); });
    return std::uint64_t{threads()} * row_.size;
  }

 private:
  unsigned threads() const { return static_cast<unsigned>(lanes_.size()); }

  void renew(Lane& lane) {
    lane.salt = std::random_device()() | 1u;
    std::vector<std::byte> bytes(row_.size);
    fill_pattern(bytes, 0, lane.salt);
    fill_device(*lane.gpu, lane.memory.address(), bytes);
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
