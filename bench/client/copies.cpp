// SPDX-License-Identifier: Apache-2.0
// A lone copy between pinned memory and the device: the least that a transfer of its size takes, whatever makes it.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/pattern.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

void leave_the_core_for_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The memory on both sides, and the word that says that a copy is through.
class Lane {
 public:
  Lane(const Gpu& gpu, const Row& row)
      : gpu_(&gpu),
        out_(row.operation == Operation::copy_out),
        host_(gpu, row.size),
        device_(gpu, row.size),
        word_(gpu, sizeof(std::uint32_t)),
        word_on_device_(word_.seen_by_device()),
        stream_(gpu) {
    *static_cast<std::uint32_t*>(word_.data()) = 0;
    fill_pattern(host_.bytes(), 0);
    fill_device(gpu, device_.address(), host_.bytes());
    spoil();
  }

  std::uint64_t copy() {
    const DriverCalls& calls = gpu_->calls();
    const std::size_t size = host_.bytes().size();
    if (out_) {
      gpu_->want(calls.copy_out_async(host_.data(), device_.address(), size, stream_.get()), "cuMemcpyDtoHAsync");
    } else {
      gpu_->want(calls.copy_in_async(device_.address(), host_.data(), size, stream_.get()), "cuMemcpyHtoDAsync");
    }
    if (calls.stream_write_value_32 == nullptr) {
      stream_.wait();
    } else {
      gpu_->want(calls.stream_write_value_32(stream_.get(), word_on_device_, ++turn_, 0), "cuStreamWriteValue32");
      wait_for_word();
    }
    return size;
  }

  // What a copy that moved nothing would leave behind.
  void spoil() {
    if (out_) {
      std::memset(host_.data(), 0xA5, host_.bytes().size());
    } else {
      poison(*gpu_, device_.address(), host_.bytes().size());
    }
  }

  std::uint64_t compare(const Row& row) const {
    if (out_) {
      want_pattern(host_.bytes(), 0, 0, row);
    } else {
      want_device_pattern(*gpu_, device_.address(), host_.bytes().size(), 0, row);
    }
    return host_.bytes().size();
  }

 private:
  bool word_is_there() const {
    return std::atomic_ref(*static_cast<std::uint32_t*>(word_.data())).load(std::memory_order_acquire) == turn_;
  }

  void wait_for_word() const {
    constexpr int busy_looks = 1 << 20;
    for (int looks = 0; !word_is_there(); ++looks) {
      leave_the_core_for_a_moment();
      if (looks < busy_looks) continue;
      // A broken device never writes it, and says so here.
      stream_.wait();
      if (!word_is_there()) throw Trouble("the stream has ended, and the word behind the copy is not there");
    }
  }

  const Gpu* gpu_;
  bool out_;
  PinnedMemory host_;
  DeviceMemory device_;
  PinnedMemory word_;
  DevicePtr word_on_device_;
  OwnStream stream_;
  std::uint32_t turn_ = 0;
};

class CopyJob : public Job {
 public:
  CopyJob(Bench& bench, const Row& row) : bench_(bench), row_(row) {
    lanes_.reserve(row.count);
    for (unsigned i = 0; i < row.count; ++i) lanes_.emplace_back(bench.gpu(), row);
  }

  std::uint64_t check() override {
    bench_.workers().run(row_.count, [&](unsigned thread) { lanes_[thread].copy(); });
    return check_last();
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), row_.count, seconds, [&](unsigned thread) { return lanes_[thread].copy(); });
  }

  // What the next copies have to bring is spoilt here and not by run(): beside a product a fill may never begin.
  std::uint64_t check_last() override {
    std::uint64_t compared = 0;
    for (Lane& lane : lanes_) {
      compared += lane.compare(row_);
      lane.spoil();
    }
    return compared;
  }

 private:
  Bench& bench_;
  Row row_;
  std::vector<Lane> lanes_;
};

}  // namespace

std::unique_ptr<Job> make_copy(Bench& bench, const Row& row) {
  return std::make_unique<CopyJob>(bench, row);
}

}  // namespace sluice::bench
