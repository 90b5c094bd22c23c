// SPDX-License-Identifier: Apache-2.0
#include "client/product.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "client/job.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

// One piece: 512 rounds of eight independent multiply-adds a thread; then a block's first thread counts it, and all
// look whether they should leave. The sums are stored if they come out as a number that they never do, so that
// nothing is optimised away.
constexpr const char* product_source = R"(
.version 6.4
.target sm_70
.address_size 64
.visible .entry busy_product(.param .u64 cells, .param .u32 pieces)
.maxntid 1024, 1, 1
.minnctapersm 2
{
  .reg .pred %p;
  .reg .b32 %thread, %left, %round, %flag;
  .reg .b64 %cells;
  .reg .f32 %a, %b;
  .reg .f32 %s<8>;
  ld.param.u64 %cells, [cells];
  ld.param.u32 %left, [pieces];
  cvta.to.global.u64 %cells, %cells;
  mov.u32 %thread, %tid.x;
  cvt.rn.f32.u32 %a, %thread;
  mov.f32 %b, 0f3F7FFFFE;
  mov.f32 %s0, %a;
  mov.f32 %s1, %a;
  mov.f32 %s2, %a;
  mov.f32 %s3, %a;
  mov.f32 %s4, %a;
  mov.f32 %s5, %a;
  mov.f32 %s6, %a;
  mov.f32 %s7, %a;
PIECE:
  mov.u32 %round, 512;
ROUND:
  fma.rn.f32 %s0, %s0, %b, %a;
  fma.rn.f32 %s1, %s1, %b, %a;
  fma.rn.f32 %s2, %s2, %b, %a;
  fma.rn.f32 %s3, %s3, %b, %a;
  fma.rn.f32 %s4, %s4, %b, %a;
  fma.rn.f32 %s5, %s5, %b, %a;
  fma.rn.f32 %s6, %s6, %b, %a;
  fma.rn.f32 %s7, %s7, %b, %a;
  sub.u32 %round, %round, 1;
  setp.ne.u32 %p, %round, 0;
  @%p bra ROUND;
  setp.ne.u32 %p, %thread, 0;
  @%p bra LOOK;
  red.global.add.u64 [%cells], 1;
LOOK:
  ld.volatile.global.u32 %flag, [%cells+8];
  setp.ne.u32 %p, %flag, 0;
  @%p bra LEAVE;
  sub.u32 %left, %left, 1;
  setp.ne.u32 %p, %left, 0;
  @%p bra PIECE;
LEAVE:
  add.f32 %s0, %s0, %s1;
  add.f32 %s2, %s2, %s3;
  add.f32 %s4, %s4, %s5;
  add.f32 %s6, %s6, %s7;
  add.f32 %s0, %s0, %s2;
  add.f32 %s4, %s4, %s6;
  add.f32 %s0, %s0, %s4;
  setp.lt.f32 %p, %s0, 0fC7C35000;
  @!%p bra END;
  st.global.f32 [%cells+12], %s0;
END:
  ret;
}
)";

constexpr unsigned threads_each = 1024;
constexpr unsigned blocks_each = 2;  // of a multiprocessor: 2048 threads, all that it has room for
constexpr unsigned waves = 4;        // of blocks in a finite kernel, so that its last wave does not matter much
constexpr double kernel_seconds = 0.002;
constexpr double endless_seconds = 20;  // longer than any measurement; a client that dies does not leave it for ever
constexpr std::uint64_t flag_offset = 8;
constexpr std::size_t cells_size = 16;  // the count, the flag, a place for sums

const Gpu* entered(const Gpu& gpu) {
  gpu.enter();
  return &gpu;
}

}  // namespace

BusyProduct::BusyProduct(const Gpu& gpu)
    : gpu_(entered(gpu)),
      full_(static_cast<unsigned>(gpu.multiprocessors()) * blocks_each),
      cells_(gpu, cells_size),
      work_(gpu),
      control_(gpu) {
  if (!gpu.runs_kernels()) throw Trouble("this device runs no kernels, so nothing can keep it busy");
  kernel_.emplace(gpu, product_source, "busy_product");
}

BusyProduct::~BusyProduct() {
  try {
    stop();
  } catch (const std::exception&) {
    // A broken context: there is nothing left to stop, and the measuring side has been told.
  }
}

void BusyProduct::launch(unsigned blocks, unsigned pieces) {
  DevicePtr cells = cells_.address();
  std::array<void*, 2> arguments = {&cells, &pieces};
  kernel_->launch(blocks, threads_each, work_, arguments);
}

// By streams of its own: an endless kernel never lets the default stream through.
void BusyProduct::set_flag(unsigned value) {
  gpu_->want(gpu_->calls().copy_in_async(cells_.address() + flag_offset, &value, sizeof value, control_.get()),
             "cuMemcpyHtoDAsync");
  control_.wait();
}

