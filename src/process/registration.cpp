// SPDX-License-Identifier: Apache-2.0
#include "process/registration.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/failure.h"
#include "config/denylist.h"
#include "gpu/introduce.h"
#include "gpu/loading.h"
#include "gpu/memory.h"
#include "gpu/settle.h"
#include "observe/log.h"
#include "observe/probes.h"
#include "observe/statistics.h"
#include "paths/table.h"
#include "process/broken_pipe.h"
#include "process/in_flight.h"
#include "process/process.h"
#include "rdma/client.h"
#include "route/reasons.h"
#include "stream/channel/stream_channel.h"
#include "transfer/host_copy.h"

namespace sluice::process {

using base::Failure;

namespace {

constexpr int known_buffer_flags = CU_FILE_RDMA_REGISTER | CU_FILE_RDMA_RELAXED_ORDERING;

// Opened otherwise it is another descriptor, which has come to the number.
bool same_file(const File& file, const facts::FileFacts& now) {
  return file.facts.device == now.device && file.facts.inode == now.inode && file.facts.access == now.access &&
         file.facts.direct == now.direct;
}

// By the configuration's denylists.
void require_welcome(const config::Config& config, const facts::FileFacts& file) {
  const auto why = config::denial(
      config, {file.file_system_name, file.mount_point, file.block.name, file.block.driver, file.block.members});
  if (why) {
    throw Failure(CU_FILE_IO_DISABLED,
                  "this file is refused, since " + *why + ": take the entry out of the list to use cuFile here");
  }
}

// Where the CPU must not move device memory, a file that leaves no other way is refused at once, and not with its first
// transfer.
void require_direct_way(const File& file) {
  if (route::compat_is_allowed(file.options.rules)) return;
  facts::BufferFacts device;
  device.kind = facts::MemoryKind::device;
  for (const base::Direction direction : {base::Direction::read, base::Direction::write}) {
    const paths::Facts facts{file, device, direction, false, paths::Trust::what_is_hoped_for};
    const paths::Decision decision = paths::decide(facts, {.direction = direction});
    if (paths::is_permitted(decision, file.options.rules)) continue;
    const route::ReasonText& text = *route::reason_text(decision.reason);
    throw Failure(CU_FILE_IO_NOT_SUPPORTED,
                  "properties.allow_compat_mode is off, and only the CPU reaches this file. " +
                      std::string(text.sentence) + " " + text.remedy);
  }
}

// Of the allocation that memory belongs to.
bool lies_in_range(const facts::BufferFacts& memory, std::uint64_t address, std::uint64_t size) {
  return address >= memory.base && address - memory.base < memory.size && size <= memory.size - (address - memory.base);
}

// Best now: later a stream may wait for us, or for what the program does next.
void prepare_kernels() noexcept {
  constexpr int wait_milliseconds = 500;
  gpu::Kernels* const kernels = gpu::current_kernels();
  if (kernels == nullptr) return;
  stream::await_kernels_unless_streams_wait(*kernels, wait_milliseconds);
}

}  // namespace

void* Registrations::register_file(int fd, const CUfileFSOps_t* operations) {
  if (fd < 0) throw Failure(CU_FILE_INVALID_VALUE, "a negative descriptor names no file");
  const auto opened = process_.session_or_open();  // before anything can fail: the log tells why
  if (operations != nullptr) rdma::attach();
  if (opened->options.copy_mode != paths::CopyMode::plain && gpu::attach_driver() != nullptr) prepare_kernels();
  // A denylist is asked of the place as it is now.
  facts::FileFacts facts = facts_of(fd, opened->denies);
  facts.caller_reads = operations != nullptr && operations->read != nullptr;
  facts.caller_writes = operations != nullptr && operations->write != nullptr;

  const std::lock_guard lock(process_.control_);
  const auto session = process_.ensure_open_locked();
  require_welcome(*session->config, facts);
  auto made = std::make_unique<File>(fd, std::move(facts), session, operations);
  require_direct_way(*made);
  if (const auto known = handles_by_fd_.find(fd); known != handles_by_fd_.end()) {
    const auto file = files_.pin(known->second);
    if (file && same_file(*file, made->facts)) {
      throw Failure(CU_FILE_HANDLE_ALREADY_REGISTERED,
                    "descriptor " + std::to_string(fd) + " is registered already: use its handle, or deregister it");
    }
    // The number was closed and belongs to another file now. The old handle stays, and answers EBADF.
  }
  if (made->facts.block.over_tcp) broken_pipes_expected.store(true, std::memory_order_relaxed);
  observe::log_debug("process",
                     [&] { return fmt::format("descriptor {} registered: {}", fd, facts::describe(made->facts)); });
  const bool direct = made->facts.direct;
  void* const handle = files_.insert(std::move(made));
  handles_by_fd_[fd] = handle;
  observe::file_registered(fd, direct);
  return handle;
}

FileTable::Pin Registrations::forget_file(void* handle) {
  const std::lock_guard lock(process_.control_);
  auto file = files_.pin(handle);
  if (!file) return file;
  if (const auto known = handles_by_fd_.find(file->descriptor());
      known != handles_by_fd_.end() && known->second == handle) {
    handles_by_fd_.erase(known);
  }
  return file;
}

// A number that is registered is told of first, whatever it means by now that cannot be registered.
facts::FileFacts Registrations::facts_of(int fd, bool place_as_it_is) {
  try {
    return place_as_it_is ? facts::of_file(fd, facts::Root{}) : facts::of_file(fd, facts::Root{}, places_);
  } catch (const Failure& failure) {
    const bool of_file = failure.code() == CU_FILE_INVALID_FILE_TYPE ||
                         failure.code() == CU_FILE_INVALID_FILE_OPEN_FLAG ||
                         failure.code() == CU_FILE_HANDLE_NOT_REGISTERED;
    const std::lock_guard lock(process_.control_);
    if (!of_file || handles_by_fd_.find(fd) == handles_by_fd_.end()) throw;
    throw Failure(
        CU_FILE_HANDLE_ALREADY_REGISTERED,
        "descriptor " + std::to_string(fd) + " was registered when it was another file: deregister its handle");
  }
}

void Registrations::register_buffer(const void* base, std::size_t size, int flags) {
  const auto session = process_.session_or_open();  // also where the arguments are wrong
  if (base == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "a null pointer is no buffer");
  if (size == 0) throw Failure(CU_FILE_INVALID_VALUE, "a buffer of no bytes cannot be registered");
  if ((flags & ~known_buffer_flags) != 0) {
    static std::atomic<bool> told{false};
    observe::log_once(told, "process", "cuFileBufRegister: flags that have no meaning here are ignored; pass 0");
  }
  const auto address = reinterpret_cast<std::uint64_t>(base);
  const facts::BufferFacts facts = gpu::inspect(address);
  const bool on_device = !facts::is_host(facts.kind);
  // Host memory may be said to be as long as all addresses: nothing is asked of it.
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max() - address;
  const std::uint64_t said = size;
  if (!on_device) size = std::min<std::uint64_t>(size, std::max<std::uint64_t>(most, 1));
  std::byte first{};
  if (!on_device && gpu::driver_is_lost() && !transfer::copy_from_caller({&first, 1}, address).ok()) {
    throw Failure(CU_FILE_CUDA_DRIVER_ERROR,
                  "there is no memory at this address; memory of a device stays with the process that allocated it, a "
                  "child of fork cannot use it",
                  cuda::number_of(cuda::error_not_initialized));
  }
  const bool is_whole = !on_device || (size <= most && gpu::contiguous_bytes(address, size) == size);
  // A reservation may be registered before all of it is mapped, and a range may go on into the allocation beside its
  // own. Transfers look at what they touch of it, then.
  const bool goes_on = !is_whole && size <= most && gpu::adjacent_bytes(address, size) == size;
  // One that is said to be longer than its reservation has what more may be mapped in there.
  if (!is_whole && !goes_on && facts.kind == facts::MemoryKind::device && !gpu::outlives_its_streams(facts)) {
    size = std::min(size, facts.base + facts.size - address);
  }
  if (!is_whole && !goes_on && !lies_in_range(facts, address, size)) {
    require_unknown(address, facts);
    if (facts.kind == facts::MemoryKind::managed) {
      throw Failure(CU_FILE_CUDA_MEMORY_TYPE_INVALID, "the buffer is longer than the managed memory that it begins in");
    }
    throw Failure(CU_FILE_CUDA_POINTER_RANGE_ERROR,
                  "the buffer is longer than its allocation: register at most what was allocated");
  }
  if (!on_device && !session->config->flag(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY)) {
    throw Failure(CU_FILE_CUDA_MEMORY_TYPE_INVALID, "host memory is switched off by properties.allow_system_memory");
  }

  gpu::settle(facts, address);
  if (on_device) gpu::introduce_if_new(facts.device);
  auto buffer = std::make_unique<Buffer>(Buffer{address, size, facts, is_whole, {}, said});
  if (is_whole) buffer->attachments = paths::attachments_of_buffer(address, size, facts, session->options);
  void* stale = nullptr;
  {
    const std::lock_guard lock(process_.control_);
    process_.ensure_open_locked();
    if (on_device) require_no_neighbour_locked(*buffer);
    const RegisteredRange range{address, address + size, buffers_.insert(std::move(buffer))};
    if (!insert_range_locked(range)) {
      stale = take_stale_locked(range, facts);
      if (stale == nullptr) {
        buffers_.retire(range.handle);
        throw Failure(CU_FILE_MEMORY_ALREADY_REGISTERED, "a buffer with this address is registered already");
      }
    }
    observe::count_registered_bytes(on_device ? facts.device : -1, static_cast<std::int64_t>(size));
  }
  if (stale != nullptr) buffers_.retire(stale, drain_mode_now());
  observe::log_debug("process", [&] {
    return fmt::format("buffer {:#x} of {} bytes registered, device {}", address, size, facts.device);
  });
}

// A second registration is one whatever its length. So is one of an allocation that another registration reaches into.
void Registrations::require_unknown(std::uint64_t address, const facts::BufferFacts& now) {
  const std::lock_guard lock(process_.control_);
  const auto known = ranges_.find(address, address, 1);
  if (!known) return;
  const auto buffer = buffers_.pin(known->handle);
  if (!buffer) return;
  const bool same = known->base == address && buffer->facts.kind == now.kind && buffer->facts.id == now.id;
  const bool reached = known->base != address && address == now.base && now.context != nullptr &&
                       buffer->facts.kind == now.kind && buffer->facts.context != nullptr &&
                       gpu::inspect(known->base).id == buffer->facts.id;
  if (same || reached) {
    throw Failure(CU_FILE_MEMORY_ALREADY_REGISTERED, "the memory at this address is registered already");
  }
}

// Of one allocation any range may be registered; where two meet that began in different ones, one of them has gone
// beyond its own.
void Registrations::require_no_neighbour_locked(const Buffer& buffer) {
  if (buffer.facts.context == nullptr) return;  // mapped memory has many pieces
  for (const RegisteredRange& range : ranges_.overlapping(buffer.base, buffer.base + buffer.size)) {
    const auto other = buffers_.pin(range.handle);
    const bool beside = other && other->facts.kind == facts::MemoryKind::device && other->facts.context != nullptr &&
                        other->facts.id != buffer.facts.id && gpu::inspect(other->base).id == other->facts.id;
    if (beside) {
      throw Failure(CU_FILE_MEMORY_ALREADY_REGISTERED, "memory of another allocation is registered in this range");
    }
  }
}

// Under the lock, so that the level is never below what is there.
void Registrations::count_out_locked(const Buffer& buffer) {
  const int device = facts::is_host(buffer.facts.kind) ? -1 : buffer.facts.device;
  observe::count_registered_bytes(device, static_cast<std::int64_t>(0 - buffer.size));
}

// Without memory for it, the buffer is gone again.
bool Registrations::insert_range_locked(const RegisteredRange& range) {
  try {
    return ranges_.insert(range);
  } catch (...) {
    buffers_.retire(range.handle);
    throw;
  }
}

void* Registrations::take_stale_locked(const RegisteredRange& range, const facts::BufferFacts& now) {
  const auto known = ranges_.find(range.base, range.base, 1);
  if (!known || known->base != range.base) return nullptr;
  {
    const auto buffer = buffers_.pin(known->handle);
    if (!buffer || (buffer->facts.kind == now.kind && buffer->facts.id == now.id)) return nullptr;
    count_out_locked(*buffer);
  }
  ranges_.remove(range.base);
  ranges_.insert(range);
  return known->handle;
}

RegisteredRange Registrations::take_buffer(std::uint64_t base) {
  const std::lock_guard lock(process_.control_);
  if (process_.use_count_ == 0) {
    throw Failure(CU_FILE_DRIVER_CLOSING, process_.was_open_ ? "the driver was closed, which deregistered all buffers"
                                                             : "the driver was never opened, and no buffer registered");
  }
  leaving_.reserve(leaving_.size() + 1);
  const auto range = ranges_.remove(base);
  if (!range) {
    throw Failure(CU_FILE_MEMORY_NOT_REGISTERED,
                  "no buffer with this address is registered: pass the pointer that was registered");
  }
  leaving_.push_back(*range);
  if (const auto buffer = buffers_.pin(range->handle)) count_out_locked(*buffer);
  return *range;
}

void Registrations::end_leaving(std::uint64_t base) {
  std::vector<void*> handles;
  {
    const std::lock_guard lock(process_.control_);
    for (const RegisteredRange& range : leaving_) {
      if (range.base == base) handles.push_back(range.handle);
    }
  }
  for (void* handle : handles) buffers_.retire(handle, drain_mode_now());
}

void Registrations::forget_leaving(std::span<const RegisteredRange> ranges) {
  const std::lock_guard lock(process_.control_);
  std::erase_if(leaving_, [ranges](const RegisteredRange& one) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const auto& ended) { return ended.handle == one.handle; });
  });
}

