// SPDX-License-Identifier: Apache-2.0
// The link as a kernel uses it: what bounds a library whose kernels fetch the bytes, where link-h2d says what the copy
// engine would make of them.
#include <fmt/format.h>

#include <array>

#include "client/check.h"
#include "client/job.h"
#include "client/kernel.h"
#include "client/pattern.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

// A block moves a chunk of 32 KiB at a time, every 32nd of them: each thread has four loads of 16 bytes on their way,
// 8 KiB from one to the next, before it stores the first. They bypass the cache, as loads of bytes must that another
// processor has just written. (So do volatile ones, of which those of one thread wait for each other.)
constexpr const char* source = R"(
.version 6.4
.target sm_70
.address_size 64
.visible .entry fetch_chunks(.param .u64 to, .param .u64 from, .param .u32 chunks)
.maxntid 512, 1, 1
{
  .reg .pred %p;
  .reg .b32 %thread, %chunk, %chunks, %blocks;
  .reg .b64 %to, %from, %offset, %target, %source;
  .reg .b32 %w<16>;
  ld.param.u64 %to, [to];
  ld.param.u64 %from, [from];
  ld.param.u32 %chunks, [chunks];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
  mov.u32 %thread, %tid.x;
  mov.u32 %chunk, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mul.wide.u32 %offset, %thread, 16;
  add.u64 %to, %to, %offset;
  add.u64 %from, %from, %offset;
NEXT:
  setp.ge.u32 %p, %chunk, %chunks;
  @%p bra END;
  mul.wide.u32 %offset, %chunk, 32768;
  add.u64 %source, %from, %offset;
  add.u64 %target, %to, %offset;
  ld.relaxed.sys.global.v4.u32 {%w0, %w1, %w2, %w3}, [%source];
  ld.relaxed.sys.global.v4.u32 {%w4, %w5, %w6, %w7}, [%source+8192];
  ld.relaxed.sys.global.v4.u32 {%w8, %w9, %w10, %w11}, [%source+16384];
  ld.relaxed.sys.global.v4.u32 {%w12, %w13, %w14, %w15}, [%source+24576];
  st.global.v4.u32 [%target], {%w0, %w1, %w2, %w3};
  st.global.v4.u32 [%target+8192], {%w4, %w5, %w6, %w7};
  st.global.v4.u32 [%target+16384], {%w8, %w9, %w10, %w11};
  st.global.v4.u32 [%target+24576], {%w12, %w13, %w14, %w15};
  add.u32 %chunk, %chunk, %blocks;
  bra NEXT;
END:
  ret;
}
)";

constexpr unsigned blocks = 32;
constexpr unsigned threads = 512;
constexpr std::size_t chunk = std::size_t{threads} * 4 * 16;

class Event {
 public:
  explicit Event(const Gpu& gpu) : gpu_(&gpu) {
    constexpr unsigned without_timing = 2;
    gpu.want(gpu.calls().event_create(&event_, without_timing), "cuEventCreate");
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { gpu_->calls().event_destroy(event_); }

  void record(const OwnStream& stream) const {
    gpu_->want(gpu_->calls().event_record(event_, stream.get()), "cuEventRecord");
  }
  void wait() const { gpu_->want(gpu_->calls().event_synchronize(event_), "cuEventSynchronize"); }

 private:
  const Gpu* gpu_;
  void* event_ = nullptr;
};

// One launch after the other on one stream, so that no more blocks than these share the link; the next one is always
// queued when one ends.
class LinkKernelJob : public Job {
 public:
  LinkKernelJob(Bench& bench, const Row& row)
      : bench_(bench),
        row_(row),
        kernel_(bench.gpu(), source, "fetch_chunks"),
        host_(bench.gpu(), row.size),
        device_(bench.gpu(), row.size),
        stream_(bench.gpu()) {
    fill_pattern(host_.bytes(), 0);
    spoil();
  }

  std::uint64_t check() override {
    launch();
    return check_last();
  }

  Sample run(double seconds) override {
    bool one_in_flight = false;
    unsigned turn = 0;
    return measure(bench_.workers(), 1, seconds, [&](unsigned) {
      launch();
      ended_[turn].record(stream_);
      turn ^= 1;
      if (one_in_flight) ended_[turn].wait();
      one_in_flight = true;
      return row_.size;
    });
  }

  std::uint64_t check_last() override {
    stream_.wait();
    want_device_pattern(bench_.gpu(), device_.address(), row_.size, 0, row_);
    spoil();
    return row_.size;
  }

 private:
  // What a kernel that moved nothing would leave behind. Not by run(): beside a product a fill may never begin.
  void spoil() { poison(bench_.gpu(), device_.address(), row_.size); }

  void launch() {
    DevicePtr to = device_.address();
    DevicePtr from = host_.seen_by_device();
    auto chunks = static_cast<unsigned>(row_.size / chunk);
    std::array<void*, 3> arguments = {&to, &from, &chunks};
    kernel_.launch(blocks, threads, stream_, arguments);
  }

  Bench& bench_;
  Row row_;
  Kernel kernel_;
  PinnedMemory host_;
  DeviceMemory device_;
  OwnStream stream_;
  std::array<Event, 2> ended_{Event(bench_.gpu()), Event(bench_.gpu())};
};

}  // namespace

std::unique_ptr<Job> make_link_kernel(Bench& bench, const Row& row) {
  if (!bench.gpu().runs_kernels()) throw Trouble("this device runs no kernels, so none can fetch bytes over the link");
  if (row.product == Product::endless) throw Trouble("beside a kernel that does not end no other one begins");
  if (row.size % chunk != 0) {
    throw Trouble(fmt::format("{}: its kernel moves multiples of {}", row.name, size_text(chunk)));
  }
  return std::make_unique<LinkKernelJob>(bench, row);
}

}  // namespace sluice::bench
