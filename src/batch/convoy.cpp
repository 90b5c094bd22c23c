// From entries to the parcels and pieces of the engine and the paths, and back.
#include "batch/convoy.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "batch/together.h"
#include "facts/look.h"
#include "gpu/memory.h"
#include "observe/statistics.h"
#include "observe/trace.h"
#include "paths/warmable.h"
#include "request/transfer.h"

namespace sluice::batch {

using base::Outcome;

namespace {

transfer::Carrier carrier_of(paths::Manner manner) noexcept {
  if (manner == paths::Manner::kernel) return transfer::Carrier::kernel;
  return manner == paths::Manner::copy_engine ? transfer::Carrier::engine : transfer::Carrier::automatic;
}

// Where an entry goes that the company did not carry to its end. One that changes its way counts on both.
void go_on_elsewhere(Entry& entry, transfer::Bond bond = transfer::Bond::none) noexcept {
  if (entry.together.company == Company::cached) {
    leave_cached(entry);
  } else {
    entry.together.company = Company::none;
  }
  if (entry.together.company != Company::none || entry.before.there == 0 || bond != transfer::Bond::none) return;
  observe::count_path(entry.together.way.path, entry.together.way.reason, entry.call.direction,
                      Outcome::bytes(entry.before.there));
}

// All of it, or what is left of it.
transfer::Parcel parcel_of(const Entry& entry) noexcept {
  const request::Call rest = request::rest_of(entry.call, entry.before.there);
  return {entry.file->fd, base::FileOffset{static_cast<std::uint64_t>(rest.file_offset)}, rest.size,
          entry.together.file_size, entry.together.address + entry.before.there};
}

paths::DirectMember member_of(const Entry& entry) noexcept {
  return {
      entry.file->fd,
      &entry.file->facts,
      &entry.together.memory,
      entry.together.pair,
      {entry.call.direction, route::Carry::direct, base::FileOffset{static_cast<std::uint64_t>(entry.call.file_offset)},
       entry.together.address, entry.call.size}};
}

// An entry that was carried to its end.
Ending ended(const Entry& entry, Outcome rest) noexcept {
  const Outcome whole = request::behind(entry.before.there, rest);
  return {whole.ok() ? CUFILE_COMPLETE : CUFILE_FAILED, whole.value()};
}

// EIO, and an end where the file has none, may be nobody's: who reads the rest by itself finds out.
bool stops_early(const transfer::Parcel& parcel) noexcept {
  return parcel.outcome.error() == EIO || (parcel.outcome.ok() && parcel.file_size != ~std::uint64_t{0} &&
                                           parcel.at.value + parcel.outcome.count() < parcel.file_size);
}

std::uint64_t end_of(const Entry& entry) noexcept {
  return entry.together.address + entry.call.size;
}

bool follows(const Entry& first, const Entry& second) noexcept {
  return &*first.file == &*second.file && end_of(first) == second.together.address &&
         static_cast<std::uint64_t>(first.call.file_offset) + first.call.size ==
             static_cast<std::uint64_t>(second.call.file_offset);
}

// Looks at entries one after the other, and asks once for several of a kind.
class Recheck {
 public:
  bool finds(Entry& entry) noexcept {
    const facts::BufferFacts& memory = entry.together.memory;
    if (before_ == nullptr || &*before_->file != &*entry.file) {
      facts::Look now(entry.file->fd, entry.file->facts);
      if (!now.finds_the_file()) return false;
      entry.together.file_size = now.size();
    } else {
      entry.together.file_size = before_->together.file_size;
    }
    if (before_ == nullptr || before_->together.memory.id != memory.id ||
        before_->together.memory.context != memory.context) {
      const facts::BufferFacts now = gpu::inspect(entry.together.address);
      if (now.kind != memory.kind || now.id != memory.id || now.context != memory.context) return false;
    }
    before_ = &entry;
    return true;
  }

 private:
  const Entry* before_ = nullptr;  // that was found
};

}  // namespace

std::size_t Convoy::part_as_submitted(std::span<Entry*> entries, std::span<std::uint16_t> slots) noexcept {
  Recheck recheck;
  std::size_t found = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!recheck.finds(*entries[i])) {
      entries[i]->together.company = Company::none;
      go_on_elsewhere(*entries[i]);
      continue;
    }
    std::swap(entries[found], entries[i]);
    std::swap(slots[found++], slots[i]);
  }
  return found;
}

