// SPDX-License-Identifier: Apache-2.0
// The host's side of kernels/stream_copy.cu, which explains what waits for what.
#include "stream/channel/stream_copier.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/processor.h"
#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "observe/copy_counters.h"

namespace sluice::stream {

using gpu::StreamCopyKind;

namespace {

// A kernel that has not begun by then waits for another one to end, which may wait for these very bytes.
constexpr auto kernel_start_timeout = std::chrono::milliseconds(5);
// Where nothing else reaches the memory it has so many times as long: 2 s.
constexpr unsigned most_delays = 400;

void put(std::uint32_t& word, std::uint32_t value) noexcept {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace

StreamCopier::StreamCopier(StreamChannel& channel) noexcept : channel_(channel), words_(channel.words()) {}

void StreamCopier::begin(const StreamTask& task) noexcept {
  task_ = &task;
  first_ = channel_.next_number_;
  next_ = first_;
  gate_value_ = task.gate_value_;
  has_kernel_ = task.blocks > 0;
  gate_open_ = !task.gated_;
  opened_ = std::chrono::steady_clock::now();
  is_cached_ = waits_for_storage_ = false;
  revoked_ = carries_on_ = false;
  carried_before_ = first_;
  through_ = false;
  counted_ = false;
  refused_late_ = false;
  delays_ = 0;
  remembered_ = task.remembered;
  result_word_ = task.result_word;
  failure_ = cuda::success;
  doubted_since_.reset();
  put(words_.resume, 0);
  put(words_.carry_on, 0);
}

bool StreamCopier::reaches(const facts::BufferFacts& memory) const noexcept {
  return memory.device == channel_.device().device() &&
         (memory.context == nullptr || memory.context == channel_.device().context());
}

const facts::BufferFacts* StreamCopier::remembers(std::uint64_t address, std::uint64_t length) const noexcept {
  const std::uint64_t into = address - remembered_.base;
  const bool inside = into <= remembered_.size && length <= remembered_.size - into;
  return !facts::is_host(remembered_.kind) && inside ? &remembered_ : nullptr;
}

std::byte* StreamCopier::slot_of(std::uint32_t number) const noexcept {
  return channel_.staging().data() + std::size_t{number % gpu::stream_copy_slots} * gpu::stream_copy_slot_bytes;
}

bool StreamCopier::begun() const noexcept {
  return gpu::has_reached(base::load_acquire(words_.begun), first_);
}

// A later launch can only have begun where this one has carried everything.
StreamCopier::Commit StreamCopier::commit() const noexcept {
  const std::uint32_t result_word = base::load_acquire(words_.commit);
  if (!gpu::has_reached(result_word, gpu::committed_launch(first_))) return Commit::none_yet;
  return result_word == gpu::revoked_launch(first_) ? Commit::revoked : Commit::carries;
}

bool StreamCopier::carried_out(std::uint32_t number) const noexcept {
  return revoked_ || number < carried_before_ ||
         base::load_acquire(words_.acked[number % gpu::stream_copy_slots].number) == number;
}

std::span<std::byte> StreamCopier::slot() noexcept {
  if (next_ - first_ >= gpu::stream_copy_slots && !wait_for(next_ - gpu::stream_copy_slots)) return {};
  if (failure_ != cuda::success) return {};
  return {slot_of(next_), gpu::stream_copy_slot_bytes};
}

bool StreamCopier::is_free_ahead(std::uint32_t ahead) const noexcept {
  if (ahead >= gpu::stream_copy_slots) return false;
  const std::uint32_t number = next_ + ahead;
  return number - first_ < gpu::stream_copy_slots || carried_out(number - gpu::stream_copy_slots);
}

bool StreamCopier::wait_a_moment(base::SpinBackoff& backoff) noexcept {
  if (gate_open_) {
    look_after(backoff);
  } else {
    backoff.wait();
  }
  return failure_ == cuda::success;
}

void StreamCopier::send(std::uint32_t offset, std::uint32_t length, std::uint64_t address) noexcept {
  post(StreamCopyKind::to_device, offset, length, address);
}

std::uint32_t StreamCopier::ask(std::uint64_t address, std::uint32_t length) noexcept {
  const std::uint32_t number = next_;
  if (!slot().empty()) post(StreamCopyKind::from_device, static_cast<std::uint32_t>(address % 16), length, address);
  return number;
}

std::span<const std::byte> StreamCopier::answer_to(std::uint32_t number) noexcept {
  if (failure_ != cuda::success || !wait_for(number)) return {};
  const gpu::StreamCopyCommand& command = posted_[number % gpu::stream_copy_slots];
  return {slot_of(number) + command.offset, command.length};
}

std::optional<std::span<std::byte>> StreamCopier::prestaged(std::uint64_t address,
                                                            std::uint64_t length) const noexcept {
  const std::uint64_t into = address - task_->prestaged_from;
  if (address < task_->prestaged_from || into + length > task_->prestaged_bytes) return std::nullopt;
  return channel_.staging().subspan(into, length);
}

void StreamCopier::post(StreamCopyKind kind, std::uint32_t offset, std::uint32_t length,
                        std::uint64_t address) noexcept {
  const gpu::StreamCopyCommand command{address, next_, kind, offset, length};
  ++next_;
  posted_[command.number % gpu::stream_copy_slots] = command;
  doubted_since_.reset();  // there is progress
  if (revoked_) {
    if (!fall_back(command)) leave_to_kernel(command.number);
    return;
  }
  write_command(command);
  if (!gate_open_) open_gate();
}

void StreamCopier::write_command(const gpu::StreamCopyCommand& command) noexcept {
  gpu::StreamCopySlot& slot = words_.commands[command.number % gpu::stream_copy_slots];
  std::atomic_ref(slot.first_word).store(command.first_word(), std::memory_order_release);
  // The bytes of the place come before it.
  std::atomic_ref(slot.second_word).store(command.second_word(), std::memory_order_release);
}

void StreamCopier::open_gate() noexcept {
  gate_open_ = true;
  opened_ = std::chrono::steady_clock::now();
  put(words_.gate, gate_value_);
  if (task_->rung_by_call_) channel_.gate_event_.advance();
}

void StreamCopier::open_soon() noexcept {
  is_cached_ = true;
  if (has_kernel_ && !gate_open_) open_gate();
}

bool StreamCopier::wait_for(std::uint32_t number) noexcept {
  base::SpinBackoff backoff;
  while (!carried_out(number) && failure_ == cuda::success) look_after(backoff);
  return failure_ == cuda::success;
}

void StreamCopier::look_after(base::SpinBackoff& backoff) noexcept {
  backoff.wait();
  // What was posted is in place by then, and its slots may have other bytes already: a caller waits for its readers.
  if (revoked_) return;
  if (!begun() && std::chrono::steady_clock::now() - opened_ > kernel_start_timeout) {
    if (!grants_delay()) revoke();
  } else if (backoff.long_since()) {
    ask_for_health();
  }
}

// Memory that its driver has forgotten, since the program has freed it behind us, is reached by the kernel alone.
bool StreamCopier::grants_delay() noexcept {
  const bool is_forgotten = !facts::is_host(remembered_.kind) && facts::is_host(gpu::inspect(remembered_.base).kind);
  if (!is_forgotten || delays_ == most_delays) return false;
  ++delays_;
  opened_ = std::chrono::steady_clock::now();
  ask_for_health();
  return true;
}

// While a driver answers nothing clear, the kernel may well be at work.
void StreamCopier::ask_for_health() noexcept {
  const gpu::Health health = channel_.device().health();
  const auto now = std::chrono::steady_clock::now();
  if (health.is_good()) {
    doubted_since_.reset();
  } else if (health.is_gone || now - doubted_since_.value_or(now) > doubt_timeout) {
    give_up(health.result);
  } else if (!doubted_since_) {
    doubted_since_ = now;
  }
}

// Takes the work back from a kernel that has not begun. Either its first block reads `revoked` in place of the first
// command, or this thread reads `begun`; a full fence on both sides excludes that neither does. That block alone reads
// this slot, and it keeps what it has read. Where nothing has been posted yet, the first word is still an older
// command's, and the block would look past the mark for ever.
void StreamCopier::revoke() noexcept {
  gpu::StreamCopyCommand mark = posted_[first_ % gpu::stream_copy_slots];
  mark.number = first_;
  mark.kind = StreamCopyKind::revoked;
  gpu::StreamCopySlot& slot = words_.commands[first_ % gpu::stream_copy_slots];
  std::atomic_ref(slot.first_word).store(mark.first_word(), std::memory_order_release);
  std::atomic_ref(slot.second_word).store(mark.second_word(), std::memory_order_seq_cst);
  base::fence_with_device();
  if (begun()) {
    base::SpinBackoff backoff;
    while (commit() == Commit::none_yet && failure_ == cuda::success) {
      backoff.wait();
      if (backoff.long_since()) ask_for_health();
    }
    if (commit() != Commit::revoked) return;
  }
  observe::count_copy(observe::CopyCounter::kernel_revoked);
  revoked_ = true;
  fallback_ = FallbackCopier::begin(channel_.device());
  for (std::uint32_t number = oldest_posted(); number != next_; ++number) {
    if (!fall_back(posted_[number % gpu::stream_copy_slots])) return leave_to_kernel(number);
  }
}

// Says no where the kernel has begun meanwhile, and the driver has not taken the copy.
bool StreamCopier::fall_back(const gpu::StreamCopyCommand& command) noexcept {
  if (failure_ != cuda::success || command.kind == StreamCopyKind::end) return true;
  const std::optional<cuda::Result> result = carry_by_engine(command);
  if (!result) return false;
  if (*result == cuda::success) return true;
  refused_late_ = task_ == nullptr && result_word_ != nullptr;
  // Of memory that is not there the channel knows no harm.
  if (*result == cuda::error_invalid_value) {
    failure_ = *result;
  } else {
    give_up(*result);
  }
  return true;
}

std::optional<cuda::Result> StreamCopier::carry_by_engine(const gpu::StreamCopyCommand& command) noexcept {
  std::byte* const slot = slot_of(command.number);
  if (fallback_ == nullptr) return FallbackCopier::carry(channel_.device(), command, slot);
  fallback_->ask(command, slot);
  for (base::SpinBackoff backoff; !fallback_->is_done(); backoff.wait()) {
    if (commit() == Commit::revoked && fallback_->have_back()) return std::nullopt;
  }
  return fallback_->result();
}

// All from this command on. The mark may stand in its slot.
void StreamCopier::leave_to_kernel(std::uint32_t number) noexcept {
  fallback_.reset();
  revoked_ = false;
  carries_on_ = true;
  carried_before_ = number;
  for (std::uint32_t left = number; left != next_; ++left) write_command(posted_[left % gpu::stream_copy_slots]);
  put(words_.carry_on, number);
}

// Of a launch that was revoked: nothing is left. Its last command carries nothing.
void StreamCopier::resume() noexcept {
  if (next_ - first_ > 1) observe::count_copy(observe::CopyCounter::copy_engine);
  if (fallback_ != nullptr) fallback_->end();
  fallback_.reset();
  put(words_.resume, next_);
  has_kernel_ = false;
}

void StreamCopier::give_up(cuda::Result result) noexcept {
  failure_ = result;
  channel_.condemned_.store(true);
}

// Blocks of the kernel carry side by side, so the last command may be through before others. What stood in a place
// before is through, or the place would not have been free.
bool StreamCopier::settle() noexcept {
  for (std::uint32_t number = oldest_posted(); number != next_; ++number) {
    if (!wait_for(number)) return false;
  }
  return failure_ == cuda::success;
}

void StreamCopier::finish() noexcept {
  channel_.cached_of_.store(is_cached_ ? task_->subject : nullptr, std::memory_order_relaxed);
  if (has_kernel_) {
    static_cast<void>(slot());  // its slot may hold a command that the kernel has not read yet
    // Behind the last command the program goes on: what it may look at is counted before.
    const bool is_carried = carries_on_ || (begun() && commit() == Commit::carries);
    if (!revoked_ && failure_ == cuda::success && is_carried) count_kernel(next_ - first_);
    post(StreamCopyKind::end, 0, 0, 0);
    if (revoked_ || failure_ != cuda::success) resume();
  } else if (task_->prestaged_bytes > 0) {
    observe::count_copy(observe::CopyCounter::copy_engine);
  }
  channel_.next_number_ = gpu::following_launch(next_);
  if (!gate_open_) open_gate();
  task_ = nullptr;
}

StreamCopier::Kernel StreamCopier::kernel(std::chrono::steady_clock::time_point now) noexcept {
  if (through_) return Kernel::through;
  if (has_kernel_ && !begun()) {
    return now - opened_ > kernel_start_timeout ? Kernel::overdue : Kernel::awaited;
  }
  through_ = true;
  if (has_kernel_) count_kernel(next_ - first_ - 1);  // the last command carries nothing
  return Kernel::through;
}

// Not what went in place, or had no bytes to carry.
void StreamCopier::count_kernel(std::uint32_t commands) noexcept {
  if (!counted_ && commands > 0) observe::count_copy(observe::CopyCounter::kernel);
  counted_ = true;
}

// The stream stands still until then: a program that waits for it sees the failure, and not what was said before.
void StreamCopier::revoke_late() noexcept {
  if (failure_ == cuda::success && !begun() && grants_delay()) return;
  revoke();
  if (refused_late_) {
    // Of memory that is gone, what NVIDIA's library says (request/answer.h).
    const bool is_gone = failure_ == cuda::error_invalid_value;
    const auto value = is_gone ? ssize_t{-EPERM} : static_cast<ssize_t>(failed().value());
    std::atomic_ref(*result_word_).store(value, std::memory_order_release);
  }
  if (revoked_ || failure_ != cuda::success) resume();
}

}  // namespace sluice::stream