std::uint64_t BusyProduct::count() {
  gpu_->enter();
  std::uint64_t pieces = 0;
  gpu_->want(gpu_->calls().copy_out_async(&pieces, cells_.address(), sizeof pieces, control_.get()),
             "cuMemcpyDtoHAsync");
  control_.wait();
  return pieces;
}

unsigned BusyProduct::pieces_for(double seconds) {
  constexpr unsigned trial = 64;
  launch(full_, trial);
  work_.wait();
  const auto begun = std::chrono::steady_clock::now();
  launch(full_, trial);
  work_.wait();
  const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() / trial;
  return static_cast<unsigned>(seconds / each) + 1;
}

void BusyProduct::start(Product kind) {
  stop();
  const std::array<std::uint64_t, 2> zero{};
  gpu_->want(gpu_->calls().copy_in_async(cells_.address(), zero.data(), sizeof zero, control_.get()),
             "cuMemcpyHtoDAsync");
  control_.wait();
  if (kind == Product::endless) {
    launch(full_, pieces_for(endless_seconds));
  } else {
    leave_ = false;
    feeder_ = std::thread(&BusyProduct::feed, this, pieces_for(kernel_seconds / waves));
  }
}

// Keeps three kernels queued, asleep between them.
void BusyProduct::feed(unsigned pieces) {
  constexpr unsigned blocking_without_timing = 3;
  std::array<void*, 3> done{};
  const DriverCalls& calls = gpu_->calls();
  try {
    gpu_->enter();
    for (void*& event : done) gpu_->want(calls.event_create(&event, blocking_without_timing), "cuEventCreate");
    for (unsigned turn = 0; !leave_; ++turn) {
      void* const event = done[turn % done.size()];
      if (turn >= done.size()) gpu_->want(calls.event_synchronize(event), "cuEventSynchronize");
      launch(full_ * waves, pieces);
      gpu_->want(calls.event_record(event, work_.get()), "cuEventRecord");
    }
  } catch (...) {
    failure_ = std::current_exception();
  }
  for (void* event : done) {
    if (event != nullptr) calls.event_destroy(event);
  }
}

void BusyProduct::stop() {
  gpu_->enter();
  leave_ = true;
  if (feeder_.joinable()) feeder_.join();
  set_flag(1);
  work_.wait();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

namespace {

// A product on each of some devices. Of the one that the I/O slows down most the sample tells.
class BesideProduct : public Job {
 public:
  BesideProduct(Bench& bench, const Row& row, std::unique_ptr<Job> job)
      : bench_(bench), row_(row), job_(std::move(job)) {
    std::vector<const Gpu*> gpus{&bench.gpu()};
    if (row.product_on_others) {
      gpus = bench.gpus();
      gpus.erase(gpus.begin());
      if (gpus.empty()) throw Trouble("there is one GPU here, and no other to be kept busy");
    }
    for (const Gpu* gpu : gpus) products_.push_back(std::make_unique<BusyProduct>(*gpu));
    bench.gpu().enter();
  }

  // The default stream, by which bytes are compared, waits for no other stream here: the products run during run()
  // alone.
  std::uint64_t check() override { return job_->check(); }
  std::uint64_t check_last() override { return job_->check_last(); }

  Sample run(double seconds) override {
    for (const auto& product : products_) product->start(row_.product);
    // Its first tenth goes unmeasured, as with the I/O.
    rest(seconds / 20);
    const std::vector<double> alone = rates([&] { rest(seconds / 2); });
    Sample sample;
    std::vector<double> with;
    try {
      with = rates([&] { sample = job_->run(seconds); });
    } catch (...) {
      stop();
      throw;
    }
    stop();
    std::size_t slowest = 0;
    for (std::size_t i = 1; i < with.size(); ++i) {
      if (with[i] * alone[slowest] < with[slowest] * alone[i]) slowest = i;
    }
    sample.product_alone = alone[slowest];
    sample.product_with = with[slowest];
    return sample;
  }

 private:
  static void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  void stop() {
    for (const auto& product : products_) product->stop();
    bench_.gpu().enter();
  }

  std::vector<std::uint64_t> counts() const {
    std::vector<std::uint64_t> counts;
    for (const auto& product : products_) counts.push_back(product->count());
    bench_.gpu().enter();
    return counts;
  }

  // Pieces a second of each.
  template <typename Work>
  std::vector<double> rates(const Work& work) const {
    const auto begun = std::chrono::steady_clock::now();
    const std::vector<std::uint64_t> before = counts();
    work();
    const std::vector<std::uint64_t> after = counts();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    std::vector<double> rates;
    for (std::size_t i = 0; i < after.size(); ++i) {
      rates.push_back(static_cast<double>(after[i] - before[i]) / seconds);
    }
    return rates;
  }

  Bench& bench_;
  Row row_;
  std::unique_ptr<Job> job_;
  std::vector<std::unique_ptr<BusyProduct>> products_;
};

}  // namespace

std::unique_ptr<Job> beside_product(Bench& bench, const Row& row, std::unique_ptr<Job> job) {
  return std::make_unique<BesideProduct>(bench, row, std::move(job));
}

}  // namespace sluice::bench