std::size_t Convoy::pack() noexcept {
  std::size_t count = 0;
  const Entry* before = nullptr;
  for (const Entry* const entry : entries_) {
    if (before != nullptr && follows(*before, *entry) &&
        parcels_[count - 1].length + entry->call.size <= transfer::most_in_a_parcel) {
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
void Convoy::unpack() noexcept {
  std::size_t next = 0;
  for (std::size_t parcel = 0; parcel < parcel_count_; ++parcel) {
    const transfer::Parcel& done = parcels_[parcel];
    std::uint64_t left = done.outcome.count();
    for (std::size_t member = 0; member < members_[parcel]; ++member, ++next) {
      Entry& entry = *entries_[next];
      const std::uint64_t count = std::min(left, entry.call.size);
      const bool is_whole = count == entry.call.size;
      if (is_whole || (members_[parcel] == 1 && !done.left_over && !stops_early(done))) {
        endings_[next] = ended(entry, is_whole ? Outcome::bytes(count) : done.outcome);
      } else {
        entry.before.there = count;
      }
      left -= count;
    }
  }
}

void Convoy::carry_cached(staging::RingLoan& ring) noexcept {
  if (!cached_) cached_.reset(new (std::nothrow) transfer::ScatteredRead);
  if (!cached_) return;
  parcel_count_ = pack();
  // A kernel must not wait for storage: where reading may, the copy engine takes what has come.
  const bool may_wait = entries_.front()->together.storage != 0;
  cached_->run(std::span(parcels_).first(parcel_count_), ring,
               may_wait ? transfer::Carrier::engine : carrier_of(entries_.front()->together.manner), bond_);
  unpack();
}

// Some have ended while others are on their way: `outcome_of` tells how.
template <typename OutcomeOf>
void Convoy::tell(std::span<const std::uint16_t> numbers, OutcomeOf outcome_of, Listener& listener) noexcept {
  const std::int64_t milliseconds = watch_->so_far();
  for (const std::uint16_t number : numbers) {
    endings_[number] = ended(*entries_[number], outcome_of(number));
    record(number, milliseconds);
  }
  count();
  listener.ended(numbers);
}

class Convoy::FromDisk final : public transfer::DeepRead::Listener {
 public:
  FromDisk(Convoy& convoy, Convoy::Listener& listener) noexcept : convoy_(convoy), listener_(listener) {}
  void through(std::span<const std::uint16_t> parcels) noexcept override {
    convoy_.tell(
        parcels, [this](std::uint16_t number) { return convoy_.disk_parcels_[number].parcel.outcome; }, listener_);
  }

 private:
  Convoy& convoy_;
  Convoy::Listener& listener_;
};

class Convoy::Written final : public transfer::GatheredWrite::Listener {
 public:
  Written(Convoy& convoy, Convoy::Listener& listener) noexcept : convoy_(convoy), listener_(listener) {}
  void through(std::span<const std::uint16_t> parcels) noexcept override {
    convoy_.tell(
        parcels, [this](std::uint16_t number) { return convoy_.out_parcels_[number].outcome; }, listener_);
  }

 private:
  Convoy& convoy_;
  Convoy::Listener& listener_;
};

class Convoy::ByDrive final : public paths::DirectCompany::Listener {
 public:
  ByDrive(Convoy& convoy, Convoy::Listener& listener) noexcept : convoy_(convoy), listener_(listener) {}
  void in_place(std::span<const std::uint16_t> members) noexcept override {
    convoy_.tell(
        members, [this](std::uint16_t number) { return Outcome::bytes(convoy_.direct_members_[number].done); },
        listener_);
  }

 private:
  Convoy& convoy_;
  Convoy::Listener& listener_;
};

void Convoy::carry_from_disk(staging::RingLoan& ring, Listener& listener) noexcept {
  const io::DiskQueue& queue = entries_.front()->file->disk;
  if (!queue.takes_rings()) return;
  const io::Uring::Use disk = io::Uring::of_this_thread(queue.unpolled());
  if (!disk) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = *entries_[i];
    disk_parcels_[i].parcel = parcel_of(entry);
    disk_parcels_[i].block = block_of(*entry.file);
  }
  FromDisk told(*this, listener);
  disk_.run(std::span(disk_parcels_).first(entries_.size()), ring, *disk, told, bond_);
  // What is in place already counts, whatever becomes of the rest.
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const transfer::Parcel& parcel = disk_parcels_[i].parcel;
    if (parcel.left_over) entries_[i]->before.there += parcel.outcome.count();
  }
}

void Convoy::carry_written(staging::RingLoan& ring, Listener& listener) noexcept {
  if (!written_) written_.reset(new (std::nothrow) transfer::GatheredWrite);
  if (!written_) return;
  const std::span parcels = std::span(out_parcels_).first(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = *entries_[i];
    const facts::FileFacts& file = entry.file->facts;
    parcels[i] = {entry.file->fd,         base::FileOffset{static_cast<std::uint64_t>(entry.call.file_offset)},
                  entry.call.size,        block_of(*entry.file),
                  &entry.file->buffered,  entry.together.address,
                  paths::number_of(file), paths::warmable_place(entry.file->fd, file)};
  }
  Written told(*this, listener);
  written_->run(parcels, ring, told, bond_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (parcels[i].left_over) entries_[i]->before.there = parcels[i].outcome.count();
  }
}

std::uint64_t Convoy::bytes() const noexcept {
  return std::transform_reduce(entries_.begin(), entries_.end(), std::uint64_t{0}, std::plus<>(),
                               [](const Entry* entry) { return std::uint64_t{entry->call.size}; });
}

void Convoy::carry_by_staging(Listener& listener) noexcept {
  const gpu::Session session(entries_.front()->together.memory);
  const bool cached = entries_.front()->together.company == Company::cached;
  staging::RingLoan ring = staging::RingLoan::take(session, cached ? bytes() : 0);
  if (!ring) {
    // Nor would there be a ring for the disk's company.
    for (Entry* const entry : entries_) entry->together.company = Company::none;
  } else if (cached) {
    carry_cached(ring);
  } else if (entries_.front()->together.company == Company::disk) {
    carry_from_disk(ring, listener);
  } else {
    carry_written(ring, listener);
  }
}

void Convoy::carry_direct(Listener& listener) noexcept {
  const io::Completion completion = entries_.front()->together.completion;
  const io::Uring::Use ring = io::Uring::of_this_thread(completion);
  if (!ring) return;
  const std::span members = std::span(direct_members_).first(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) members[i] = member_of(*entries_[i]);
  ByDrive told(*this, listener);
  direct_.run(members, *ring, completion, told);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (endings_[i].status == CUFILE_WAITING) entries_[i]->before = {members[i].done, members[i].stopped};
  }
}

