// SPDX-License-Identifier: Apache-2.0
// What holds for one transfer alone is left to request/transfer.cpp: wherever anything is out of the ordinary, an entry
// is not coalesced with others.
#include "batch/classifier.h"

#include <algorithm>
#include <limits>

#include "facts/descriptor_check.h"
#include "gpu/memory.h"
#include "gpu/settle.h"
#include "paths/table.h"

namespace sluice::batch {

using base::Direction;

namespace {

constexpr auto end_of_files = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

// A cached read waits for nobody where the file system tells what it has; others may keep the reader waiting.
bool may_wait_for_cached(facts::FileSystem file_system) noexcept {
  switch (file_system) {
    case facts::FileSystem::none:
    case facts::FileSystem::ext4:
    case facts::FileSystem::xfs:
    case facts::FileSystem::btrfs:
    case facts::FileSystem::memory:
      return false;
    default:
      return true;
  }
}

// A number for what files have in common that may keep a transfer waiting.
std::uint64_t storage_of(const facts::FileFacts& file) noexcept {
  // The nodes of all drives are in one file system.
  const std::uint64_t node = file.kind == facts::FileKind::block_device ? file.inode : 0;
  return std::uint64_t{file.device} << 32U ^ node;
}

// Was it all plain device memory of one allocation when it was registered?
bool was_one_allocation(const process::Buffer& buffer) noexcept {
  return buffer.facts.kind == facts::MemoryKind::device && buffer.facts.is_known_to_hold(buffer.base, buffer.size);
}

}  // namespace

bool may_coalesce(const process::File& file) noexcept {
  const process::Options& options = file.options;
  return options.copy_mode != paths::CopyMode::plain && !options.verify && file.operations == nullptr &&
         !file.session->config->explain;
}

// Null when it is not all plain device memory without a gap. What its registration knows is not asked again: the
// group runner sees whether it still holds.
const facts::BufferFacts* Classifier::memory_of(const Entry& entry, std::uint64_t address) noexcept {
  if (range_.covers(address, entry.call.size)) return &range_.facts;
  if (entry.registration && was_one_allocation(*entry.registration)) {
    const process::Buffer& buffer = *entry.registration;
    range_ = {buffer.base, buffer.base + buffer.size, buffer.facts};
    alike_.file = nullptr;
    if (range_.covers(address, entry.call.size)) return &range_.facts;
  }
  return memory_anew(address, entry.call.size);
}

const facts::BufferFacts* Classifier::memory_anew(std::uint64_t address, std::uint64_t size) noexcept {
  const facts::BufferFacts memory = gpu::inspect(address);
  if (memory.kind != facts::MemoryKind::device) return nullptr;
  gpu::settle(memory, address);
  // What no context owns may be mapped piece by piece: nothing is known of it beyond what is asked for.
  const bool whole = memory.context != nullptr;
  const std::uint64_t begin = whole ? memory.base : address;
  const std::uint64_t end = whole ? memory.base + memory.size : address + size;
  if (address < begin || address >= end || size > end - address) return nullptr;
  if (gpu::contiguous_bytes(begin, end - begin) != end - begin) return nullptr;
  range_ = {begin, end, memory};
  alike_.file = nullptr;
  return &range_.facts;
}

bool Classifier::registration_allows(const Entry& entry, std::uint64_t address) const noexcept {
  if (!entry.registration) return true;
  const process::Buffer& buffer = *entry.registration;
  return buffer.facts.kind == range_.facts.kind && buffer.facts.id == range_.facts.id && address >= buffer.base &&
         address - buffer.base <= buffer.size && entry.call.size <= buffer.size - (address - buffer.base);
}

process::FileTable::Pin Classifier::file_of(void* handle) noexcept {
  if (before_ != nullptr && before_->call.handle == handle && file_pins_) return file_pins_.split();
  process::FileTable::Pin pin = process_.files().pin(handle);
  file_pins_ = pin.again(left_ - 1);
  return pin;
}

// Empty where none is known, and where one is known that is coming to its end.
process::BufferTable::Pin Classifier::registration_of(const Entry& entry, std::uint64_t address, bool& known) noexcept {
  const auto base = reinterpret_cast<std::uint64_t>(entry.call.base);
  known = true;
  if (before_ != nullptr && before_->registration && before_->registration->base == base && registration_pins_) {
    return registration_pins_.split();
  }
  const auto range = process_.ranges().find(base, address, entry.call.size);
  known = range.has_value();
  if (!known) return {};
  process::BufferTable::Pin pin = process_.buffers().pin(range->handle);
  registration_pins_ = pin.again(left_ - 1);
  return pin;
}

bool Classifier::is_alike(const Entry& entry) const noexcept {
  return alike_.file == &*entry.file && alike_.direction == entry.call.direction && entry.call.size <= alike_.largest;
}

// Where the file ends, as far as that decides ways: for O_DIRECT. Empty when the descriptor belongs to another file.
std::optional<std::uint64_t> Classifier::end_of(const process::File& file) noexcept {
  if (!file.facts.direct) return route::Shape{}.file_end;
  if (file_ != &file) {
    facts::DescriptorCheck now(file.descriptor(), file.facts);
    file_ = &file;
    file_end_ = now.finds_the_file() ? std::optional(now.size()) : std::nullopt;
  }
  return file_end_;
}

void Classifier::look_at(Entry& entry) noexcept {
  const request::Call& call = entry.call;
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  const std::uint64_t address = base + static_cast<std::uint64_t>(call.buffer_offset);
  bool known = false;
  entry.registration = registration_of(entry, address, known);
  before_ = &entry;
  --left_;

  process::File& file = *entry.file;
  const auto offset = static_cast<std::uint64_t>(call.file_offset);
  if (call.size == 0 || call.size > end_of_files - offset || (known && !entry.registration) || !may_coalesce(file)) {
    return;
  }
  const facts::BufferFacts* const memory = memory_of(entry, address);
  if (memory == nullptr || !registration_allows(entry, address)) return;
  if (is_alike(entry)) {
    entry.coalescing = alike_.coalescing;
    entry.coalescing.address = address;
    return;
  }
  const std::optional<std::uint64_t> end = end_of(file);
  if (!end) return;
  const paths::Facts facts{file, *memory, call.direction};
  const paths::Decision decision = paths::decide(facts, {call.direction, offset, address, call.size, *end});
  // A trial is made by one that goes by itself.
  if (decision.reason == SLUICE_REASON_NOT_PROVEN || decision.segments.count != 1) return;
  const paths::Grouping grouping = decision.path->grouping(facts, decision.segments.storage[0]);
  if (grouping.group_class == BatchClass::none || !paths::is_permitted(decision, file.options.rules)) return;
  request::watch_exit_behind_the_driver();
  const bool waits = grouping.group_class != BatchClass::cached || may_wait_for_cached(file.facts.file_system);
  entry.coalescing = {grouping.group_class,
                      file.options.copy_mode,
                      grouping.completion,
                      grouping.max_groups,
                      waits ? storage_of(file.facts) : 0,
                      address,
                      ~std::uint64_t{0},
                      *memory,
                      decision.path,
                      decision.reason};
  if (!file.facts.direct) alike_ = {&file, call.direction, paths::largest_in(grouping.group_class), entry.coalescing};
}

bool can_coalesce(const Coalescing& one, const Coalescing& other) noexcept {
  if (one.batch_class != other.batch_class || one.storage != other.storage) return false;
  if (one.batch_class == BatchClass::direct) return one.completion == other.completion;
  return one.memory.context == other.memory.context && one.memory.device == other.memory.device &&
         one.copy_mode == other.copy_mode && one.max_groups == other.max_groups;
}

void leave_cached(Entry& entry) noexcept {
  const process::File& file = *entry.file;
  entry.coalescing.batch_class =
      paths::fits(BatchClass::disk, file, entry.call.size) ? BatchClass::disk : BatchClass::none;
  entry.coalescing.storage = storage_of(file.facts);
  entry.coalescing.max_groups = paths::max_groups_of(entry.coalescing.batch_class, file);
}

}  // namespace sluice::batch
