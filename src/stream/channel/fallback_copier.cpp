// SPDX-License-Identifier: Apache-2.0
#include "stream/channel/fallback_copier.h"

#include <pthread.h>
#include <signal.h>

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

using Clock = std::chrono::steady_clock;

// Drivers crash on a stream that went with its context. And another context may have this one's handle by now, and its
// memory and streams the old addresses.
cuda::Result why_not(const gpu::StreamCopy& device, const gpu::StreamScope& scope) noexcept {
  if (scope.status() != cuda::success) return scope.status();
  const bool same = device.serves(scope.context(), scope.context_id());
  return same ? cuda::success : cuda::error_context_is_destroyed;
}

cuda::Result copy(const gpu::StreamCopy& device, const gpu::StreamCopyCommand& command, std::byte* bytes) noexcept {
  return command.kind == gpu::StreamCopyKind::to_device
             ? device.fallback_to_device(command.address, {bytes, command.length})
             : device.fallback_from_device({bytes, command.length}, command.address);
}

}  // namespace

std::shared_ptr<FallbackCopier> FallbackCopier::begin(const gpu::StreamCopy& device) noexcept {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::shared_ptr<FallbackCopier> fall_back;
  try {
    fall_back = std::make_shared<FallbackCopier>(device);
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
  step_.store(Step::asked, std::memory_order_release);
  event_.advance();
}

// The thread may stand in a call of a driver that waits for all streams, that of the copier included.
bool FallbackCopier::have_back() noexcept {
  Step step = Step::asked;
  if (step_.compare_exchange_strong(step, Step::over)) return true;
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

// Until an engine is there, and the driver takes copies; or until the work is had back. A trial that took long tells of
// a moment that is gone; on some machines all of them do. One may stand there from work that was had back.
cuda::Result FallbackCopier::await_engine() noexcept {
  cuda::Result result = await_trial();
  while (result == cuda::success && step_.load() == Step::asked) {
    const auto began = Clock::now();
    if (device_.begin_trial(command_.length) != cuda::success) break;  // the copy will tell
    result = await_trial();
    if (Clock::now() - began < soon_) break;
    soon_ *= 2;
  }
  return result;
}

// Drivers crash on a stream that went with its context.
cuda::Result FallbackCopier::await_trial() noexcept {
  std::optional<Clock::time_point> doubted;
  for (base::SpinBackoff backoff; step_.load() == Step::asked; backoff.wait()) {
    const gpu::Health health = device_.health();
    const auto now = Clock::now();
    if (health.is_good()) {
      doubted.reset();
      if (device_.is_fallback_at_rest()) break;
    } else if (health.is_gone || now - doubted.value_or(now) > doubt_timeout) {
      return health.result;
    } else if (!doubted) {
      doubted = now;
    }
  }
  return cuda::success;
}

// Between the last two calls of the driver stands as little as possible.
void FallbackCopier::run_worker() noexcept {
  while (wait_for_work()) {
    const gpu::StreamScope scope(device_.context());
    cuda::Result result = why_not(device_, scope);
    if (result == cuda::success && is_to_device()) result = await_engine();
    Step step = Step::asked;
    if (!step_.compare_exchange_strong(step, Step::copying)) return;
    std::byte* const bytes = is_to_device() ? place_ + command_.offset : read_back_.data();
    if (result == cuda::success) result = copy(device_, command_, bytes);
    result_ = result;
    step = Step::copying;
    if (!step_.compare_exchange_strong(step, Step::done)) return;
  }
}

cuda::Result FallbackCopier::carry(const gpu::StreamCopy& device, const gpu::StreamCopyCommand& command,
                                   std::byte* slot) noexcept {
  const gpu::StreamScope scope(device.context());
  const cuda::Result result = why_not(device, scope);
  return result == cuda::success ? copy(device, command, slot + command.offset) : result;
}

}  // namespace sluice::stream
