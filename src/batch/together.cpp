// What holds for one transfer alone is left to request/transfer.cpp: wherever anything is out of the ordinary, an entry
// does not go together with others.
#include "batch/together.h"

#include <algorithm>
#include <limits>

#include "facts/look.h"
#include "gpu/memory.h"
#include "gpu/settle.h"
#include "paths/direct_pair.h"
#include "process/direct.h"
#include "transfer/deep_read.h"
#include "transfer/gathered_write.h"

namespace sluice::batch {

using base::Direction;

namespace {

constexpr auto end_of_files = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

// What the page cache does not have after all is read ahead by the kernel where one thread reads much of it.
constexpr std::uint64_t largest_left_over = std::uint64_t{512} << 10U;
bool fits_disk_parcel(const process::File& file, std::uint64_t size) noexcept {
  return block_of(file) <= transfer::largest_disk_block &&
         size <= (file.facts.direct ? transfer::most_in_a_parcel : largest_left_over);
}

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

// Asked for by the terms, for transfers of this size, and possible as far as anybody knows.
io::Completion completion_of(const process::Terms& terms, const paths::DirectPair* pair, std::uint64_t size) noexcept {
  const bool polled = pair != nullptr && size <= terms.polled_up_to && pair->can_be_polled();
  return polled ? terms.completion : io::Completion::interrupt;
}

// Drives serve more than one thread hands them; what is cached shares launches, and a buffered file has one writer.
std::uint8_t most_abreast(Company company, const process::File& file) noexcept {
  const bool one = company == Company::cached || (company == Company::write && !file.facts.direct);
  return one ? 1 : 2;
}

// The largest that goes in such company.
std::uint64_t largest_in(Company company) noexcept {
  return company == Company::write ? transfer::most_in_an_out_parcel : transfer::most_in_a_parcel;
}

// Was it all plain device memory of one allocation when it was registered?
bool was_one_allocation(const process::Buffer& buffer) noexcept {
  return buffer.facts.kind == facts::MemoryKind::device && buffer.facts.is_known_to_hold(buffer.base, buffer.size);
}

// With whom an entry goes whose way is this one.
Company company_of(const route::Decision& decision, const process::File& file, const request::Call& call) noexcept {
  if (decision.count != 1) return Company::none;
  const route::Carry carry = decision.storage[0].carry;
  if (decision.path == SLUICE_PATH_P2PDMA) return carry == route::Carry::direct ? Company::direct : Company::none;
  if (decision.path != SLUICE_PATH_POSIX || carry != route::Carry::bounce) return Company::none;
  if (call.direction == Direction::write) {
    return call.size <= largest_in(Company::write) ? Company::write : Company::none;
  }
  if (call.size > largest_in(Company::cached)) return Company::none;
  if (!file.facts.direct) return Company::cached;
  return fits_disk_parcel(file, call.size) ? Company::disk : Company::none;
}

}  // namespace

bool allows_company(const process::File& file) noexcept {
  const process::Terms& terms = file.life->terms;
  return terms.manner != paths::Manner::plain && !terms.verify && file.operations == nullptr &&
         !file.life->config->explain;
}

// Null when it is not all plain device memory without a gap. What its registration knows is not asked again: whoever
// carries the entry sees whether it still holds.
const facts::BufferFacts* Survey::memory_of(const Entry& entry, std::uint64_t address) noexcept {
  if (stretch_.covers(address, entry.call.size)) return &stretch_.facts;
  if (entry.registration && was_one_allocation(*entry.registration)) {
    const process::Buffer& buffer = *entry.registration;
    stretch_ = {buffer.base, buffer.base + buffer.size, buffer.facts};
    alike_.file = nullptr;
    if (stretch_.covers(address, entry.call.size)) return &stretch_.facts;
  }
  return memory_anew(address, entry.call.size);
}

const facts::BufferFacts* Survey::memory_anew(std::uint64_t address, std::uint64_t size) noexcept {
  const facts::BufferFacts memory = gpu::inspect(address);
  if (memory.kind != facts::MemoryKind::device) return nullptr;
  gpu::settle(memory, address);
  // What no context owns may be mapped piece by piece: nothing is known of it beyond what is asked for.
  const bool whole = memory.context != nullptr;
  const std::uint64_t begin = whole ? memory.base : address;
  const std::uint64_t end = whole ? memory.base + memory.size : address + size;
  if (address < begin || address >= end || size > end - address) return nullptr;
  if (gpu::contiguous_bytes(begin, end - begin) != end - begin) return nullptr;
  stretch_ = {begin, end, memory};
  alike_.file = nullptr;
  return &stretch_.facts;
}

bool Survey::registration_allows(const Entry& entry, std::uint64_t address) const noexcept {
  if (!entry.registration) return true;
  const process::Buffer& buffer = *entry.registration;
  return buffer.facts.kind == stretch_.facts.kind && buffer.facts.id == stretch_.facts.id && address >= buffer.base &&
         address - buffer.base <= buffer.size && entry.call.size <= buffer.size - (address - buffer.base);
}

process::FileTable::Pin Survey::file_of(void* handle) noexcept {
  if (before_ != nullptr && before_->call.handle == handle && file_pins_) return file_pins_.split();
  process::FileTable::Pin pin = driver_.files().pin(handle);
  file_pins_ = pin.again(left_ - 1);
  return pin;
}

// Empty where none is known, and where one is known that is coming to its end.
process::BufferTable::Pin Survey::registration_of(const Entry& entry, std::uint64_t address, bool& known) noexcept {
  const auto base = reinterpret_cast<std::uint64_t>(entry.call.base);
  known = true;
  if (before_ != nullptr && before_->registration && before_->registration->base == base && registration_pins_) {
    return registration_pins_.split();
  }
  const auto range = driver_.ranges().find(base, address, entry.call.size);
  known = range.has_value();
  if (!known) return {};
  process::BufferTable::Pin pin = driver_.buffers().pin(range->handle);
  registration_pins_ = pin.again(left_ - 1);
  return pin;
}

bool Survey::is_alike(const Entry& entry) const noexcept {
  return alike_.file == &*entry.file && alike_.direction == entry.call.direction && entry.call.size <= alike_.largest;
}

// Where the file ends, as far as that decides ways: for O_DIRECT. Empty when the descriptor belongs to another file.
std::optional<std::uint64_t> Survey::end_of(const process::File& file) noexcept {
  if (!file.facts.direct) return route::Shape{}.file_end;
  if (file_ != &file) {
    facts::Look now(file.fd, file.facts);
    file_ = &file;
    file_end_ = now.finds_the_file() ? std::optional(now.size()) : std::nullopt;
  }
  return file_end_;
}

void Survey::look_at(Entry& entry) noexcept {
  const request::Call& call = entry.call;
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  const std::uint64_t address = base + static_cast<std::uint64_t>(call.buffer_offset);
  bool known = false;
  entry.registration = registration_of(entry, address, known);
  before_ = &entry;
  --left_;

  process::File& file = *entry.file;
  const auto offset = static_cast<std::uint64_t>(call.file_offset);
  if (call.size == 0 || call.size > end_of_files - offset || (known && !entry.registration) || !allows_company(file)) {
    return;
  }
  const facts::BufferFacts* const memory = memory_of(entry, address);
  if (memory == nullptr || !registration_allows(entry, address)) return;
  if (is_alike(entry)) {
    entry.together = alike_.together;
    entry.together.address = address;
    return;
  }
  const std::optional<std::uint64_t> end = end_of(file);
  if (!end) return;
  const process::Terms& terms = file.life->terms;
  paths::DirectPair* const pair = process::pair_of(file, *memory, call.direction);
  const facts::Reach reach = pair != nullptr ? pair->reach() : facts::Reach::untried;
  // A trial is made by one that goes by itself.
  const bool settled = reach != facts::Reach::untried && reach != facts::Reach::probing;
  if (pair != nullptr && file.facts.direct && !settled) return;
  const route::Decision decision = route::decide(file.facts, *memory, terms.machine, terms.rules,
                                                 {call.direction, offset, address, call.size, *end}, reach);
  const route::Verdict way{decision.path, decision.reason};
  const Company company = company_of(decision, file, call);
  if (company == Company::none || !route::is_permitted(way, terms.rules)) return;
  request::watch_exit_behind_the_driver();
  const bool waits = company != Company::cached || may_wait_for_cached(file.facts.file_system);
  entry.together = {company,
                    terms.manner,
                    completion_of(terms, pair, call.size),
                    most_abreast(company, file),
                    waits ? storage_of(file.facts) : 0,
                    pair,
                    address,
                    ~std::uint64_t{0},
                    *memory,
                    way};
  if (!file.facts.direct && pair == nullptr) {
    alike_ = {&file, call.direction, largest_in(company), entry.together};
  }
}

bool go_together(const Together& one, const Together& other) noexcept {
  if (one.company != other.company || one.storage != other.storage) return false;
  if (one.company == Company::direct) return one.completion == other.completion;
  return one.memory.context == other.memory.context && one.memory.device == other.memory.device &&
         one.manner == other.manner && one.abreast == other.abreast;
}

void leave_cached(Entry& entry) noexcept {
  const process::File& file = *entry.file;
  entry.together.company = fits_disk_parcel(file, entry.call.size) ? Company::disk : Company::none;
  entry.together.storage = storage_of(file.facts);
  entry.together.abreast = most_abreast(entry.together.company, file);
}

std::uint32_t block_of(const process::File& file) noexcept {
  return file.facts.direct ? std::max(1U, file.facts.offset_alignment) : 1;
}

}  // namespace sluice::batch
