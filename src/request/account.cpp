// SPDX-License-Identifier: Apache-2.0
#include "request/account.h"

#include "gpu/introduce.h"
#include "observe/trace.h"

namespace sluice::request {

void Account::ended(const Item& item, const Way& way, std::int64_t milliseconds) noexcept {
  const Call& call = item.call;
  if (way.path != nullptr) {
    const observe::Way went{way.path->traits.id, way.reason, call.direction};
    if (went != way_) {
      flush();
      way_ = went;
    }
    tally_.add(way.outcome);
    observe::trace({call.direction, item.file->descriptor(), static_cast<std::uint64_t>(call.file_offset), call.size,
                    went.path, went.reason},
                   way.outcome);
  }
  if (timer_) TransferTimer::end(*item.file, call, item.outcome, milliseconds);
  if (!counting_) return;
  gpu::introduce_if_new(item.device);
  const observe::Transfer record{.direction = call.direction,
                                 .requested = call.size,
                                 .aligned = aligned(call),
                                 .device = item.device,
                                 .duration = std::chrono::steady_clock::now() - begun_,
                                 .path = item.path,
                                 .in_batch = caller_ == Caller::batch};
  observe::count_transfer(record, item.outcome);
}

void Account::flush() noexcept {
  if (tally_.transfers > 0) observe::count_path(way_, tally_);
  tally_ = {};
}

}  // namespace sluice::request
