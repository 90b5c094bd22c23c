// What holds for one transfer alone is left to core/transfer.cpp: wherever anything is out of the ordinary, an entry
// does not go together with others.
#include "core/together.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>

#include "core/direct.h"
#include "core/late.h"
#include "gpu/memory.h"
#include "observe/path_counters.h"
#include "observe/statistics.h"

namespace sluice::core {

using base::Direction;
using base::Outcome;

namespace {

constexpr auto end_of_files = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

engine::Carrier carrier_of(paths::Manner manner) noexcept {
  if (manner == paths::Manner::kernel) return engine::Carrier::kernel;
  return manner == paths::Manner::copy_engine ? engine::Carrier::engine : engine::Carrier::automatic;
}

// Of the file and the terms that it is used on.
bool file_allows(const File& file) noexcept {
  const request::Terms& terms = file.life->terms;
  return terms.manner != paths::Manner::plain && !terms.verify && file.operations == nullptr &&
         !file.life->config->explain;
}

std::uint32_t block_of(const File& file) noexcept {
  return file.facts.direct ? std::max(1U, file.facts.offset_alignment) : 1;
}

// Small enough for a place of the ring, with the blocks around it.
bool fits_disk_parcel(const File& file, std::uint64_t size) noexcept {
  constexpr std::uint64_t page = 4096;
  return block_of(file) <= page && size + 2 * page <= engine::most_in_a_disk_parcel;
}

// Where an entry goes that the company did not carry to its end. One that changes its way counts on both.
void go_on_elsewhere(Entry& entry) noexcept {
  const bool from_disk = entry.together.company == Company::cached && fits_disk_parcel(*entry.file, entry.call.size);
  entry.together.company = from_disk ? Company::disk : Company::none;
  if (from_disk || entry.there == 0) return;
  observe::count_path(entry.together.way.path, entry.together.way.reason, entry.call.direction,
                      Outcome::bytes(entry.there));
}

// All of it, or what is left of it.
engine::Parcel parcel_of(const Entry& entry) noexcept {
  const Call rest = rest_of(entry.call, entry.there);
  return {entry.file->fd, base::FileOffset{static_cast<std::uint64_t>(rest.file_offset)}, rest.size,
          entry.together.file_size, entry.together.address + entry.there};
}

// An entry that was carried to its end.
Ending ended(const Entry& entry, Outcome rest) noexcept {
  const Outcome whole = behind(entry.there, rest);
  return {whole.ok() ? CUFILE_COMPLETE : CUFILE_FAILED, whole.value()};
}

std::uint64_t end_of(const Entry& entry) noexcept {
  return entry.together.address + entry.call.size;
}

bool follows(const Entry& first, const Entry& second) noexcept {
  return &*first.file == &*second.file && end_of(first) == second.together.address &&
         static_cast<std::uint64_t>(first.call.file_offset) + first.call.size ==
             static_cast<std::uint64_t>(second.call.file_offset);
}

}  // namespace

// Null when it is not all plain device memory without a gap.
const facts::BufferFacts* Survey::memory_at(std::uint64_t address, std::uint64_t size) noexcept {
  if (address >= stretch_.begin && address < stretch_.end && size <= stretch_.end - address) return &stretch_.facts;
  const facts::BufferFacts memory = gpu::inspect(address);
  if (memory.kind != facts::MemoryKind::device) return nullptr;
  // What no context owns may be mapped piece by piece: nothing is known of it beyond what is asked for.
  const bool whole = memory.context != nullptr;
  const std::uint64_t begin = whole ? memory.base : address;
  const std::uint64_t end = whole ? memory.base + memory.size : address + size;
  if (address < begin || address >= end || size > end - address) return nullptr;
  if (gpu::contiguous_bytes(begin, end - begin) != end - begin) return nullptr;
  stretch_ = {begin, end, memory};
  return &stretch_.facts;
}

bool Survey::registration_allows(const Entry& entry, std::uint64_t address) const noexcept {
  if (!entry.registration) return true;
  const Buffer& buffer = *entry.registration;
  return buffer.facts.kind == stretch_.facts.kind && buffer.facts.id == stretch_.facts.id && address >= buffer.base &&
         address - buffer.base <= buffer.size && entry.call.size <= buffer.size - (address - buffer.base);
}

std::uint64_t Survey::size_of(File& file) noexcept {
  if (file_ != &file) {
    const auto size = current_size(file);
    file_ = size ? &file : nullptr;
    file_size_ = size.value_or(0);
  }
  return file_size_;
}

void Survey::look_at(Entry& entry) noexcept {
  const Call& call = entry.call;
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  const std::uint64_t address = base + static_cast<std::uint64_t>(call.buffer_offset);
  const auto range = driver_.ranges().find(base, address, call.size);
  if (range) entry.registration = driver_.buffers().pin(range->handle);

  File& file = *entry.file;
  const auto offset = static_cast<std::uint64_t>(call.file_offset);
  if (call.direction != Direction::read || call.size == 0 || call.size > engine::most_in_a_parcel ||
      call.size > end_of_files - offset || (range && !entry.registration) || !file_allows(file)) {
    return;
  }
  const facts::BufferFacts* const memory = memory_at(address, call.size);
  if (memory == nullptr || !registration_allows(entry, address)) return;
  const std::uint64_t size = size_of(file);
  if (file_ == nullptr || pair_of(file, *memory, call.direction) != nullptr) return;
  const request::Terms& terms = file.life->terms;
  const route::Decision decision =
      route::decide(file.facts, *memory, terms.machine, terms.rules, {call.direction, offset, address, call.size, size},
                    facts::Reach::untried);
  const route::Verdict way{decision.path, decision.reason};
  if (decision.path != SLUICE_PATH_POSIX || decision.count != 1 || decision.storage[0].carry != route::Carry::bounce ||
      !route::is_permitted(way, terms.rules)) {
    return;
  }
  const Company company = file.facts.direct ? Company::disk : Company::cached;
  if (company == Company::disk && !fits_disk_parcel(file, call.size)) return;
  watch_exit_behind_the_driver();
  entry.together = {company, address, size, *memory, way};
}

bool go_together(const Entry& one, const Entry& other) noexcept {
  return one.together.memory.context == other.together.memory.context &&
         one.together.memory.device == other.together.memory.device &&
         one.file->life->terms.manner == other.file->life->terms.manner;
}

Convoy::Convoy(unsigned capacity) : disk_parcels_(capacity), parcels_(capacity), members_(capacity) {}

std::size_t Convoy::pack(std::span<Entry* const> entries) noexcept {
  std::size_t count = 0;
  const Entry* before = nullptr;
  for (const Entry* const entry : entries) {
    if (before != nullptr && follows(*before, *entry) &&
        parcels_[count - 1].length + entry->call.size <= engine::most_in_a_parcel) {
      parcels_[count - 1].length += entry->call.size;
      ++members_[count - 1];
    } else {
      parcels_[count] = parcel_of(*entry);
      members_[count++] = 1;
    }
    before = entry;
  }
  return count;
}

// What came short in the middle of a parcel says nothing of the entries behind: the end of the file, or an error that
// each of them has to hear of. The one in the middle keeps what it has got: whatever becomes of the rest, these bytes
// count.
void Convoy::unpack(std::span<Entry* const> entries, std::span<Ending> endings) noexcept {
  std::size_t next = 0;
  for (std::size_t parcel = 0; parcel < parcel_count_; ++parcel) {
    const engine::Parcel& done = parcels_[parcel];
    std::uint64_t left = done.outcome.count();
    for (std::size_t member = 0; member < members_[parcel]; ++member, ++next) {
      Entry& entry = *entries[next];
      const std::uint64_t count = std::min(left, entry.call.size);
      const bool is_whole = count == entry.call.size;
      if (is_whole || (members_[parcel] == 1 && !done.left_over)) {
        endings[next] = ended(entry, is_whole ? Outcome::bytes(count) : done.outcome);
      } else {
        entry.there = count;
      }
      left -= count;
    }
  }
}

void Convoy::carry_cached(std::span<Entry* const> entries, std::span<Ending> endings, engine::RingLoan& ring) noexcept {
  if (!cached_) cached_.reset(new (std::nothrow) engine::ScatteredRead);
  if (!cached_) return;
  parcel_count_ = pack(entries);
  cached_->run(std::span(parcels_).first(parcel_count_), ring, carrier_of(entries.front()->file->life->terms.manner));
  unpack(entries, endings);
}

void Convoy::carry_from_disk(std::span<Entry* const> entries, std::span<Ending> endings,
                             engine::RingLoan& ring) noexcept {
  const engine::Uring::Use disk = engine::Uring::of_this_thread(engine::Completion::interrupt);
  if (!disk) return;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = *entries[i];
    disk_parcels_[i].parcel = parcel_of(entry);
    disk_parcels_[i].block = block_of(*entry.file);
  }
  disk_.run(std::span(disk_parcels_).first(entries.size()), ring, *disk);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const engine::Parcel& done = disk_parcels_[i].parcel;
    if (!done.left_over) endings[i] = ended(*entries[i], done.outcome);
  }
}

