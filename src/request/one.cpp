// SPDX-License-Identifier: Apache-2.0
#include "request/one.h"

#include <atomic>
#include <cerrno>
#include <limits>
#include <optional>

#include "facts/descriptor_check.h"
#include "gpu/memory.h"
#include "gpu/settle.h"
#include "paths/path.h"
#include "process/in_flight.h"
#include "request/answer.h"
#include "request/explain.h"
#include "request/request.h"
#include "transfer/host_copy.h"

namespace sluice::request {

using base::Direction;
using base::Outcome;
using facts::Access;

namespace {

constexpr unsigned fixed_parameters =
    CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET | CU_FILE_STREAM_FIXED_FILE_SIZE;
constexpr std::uint64_t end_of_users = std::uint64_t{1} << 47U;  // what a process has lies below

// The memory of a transfer, resolved. A registered buffer stays pinned, so that deregistering it waits.
struct Memory {
  facts::BufferFacts facts;
  process::BufferTable::Pin registration;
  bool inside = false;      // of the registered range, all of it
  std::uint64_t there = 0;  // bytes of the device, from the address on, where they are too few
  bool goes_on = false;     // behind them lies another allocation that was registered along with it
};

bool same_allocation(const facts::BufferFacts& registered, const facts::BufferFacts& now) {
  return registered.kind == now.kind && registered.id == now.id;
}

// NVIDIA's library does nothing for more of the host's memory than a signed word counts; it has only heard of it.
bool is_only_remembered(const process::Buffer& buffer) noexcept {
  return facts::is_host(buffer.facts.kind) && buffer.size > std::numeric_limits<int>::max();
}

// Memory that was freed and allocated again under a registration has another id. So has another piece of a registered
// range that was mapped from several, and memory beside the range: then its base decides.
bool still_there(const process::Buffer& buffer, const facts::BufferFacts& memory) noexcept {
  return same_allocation(buffer.facts, memory) || same_allocation(buffer.facts, gpu::inspect(buffer.base));
}

// Paths have attached something to the allocation that was registered: not to another one that has come to its address,
// nor to what is mapped behind.
const paths::Attachments* attachments_of(const Memory& memory) noexcept {
  if (!memory.inside || !same_allocation(memory.registration->facts, memory.facts)) return nullptr;
  return &memory.registration->attachments;
}

// A negative offset stays on the side of its pointer, a device's memory or the host's. As with NVIDIA's library, what
// lies between is not looked at.
bool reaches_back(const Call& call, std::uint64_t address, const facts::BufferFacts& memory) noexcept {
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  if (address > base) return false;  // it went below the first address there is
  return facts::is_host(gpu::inspect(base).kind) == facts::is_host(memory.kind);
}

// With a negative offset a transfer in a stream may begin in the allocations before its pointer's own, and has to end
// in that.
bool begins_before(const Call& call, std::uint64_t address) noexcept {
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  const std::uint64_t end = address + call.size;
  if (call.buffer_offset >= 0 || gpu::adjacent_bytes(address, call.size) < call.size) return false;
  return end <= base || gpu::contiguous_bytes(base, end - base) == end - base;
}

// By a negative offset, also from a pointer that was registered.
bool may_reach_back(const Options& options) noexcept {
  return options.caller == Caller::stream && (options.stream_flags & fixed_parameters) != fixed_parameters;
}

Outcome resolve(process::Process& process, const Call& call, std::uint64_t address, const Options& options,
                Memory& memory) noexcept {
  // What the call found stays until its stream has got beyond this transfer, also where the program has freed it behind
  // the transfer and the driver has forgotten it.
  const facts::BufferFacts* const remembered =
      options.device != nullptr ? options.device->remembers(address, call.size) : nullptr;
  memory.facts = remembered != nullptr ? *remembered : gpu::inspect(address);
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  if (const auto range = process.ranges().find(base, address, call.size)) {
    memory.registration = process.buffers().pin(range->handle);
    if (memory.registration && call.buffer_offset < 0 && leaves_registered(*memory.registration, call) &&
        !is_only_remembered(*memory.registration) && !may_reach_back(options)) {
      return Outcome::refused(CU_FILE_INTERNAL_ERROR);
    }
    // Host memory may be registered as long as all addresses: a device's is not meant then.
    const bool is_meant = memory.registration && (!facts::is_host(memory.registration->facts.kind) ||
                                                  facts::is_host(memory.facts.kind) || range->base == base);
    if (is_meant && still_there(*memory.registration, memory.facts)) {
      memory.inside = address >= range->base && address < range->end && call.size <= range->end - address;
      const bool whole = memory.inside && (memory.registration->is_whole || remembered != nullptr ||
                                           gpu::contiguous_bytes(address, call.size) == call.size);
      if (whole) return Outcome::bytes(0);
      if (memory.inside && gpu::adjacent_bytes(address, call.size) == call.size) {
        memory.there = gpu::contiguous_bytes(address, call.size);
        memory.goes_on = true;
        return Outcome::bytes(0);
      }
      // By the pointer that was registered a transfer has to stay inside. By any other one it is a transfer of memory
      // that lies where it lies, as with NVIDIA's library.
      if (range->base == base && !memory.inside && call.buffer_offset >= 0 && !has_queued(options.caller)) {
        return Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE);
      }
    }
    // The pointer that was registered as a device's, and the driver does not know it any more: whatever the process has
    // at this address by now, it is not what the caller means.
    const bool was_on_device = memory.registration && !facts::is_host(memory.registration->facts.kind);
    if (was_on_device && range->base == base && memory.facts.kind == facts::MemoryKind::plain_host) {
      return Outcome::system_error(EFAULT);
    }
  }
  if (call.buffer_offset < 0 && !reaches_back(call, address, memory.facts)) {
    return Outcome::refused(CU_FILE_CUDA_POINTER_RANGE_ERROR);
  }
  if (facts::is_host(memory.facts.kind) || remembered != nullptr) return Outcome::bytes(0);
  memory.there = gpu::contiguous_bytes(address, call.size);
  memory.goes_on =
      options.caller == Caller::stream && memory.there != 0 && memory.there < call.size && begins_before(call, address);
  const bool all = memory.there == call.size || memory.goes_on;
  return all ? Outcome::bytes(0) : Outcome::refused(CU_FILE_CUDA_POINTER_RANGE_ERROR);
}

// A read may ask for more than its memory holds where the file has no more.
bool ends_within(facts::DescriptorCheck& now, std::uint64_t offset, std::uint64_t size) noexcept {
  return now.finds_the_file() && now.size() <= offset + size;
}

// Of a device's memory all is taken that some file could fill; of the host's what a kernel would look at.
bool could_be_read_into(const Call& call) noexcept {
  constexpr off_t far = off_t{1} << 62;
  if (!facts::is_host(gpu::inspect(reinterpret_cast<std::uint64_t>(call.base)).kind)) {
    return call.size <= largest_offset ||
           (call.size != std::numeric_limits<std::size_t>::max() && call.file_offset < far);
  }
  return call.size <= largest_offset && call.address() < end_of_users;
}

// Is there nothing at all to be read? Then next to nothing is asked of the memory either.
bool is_behind_the_end(process::File& file, const Call& call, facts::DescriptorCheck& now) noexcept {
  return call.direction == Direction::read && file.facts.access != Access::none && file.operations == nullptr &&
         call.file_offset >= 0 && ends_within(now, static_cast<std::uint64_t>(call.file_offset), 0) &&
         could_be_read_into(call);
}

// What a call by a pointer that was registered is told before all else but a null pointer and the offset in the file:
// NVIDIA's library adds offset and size as words, which may come round. Nothing where no such thing is registered, or
// the call has to be looked at further.
std::optional<Outcome> told_of_registration(process::Process& process, const process::File& file,
                                            const Call& call) noexcept {
  if (call.base == nullptr || call.file_offset < 0) return std::nullopt;
  if (ends_beyond_all_files(call.file_offset, call.size)) return std::nullopt;
  if (call.direction == Direction::read && file.facts.access == Access::write_only) return std::nullopt;
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  const auto range = process.ranges().find(base, base, 1);
  if (!range || range->base != base) return std::nullopt;
  const process::BufferTable::Pin buffer = process.buffers().pin(range->handle);
  if (!buffer || !same_allocation(buffer->facts, gpu::inspect(base))) return std::nullopt;
  const auto offset = static_cast<std::uint64_t>(call.buffer_offset);
  if (offset + call.size > buffer->said) return Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE);
  if (call.size > largest_offset && call.buffer_offset < 0) {
    const bool reads_device = call.direction == Direction::read && !facts::is_host(buffer->facts.kind);
    return reads_device ? Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE) : Outcome::system_error(EFAULT);
  }
  if (offset >= buffer->said && !is_only_remembered(*buffer)) return Outcome::refused(CU_FILE_INTERNAL_ERROR);
  return call.size == 0 ? std::optional(Outcome::bytes(0)) : std::nullopt;
}

