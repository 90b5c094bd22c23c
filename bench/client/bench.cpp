// SPDX-License-Identifier: Apache-2.0
// What rows share, made with the first that needs it; and which family makes which row.
#include "client/job.h"

namespace sluice::bench {

const std::vector<const Gpu*>& Bench::gpus() {
  if (gpus_.empty()) {
    for (int ordinal = 1; ordinal < gpu_.count(); ++ordinal) others_.push_back(std::make_unique<Gpu>(ordinal));
    gpu_.enter();
    gpus_.push_back(&gpu_);
    for (const std::unique_ptr<Gpu>& other : others_) gpus_.push_back(other.get());
  }
  return gpus_;
}

const TestFile& Bench::source() {
  if (!source_) source_.emplace(source_file(path_, how_, source_size_));
  return *source_;
}

const TestFile& Bench::target() {
  if (!target_) target_.emplace(target_file(path_, how_, target_size_));
  return *target_;
}

void Bench::open_driver() {
  if (!driver_) driver_.emplace();
}

CUfileHandle_t Bench::source_handle() {
  open_driver();
  if (!source_handle_) source_handle_.emplace(source().descriptor());
  return source_handle_->get();
}

CUfileHandle_t Bench::target_handle() {
  open_driver();
  if (!target_handle_) target_handle_.emplace(target().descriptor());
  return target_handle_->get();
}

std::unique_ptr<Job> make_job(Bench& bench, const Row& row) {
  bench.gpu().enter();  // a row before may have worked with others
  auto made = [&] {
    switch (row.operation) {
      case Operation::read:
        return make_read(bench, row);
      case Operation::write:
        return make_write(bench, row);
      case Operation::batch:
        return make_batch(bench, row);
      case Operation::async:
        return make_async(bench, row);
      case Operation::pread:
      case Operation::pwrite:
        return make_plain(bench, row);
      case Operation::link_in:
      case Operation::link_out:
        return make_link(bench, row);
      case Operation::link_kernel:
        return make_link_kernel(bench, row);
      case Operation::copy_in:
      case Operation::copy_out:
        return make_copy(bench, row);
      case Operation::bell:
        return make_bells(bench, row);
      case Operation::cycle:
      case Operation::pcycle:
        return make_cycle(bench, row);
      case Operation::held:
        return make_held(bench, row);
      case Operation::idle:
        break;
    }
    return make_idle(bench, row);
  }();
  return row.product == Product::none ? std::move(made) : beside_product(bench, row, std::move(made));
}

}  // namespace sluice::bench
