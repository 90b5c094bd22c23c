// SPDX-License-Identifier: Apache-2.0
// Rows without cuFile: what the storage alone and the link alone reach, on the same files and the same kind of memory.
#include <unistd.h>

#include <random>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/offsets.h"
#include "client/pattern.h"

namespace sluice::bench {
namespace {

struct PlainLane {
  PinnedMemory memory;
  Offsets offsets;
  std::uint64_t last = 0;
};

// pread and pwrite, a thread each. Bytes that were read follow the pattern; what is written is the pattern's start.
class PlainJob : public Job {
 public:
  PlainJob(Bench& bench, const Row& row)
      : bench_(bench),
        row_(row),
        writes_(row.operation == Operation::pwrite),
        file_(writes_ ? bench.target() : bench.source()) {
    const bool shared = row.random && !writes_;
    const std::uint64_t part = shared ? file_.size() : file_.size() / row.count / 4096 * 4096;
    want_room(file_, part, row);
    for (unsigned i = 0; i < row.count; ++i) {
      const std::uint64_t begin = shared ? 0 : i * part;
      lanes_.push_back(
          {PinnedMemory(bench.gpu(), row.size),
           Offsets(begin, begin + part, row.size, row.random ? Offsets::Order::random : Offsets::Order::ascending,
                   std::random_device()())});
      if (writes_) fill_pattern(lanes_.back().memory.bytes(), 0);
    }
  }

  std::uint64_t check() override {
    bench_.workers().run(row_.count, [&](unsigned thread) { step(lanes_[thread]); });
    return check_last();
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), row_.count, seconds, [&](unsigned thread) { return step(lanes_[thread]); });
  }

  std::uint64_t check_last() override {
    if (writes_) return 0;
    for (const PlainLane& lane : lanes_) want_pattern(lane.memory.bytes(), lane.last, 0, row_);
    return std::uint64_t{row_.count} * row_.size;
  }

 private:
  std::uint64_t step(PlainLane& lane) {
    lane.last = lane.offsets.next();
    const auto offset = static_cast<off_t>(lane.last);
    const ssize_t moved = writes_ ? ::pwrite(file_.descriptor(), lane.memory.data(), row_.size, offset)
                                  : ::pread(file_.descriptor(), lane.memory.data(), row_.size, offset);
    want_all(moved, row_.size, writes_ ? "pwrite" : "pread");
    return row_.size;
  }

  Bench& bench_;
  Row row_;
  bool writes_;
  const TestFile& file_;
  std::vector<PlainLane> lanes_;
};

// Copies between pinned memory and the device on a stream, one after the other, two in flight.
class LinkJob : public Job {
 public:
  LinkJob(Bench& bench, const Row& row)
      : bench_(bench), row_(row), host_(bench.gpu(), row.size), device_(bench.gpu(), row.size) {
    fill_pattern(host_.bytes(), 0);
    streams_.emplace_back(bench.gpu());
    streams_.emplace_back(bench.gpu());
    copy(Operation::link_in, streams_[0]);
    streams_[0].wait();
  }

  std::uint64_t check() override { return check_last(); }

  Sample run(double seconds) override {
    bool one_in_flight = false;
    unsigned turn = 0;
    return measure(bench_.workers(), 1, seconds, [&](unsigned) {
      copy(row_.operation, streams_[turn]);
      turn ^= 1;
      if (one_in_flight) streams_[turn].wait();
      one_in_flight = true;
      return row_.size;
    });
  }

  std::uint64_t check_last() override {
    for (const OwnStream& stream : streams_) stream.wait();
    want_device_pattern(bench_.gpu(), device_.address(), row_.size, 0, row_);
    want_pattern(host_.bytes(), 0, 0, row_);
    return row_.size;
  }

 private:
  void copy(Operation way, const OwnStream& stream) const {
    const DriverCalls& calls = bench_.gpu().calls();
    if (way == Operation::link_in) {
      bench_.gpu().want(calls.copy_in_async(device_.address(), host_.data(), row_.size, stream.get()),
                        "cuMemcpyHtoDAsync");
    } else {
      bench_.gpu().want(calls.copy_out_async(host_.data(), device_.address(), row_.size, stream.get()),
                        "cuMemcpyDtoHAsync");
    }
  }

  Bench& bench_;
  Row row_;
  PinnedMemory host_;
  DeviceMemory device_;
  std::vector<OwnStream> streams_;
};

}  // namespace

std::unique_ptr<Job> make_plain(Bench& bench, const Row& row) {
  return std::make_unique<PlainJob>(bench, row);
}
std::unique_ptr<Job> make_link(Bench& bench, const Row& row) {
  return std::make_unique<LinkJob>(bench, row);
}

}  // namespace sluice::bench
