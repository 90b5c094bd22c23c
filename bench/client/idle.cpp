// SPDX-License-Identifier: Apache-2.0
// The row that does nothing: some reads to wake everything up, a tenth of a second to come to rest, then the processor
// time of the process while no thread asks for anything.
#include <chrono>
#include <thread>

#include "client/job.h"

namespace sluice::bench {
namespace {

class IdleJob : public Job {
 public:
  IdleJob(Bench& bench, const Row& row) : reads_(make_read(bench, row)) {}

  std::uint64_t check() override { return reads_->check(); }
  std::uint64_t check_last() override { return reads_->check_last(); }

  Sample run(double seconds) override {
    reads_->run(0.05);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    Sample sample;
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    sample.cpu_seconds = cpu_seconds() - before;
    sample.seconds = seconds;
    sample.steps = 1;
    return sample;
  }

 private:
  std::unique_ptr<Job> reads_;
};

}  // namespace

std::unique_ptr<Job> make_idle(Bench& bench, const Row& row) {
  return std::make_unique<IdleJob>(bench, row);
}

}  // namespace sluice::bench
