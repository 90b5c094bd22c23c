// What a thread does for a file while a device copies for it: a look whether the descriptor still belongs to it, where
// nobody has asked yet, and then warming of what is wanted next. Of 4 KiB, asking takes as long as reading.
#pragma once

#include "facts/look.h"
#include "io/warming.h"

namespace sluice::staging {

class Meanwhile {
 public:
  Meanwhile() = default;  // nothing
  Meanwhile(facts::Look& now, io::Warming warming) noexcept : now_(&now), warming_(warming) {}

  // False: nothing is left to do.
  bool step() noexcept {
    const bool was_asked = has_looked();
    if (now_ != nullptr && !now_->finds_the_file()) return false;
    return !was_asked || warming_.step();
  }
  bool has_looked() const noexcept { return now_ == nullptr || now_->asked(); }

 private:
  facts::Look* now_ = nullptr;
  io::Warming warming_;
};

}  // namespace sluice::staging
