// SPDX-License-Identifier: Apache-2.0
#include "request/account.h"

#include "gpu/introduce.h"
#include "observe/trace.h"

namespace sluice::request {

namespace {

inline bool is_like(const observe::Transfers& those, const Item& item, std::chrono::nanoseconds duration) noexcept {
  return those.size_bucket == observe::size_bucket(item.call.size) && those.device == item.device &&
         those.path == item.path && those.direction == item.call.direction && those.duration == duration;
}

}  // namespace

void Account::trace(const Item& item, const Way& way) noexcept {
  const Call& call = item.call;
  observe::trace({call.direction, item.file->descriptor(), static_cast<std::uint64_t>(call.file_offset), call.size,
                  way.path->traits.id, way.reason},
                 way.outcome);
}

std::int64_t Account::look_at_clock() noexcept {
  elapsed_ = std::chrono::steady_clock::now() - begun_;
  return std::chrono::duration_cast<std::chrono::milliseconds>(elapsed_).count();
}

void Account::count(const Item& item) noexcept {
  const bool is_aligned = aligned(item.call);
  if (ended_) {
    if (is_like(*ended_, item, elapsed_)) return ended_->add(item.outcome, is_aligned);
    flush();
  }
  gpu::introduce_if_new(item.device);
  ended_.emplace(observe::Transfers{.direction = item.call.direction,
                                    .in_batch = caller_ == Caller::batch,
                                    .path = item.path,
                                    .device = item.device,
                                    .size_bucket = observe::size_bucket(item.call.size),
                                    .duration = elapsed_});
  ended_->add(item.outcome, is_aligned);
}

}  // namespace sluice::request
