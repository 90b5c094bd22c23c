// SPDX-License-Identifier: Apache-2.0
#include "request/account.h"

#include "gpu/introduce.h"
#include "observe/trace.h"

namespace sluice::request {

void Account::trace(const Item& item, const Way& way) noexcept {
  const Call& call = item.call;
  observe::trace({call.direction, item.file->descriptor(), static_cast<std::uint64_t>(call.file_offset), call.size,
                  way.path->traits.id, way.reason},
                 way.outcome);
}

void Account::count(const Item& item) noexcept {
  gpu::introduce_if_new(item.device);
  const observe::Transfer record{.direction = item.call.direction,
                                 .requested = item.call.size,
                                 .aligned = aligned(item.call),
                                 .device = item.device,
                                 .duration = std::chrono::steady_clock::now() - begun_,
                                 .path = item.path,
                                 .in_batch = caller_ == Caller::batch};
  observe::count_transfer(record, item.outcome, thread_);
}

}  // namespace sluice::request
