// SPDX-License-Identifier: Apache-2.0
// The least that reads in streams take where the stream says how far it has got and a kernel brings the bytes: each
// stream writes a word (the bell), a thread that watches for it puts the bytes into pinned memory and answers by
// another word, for which a kernel in that stream waits before it fetches them. No library, no file: what bounds async
// rows of small reads.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/kernel.h"
#include "client/pattern.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

// One block: its first thread waits for the word, then all of them fetch, 16 bytes at a time, past the caches.
constexpr const char* bell_kernel = R"(
.version 6.4
.target sm_70
.address_size 64
.visible .entry await_and_fetch(.param .u64 word, .param .u32 value, .param .u64 to, .param .u64 from,
                                .param .u32 pieces)
.maxntid 512, 1, 1
{
  .reg .pred %p;
  .reg .b32 %thread, %value, %seen, %pieces, %threads;
  .reg .b64 %word, %to, %from, %offset, %target, %source;
  .reg .b32 %w<4>;
  ld.param.u64 %word, [word];
  ld.param.u32 %value, [value];
  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  ld.param.u32 %pieces, [pieces];
  cvta.to.global.u64 %word, %word;
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
  mov.u32 %thread, %tid.x;
  mov.u32 %threads, %ntid.x;
  setp.ne.u32 %p, %thread, 0;
  @%p bra ANSWERED;
LOOK:
  ld.acquire.sys.global.u32 %seen, [%word];
  setp.ne.u32 %p, %seen, %value;
  @%p bra LOOK;
ANSWERED:
  bar.sync 0;
NEXT:
  setp.ge.u32 %p, %thread, %pieces;
  @%p bra END;
  mul.wide.u32 %offset, %thread, 16;
  add.u64 %source, %from, %offset;
  add.u64 %target, %to, %offset;
  ld.relaxed.sys.global.v4.u32 {%w0, %w1, %w2, %w3}, [%source];
  st.global.v4.u32 [%target], {%w0, %w1, %w2, %w3};
  add.u32 %thread, %thread, %threads;
  bra NEXT;
END:
  ret;
}
)";

constexpr unsigned bell_threads = 512;
constexpr std::size_t fetched_at_once = 16;

// A line of memory each: one is written by the device, the other by the host.
struct BellWords {
  alignas(64) std::uint32_t bell;
  alignas(64) std::uint32_t answer;
};

// One stream with what it works on.
class BellLane {
 public:
  BellLane(const Gpu& gpu, const Row& row, std::uint64_t offset)
      : gpu_(&gpu),
        offset_(offset),
        bytes_(row.size),
        staging_(gpu, row.size),
        device_(gpu, row.size),
        words_(gpu, sizeof(BellWords)),
        stream_(gpu) {
    fill_pattern(bytes_, offset);
    std::memset(words_.data(), 0, sizeof(BellWords));
    spoil();
  }

  void ask(const Kernel& kernel) {
    const DevicePtr words = words_.seen_by_device();
    DevicePtr answer = words + offsetof(BellWords, answer);
    gpu_->want(gpu_->calls().stream_write_value_32(stream_.get(), words + offsetof(BellWords, bell), ++turn_, 0),
               "cuStreamWriteValue32");
    DevicePtr to = device_.address();
    DevicePtr from = staging_.seen_by_device();
    auto pieces = static_cast<unsigned>(bytes_.size() / fetched_at_once);
    std::array<void*, 5> arguments = {&answer, &turn_, &to, &from, &pieces};
    kernel.launch(1, bell_threads, stream_, arguments);
  }

  void wait() const { stream_.wait(); }

  // By the thread that watches.
  void answer_when_rung() {
    auto& words = *static_cast<BellWords*>(words_.data());
    const std::uint32_t rung = std::atomic_ref(words.bell).load(std::memory_order_acquire);
    if (rung == answered_) return;
    answered_ = rung;
    std::memcpy(staging_.data(), bytes_.data(), bytes_.size());
    std::atomic_ref(words.answer).store(rung, std::memory_order_release);
  }

  // What a kernel that moved nothing would leave behind.
  void spoil() { poison(*gpu_, device_.address(), bytes_.size()); }

  void compare(const Row& row) const { want_device_pattern(*gpu_, device_.address(), bytes_.size(), offset_, row); }

 private:
  const Gpu* gpu_;
  std::uint64_t offset_;
  std::vector<std::byte> bytes_;
  PinnedMemory staging_;
  DeviceMemory device_;
  PinnedMemory words_;
  OwnStream stream_;
  std::uint32_t turn_ = 0;
  std::uint32_t answered_ = 0;
};

// Watches as long as it lives, and until no kernel waits for it any more.
class BellWatcher {
 public:
  explicit BellWatcher(std::vector<BellLane>& lanes) : lanes_(lanes), thread_([this] { watch(); }) {}
  BellWatcher(const BellWatcher&) = delete;
  BellWatcher& operator=(const BellWatcher&) = delete;
  ~BellWatcher() {
    for (const BellLane& lane : lanes_) {
      try {
        lane.wait();
      } catch (const Trouble&) {  // of a device that is gone: no kernel waits there
      }
    }
    over_.store(true);
    thread_.join();
  }

 private:
  void watch() {
    while (!over_.load(std::memory_order_relaxed)) {
      for (BellLane& lane : lanes_) lane.answer_when_rung();
    }
  }

  std::vector<BellLane>& lanes_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class BellJob : public Job {
 public:
  BellJob(Bench& bench, const Row& row)
      : bench_(bench), row_(row), kernel_(bench.gpu(), bell_kernel, "await_and_fetch") {
    lanes_.reserve(row.count);
    for (unsigned i = 0; i < row.count; ++i) lanes_.emplace_back(bench.gpu(), row, i * row.size);
  }

  std::uint64_t check() override {
    {
      const BellWatcher watcher(lanes_);
      round();
    }
    return check_last();
  }

  Sample run(double seconds) override {
    const BellWatcher watcher(lanes_);
    return measure(bench_.workers(), 1, seconds, [&](unsigned) { return round(); });
  }

  // What the next kernels have to bring is spoilt here and not by run(): beside a product a fill may never begin.
  std::uint64_t check_last() override {
    for (BellLane& lane : lanes_) {
      lane.compare(row_);
      lane.spoil();
    }
    return row_.size * row_.count;
  }

 private:
  std::uint64_t round() {
    for (BellLane& lane : lanes_) lane.ask(kernel_);
    for (const BellLane& lane : lanes_) lane.wait();
    return row_.size * row_.count;
  }

  Bench& bench_;
  Row row_;
  Kernel kernel_;
  std::vector<BellLane> lanes_;
};

}  // namespace

std::unique_ptr<Job> make_bells(Bench& bench, const Row& row) {
  if (!bench.gpu().runs_kernels()) throw Trouble("this device runs no kernels, so none can wait for an answer");
  if (bench.gpu().calls().stream_write_value_32 == nullptr) throw Trouble("streams of this driver write no values");
  if (row.product == Product::endless) throw Trouble("beside a kernel that does not end no other one begins");
  if (row.size % fetched_at_once != 0)
    throw Trouble(fmt::format("{}: its kernel moves multiples of {} bytes", row.name, fetched_at_once));
  return std::make_unique<BellJob>(bench, row);
}

}  // namespace sluice::bench
