#include "stream/channel/rescue.h"

#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "base/pause.h"
#include "observe/log.h"

namespace sluice::stream {

namespace {

// Drivers crash on a stream that went with its context. And another context may have this one's handle by now, and its
// memory and streams the old addresses.
int why_not(const gpu::Errands& device, const gpu::StreamScope& scope) noexcept {
  if (scope.status() != cuda::success) return scope.status();
  const bool same = device.serves(scope.context(), scope.context_id());
  return same ? cuda::success : cuda::error_context_is_destroyed;
}

int copy(const gpu::Errands& device, const gpu::ErrandCommand& command, std::byte* bytes) noexcept {
  return command.kind == gpu::ErrandKind::to_device
             ? device.rescue_to_device(command.address, {bytes, command.length})
             : device.rescue_from_device({bytes, command.length}, command.address);
}

}  // namespace

std::shared_ptr<Rescue> Rescue::begin(const gpu::Errands& device) noexcept {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::shared_ptr<Rescue> rescue;
  try {
    rescue = std::make_shared<Rescue>(device);
    std::thread thread([rescue] { rescue->attend(); });
    ::pthread_setname_np(thread.native_handle(), "sluice-rescue");
    thread.detach();  // a driver may keep it for longer than anybody needs it
  } catch (const std::exception& failure) {
    observe::log_failure(config::LogLevel::warn, "engine",
                         "a stream's bytes are copied by the thread that attends to it", failure.what());
    rescue.reset();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return rescue;
}

void Rescue::ask(const gpu::ErrandCommand& command, std::byte* place) noexcept {
  command_ = command;
  place_ = place;
  step_.store(Step::asked, std::memory_order_release);
  news_.advance();
}

bool Rescue::have_back() noexcept {
  Step step = Step::asked;
  if (step_.compare_exchange_strong(step, Step::over)) return true;
  return step == Step::copying && !is_to_device() && step_.compare_exchange_strong(step, Step::over);
}

int Rescue::result() noexcept {
  if (result_ == cuda::success && !is_to_device()) {
    std::memcpy(place_ + command_.offset, brought_.data(), command_.length);
  }
  return result_;
}

void Rescue::end() noexcept {
  step_.store(Step::over);
  news_.advance();
}

bool Rescue::wait_for_work() noexcept {
  constexpr int looks = 2000;  // what is asked for comes piece by piece
  for (int i = 0; i < looks && step_.load(std::memory_order_relaxed) == Step::done; ++i) base::pause();
  for (;;) {
    const std::uint32_t seen = news_.now();
    const Step step = step_.load(std::memory_order_acquire);
    if (step == Step::asked || step == Step::over) return step == Step::asked;
    news_.wait_beyond(seen, std::nullopt);
  }
}

// Between the two calls of the driver stands as little as possible.
void Rescue::attend() noexcept {
  while (wait_for_work()) {
    const gpu::StreamScope scope(device_.context());
    int result = why_not(device_, scope);
    if (result == cuda::success) device_.await_driver();
    Step step = Step::asked;
    if (!step_.compare_exchange_strong(step, Step::copying)) return;
    std::byte* const bytes = is_to_device() ? place_ + command_.offset : brought_.data();
    if (result == cuda::success) result = copy(device_, command_, bytes);
    result_ = result;
    step = Step::copying;
    if (!step_.compare_exchange_strong(step, Step::done)) return;
  }
}

int Rescue::carry(const gpu::Errands& device, const gpu::ErrandCommand& command, std::byte* place) noexcept {
  const gpu::StreamScope scope(device.context());
  const int result = why_not(device, scope);
  return result == cuda::success ? copy(device, command, place + command.offset) : result;
}

}  // namespace sluice::stream