// Returns when no transfer touches the memory, also where it refuses: the caller may free it next.
void Registrations::deregister_buffer(const void* base) {
  if (base == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "a null pointer is no buffer");
  const auto address = reinterpret_cast<std::uint64_t>(base);
  try {
    const RegisteredRange range = take_buffer(address);
    observe::log_debug("process", [&] { return fmt::format("buffer {:#x} deregistered", address); });
    buffers_.retire(range.handle, drain_mode_now());
    forget_leaving({&range, 1});
  } catch (const Failure&) {
    end_leaving(address);
    throw;
  }
}

Registrations::Taken Registrations::take_all_locked() {
  Taken taken{files_.handles(), buffers_.handles(), {}};
  leaving_.reserve(leaving_.size() + taken.buffers.size());
  taken.ranges = ranges_.clear();
  handles_by_fd_.clear();
  for (const RegisteredRange& range : taken.ranges) {
    if (const auto buffer = buffers_.pin(range.handle)) count_out_locked(*buffer);
  }
  leaving_.insert(leaving_.end(), taken.ranges.begin(), taken.ranges.end());
  return taken;
}

void Registrations::end(const Taken& taken, DrainMode drain_mode) {
  for (void* file : taken.files) files_.retire(file, drain_mode);
  for (void* buffer : taken.buffers) buffers_.retire(buffer, drain_mode);
  forget_leaving(taken.ranges);
}

void Registrations::before_fork() {
  places_.before_fork();
  files_.before_fork();
  buffers_.before_fork();
  ranges_.before_fork();
}

void Registrations::after_fork(bool in_child) {
  ranges_.after_fork(in_child);
  if (in_child) leaving_.clear();
  buffers_.after_fork(in_child);
  files_.after_fork(in_child);
  places_.after_fork();
}

}  // namespace sluice::process
