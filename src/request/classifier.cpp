// SPDX-License-Identifier: Apache-2.0
// What holds for one transfer alone is left to request/one.cpp: wherever anything is out of the ordinary, an item
// does not go with others.
#include "request/classifier.h"

#include <algorithm>
#include <limits>

#include "facts/descriptor_check.h"
#include "gpu/memory.h"
#include "gpu/settle.h"
#include "paths/table.h"
#include "request/group.h"
#include "request/run.h"

namespace sluice::request {

using base::Direction;

namespace {

constexpr auto end_of_files = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

// Was it all plain device memory of one allocation when it was registered?
bool was_one_allocation(const process::Buffer& buffer) noexcept {
  return buffer.facts.kind == facts::MemoryKind::device && buffer.facts.is_known_to_hold(buffer.base, buffer.size);
}

}  // namespace

// Null when it is not all plain device memory without a gap. What its registration knows is not asked again: the
// group runner sees whether it still holds.
const facts::BufferFacts* Classifier::memory_of(const Queued& queued, std::uint64_t address) noexcept {
  if (range_.covers(address, queued.item.call.size)) return &range_.facts;
  if (queued.registration && was_one_allocation(*queued.registration)) {
    const process::Buffer& buffer = *queued.registration;
    range_ = {buffer.base, buffer.base + buffer.size, buffer.facts};
    alike_.file = nullptr;
    if (range_.covers(address, queued.item.call.size)) return &range_.facts;
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
  range_ = {begin, end, memory};
  alike_.file = nullptr;
  return &range_.facts;
}

bool Classifier::registration_allows(const Queued& queued, std::uint64_t address) const noexcept {
  if (!queued.registration) return true;
  const process::Buffer& buffer = *queued.registration;
  return buffer.facts.kind == range_.facts.kind && buffer.facts.id == range_.facts.id && address >= buffer.base &&
         address - buffer.base <= buffer.size && queued.item.call.size <= buffer.size - (address - buffer.base);
}

process::FileTable::Pin Classifier::file_of(void* handle) noexcept {
  if (before_ != nullptr && before_->item.call.handle == handle && file_pins_) return file_pins_.split();
  process::FileTable::Pin pin = process_.files().pin(handle);
  file_pins_ = pin.again(left_ - 1);
  return pin;
}

// Empty where none is known, and where one is known that is coming to its end.
process::BufferTable::Pin Classifier::registration_of(const Queued& queued, std::uint64_t address,
                                                      bool& known) noexcept {
  const auto base = reinterpret_cast<std::uint64_t>(queued.item.call.base);
  known = true;
  if (before_ != nullptr && before_->registration && before_->registration->base == base && registration_pins_) {
    return registration_pins_.split();
  }
  const auto range = process_.ranges().find(base, address, queued.item.call.size);
  known = range.has_value();
  if (!known) return {};
  process::BufferTable::Pin pin = process_.buffers().pin(range->handle);
  registration_pins_ = pin.again(left_ - 1);
  return pin;
}

bool Classifier::is_alike(const Queued& queued) const noexcept {
  return alike_.file == &*queued.file && alike_.direction == queued.item.call.direction &&
         queued.item.call.size <= alike_.largest;
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
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  const std::uint64_t address = base + static_cast<std::uint64_t>(call.buffer_offset);
  bool known = false;
  queued.registration = registration_of(queued, address, known);
  before_ = &queued;
  --left_;

  process::File& file = *queued.file;
  const auto offset = static_cast<std::uint64_t>(call.file_offset);
  if (call.size == 0 || call.size > end_of_files - offset || (known && !queued.registration) ||
      file.facts.access == facts::Access::none) {
    return;
  }
  const facts::BufferFacts* const memory = memory_of(queued, address);
  if (memory == nullptr || !registration_allows(queued, address)) return;
  const paths::Attachments* const registered = queued.registration ? &queued.registration->attachments : nullptr;
  if (is_alike(queued)) {
    queued.known = alike_.known;
    queued.known.address = address;
    queued.known.registered = registered;
    queued.item.known = &queued.known;
    return;
  }
  const std::optional<std::uint64_t> end = end_of(file);
  if (!end) return;
  const paths::Facts facts{file, *memory, call.direction, false, paths::Trust::what_is_known, registered, true};
  const paths::Decision decision = paths::decide(facts, {call.direction, offset, address, call.size, *end});
  // A trial is made by one that goes by itself.
  if (decision.reason == SLUICE_REASON_NOT_PROVEN || decision.segments.count != 1) return;
  const paths::Grouping grouping = decision.path->grouping(facts, decision.segments.storage[0]);
  if (grouping.group_class == paths::GroupClass::none || !paths::is_permitted(decision, file.options.rules)) return;
  watch_exit_behind_the_driver();
  queued.known = {grouping, decision.path, decision.reason, grouping.may_wait ? storage_of(file.facts) : 0,
                  address,  *memory,       registered};
  queued.item.known = &queued.known;
  if (!file.facts.direct) alike_ = {&file, call.direction, paths::largest_in(grouping.group_class), queued.known};
}

}  // namespace sluice::request
