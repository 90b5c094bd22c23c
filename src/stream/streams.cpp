// SPDX-License-Identifier: Apache-2.0
// Which stream has which terms and which channel, and what a call puts into it.
#include "stream/streams.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "base/failure.h"
#include "base/thread_number.h"
#include "facts/descriptor_check.h"
#include "gpu/cuda_api.h"
#include "gpu/loading.h"
#include "gpu/memory.h"
#include "gpu/stream_scope.h"
#include "observe/log.h"
#include "observe/probes.h"
#include "paths/table.h"
#include "process/in_flight.h"
#include "stream/channel/settle_kernels.h"

namespace sluice::stream {

using base::Failure;

namespace {

constexpr unsigned all_stream_flags = CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET |
                                      CU_FILE_STREAM_FIXED_FILE_SIZE | CU_FILE_STREAM_PAGE_ALIGNED_INPUTS;

// So many streams that were not registered keep their channels while nothing of theirs is under way.
constexpr std::size_t most_unregistered = 16;

// How long ending a file or the driver waits for the next of what stands in streams to end.
constexpr int most_milliseconds_for_streams = 2000;

constexpr std::uintptr_t per_thread_stream = 2;

[[noreturn]] void refuse(cuda::Result result, const char* what) {
  throw Failure(CU_FILE_CUDA_DRIVER_ERROR, std::string(what) + gpu::error_name(result), cuda::number_of(result));
}

[[noreturn]] void refuse_capture(const char* why) {
  throw Failure(CU_FILE_ASYNC_NOT_SUPPORTED,
                std::string("the stream is being captured into a graph: ") + why + "; the capture is intact");
}

bool is_captured(cuda::Stream stream) {
  int capturing = cuda::capture_none;
  const cuda::Result asked = gpu::driver()->stream_is_capturing(stream, &capturing);
  // Asked about the legacy stream while another one is captured, the driver answers with one of capture's errors.
  if (asked >= cuda::error_stream_capture_unsupported && asked <= cuda::error_stream_capture_wrong_thread) {
    refuse_capture("or another stream is, which this one would have to wait for");
  }
  if (asked != cuda::success) refuse(asked, "the stream cannot be used: ");
  return capturing != cuda::capture_none;
}

// On a stream that was registered for whole pages NVIDIA's library refuses what is fixed and is none of them. Here that
// works: refused at once is only what could not work.
[[gnu::no_sanitize_thread]] void look_at_pages(const LateCall& call, unsigned flags) {
  const auto fixes = [flags](unsigned flag) { return (flags & flag) != 0; };
  if (!fixes(CU_FILE_STREAM_PAGE_ALIGNED_INPUTS) || !fixes(CU_FILE_STREAM_FIXED_FILE_OFFSET)) return;
  std::uint64_t together = static_cast<std::uint64_t>(*call.file_offset);
  if (fixes(CU_FILE_STREAM_FIXED_FILE_SIZE)) together |= *call.size;
  if (fixes(CU_FILE_STREAM_FIXED_BUF_OFFSET)) {
    together |= static_cast<std::uint64_t>(*call.buffer_offset) | reinterpret_cast<std::uint64_t>(call.base);
  }
  const bool is_in_no_file = *call.file_offset < 0 || (fixes(CU_FILE_STREAM_FIXED_FILE_SIZE) &&
                                                       request::ends_beyond_all_files(*call.file_offset, *call.size));
  if (together % request::contract_page == 0 || !is_in_no_file || *call.size == 0) return;
  *call.moved = -EINVAL;
  throw Failure(CU_FILE_INVALID_VALUE, "the range is in no file, and the stream was registered for whole pages");
}

// In the plainest manner: waits, and moves the bytes on this thread.
void transfer_behind(process::Process& driver, cuda::Stream stream, const LateCall& call, process::File& file,
                     unsigned flags) {
  if (gpu::driver() != nullptr) {
    const cuda::Result waited = gpu::wait_for_stream(stream);
    if (waited == cuda::error_stream_capture_unsupported)
      refuse_capture("transfers in plain mode cannot be part of it");
    if (waited != cuda::success) refuse(waited, "waiting for the stream failed: ");
  }
  // What earlier work wrote into the parameters is there.
  const request::Call now{call.direction, call.handle, call.base, *call.size, *call.file_offset, *call.buffer_offset};
  look_at_pages(call, flags);
  const process::InFlight in_flight;
  request::Item item{now, &file};
  const request::Options options{.caller = request::Caller::stream, .stream_flags = flags};
  *call.moved = static_cast<ssize_t>(request::run(driver, item, options).value());
}

// Of no bytes there is nothing that a handle would be needed for.
[[gnu::no_sanitize_thread]] bool is_nothing(const LateCall& call) noexcept {
  return *call.size == 0;
}

// Of a size that no count tells there is no transfer. What is known to be nothing is told at once, as by calls that
// wait: programs may look without waiting for the stream. It is put into the stream all the same: earlier work there
// may write another size.
[[gnu::no_sanitize_thread]] void look_at_size(const LateCall& call) {
  const std::size_t size = *call.size;
  if (size == 0) *call.moved = 0;
  // No count tells of all pages of it either.
  if (size <= std::numeric_limits<ssize_t>::max() - request::contract_page) return;
  *call.moved = -EINVAL;
  throw Failure(CU_FILE_INVALID_VALUE, "no count tells of so many bytes");
}

// A trial copies on streams of our own, which may stand behind those that wait for us: it is made when none does.
void try_paths(process::File& file, const facts::BufferFacts& memory, base::Direction direction) noexcept {
  if (facts::is_host(memory.kind) || !file.facts.direct || busy_streams() > 0) return;
  facts::DescriptorCheck now(file.descriptor(), file.facts);
  const paths::Ends ends{file, now, memory};
  paths::decide({file, memory, direction}, {.direction = direction}, {&ends, paths::need_of(file.options.rules)});
}

}  // namespace

// A stream's channel while something is being put into the stream.
class Streams::Use {
 public:
  Use(Streams& streams, const gpu::StreamScope& scope, cuda::Stream stream) {
    const Key key = key_of(scope, stream);
    const std::lock_guard lock(streams.mutex_);
    entry_ = &streams.entries_[key];
    entry_->users.fetch_add(1, std::memory_order_relaxed);
    if (entry_->channel == nullptr) {
      streams.let_go_of_idle_locked(most_unregistered);
      entry_->channel = StreamChannel::take(scope.context(), scope.context_id());
    }
    options_ = entry_->options;
  }
  ~Use() { entry_->users.fetch_sub(1, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Null when there is no memory for one, or the driver refuses.
  StreamChannel* channel() const noexcept { return entry_->channel; }
  const StreamOptions& options() const noexcept { return options_; }

 private:
  Entry* entry_ = nullptr;  // with users, it is not erased
  StreamOptions options_;
};

Streams::Key Streams::key_of(const gpu::StreamScope& scope, cuda::Stream stream) {
  const bool own = reinterpret_cast<std::uintptr_t>(stream) == per_thread_stream;
  return {gpu::stream_number(stream), scope.context(), scope.context_id(), own ? base::thread_number() + 1 : 0};
}

// So many of those that were not registered keep their channels.
void Streams::let_go_of_idle_locked(std::size_t most_kept) {
  std::size_t unregistered = 0;
  for (const auto& [key, entry] : entries_) unregistered += entry.registered ? 0 : 1;
  for (auto entry = entries_.begin(); entry != entries_.end() && unregistered > most_kept;) {
    Entry& candidate = entry->second;
    const bool idle = !candidate.registered && candidate.users.load(std::memory_order_acquire) == 0 &&
                      (candidate.channel == nullptr || candidate.channel->is_idle());
    if (!idle) {
      ++entry;
      continue;
    }
    if (candidate.channel != nullptr) candidate.channel->give_back();
    entry = entries_.erase(entry);
    --unregistered;
  }
}

void Streams::add(cuda::Stream stream, unsigned flags) {
  if ((flags & ~all_stream_flags) != 0) {
    static std::atomic<bool> result_word{false};
    observe::log_once(result_word, "stream",
                      "cuFileStreamRegister: flags beyond 0 to 15 have no meaning here and are ignored");
    flags &= all_stream_flags;
  }
  std::optional<gpu::StreamScope> scope;
  if (gpu::attach_driver() != nullptr) scope.emplace(stream, nullptr);
  const bool usable = scope && scope->status() == cuda::success;
  if (usable && is_captured(stream)) refuse_capture("register it before");
  const Key key = usable ? key_of(*scope, stream) : Key{.stream = gpu::stream_number(stream)};
  if (usable) {
    std::optional<gpu::KernelLoadHold> without;
    settle_kernels(*scope, stream, without);
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[key];
  if (entry.registered) throw Failure(CU_FILE_INVALID_VALUE, "this stream is registered already");
  // What had this handle before is gone, and its channel free for others.
  for (auto& [other, older] : entries_) {
    if (older.stream == stream && other.context == key.context && other.thread == key.thread) {
      older.stream = nullptr;
      older.registered = false;
      older.options = {};
    }
  }
  entry.registered = true;
  entry.stream = stream;
  entry.options = StreamOptions{flags};
  if (usable && entry.channel == nullptr) {
    let_go_of_idle_locked(most_unregistered);
    entry.channel = StreamChannel::take(scope->context(), scope->context_id());
  }
}

Streams::Entry& Streams::registered_entry(cuda::Stream stream) {
  std::optional<gpu::StreamScope> scope;
  if (gpu::driver() != nullptr) scope.emplace(stream, nullptr);
  const bool usable = scope && scope->status() == cuda::success;
  if (usable && is_captured(stream)) {
    if (Entry* const captured = captured_entry(*scope, stream)) return *captured;
    throw Failure(CU_FILE_INVALID_VALUE, "this stream is not registered");
  }
  const auto known = entries_.find(usable ? key_of(*scope, stream) : Key{.stream = gpu::stream_number(stream)});
  if (known != entries_.end() && known->second.registered) return known->second;
  if (Entry* const nameless = nameless_entry(stream)) return *nameless;
  throw Failure(CU_FILE_INVALID_VALUE, "this stream is not registered");
}

// One that was registered while the driver would not tell its context or its number.
Streams::Entry* Streams::nameless_entry(cuda::Stream stream) {
  for (auto& [key, entry] : entries_) {
    const bool is_nameless = key.context == nullptr || key.stream == reinterpret_cast<unsigned long long>(stream);
    if (entry.registered && entry.stream == stream && is_nameless) return &entry;
  }
  return nullptr;
}

// A stream's number cannot be asked for while it is captured: the question ends the capture.
Streams::Entry* Streams::captured_entry(const gpu::StreamScope& scope, cuda::Stream stream) {
  const bool own = reinterpret_cast<std::uintptr_t>(stream) == per_thread_stream;
  const std::size_t thread = own ? base::thread_number() + 1 : 0;
  for (auto& [key, entry] : entries_) {
    const bool same = key.context == scope.context() && key.context_id == scope.context_id() && key.thread == thread &&
                      entry.stream == stream;
    if (same && entry.registered) return &entry;
  }
  return nullptr;
}

void Streams::remove(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  Entry& entry = registered_entry(stream);
  entry.registered = false;
  entry.stream = nullptr;
  entry.options = {};
  let_go_of_idle_locked(most_unregistered);
}

void Streams::want_registered(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  static_cast<void>(registered_entry(stream));
}

void Streams::clear() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) {
    entry.registered = false;
    entry.stream = nullptr;
    entry.options = {};
  }
  let_go_of_idle_locked(0);
}

void Streams::wait_for(const void* handle) noexcept {
  wait_for_stream_tasks(handle, most_milliseconds_for_streams);
}

void Streams::after_fork(bool in_child) {
  if (in_child) entries_.clear();
  mutex_.unlock();
}

void Streams::put(process::Process& driver, const gpu::StreamScope& scope, cuda::Stream stream, const LateCall& call,
                  process::File& file, const Use& use) {
  StreamChannel& channel = *use.channel();
  const bool by_engine = file.session->options.streams_by_engine;
  look_at_pages(call, use.options().flags);
  channel.prefetch_task_memory(sizeof(StreamCall));
  const facts::BufferFacts memory = gpu::inspect(reinterpret_cast<std::uint64_t>(call.base));
  StreamCall::Owner task = StreamCall::make(channel, driver, call, use.options());
  if (gpu::outlives_its_streams(memory)) task->remembered = memory;
  task->plan(file, memory, channel, !by_engine && channel.has_kernel());
  try_paths(file, memory, call.direction);
  observe::stream_call(stream, call.moved, call.direction, *call.size);
  const cuda::Result result = scope.status() == cuda::success ? channel.submit(stream, *task) : scope.status();
  if (result != cuda::success) refuse(result, "the transfer cannot be put into the stream: ");
  static_cast<void>(task.release());  // the channel has it
}

// The task stays for as long as the graph may be replayed.
void Streams::capture(process::Process& driver, const gpu::StreamScope& scope, cuda::Stream stream,
                      const LateCall& call, process::File& file, const StreamOptions& options) {
  if (!options.fixes_all()) {
    refuse_capture("a transfer becomes part of it when the stream was registered with fixed size and offsets");
  }
  StreamChannel* const channel = StreamChannel::take(scope.context(), scope.context_id());
  if (channel == nullptr) refuse_capture("there is no memory for a node of it");
  if (gpu::Kernels* const kernels = gpu::kernels_of(scope.context(), scope.context_id())) {
    await_kernels_unless_streams_wait(*kernels, most_milliseconds_for_kernels);
  }
  StreamCall::Owner task = StreamCall::make(*channel, driver, call, options);
  const facts::BufferFacts memory = gpu::inspect(reinterpret_cast<std::uint64_t>(call.base));
  task->plan(file, memory, *channel, true);
  if (task->blocks > 0 && !channel->has_kernel()) {
    channel->give_back();
    refuse_capture("the kernel that carries its bytes cannot be had");
  }
  if (const cuda::Result result = channel->prepare_for_graph(*task); result != cuda::success) {
    channel->give_back();
    refuse(result, "the transfer cannot be captured: ");
  }
  StreamCall& kept = *task;
  {
    const std::lock_guard lock(mutex_);
    of_graphs_.push_back(std::move(task));  // before the capture: part of it may be in the graph
  }
  const cuda::Result result = channel->submit_captured(stream, kept);
  if (result != cuda::success) refuse(result, "the transfer cannot be captured: ");
}

// By the handle alone, for those that go without a channel.
unsigned Streams::flags_of(cuda::Stream stream) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(), [stream](const auto& each) {
    return each.second.registered && each.second.stream == stream;
  });
  return known == entries_.end() ? 0 : known->second.options.flags;
}

