// SPDX-License-Identifier: Apache-2.0
// The handle is looked up when the stream gets there: a file that was deregistered meanwhile is not touched.
#include "stream/stream_call.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>

#include "gpu/coherent.h"
#include "gpu/memory.h"
#include "io/file_io.h"
#include "observe/probes.h"
#include "observe/statistics.h"
#include "paths/stream_segment.h"
#include "process/in_flight.h"
#include "stream/channel/stream_copier.h"

namespace sluice::stream {

using base::Direction;
using base::Outcome;

namespace {

constexpr unsigned fixed_parameters =
    CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET | CU_FILE_STREAM_FIXED_FILE_SIZE;

// Writes of up to this size are brought to the staging memory by the stream itself, by the copy engine.
constexpr std::size_t largest_prestaged = std::size_t{1} << 20;
// What the thread that watches the streams does by itself, where no disk has to be waited for.
constexpr std::size_t largest_quick = std::size_t{64} << 10;

// A block for each piece, as far as the streams that are at it together take no more of the device than one request
// alone does.
unsigned blocks_for(std::size_t bytes) noexcept {
  constexpr unsigned together = 32;
  constexpr std::size_t least = 2;
  constexpr std::size_t always = 4;
  const std::size_t wanted = std::max(least, bytes >> 15U);
  if (wanted <= always) return static_cast<unsigned>(wanted);
  return static_cast<unsigned>(std::min(wanted, std::max<std::size_t>(always, together / peak_streams())));
}

// About as many as plan_stream_read() (transfer/plan.cpp) will ask for.
unsigned helpers_for(std::size_t bytes) noexcept {
  constexpr std::size_t none_below = std::size_t{128} << 10;
  return bytes < none_below ? 0 : static_cast<unsigned>(std::min<std::size_t>(bytes >> 16U, 11));
}

// Earlier work of the stream may be writing the parameters that are not fixed. Of these it is a guess, to plan by;
// now() reads them again.
[[gnu::no_sanitize_thread]] request::Call at_once(const LateCall& late) noexcept {
  return {late.direction, late.handle, late.base, *late.size, *late.file_offset, *late.buffer_offset};
}

// What neighbours may carry leaves little to the kernel: it is not to hold processors of the device meanwhile.
bool may_be_lent(const process::File& file, const request::Call& call) noexcept {
  const staging::LendingRules& lending = file.options.lending;
  return lending.on && lending.by_kernel && lending.switches_peers && call.size >= lending.least_bytes / 4;
}

// Device memory in the order of the stream.
class InOrder final : public paths::DeviceSide {
 public:
  explicit InOrder(StreamCopier& copier) noexcept : copier_(copier) {}
  const facts::BufferFacts* remembers(std::uint64_t address, std::uint64_t length) const noexcept override {
    return copier_.remembers(address, length);
  }
  Outcome move(const facts::BufferFacts& memory, const paths::Piece& piece, paths::FileSide& file) noexcept override {
    return paths::move_in_stream(copier_, memory, piece, file);
  }
  Outcome read_back(std::uint64_t address, std::span<std::byte> into) noexcept override {
    return paths::read_back(copier_, address, into);
  }