void Convoy::carry(std::span<Entry* const> entries, std::span<Ending> endings) noexcept {
  std::fill(endings.begin(), endings.end(), Ending{CUFILE_WAITING, 0});
  const Watch watch;
  const bool counting = observe::statistics_running();
  const auto begun = counting ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  {
    const gpu::Session session(entries.front()->together.memory);
    engine::RingLoan ring = engine::RingLoan::take(session);
    if (!ring) {
      // Nor would there be a ring for the disk's company.
      for (Entry* const entry : entries) entry->together.company = Company::none;
    } else if (entries.front()->together.company == Company::cached) {
      carry_cached(entries, endings, ring);
    } else {
      carry_from_disk(entries, endings, ring);
    }
  }
  const auto duration = counting ? std::chrono::steady_clock::now() - begun : std::chrono::nanoseconds(0);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = *entries[i];
    if (endings[i].status == CUFILE_WAITING) {
      go_on_elsewhere(entry);
      continue;
    }
    const Outcome outcome = endings[i].status == CUFILE_COMPLETE
                                ? Outcome::bytes(static_cast<std::uint64_t>(endings[i].result))
                                : Outcome::system_error(static_cast<int>(-endings[i].result));
    observe::count_path(entry.together.way.path, entry.together.way.reason, entry.call.direction, outcome);
    watch.end(*entry.file, entry.call, outcome);
    if (!counting) continue;
    const observe::Transfer record{.direction = entry.call.direction,
                                   .requested = entry.call.size,
                                   .aligned = aligned(entry.call),
                                   .device = entry.together.memory.device,
                                   .duration = duration,
                                   .by_drive = false,
                                   .in_batch = true};
    observe::count_transfer(record, outcome);
  }
}

}  // namespace sluice::core
