// SPDX-License-Identifier: Apache-2.0
#include "stream/channel/fallback_copier.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "base/spin_backoff.h"
#include "gpu/stream_scope.h"
#include "observe/log.h"

namespace sluice::stream {

namespace {

using namespace std::chrono_literals;

using Clock = std::chrono::steady_clock;

// Behind so many late turns each next one may take longer: there are machines on which all are.
constexpr unsigned turns_until_slow = 32;
constexpr std::chrono::nanoseconds longest_soon = std::chrono::hours(1);
// A driver that keeps the thread for longer may wait for streams behind the queue that is kept.
constexpr auto longest_kept_queue = std::chrono::milliseconds(20);

// Drivers crash on a stream that went with its context. And another context may have this one's handle by now, and its
// memory and streams the old addresses.
cuda::Result why_not(const gpu::StreamCopy& device, const gpu::StreamScope& scope) noexcept {
  if (scope.status() != cuda::success) return scope.status();
  const bool same = device.serves(scope.context(), scope.context_id());
  return same ? cuda::success : cuda::error_context_is_destroyed;
}

cuda::Result copy_and_wait(const gpu::StreamCopy& device, const gpu::StreamCopyCommand& command,
                           std::byte* bytes) noexcept {
  if (command.kind != gpu::StreamCopyKind::to_device) {
    return device.fallback_from_device({bytes, command.length}, command.address);
  }
  const cuda::Result result = device.enqueue_fallback_to_device(command.address, {bytes, command.length});
  const cuda::Result waited = device.await_fallback();
  return result != cuda::success ? result : waited;
}

}  // namespace

std::shared_ptr<FallbackCopier> FallbackCopier::begin(const gpu::StreamCopy& device,
                                                      bool by_memory_operations) noexcept {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::shared_ptr<FallbackCopier> fall_back;
  try {
    fall_back = std::make_shared<FallbackCopier>(device, by_memory_operations);
    std::thread thread([fall_back] { fall_back->run_worker(); });
    ::pthread_setname_np(thread.native_handle(), "sluice-fallback");
    thread.detach();  // a driver may keep it for longer than the process needs it
  } catch (const std::exception& failure) {
    observe::log_failure(config::LogLevel::warn, "stream",
                         "a stream's bytes are copied by the thread that attends to it", failure.what());
    fall_back.reset();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return fall_back;
}

void FallbackCopier::ask(const gpu::StreamCopyCommand& command, std::byte* slot) noexcept {
  command_ = command;
  place_ = slot;
  if (takes_turns()) first_turn_ = device_.next_turn();
  step_.store(Step::asked, std::memory_order_release);
  event_.advance();
}

// The thread may stand in a call of a driver that waits for all streams, that of the copier included.
bool FallbackCopier::have_back() noexcept {
  Step step = Step::asked;
  if (step_.compare_exchange_strong(step, Step::over)) {
    release_queue();
    return true;
  }
  return step == Step::copying && !is_to_device() && step_.compare_exchange_strong(step, Step::over);
}

cuda::Result FallbackCopier::result() noexcept {
  if (result_ == cuda::success && !is_to_device()) {
    std::memcpy(place_ + command_.offset, read_back_.data(), command_.length);
  }
  return result_;
}

void FallbackCopier::end() noexcept {
  step_.store(Step::over);
  event_.advance();
}

bool FallbackCopier::wait_for_work() noexcept {
  constexpr int looks = 2000;  // what is asked for comes piece by piece
  for (int i = 0; i < looks && step_.load(std::memory_order_relaxed) == Step::done; ++i) base::pause();
  for (;;) {
    const std::uint32_t seen = event_.now();
    const Step step = step_.load(std::memory_order_acquire);
    if (step == Step::asked || step == Step::over) return step == Step::asked;
    event_.wait_beyond(seen, std::nullopt);
  }
}

// Until the queue is there, and the driver takes copies; or until the work is had back. While a turn takes long to
// come, other streams' work gets into the kept queue behind it: a kernel among it may find no room beside the one that
// was revoked, and would stand before the copy. So another turn is asked for behind that work, until one comes soon.
cuda::Result FallbackCopier::prepare() noexcept {
  if (!is_to_device()) {
    await_driver();
    return cuda::success;
  }
  for (std::uint32_t turn = first_turn_; step_.load() == Step::asked; turn = device_.following_turn(turn)) {
    const auto asked = Clock::now();
    const bool keeps = takes_turns() && keep_queue(turn) == cuda::success;
    // Else a copy of nothing goes before, whose end tells that the queue was there a moment ago.
    if (!keeps && device_.await_driver() != cuda::success) return cuda::success;  // the copy will tell
    if (const cuda::Result result = await_queue(keeps ? turn : 0); result != cuda::success) return result;
    if (step_.load() != Step::asked) break;
    const auto is_soon = [&] { return Clock::now() - asked < soon_; };
    if (!keeps || is_soon()) {
      await_driver();
      // One that is kept for too long is taken away.
      if (!keeps || (device_.is_kept(turn) && is_soon())) break;
    }
    if (++late_turns_ > turns_until_slow) soon_ = std::min(2 * soon_, longest_soon);
  }
  return cuda::success;
}

// And goes on with it where an earlier turn keeps it.
cuda::Result FallbackCopier::keep_queue(std::uint32_t turn) noexcept {
  enter_driver();
  const cuda::Result result = device_.request_turn(turn);
  leave_driver();
  const std::uint32_t earlier = kept_turn_.exchange(result == cuda::success ? turn : 0);
  if (earlier != 0) device_.release_turn(earlier);
  return result;
}

// Until the work is had back, at most. Where queues were taken for long, one comes when kernels get on: that of the
// stream may be about to begin, and is given as long as kernels usually are.
cuda::Result FallbackCopier::await_queue(std::uint32_t turn) noexcept {
  const auto began = Clock::now();
  std::optional<Clock::time_point> came;
  std::optional<Clock::time_point> doubted;
  for (base::SpinBackoff backoff; step_.load() == Step::asked; backoff.wait()) {
    // Drivers crash on a stream that went with its context.
    if (turn == 0 || backoff.long_since()) {
      const gpu::Health health = device_.health();
      const auto now = Clock::now();
      if (health.is_good()) {
        doubted.reset();
      } else if (health.is_gone || now - doubted.value_or(now) > doubt_timeout) {
        return health.result;
      } else if (!doubted) {
        doubted = now;
      }
    }
    if (!came && (turn == 0 ? device_.is_fallback_at_rest() : device_.has_come(turn))) came = Clock::now();
    const bool is_first = turn == 0 || turn == first_turn_;
    const auto grace = is_first && came && *came - began >= kernel_start_timeout ? kernel_start_timeout : 0ms;
    if (came && Clock::now() - *came >= grace) break;
  }
  if (step_.load() != Step::asked) return cuda::success;
  const gpu::Health health = device_.health();
  return health.is_gone ? health.result : cuda::success;
}

void FallbackCopier::await_driver() noexcept {
  enter_driver();
  device_.await_driver();
  leave_driver();
}

void FallbackCopier::enter_driver() noexcept {
  in_driver_since_.store(Clock::now().time_since_epoch().count());
}

void FallbackCopier::leave_driver() noexcept {
  in_driver_since_.store(0);
}

void FallbackCopier::release_queue_in_time() noexcept {
  std::uint32_t turn = kept_turn_.load();  // the thread may get another one meanwhile
  const std::chrono::steady_clock::duration since(in_driver_since_.load());
  const auto now = Clock::now().time_since_epoch();
  if (turn == 0 || since.count() == 0 || now - since <= longest_kept_queue) return;
  if (kept_turn_.compare_exchange_strong(turn, 0)) device_.release_turn(turn);
}

void FallbackCopier::release_queue() noexcept {
  if (const std::uint32_t turn = kept_turn_.exchange(0); turn != 0) device_.release_turn(turn);
}

cuda::Result FallbackCopier::copy() noexcept {
  if (!is_to_device()) return copy_and_wait(device_, command_, read_back_.data());
  enter_driver();
  const cuda::Result result =
      device_.enqueue_fallback_to_device(command_.address, {place_ + command_.offset, command_.length});
  leave_driver();
  release_queue();
  const cuda::Result waited = device_.await_fallback();
  return result != cuda::success ? result : waited;
}

// Between the last two calls of the driver stands as little as possible.
void FallbackCopier::run_worker() noexcept {
  while (wait_for_work()) {
    const gpu::StreamScope scope(device_.context());
    cuda::Result result = why_not(device_, scope);
    if (result == cuda::success) result = prepare();
    Step step = Step::asked;
    const bool is_ours = step_.compare_exchange_strong(step, Step::copying);
    if (is_ours && result == cuda::success) result = copy();
    release_queue();
    if (!is_ours) return;
    result_ = result;
    step = Step::copying;
    if (!step_.compare_exchange_strong(step, Step::done)) return;
  }
}

cuda::Result FallbackCopier::carry(const gpu::StreamCopy& device, const gpu::StreamCopyCommand& command,
                                   std::byte* slot) noexcept {
  const gpu::StreamScope scope(device.context());
  const cuda::Result result = why_not(device, scope);
  return result == cuda::success ? copy_and_wait(device, command, slot + command.offset) : result;
}

}  // namespace sluice::stream