 private:
  StreamCopier& copier_;
};

}  // namespace

bool StreamOptions::fixes_all() const noexcept {
  return (flags & fixed_parameters) == fixed_parameters;
}

StreamCall::StreamCall(StreamChannel& channel, process::Process& process, const LateCall& call,
                       const StreamOptions& options) noexcept
    : home_(channel), process_(process), late_(call), options_(options), known_(at_once(call)) {
  subject = call.handle;
  result_word = call.moved;
}

StreamCall::Owner StreamCall::make(StreamChannel& channel, process::Process& process, const LateCall& call,
                                   const StreamOptions& options) {
  void* memory = channel.take_task_memory();
  if (memory == nullptr) memory = ::operator new (sizeof(StreamCall), std::align_val_t{alignof(StreamCall)});
  return Owner(new (memory) StreamCall(channel, process, call, options));
}

void StreamCall::Unmake::operator()(StreamCall* call) const noexcept {
  StreamChannel& channel = call->home_;
  call->~StreamCall();
  if (!channel.keep_task_memory(call)) ::operator delete (call, std::align_val_t{alignof(StreamCall)});
}

void StreamCall::plan(process::File& file, const facts::BufferFacts& memory, const StreamChannel& channel,
                      bool kernel) noexcept {
  const gpu::StreamCopy& device = channel.device();
  const bool ours = !facts::is_host(memory.kind) && memory.device == device.device() &&
                    (memory.context == nullptr || memory.context == device.context());
  if (!ours) return;
  const bool where_known =
      options_.fixes(CU_FILE_STREAM_FIXED_BUF_OFFSET) && options_.fixes(CU_FILE_STREAM_FIXED_FILE_SIZE);
  if (late_.direction == Direction::write && where_known && memory.kind == facts::MemoryKind::device &&
      known_.size > 0 && known_.size <= largest_prestaged && known_.buffer_offset >= 0 &&
      !gpu::cpu_reaches(memory, file.options.coherent)) {
    const std::uint64_t address =
        reinterpret_cast<std::uint64_t>(known_.base) + static_cast<std::uint64_t>(known_.buffer_offset);
    if (gpu::contiguous_bytes(address, known_.size) == known_.size) {
      prestaged_from = address;
      prestaged_bytes = static_cast<std::uint32_t>(known_.size);
      return;
    }
  }
  if (!kernel) return;
  blocks = blocks_for(known_.size);
  is_small_read = late_.direction == Direction::read && known_.size <= largest_quick;
  const bool by_io_uring = file.facts.direct && file.disk.takes_rings();
  if (late_.direction == Direction::read && !by_io_uring) helpers = helpers_for(known_.size);
}

request::Call StreamCall::now() const noexcept {
  request::Call call = known_;
  if (!options_.fixes(CU_FILE_STREAM_FIXED_FILE_SIZE)) call.size = *late_.size;
  if (!options_.fixes(CU_FILE_STREAM_FIXED_FILE_OFFSET)) call.file_offset = *late_.file_offset;
  if (!options_.fixes(CU_FILE_STREAM_FIXED_BUF_OFFSET)) call.buffer_offset = *late_.buffer_offset;
  return call;
}

void StreamCall::run(StreamCopier& copier) noexcept {
  const process::InFlight in_flight;  // until the count is told
  const request::Call call = now();
  Outcome outcome = Outcome::refused(CU_FILE_HANDLE_NOT_REGISTERED);
  if (const auto file = process_.files().pin(call.handle)) {
    if (is_small_read && !looked_) is_quick();
    if (is_cached_ && !may_be_lent(*file, call)) copier.open_soon();
    InOrder device(copier);
    request::Item item{call, &*file};
    outcome = request::run(process_, item,
                           {.caller = request::Caller::stream,
                            .device = copier.carries() ? &device : nullptr,
                            .stream_flags = options_.flags});
  } else {
    observe::count_transfer({.direction = call.direction, .requested = call.size}, outcome);
  }
  looked_ = is_cached_ = false;  // one of a graph comes again
  observe::stream_done(late_.moved, call.direction, outcome);
  // A program may look at it without waiting for its stream: the bytes that this thread has moved come first.
  std::atomic_ref(*late_.moved).store(static_cast<ssize_t>(outcome.value()), std::memory_order_release);
}

bool StreamCall::is_quick() noexcept {
  looked_ = true;
  const request::Call call = now();
  const auto file = process_.files().pin(call.handle);
  if (!file) return true;
  if (file->operations != nullptr || file->facts.direct || file->facts.kind != facts::FileKind::regular) return false;
  if (call.direction == Direction::write) return prestaged_bytes > 0 && call.size <= largest_quick;
  // Is its first byte in the page cache?
  std::byte byte{};
  const base::FileOffset first{static_cast<std::uint64_t>(call.file_offset)};
  const Outcome got = io::read_span_if_cached(file->descriptor(), {&byte, 1}, first, ~std::uint64_t{0});
  is_cached_ = got.ok();
  return is_cached_ && call.size <= largest_quick;
}

void StreamCall::end() noexcept {
  Unmake()(this);
}

}  // namespace sluice::stream
