// Rows of stream reads: one read on each stream, then all streams awaited; one thread does it.
#include <random>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/offsets.h"

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

// What a stream reads next. The library keeps pointers into it until the stream has passed: it must not move.
struct Request {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t memory_offset = 0;
  ssize_t moved = 0;
};

class StreamJob : public Job {
 public:
  StreamJob(Bench& bench, const Row& row)
      : bench_(bench),
        row_(row),
        file_(bench.source_handle()),
        requests_(row.count),
        offsets_(0, bench.source().size(), row.size, row.random ? Offsets::Order::random : Offsets::Order::ascending,
                 std::random_device()()) {
    for (unsigned i = 0; i < row.count; ++i) {
      memory_.emplace_back(bench.gpu(), row.size);
      if (row.registered) registrations_.emplace_back(memory_.back().pointer(), row.size);
      streams_.emplace_back(bench.gpu());
      if (row.fixed) registered_streams_.emplace_back(streams_.back().get());
      requests_[i].size = row.size;
    }
  }

  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size * row_.count);
    // Of streams that were promised aligned arguments, they are.
    const std::uint64_t alignment = row_.fixed ? 4096 : bench_.source().alignment();
    bench_.workers().run(1, [&](unsigned) {
      for (unsigned i = 0; i < rounds; ++i) {
        for (const DeviceMemory& memory : memory_) poison(bench_.gpu(), memory.address(), row_.size);
        round([&] { return offsets_.anywhere(alignment); });
        compare();
      }
    });
    return std::uint64_t{rounds} * row_.size * row_.count;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), 1, seconds, [&](unsigned) { return round([&] { return offsets_.next(); }); });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(1, [&](unsigned) { compare(); });
    return std::uint64_t{row_.size} * row_.count;
  }

 private:
  template <typename Place>
  std::uint64_t round(const Place& place) {
    for (unsigned i = 0; i < row_.count; ++i) {
      Request& request = requests_[i];
      request.file_offset = static_cast<off_t>(place());
      request.moved = -1;
      want(cuFileReadAsync(file_, memory_[i].pointer(), &request.size, &request.file_offset, &request.memory_offset,
                           &request.moved, streams_[i].get()),
           "cuFileReadAsync");
    }
    for (unsigned i = 0; i < row_.count; ++i) {
      streams_[i].wait();
      want_all(requests_[i].moved, row_.size, "cuFileReadAsync");
    }
    return std::uint64_t{row_.size} * row_.count;
  }

  void compare() const {
    for (unsigned i = 0; i < row_.count; ++i) {
      want_device_pattern(bench_.gpu(), memory_[i].address(), row_.size,
                          static_cast<std::uint64_t>(requests_[i].file_offset), row_);
    }
  }

  Bench& bench_;
  Row row_;
  CUfileHandle_t file_;
  std::vector<Request> requests_;
  Offsets offsets_;
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