void Streams::submit(process::Process& driver, cuda::Stream stream, const LateCall& call) {
  const process::PinScope pins;
  const auto file = driver.files().pin(call.handle);
  if (!file) {
    driver.session_or_open();
    if (is_nothing(call)) {
      *call.moved = 0;
      return;
    }
    if (driver.files().standing(call.handle) == process::HandleState::retired) {
      *call.moved = -CU_FILE_HANDLE_NOT_REGISTERED;
      return;
    }
    *call.moved = -EINVAL;
    throw Failure(CU_FILE_INVALID_VALUE, "this file handle is not registered");
  }
  look_at_size(call);
  if (gpu::attach_driver() == nullptr || file->session->options.copy_mode == paths::CopyMode::plain) {
    transfer_behind(driver, stream, call, *file, flags_of(stream));
    return;
  }
  const gpu::StreamScope scope(stream, nullptr);
  if (scope.status() != cuda::success) refuse(scope.status(), "the stream cannot be used: ");
  const bool captured = is_captured(stream);
  const Attendance attendance = attendance_of_streams();
  const bool has_workers = attendance == Attendance::there;
  if (captured) {
    if (attendance == Attendance::no_memory) throw std::bad_alloc();
    if (!has_workers) refuse_capture("no thread can be started that would attend to it");
    StreamOptions options;
    {
      const std::lock_guard lock(mutex_);
      if (const Entry* const known = captured_entry(scope, stream)) options = known->options;
    }
    capture(driver, scope, stream, call, *file, options);
    return;
  }
  if (!has_workers) {
    transfer_behind(driver, stream, call, *file, flags_of(stream));
    return;
  }
  if (file->session->config->flag(CUFILE_PARAM_STREAM_MEMOPS_BYPASS)) StreamChannel::use_host_functions();
  // While they are being loaded, the driver waits for all streams, and next to nothing else goes on in it: no stream
  // may wait for us then.
  std::optional<gpu::KernelLoadHold> without;
  if (!settle_kernels(scope, stream, without)) {
    transfer_behind(driver, stream, call, *file, flags_of(stream));
    return;
  }
  const Use use(*this, scope, stream);
  if (use.channel() == nullptr) {
    transfer_behind(driver, stream, call, *file, flags_of(stream));
    return;
  }
  put(driver, scope, stream, call, *file, use);
}

}  // namespace sluice::stream
