// SPDX-License-Identifier: Apache-2.0
// The row that waits: streams that the program holds, a read behind each, and what the process costs until they go on,
// the calls included.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/stream_request.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

constexpr unsigned until_at_least = 0;  // CU_STREAM_WAIT_VALUE_GEQ

// A stream that goes on when the word says so, and what is read behind that.
struct HeldStream {
  HeldStream(const Gpu& gpu, std::size_t size, std::uint64_t offset)
      : stream(gpu), memory(gpu, size), request{.size = size, .file_offset = static_cast<off_t>(offset)} {}

  OwnStream stream;
  DeviceMemory memory;
  StreamRequest request;
};

class HeldJob : public Job {
 public:
  HeldJob(Bench& bench, const Row& row)
      : bench_(bench), row_(row), word_(bench.gpu(), sizeof(std::uint32_t)), handle_(bench.source_handle()) {
    want_room(bench.source(), bench.source().size() / row.count, row);
    std::memset(word_.data(), 0, sizeof(std::uint32_t));
    streams_.reserve(row.count);
    for (unsigned i = 0; i < row.count; ++i) streams_.emplace_back(bench.gpu(), row.size, i * row.size);
  }

  std::uint64_t check() override {
    for (const HeldStream& held : streams_) poison(bench_.gpu(), held.memory.address(), row_.size);
    static_cast<void>(hold(0.05));
    return check_last();
  }

  Sample run(double seconds) override { return hold(seconds); }

  std::uint64_t check_last() override {
    for (const HeldStream& held : streams_) {
      want_device_pattern(bench_.gpu(), held.memory.address(), row_.size,
                          static_cast<std::uint64_t>(held.request.file_offset), row_);
    }
    return row_.size * row_.count;
  }

 private:
  // By a thread of its own: a library may keep its caller until the stream gets there.
  Sample hold(double seconds) {
    ++turn_;
    for (HeldStream& held : streams_) held.request.moved = -1;
    Sample sample;
    bool early = false;
    const double before = cpu_seconds();
    std::thread release([&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      sample.cpu_seconds = cpu_seconds() - before;
      for (const HeldStream& held : streams_) {
        early = early || std::atomic_ref(held.request.moved).load(std::memory_order_acquire) != -1;
      }
      std::atomic_ref(*static_cast<std::uint32_t*>(word_.data())).store(turn_, std::memory_order_release);
    });
    try {
      for (HeldStream& held : streams_) put(held);
    } catch (...) {
      release.join();
      throw;
    }
    release.join();
    for (const HeldStream& held : streams_) {
      held.stream.wait();
      want_all(held.request.moved, row_.size, "cuFileReadAsync");
    }
    if (early) throw Trouble(fmt::format("{}: a read was over before its stream was let go", row_.name));
    sample.seconds = seconds;
    sample.steps = 1;
    return sample;
  }

  void put(HeldStream& held) {
    const Gpu& gpu = bench_.gpu();
    gpu.want(gpu.calls().stream_wait_value_32(held.stream.get(), word_.seen_by_device(), turn_, until_at_least),
             "cuStreamWaitValue32");
    StreamRequest& request = held.request;
    want(cuFileReadAsync(handle_, held.memory.pointer(), &request.size, &request.file_offset, &request.memory_offset,
                         &request.moved, held.stream.get()),
         "cuFileReadAsync");
  }

  Bench& bench_;
  Row row_;
  PinnedMemory word_;
  CUfileHandle_t handle_;
  std::vector<HeldStream> streams_;
  std::uint32_t turn_ = 0;
};

}  // namespace

std::unique_ptr<Job> make_held(Bench& bench, const Row& row) {
  if (bench.gpu().calls().stream_wait_value_32 == nullptr) throw Trouble("streams of this driver await no values");
  return std::make_unique<HeldJob>(bench, row);
}

}  // namespace sluice::bench
