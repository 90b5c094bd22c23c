// SPDX-License-Identifier: Apache-2.0
// What holds for one transfer alone is left to request/one.cpp: wherever anything is out of the ordinary, an item
// does not go with others.
#include "request/classifier.h"

#include <algorithm>

#include "facts/descriptor_check.h"
#include "gpu/memory.h"
#include "gpu/settle.h"
#include "paths/table.h"
#include "request/group.h"
#include "request/run.h"

namespace sluice::request {

using base::Direction;

namespace {

// Was it all plain device memory of one allocation when it was registered?
bool was_one_allocation(const process::Buffer& buffer) noexcept {
  return buffer.facts.kind == facts::MemoryKind::device && buffer.facts.is_known_to_hold(buffer.base, buffer.size);
}

}  // namespace

// Null when it is not all plain device memory without a gap. What its registration knows is not asked again: the
// group runner sees whether it still holds.
const facts::BufferFacts* Classifier::memory_of(const Queued& queued, std::uint64_t address) noexcept {
  if (range_.covers(address, queued.item.call.size)) return &memory_;
  if (queued.registration && was_one_allocation(*queued.registration)) {
    const process::Buffer& buffer = *queued.registration;
    range_ = {buffer.base, buffer.base + buffer.size};
    memory_ = buffer.facts;
    alike_.file = nullptr;
    if (range_.covers(address, queued.item.call.size)) return &memory_;
  }
  return memory_anew(address, queued.item.call.size);
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
  range_ = {begin, end};
  memory_ = memory;
  alike_.file = nullptr;
  return &memory_;
}

bool Classifier::registration_allows(const Queued& queued, std::uint64_t address) const noexcept {
  if (!queued.registration) return true;
  const process::Buffer& buffer = *queued.registration;
  return buffer.facts.kind == memory_.kind && buffer.facts.id == memory_.id && address >= buffer.base &&
         address - buffer.base <= buffer.size && queued.item.call.size <= buffer.size - (address - buffer.base);
}

process::FileTable::Pin Classifier::file_anew(void* handle) noexcept {
  process::FileTable::Pin pin = process_.files().pin(handle);
  file_pins_ = pin.again(left_ - 1);
  handle_ = handle;
  return pin;
}

// Empty where none is known, and where one is known that is coming to its end.
process::BufferTable::Pin Classifier::registration_anew(const Call& call, std::uint64_t address, bool& known) noexcept {
  const auto range = process_.ranges().find(reinterpret_cast<std::uint64_t>(call.base), address, call.size);
  known = range.has_value();
  if (!known) return {};
  process::BufferTable::Pin pin = process_.buffers().pin(range->handle);
  registration_pins_ = pin.again(left_ - 1);
  base_ = range->base;
  return pin;
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

void Classifier::look_at(Queued& queued) noexcept {
  const Call& call = queued.item.call;
  const std::uint64_t address = call.address();
  bool known = true;
  const bool is_as_before = reinterpret_cast<std::uint64_t>(call.base) == base_ && registration_pins_;
  queued.registration = is_as_before ? registration_pins_.split() : registration_anew(call, address, known);
  --left_;
  if (call.size == 0 || call.size > largest_offset - static_cast<std::uint64_t>(call.file_offset) ||
      (known && !queued.registration)) {
    return;
  }
  const paths::Attachments* const registered = queued.registration ? &queued.registration->attachments : nullptr;
  if (!alike_.is_of(queued.item.file, call) || !alike_.range.covers(address, call.size) ||
      alike_.known.registered != registered) {
    return decide(queued, address);
  }
  queued.known = alike_.known;
  queued.item.known = &queued.known;
}

// The way of an item, and of those that are like it.
void Classifier::decide(Queued& queued, std::uint64_t address) noexcept {
  const Call& call = queued.item.call;
  process::File& file = *queued.file;
  if (file.facts.access == facts::Access::none) return;
  const facts::BufferFacts* const memory = memory_of(queued, address);
  if (memory == nullptr || !registration_allows(queued, address)) return;
  const process::Buffer* const buffer = queued.registration ? &*queued.registration : nullptr;
  const paths::Attachments* const registered = buffer != nullptr ? &buffer->attachments : nullptr;
  Known found = alike_.known;
  std::uint64_t largest = alike_.largest;
  if (!alike_.is_of(&file, call)) {
    const std::optional<std::uint64_t> end = end_of(file);
    if (!end) return;
    const paths::Facts facts{file, *memory, call.direction, false, paths::Trust::what_is_known, registered, true};
    const paths::Decision decision =
        paths::decide(facts, {call.direction, static_cast<std::uint64_t>(call.file_offset), address, call.size, *end});
    // A trial is made by one that goes by itself.
    if (decision.reason == SLUICE_REASON_NOT_PROVEN || decision.segments.count != 1) return;
    const paths::Grouping grouping = decision.path->grouping(facts, decision.segments.storage[0]);
    if (grouping.group_class == paths::GroupClass::none || !paths::is_permitted(decision, file.options.rules)) return;
    watch_exit_behind_the_driver();
    found = {.path = decision.path,
             .grouping = grouping,
             .reason = decision.reason,
             .storage = grouping.may_wait ? storage_of(file.facts) : 0,
             .memory = *memory};
    largest = paths::largest_in(grouping.group_class);
  }
  found.alike = next_number_++;
  found.registered = registered;
  queued.known = found;
  queued.item.known = &queued.known;
  if (file.facts.direct) return;
  const Span range = buffer == nullptr ? range_
                                       : Span{.begin = std::max(range_.begin, buffer->base),
                                              .end = std::min(range_.end, buffer->base + buffer->size)};
  alike_ = {&file, call.direction, largest, range, found};
}

}  // namespace sluice::request
