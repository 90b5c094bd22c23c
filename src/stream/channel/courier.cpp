// The host's side of kernels/errand.cu, which explains who waits for whom.
#include "stream/channel/courier.h"

#include <algorithm>
#include <atomic>

#include "base/pause.h"
#include "gpu/memory.h"
#include "observe/carriers.h"

namespace sluice::stream {

using gpu::ErrandKind;

namespace {

// A kernel that has not begun by then waits for somebody else's to end, which may wait for these very bytes.
constexpr auto patience_with_errand = std::chrono::milliseconds(5);
// Where nobody else reaches the memory it has so many times as long: 2 s.
constexpr unsigned most_delays = 400;
// One that has begun needs nothing but the device; so long without a sign of it, it is gone with the device.
constexpr auto patience_with_doubts = std::chrono::seconds(2);

void put(std::uint32_t& word, std::uint32_t value) noexcept {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace

Courier::Courier(Station& station) noexcept : station_(station), words_(station.words()) {}

void Courier::begin(const StreamTask& task) noexcept {
  task_ = &task;
  first_ = station_.next_number_;
  next_ = first_;
  gate_value_ = task.gate_value_;
  has_kernel_ = task.blocks > 0;
  early_ = task.early;
  gate_open_ = !task.gated_;
  opened_ = std::chrono::steady_clock::now();
  at_hand_ = waits_for_storage_ = false;
  called_off_ = carries_on_ = false;
  carried_before_ = first_;
  through_ = false;
  counted_ = false;
  refused_late_ = false;
  delays_ = 0;
  remembered_ = task.remembered;
  told_ = task.told;
  failure_ = cuda::success;
  doubted_since_.reset();
  put(words_.resume, 0);
  put(words_.carry_on, 0);
}

bool Courier::reaches(const facts::BufferFacts& memory) const noexcept {
  return memory.device == station_.device().device() &&
         (memory.context == nullptr || memory.context == station_.device().context());
}

const facts::BufferFacts* Courier::remembers(std::uint64_t address, std::uint64_t length) const noexcept {
  const std::uint64_t into = address - remembered_.base;
  const bool inside = into <= remembered_.size && length <= remembered_.size - into;
  return !facts::is_host(remembered_.kind) && inside ? &remembered_ : nullptr;
}

std::byte* Courier::place_of(std::uint32_t number) const noexcept {
  return station_.staging().data() + std::size_t{number % gpu::errand_places} * gpu::errand_place_bytes;
}

bool Courier::begun() const noexcept {
  return gpu::is_told_of(base::look(words_.begun), first_);
}

// A later launch can only have begun where this one has carried everything.
Courier::Verdict Courier::verdict() const noexcept {
  const std::uint32_t told = base::look(words_.verdict);
  if (!gpu::is_told_of(told, gpu::carrying(first_))) return Verdict::none_yet;
  return told == gpu::taken_back(first_) ? Verdict::taken_back : Verdict::carries;
}

bool Courier::carried_out(std::uint32_t number) const noexcept {
  return called_off_ || number < carried_before_ ||
         base::look(words_.acked[number % gpu::errand_places].number) == number;
}

std::span<std::byte> Courier::place() noexcept {
  if (next_ - first_ >= gpu::errand_places && !wait_for(next_ - gpu::errand_places)) return {};
  if (failure_ != cuda::success) return {};
  return {place_of(next_), gpu::errand_place_bytes};
}

bool Courier::is_free_ahead(std::uint32_t ahead) const noexcept {
  if (ahead >= gpu::errand_places) return false;
  const std::uint32_t number = next_ + ahead;
  return number - first_ < gpu::errand_places || carried_out(number - gpu::errand_places);
}

bool Courier::wait_a_moment(base::Patience& patience) noexcept {
  if (gate_open_) {
    look_after(patience);
  } else {
    patience.wait();
  }
  return failure_ == cuda::success;
}

void Courier::send(std::uint32_t offset, std::uint32_t length, std::uint64_t address) noexcept {
  post(ErrandKind::to_device, offset, length, address);
}

std::uint32_t Courier::ask(std::uint64_t address, std::uint32_t length) noexcept {
  const std::uint32_t number = next_;
  if (!place().empty()) post(ErrandKind::from_device, static_cast<std::uint32_t>(address % 16), length, address);
  return number;
}

std::span<const std::byte> Courier::answer_to(std::uint32_t number) noexcept {
  if (failure_ != cuda::success || !wait_for(number)) return {};
  const gpu::ErrandCommand& command = posted_[number % gpu::errand_places];
  return {place_of(number) + command.offset, command.length};
}

std::optional<std::span<std::byte>> Courier::fetched(std::uint64_t address, std::uint64_t length) const noexcept {
  const std::uint64_t into = address - task_->fetched_from;
  if (address < task_->fetched_from || into + length > task_->fetched_bytes) return std::nullopt;
  return station_.staging().subspan(into, length);
}

void Courier::post(ErrandKind kind, std::uint32_t offset, std::uint32_t length, std::uint64_t address) noexcept {
  const gpu::ErrandCommand command{address, next_, kind, offset, length};
  ++next_;
  posted_[command.number % gpu::errand_places] = command;
  doubted_since_.reset();  // there is progress
  if (called_off_) {
    if (!rescue(command)) leave_to_kernel(command.number);
    return;
  }
  tell(command);
  if (!gate_open_) open_gate();
}

void Courier::tell(const gpu::ErrandCommand& command) noexcept {
  gpu::ErrandSlot& slot = words_.commands[command.number % gpu::errand_places];
  std::atomic_ref(slot.first_word).store(command.first_word(), std::memory_order_release);
  // The bytes of the place come before it.
  std::atomic_ref(slot.second_word).store(command.second_word(), std::memory_order_release);
}

void Courier::open_gate() noexcept {
  gate_open_ = true;
  opened_ = std::chrono::steady_clock::now();
  put(words_.gate, gate_value_);
  if (task_->rung_by_call_) station_.gate_news_.advance();
}

void Courier::open_soon() noexcept {
  at_hand_ = true;
  if (has_kernel_ && !early_ && !gate_open_) open_gate();
}

bool Courier::wait_for(std::uint32_t number) noexcept {
  base::Patience patience;
  while (!carried_out(number) && failure_ == cuda::success) look_after(patience);
  return failure_ == cuda::success;
}

void Courier::look_after(base::Patience& patience) noexcept {
  patience.wait();
  // A stream that has not got there yet must not see bytes.
  if (!early_ && !begun() && std::chrono::steady_clock::now() - opened_ > patience_with_errand) {
    if (!grants_delay()) call_off();
  } else if (patience.long_since()) {
    ask_for_health();
  }
}

// Memory that its driver has forgotten, since the program has freed it behind us, is reached by the kernel alone.
bool Courier::grants_delay() noexcept {
  const bool is_forgotten = !facts::is_host(remembered_.kind) && facts::is_host(gpu::inspect(remembered_.base).kind);
  if (!is_forgotten || delays_ == most_delays) return false;
  ++delays_;
  opened_ = std::chrono::steady_clock::now();
  ask_for_health();
  return true;
}

// While a driver answers nothing clear, the kernel may well be at work.
void Courier::ask_for_health() noexcept {
  const gpu::Health health = station_.device().health();
  const auto now = std::chrono::steady_clock::now();
  if (health.is_good()) {
    doubted_since_.reset();
  } else if (health.is_gone || (!early_ && now - doubted_since_.value_or(now) > patience_with_doubts)) {
    give_up(health.result);
  } else if (!doubted_since_) {
    doubted_since_ = now;
  }
}

// Takes the work back from a kernel that has not begun. Either its first block reads `called_off` in place of the first
// command, or this thread reads `begun`; a full fence on both sides excludes that neither does. That block alone reads
// this slot, and it keeps what it has read. Where nothing has been posted yet, the first word is still an older
// command's, and the block would look past the mark for ever.
void Courier::call_off() noexcept {
  gpu::ErrandCommand mark = posted_[first_ % gpu::errand_places];
  mark.number = first_;
  mark.kind = ErrandKind::taken_back;
  gpu::ErrandSlot& slot = words_.commands[first_ % gpu::errand_places];
  std::atomic_ref(slot.first_word).store(mark.first_word(), std::memory_order_release);
  std::atomic_ref(slot.second_word).store(mark.second_word(), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (begun()) {
    base::Patience patience;
    while (verdict() == Verdict::none_yet && failure_ == cuda::success) {
      patience.wait();
      if (patience.long_since()) ask_for_health();
    }
    if (verdict() != Verdict::taken_back) return;
  }
  observe::count_carrier(observe::CarriedBy::kernel_called_off);
  called_off_ = true;
  rescue_ = Rescue::begin(station_.device());
  for (std::uint32_t number = oldest_posted(); number != next_; ++number) {
    if (!rescue(posted_[number % gpu::errand_places])) return leave_to_kernel(number);
  }
}

// Says no where the kernel has begun meanwhile, and the driver has not taken the copy.
bool Courier::rescue(const gpu::ErrandCommand& command) noexcept {
  if (failure_ != cuda::success || command.kind == ErrandKind::end) return true;
  const std::optional<int> result = carry_by_engine(command);
  if (!result) return false;
  if (*result == cuda::success) return true;
  refused_late_ = task_ == nullptr && told_ != nullptr;
  // Of memory that is not there the station knows no harm.
  if (*result == cuda::error_invalid_value) {
    failure_ = *result;
  } else {
    give_up(*result);
  }
  return true;
}

std::optional<int> Courier::carry_by_engine(const gpu::ErrandCommand& command) noexcept {
  std::byte* const place = place_of(command.number);
  if (rescue_ == nullptr) return Rescue::carry(station_.device(), command, place);
  rescue_->ask(command, place);
  base::Patience patience;
  while (!rescue_->is_done()) {
    if (verdict() == Verdict::taken_back && rescue_->have_back()) return std::nullopt;
    patience.wait();
  }
  return rescue_->result();
}

// All from this command on. The mark may stand in its slot.
void Courier::leave_to_kernel(std::uint32_t number) noexcept {
  rescue_.reset();
  called_off_ = false;
  carries_on_ = true;
  carried_before_ = number;
  for (std::uint32_t left = number; left != next_; ++left) tell(posted_[left % gpu::errand_places]);
  put(words_.carry_on, number);
}

// Of a launch that was called off: nothing is left.
void Courier::resume() noexcept {
  observe::count_carrier(observe::CarriedBy::copy_engine);
  if (rescue_ != nullptr) rescue_->end();
  rescue_.reset();
  put(words_.resume, next_);
  has_kernel_ = false;
}

void Courier::give_up(int result) noexcept {
  failure_ = result;
  station_.condemned_.store(true);
}

// Blocks of the kernel carry side by side, so the last command may be through before others. What stood in a place
// before is through, or the place would not have been free.
bool Courier::settle() noexcept {
  for (std::uint32_t number = oldest_posted(); number != next_; ++number) {
    if (!wait_for(number)) return false;
  }
  return failure_ == cuda::success;
}

void Courier::finish() noexcept {
  station_.at_hand_of_.store(at_hand_ ? task_->subject : nullptr, std::memory_order_relaxed);
  if (has_kernel_) {
    static_cast<void>(place());  // its slot may hold a command that nobody has read yet
    // Behind the last command the program goes on: what it may look at is counted before.
    const bool is_carried = carries_on_ || (begun() && verdict() == Verdict::carries);
    if (!called_off_ && failure_ == cuda::success && is_carried) count_kernel();
    post(ErrandKind::end, 0, 0, 0);
    if (called_off_ || failure_ != cuda::success) resume();
  } else if (task_->fetched_bytes > 0) {
    observe::count_carrier(observe::CarriedBy::copy_engine);
  }
  station_.next_number_ = gpu::following_launch(next_);
  if (!gate_open_) open_gate();
  task_ = nullptr;
}

Courier::Kernel Courier::kernel(std::chrono::steady_clock::time_point now) noexcept {
  if (through_) return Kernel::through;
  if (has_kernel_ && !begun()) {
    if (early_) {
      if (static_cast<std::int32_t>(base::look(words_.bell) - gate_value_) < 0) return Kernel::awaited;
      early_ = false;
      opened_ = now;
    }
    return now - opened_ > patience_with_errand ? Kernel::overdue : Kernel::awaited;
  }
  through_ = true;
  if (has_kernel_) count_kernel();
  return Kernel::through;
}

void Courier::count_kernel() noexcept {
  if (!counted_) observe::count_carrier(observe::CarriedBy::kernel);
  counted_ = true;
}

// The stream stands still until then: a program that waits for it sees the failure, and not what was said before.
void Courier::call_off_late() noexcept {
  if (failure_ == cuda::success && !begun() && grants_delay()) return;
  call_off();
  if (refused_late_) std::atomic_ref(*told_).store(static_cast<ssize_t>(failed().value()), std::memory_order_release);
  if (called_off_ || failure_ != cuda::success) resume();
}

}  // namespace sluice::stream
