// SPDX-License-Identifier: Apache-2.0
// The end of a second mapping, and the time between the memory's end and that.
#include "host_view.h"

#include <sys/mman.h>

namespace sluice::softgpu {

HostView::~HostView() {
  ::munmap(place_, size_);
}

void HostView::take_back() const noexcept {
  [[maybe_unused]] void* const nothing =
      ::mmap(place_, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace sluice::softgpu
