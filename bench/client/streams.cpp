// SPDX-License-Identifier: Apache-2.0
// Rows of stream calls: one read on each stream, or one write into a part of the file of its own, then all streams
// awaited; one thread does it.
#include <random>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/offsets.h"
#include "client/pattern.h"
#include "client/stream_request.h"

namespace sluice::bench {
namespace {

constexpr unsigned everything_fixed = CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET |
                                      CU_FILE_STREAM_FIXED_FILE_SIZE | CU_FILE_STREAM_PAGE_ALIGNED_INPUTS;

class RegisteredStream {
 public:
  explicit RegisteredStream(CUstream stream) : stream_(stream) {
    want(cuFileStreamRegister(stream, everything_fixed), "cuFileStreamRegister");
  }
  RegisteredStream(RegisteredStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  RegisteredStream& operator=(RegisteredStream&&) = delete;
  ~RegisteredStream() {
    if (stream_ != nullptr) cuFileStreamDeregister(stream_);
  }

 private:
  CUstream stream_;
};

class StreamJob : public Job {
 public:
  StreamJob(Bench& bench, const Row& row)
      : bench_(bench),
        row_(row),
        file_(row.writes ? bench.target() : bench.source()),
        handle_(row.writes ? bench.target_handle() : bench.source_handle()),
        requests_(row.count) {
    const std::uint64_t part = file_.size() / row.count / 4096 * 4096;
    want_room(file_, part, row);
    for (unsigned i = 0; i < row.count; ++i) {
      memory_.emplace_back(bench.gpu(), row.size);
      if (row.registered) registrations_.emplace_back(memory_.back().pointer(), row.size);
      streams_.emplace_back(bench.gpu());
      if (row.fixed) registered_streams_.emplace_back(streams_.back().get());
      requests_[i].size = row.size;
      offsets_.emplace_back(i * part, (i + 1) * part, row.size,
                            row.random ? Offsets::Order::random : Offsets::Order::ascending, std::random_device()());
    }
    renew();
  }

  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size * row_.count);
    // Of streams that were promised aligned arguments, they are.
    const std::uint64_t alignment = row_.fixed ? 4096 : file_.alignment();
    bench_.workers().run(1, [&](unsigned) {
      for (unsigned i = 0; i < rounds; ++i) {
        for (const DeviceMemory& memory : memory_) {
          if (!row_.writes) poison(bench_.gpu(), memory.address(), row_.size);
        }
        renew();
        round([&](Offsets& offsets) { return offsets.anywhere(alignment); });
        compare();
      }
    });
    return std::uint64_t{rounds} * row_.size * row_.count;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), 1, seconds,
                   [&](unsigned) { return round([](Offsets& offsets) { return offsets.next(); }); });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(1, [&](unsigned) { compare(); });
    return std::uint64_t{row_.size} * row_.count;
  }

 private:
  // Each time other bytes: what an earlier run has left in the file does not pass for written.
  void renew() {
    if (!row_.writes) return;
    salt_ = (std::uint64_t{std::random_device()()} << 9U) + 1;
    std::vector<std::byte> bytes(row_.size);
    for (unsigned i = 0; i < row_.count; ++i) {
      fill_pattern(bytes, 0, salt_ + i);
      fill_device(bench_.gpu(), memory_[i].address(), bytes);
    }
  }

  template <typename Place>
  std::uint64_t round(const Place& place) {
    for (unsigned i = 0; i < row_.count; ++i) {
      StreamRequest& request = requests_[i];
      request.file_offset = static_cast<off_t>(place(offsets_[i]));
      request.moved = -1;
      want((row_.writes ? cuFileWriteAsync : cuFileReadAsync)(handle_, memory_[i].pointer(), &request.size,
                                                              &request.file_offset, &request.memory_offset,
                                                              &request.moved, streams_[i].get()),
           name());
    }
    for (unsigned i = 0; i < row_.count; ++i) {
      streams_[i].wait();
      want_all(requests_[i].moved, row_.size, name());
    }
    return std::uint64_t{row_.size} * row_.count;
  }

  const char* name() const { return row_.writes ? "cuFileWriteAsync" : "cuFileReadAsync"; }

  void compare() const {
    for (unsigned i = 0; i < row_.count; ++i) {
      const auto offset = static_cast<std::uint64_t>(requests_[i].file_offset);
      if (row_.writes) {
        want_file_pattern(file_, offset, row_.size, salt_ + i, row_);
      } else {
        want_device_pattern(bench_.gpu(), memory_[i].address(), row_.size, offset, row_);
      }
    }
  }

  Bench& bench_;
  Row row_;
  const TestFile& file_;
  CUfileHandle_t handle_;
  std::vector<StreamRequest> requests_;
  std::vector<Offsets> offsets_;
  std::uint64_t salt_ = 0;
  std::vector<DeviceMemory> memory_;
  std::vector<RegisteredBuffer> registrations_;
  std::vector<OwnStream> streams_;
  std::vector<RegisteredStream> registered_streams_;
};

}  // namespace

std::unique_ptr<Job> make_async(Bench& bench, const Row& row) {
  return std::make_unique<StreamJob>(bench, row);
}

}  // namespace sluice::bench