void Convoy::count() noexcept {
  if (tally_.transfers > 0) observe::count_path(way_, tally_);
  tally_ = {};
}

// With the entry's pins. The next count() counts it.
void Convoy::record(std::size_t number, std::int64_t milliseconds) noexcept {
  if (bond_ != transfer::Bond::none) return;
  const Entry& entry = *entries_[number];
  const Ending& ending = endings_[number];
  const Outcome outcome = ending.status == CUFILE_COMPLETE ? Outcome::bytes(static_cast<std::uint64_t>(ending.result))
                                                           : Outcome::system_error(static_cast<int>(-ending.result));
  const observe::Way way{entry.together.way.path, entry.together.way.reason, entry.call.direction};
  if (way != way_) {
    count();
    way_ = way;
  }
  tally_.add(outcome);
  observe::trace({entry.call.direction, entry.file->fd, static_cast<std::uint64_t>(entry.call.file_offset),
                  entry.call.size, way.path, way.reason},
                 outcome);
  request::Watch::end(*entry.file, entry.call, outcome, milliseconds);
  if (!counting_) return;
  const observe::Transfer record{.direction = entry.call.direction,
                                 .requested = entry.call.size,
                                 .aligned = request::aligned(entry.call),
                                 .device = entry.together.memory.device,
                                 .duration = std::chrono::steady_clock::now() - begun_,
                                 .by_drive = entry.together.way.path == SLUICE_PATH_P2PDMA,
                                 .in_batch = true};
  observe::count_transfer(record, outcome);
}

void Convoy::carry_all(Listener& listener) noexcept {
  std::fill(endings_.begin(), endings_.end(), Ending{CUFILE_WAITING, 0});
  if (entries_.front()->together.company == Company::direct) {
    carry_direct(listener);
  } else {
    carry_by_staging(listener);
  }
}

void Convoy::carry_as_one(std::span<Entry* const> entries, std::span<Ending> endings) noexcept {
  class Deaf final : public Listener {
   public:
    void ended(std::span<const std::uint16_t> /*numbers*/) noexcept override {}
  };
  entries_ = entries;
  endings_ = endings;
  bond_ = transfer::Bond::one_transfer;
  const request::Watch watch;
  watch_ = &watch;
  Deaf nobody;
  carry_all(nobody);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (endings[i].status == CUFILE_WAITING) go_on_elsewhere(*entries[i], bond_);
  }
}

void Convoy::carry(std::span<Entry* const> entries, std::span<Ending> endings, Listener& listener) noexcept {
  entries_ = entries;
  endings_ = endings;
  bond_ = transfer::Bond::none;
  const request::Watch watch;
  watch_ = &watch;
  counting_ = observe::statistics_running();
  if (counting_) begun_ = std::chrono::steady_clock::now();
  const bool told = entries.front()->together.company != Company::cached;  // of those that have ended
  carry_all(listener);
  const std::int64_t milliseconds = watch.so_far();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (endings[i].status == CUFILE_WAITING) {
      go_on_elsewhere(*entries[i]);
    } else if (!told) {
      record(i, milliseconds);
    }
  }
  count();
}

}  // namespace sluice::batch