// The kernel makes a file longer, up to where a write begins, before it finds that the memory is not there. Memory that
// a driver knows is.
bool would_only_lengthen(const Call& call, std::uint64_t address, const facts::BufferFacts& memory,
                         facts::DescriptorCheck& now) noexcept {
  if (call.direction != Direction::write || memory.kind != facts::MemoryKind::plain_host) return false;
  if (!now.finds_the_file() || static_cast<std::uint64_t>(call.file_offset) <= now.size()) return false;
  std::byte first{};
  return !transfer::copy_from_caller({&first, 1}, address).ok();
}

Outcome run_rest(process::Process& process, Item& item, const Call& call, const Options& options, Way& way) noexcept;

// A registration may have gone beyond its allocation into the next one; no copy does.
Outcome run_in_pieces(process::Process& process, Item& item, const Call& call, std::uint64_t first,
                      const Options& options, Way& way) noexcept {
  Call piece = call;
  piece.size = first;
  const Outcome moved = run_rest(process, item, piece, options, way);
  if (!moved.ok() || moved.count() < first) return moved;
  const Outcome whole = after_prefix(first, run_rest(process, item, rest_of(call, first), options, way));
  way.outcome = whole;
  return whole;
}

// What is left of an item, as far as it gets.
Outcome run_rest(process::Process& process, Item& item, const Call& call, const Options& options, Way& way) noexcept {
  process::File& file = *item.file;
  const Outcome refusal = check(file, call);
  facts::DescriptorCheck now(file.descriptor(), file.facts);
  const bool waited_for = options.caller == Caller::call || options.caller == Caller::part;
  if ((!refusal.ok() || call.size == 0 || call.buffer_offset < 0) && waited_for) {
    if (const auto told = told_of_registration(process, file, call)) return *told;
    if (refusal.error() == EFAULT && is_behind_the_end(file, call, now)) return Outcome::bytes(0);
  }
  if (!refusal.ok()) return refusal;
  if (call.size == 0) return waited_for && !could_be_read_into(call) ? Outcome::system_error(EFAULT) : refusal;
  if (call.buffer_offset < 0 && may_reach_back(options) && exceeds_registered(process, call)) {
    return Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE);
  }
  std::uint64_t size = call.size;
  const auto offset = static_cast<std::uint64_t>(call.file_offset);
  const std::uint64_t address =
      reinterpret_cast<std::uint64_t>(call.base) + static_cast<std::uint64_t>(call.buffer_offset);
  const bool is_nowhere =
      address + size < address ||
      (address >= end_of_users && facts::is_host(gpu::inspect(reinterpret_cast<std::uint64_t>(call.base)).kind));
  if (is_nowhere) {
    if (const auto told = told_of_registration(process, file, call); told && options.caller != Caller::stream) {
      return *told;
    }
    return is_behind_the_end(file, call, now) ? Outcome::bytes(0) : Outcome::system_error(EFAULT);
  }

  Memory memory;
  const Outcome resolved = resolve(process, call, address, options, memory);
  item.device = facts::is_host(memory.facts.kind) ? -1 : memory.facts.device;
  if (!resolved.ok()) {
    const bool fits = call.direction == Direction::read && file.operations == nullptr && call.buffer_offset >= 0 &&
                      resolved.error() == CU_FILE_CUDA_POINTER_RANGE_ERROR && ends_within(now, offset, memory.there);
    const bool no_memory = resolved.error() == CU_FILE_CUDA_POINTER_RANGE_ERROR || resolved.error() == EFAULT;
    if (!fits) return no_memory && is_behind_the_end(file, call, now) ? Outcome::bytes(0) : resolved;
    if (memory.there == 0) return Outcome::bytes(0);  // from its end on there is nothing to read
    size = memory.there;
  }
  if (would_only_lengthen(call, address, memory.facts, now)) return Outcome::system_error(EFAULT);
  if (memory.goes_on) return run_in_pieces(process, item, call, memory.there, options, way);
  if (options.device == nullptr) gpu::settle(memory.facts, address);
  if (memory.facts.kind != facts::MemoryKind::plain_host) watch_exit_behind_the_driver();
  const Request request{call.direction, base::FileOffset{offset}, address,
                        size,           item.progress.stopped,    has_queued(options.caller)};
  const paths::Ends ends{file, now, memory.facts, call.handle, attachments_of(memory), options.device};
  const Result result = carry_out(request, ends);
  const bool counted_in_part = result.outcome.ok() && result.counted > 0;
  way = {result.path, result.reason,
         counted_in_part ? Outcome::bytes(result.outcome.count() - result.counted) : result.outcome};
  if (result.path != nullptr) {
    item.path = result.path->traits.id;
    item.reason = result.reason;
    if (file.explains) explain_once(file, request, memory.facts, *result.path, result.reason);
  }
  if (result.outcome.error() == EFAULT && is_behind_the_end(file, call, now)) return Outcome::bytes(0);
  return result.outcome;
}

}  // namespace

// The driver's own exit handlers were registered with cuInit, which must have come before its first memory: from then
// on ours runs before them.
void watch_exit_behind_the_driver() noexcept {
  static std::atomic<bool> watched{false};
  if (watched.load(std::memory_order_relaxed) || watched.exchange(true)) return;
  process::wait_for_transfers_at_exit();
}

bool is_still_registered(const process::Buffer& buffer) noexcept {
  return same_allocation(buffer.facts, gpu::inspect(buffer.base));
}

Way run_one(process::Process& process, Item& item, const Options& options) noexcept {
  Way way;
  const std::uint64_t there = item.progress.there;
  item.outcome = there == 0 ? run_rest(process, item, item.call, options, way)
                            : after_prefix(there, run_rest(process, item, rest_of(item.call, there), options, way));
  item.ended = true;
  return way;
}

}  // namespace sluice::request
