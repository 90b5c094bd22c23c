// SPDX-License-Identifier: Apache-2.0
// What a thread does for a file while a device copies for it: a look whether the descriptor still belongs to it, where
// that has not been asked yet, and then prefetching of what is wanted next. Of 4 KiB, asking takes as long as reading.
#pragma once

#include "facts/descriptor_check.h"
#include "io/prefetch.h"

namespace sluice::staging {

class OverlapWork {
 public:
  OverlapWork() = default;  // nothing
  OverlapWork(facts::DescriptorCheck& now, io::Prefetch prefetch) noexcept : now_(&now), prefetch_(prefetch) {}

  // False: nothing is left to do.
  bool step() noexcept {
    const bool was_asked = has_looked();
    if (now_ != nullptr && !now_->finds_the_file()) return false;
    return !was_asked || prefetch_.step();
  }
  bool has_looked() const noexcept { return now_ == nullptr || now_->asked(); }

 private:
  facts::DescriptorCheck* now_ = nullptr;
  io::Prefetch prefetch_;
};

}  // namespace sluice::staging
