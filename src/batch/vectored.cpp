// SPDX-License-Identifier: Apache-2.0
// Parts go in ranges, in their order: device memory that is coalesced as entries of a batch do
// (request/classifier.h), host memory by one call of the system, ragged parts of an O_DIRECT file by one transfer of
// staging memory, everything else by itself (request/one.cpp). It is counted and watched once for all of them.
#include "batch/vectored.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "batch/vectored_group.h"
#include "facts/descriptor_check.h"
#include "gpu/memory.h"
#include "gpu/settle.h"
#include "io/vector_io.h"
#include "observe/path_counters.h"
#include "observe/statistics.h"
#include "paths/bounce_copier.h"
#include "paths/table.h"
#include "process/in_flight.h"
#include "request/classifier.h"
#include "request/group.h"
#include "request/run.h"
#include "request/slow_log.h"
#include "route/route.h"
#include "staging/bounce_buffer.h"

namespace sluice::batch {

using base::Direction;
using base::Outcome;

namespace {

Outcome refusal_of(std::span<const CUfileIOVec_t> parts) noexcept {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<ssize_t>::max());
  std::uint64_t total = 0;
  for (const CUfileIOVec_t& part : parts) {
    if (part.len > most || part.len > most - total) return Outcome::system_error(EINVAL);
    if (part.base == nullptr && part.len > 0) return Outcome::system_error(EINVAL);
    total += part.len;
  }
  return Outcome::bytes(total);
}

class Run {
 public:
  Run(process::Process& process, process::File& file, const VectoredCall& call,
      observe::VectoredTransfer& seen) noexcept
      : process_(process),
        file_(file),
        call_(call),
        seen_(seen),
        alone_only_(file.options.copy_mode == paths::CopyMode::plain || file.operations != nullptr),
        checked_(file.options.verify || file.session->config->explain) {}

  Outcome all() noexcept {
    while (!ended_ && find_next()) {
      const bool several = !alone_only_ && !std::exchange(alone_, false) && next_ + 1 < call_.parts.size();
      if (several && (through_staging() || (!checked_ && (straight() || through_bounce_buffer())))) continue;
      take(move_part(part_at(next_), seen_), part_at(next_).size);
    }
    if (tally_.transfers > 0) observe::count_path(way_, tally_);
    return done_ > 0 ? Outcome::bytes(done_) : failure_;
  }

 private:
  // The first part that is not done, past empty ones. False: there is none.
  bool find_next() noexcept {
    while (next_ < call_.parts.size() && inside_ == call_.parts[next_].len) {
      ++next_;
      inside_ = 0;
    }
    return next_ < call_.parts.size();
  }

  // What is left of a part; `before` bytes of others lie between it and what is done.
  request::Call part_at(std::size_t number, std::uint64_t before = 0) const noexcept {
    const CUfileIOVec_t& part = call_.parts[number];
    const std::uint64_t skip = number == next_ ? inside_ : 0;
    return {call_.direction,
            call_.handle,
            part.base,
            part.len - skip,
            call_.file_offset + static_cast<off_t>(done_ + before),
            static_cast<off_t>(skip)};
  }

  // So much of what comes next has been moved.
  void advance(std::uint64_t bytes) noexcept {
    done_ += bytes;
    while (bytes > 0) {
      const std::uint64_t of_part = std::min<std::uint64_t>(bytes, call_.parts[next_].len - inside_);
      inside_ += of_part;
      bytes -= of_part;
      find_next();
    }
  }

  // The answer of a carrier that was asked for `wanted` bytes and has tried all ways.
  void take(Outcome moved, std::uint64_t wanted) noexcept {
    if (!moved.ok()) failure_ = moved;
    ended_ = moved.count() < wanted;
    advance(moved.count());
  }

  // Stretches that go the same way are one transfer in the counters.
  void count_way(const route::RouteChoice& choice, std::uint64_t bytes) noexcept {
    const observe::Way way{choice.path, choice.reason, call_.direction};
    if (tally_.transfers > 0 && way != way_) {
      observe::count_path(way_, tally_);
      tally_ = {};
    }
    way_ = way;
    tally_.transfers = 1;
    tally_.bytes += bytes;
    if (!failure_.ok()) tally_.errors = 1;
  }

  // By itself.
  Outcome move_part(const request::Call& part, observe::VectoredTransfer& seen) noexcept {
    request::Item item{part, &file_};
    const Outcome moved = request::run(process_, item, {.caller = request::Caller::part});
    seen.add(item.device, moved.count(), item.path, request::aligned(part));
    return moved;
  }

  // False: nothing goes this way.
  bool through_staging() noexcept;
  void gather_for_device(VectoredLease& loan) noexcept;
  bool settle(VectoredLease& loan) noexcept;
  bool straight() noexcept;
  bool through_bounce_buffer() noexcept;
  std::uint64_t gather_for_bounce(VectoredLease& loan, std::size_t room) noexcept;
  bool is_small_and_there(Entry& entry) noexcept;
  bool is_plain(const request::Call& part, process::BufferTable::Pin& registration) noexcept;
  bool is_in_step(const request::Call& part, std::uint64_t file_size) const noexcept;

  process::Process& process_;
  process::File& file_;
  const VectoredCall& call_;
  observe::VectoredTransfer& seen_;
  const bool alone_only_;  // nothing is coalesced here
  const bool checked_;     // verified or explained, as what goes through the door is
  std::size_t next_ = 0;   // part
  std::uint64_t inside_ = 0;
  std::uint64_t done_ = 0;
  bool ended_ = false;
  bool alone_ = false;       // the next part goes by itself
  bool not_cached_ = false;  // the page cache has not had all of a part
  bool no_disk_ring_ = false;
  Outcome failure_ = Outcome::bytes(0);
  observe::Way way_{};
  observe::Tally tally_;
};

// Parts from the next one on that are coalesced.
void Run::gather_for_device(VectoredLease& loan) noexcept {
  request::Classifier classifier(process_, std::min<std::size_t>(call_.parts.size() - next_, most_in_a_batch));
  std::uint64_t before = 0;
  for (std::size_t i = next_; i < call_.parts.size() && !loan.is_full(); ++i) {
    if (call_.parts[i].len == 0) continue;
    Entry& entry = loan.add();
    entry.file = classifier.file_of(call_.handle);
    entry.item = {part_at(i, before), &file_};
    if (entry.file && request::check(file_, entry.item.call).ok()) classifier.look_at(entry);
    if (entry.group_class() == GroupClass::cached && not_cached_) {
      request::go_on(entry.item, paths::rest_of(entry.known.grouping, file_, entry.item.call.size),
                     request::Counts::no);
    }
    const request::Known& first = loan->entries[0].known;
    const bool joins = entry.group_class() != GroupClass::none &&
                       loan.count() <= paths::most_in_a_group(first.grouping.group_class) &&
                       (loan.count() == 1 || request::can_go_together(first, entry.known)) &&
                       (entry.group_class() != GroupClass::disk || !no_disk_ring_);
    if (!joins) return loan.drop_last();
    before += entry.item.call.size;
  }
}

bool Run::through_staging() noexcept {
  VectoredLease loan;
  if (!loan) return false;
  gather_for_device(loan);
  if (loan.count() < 2) return false;
  const std::size_t count = loan.count();
  for (std::size_t i = 0; i < count; ++i) {
    loan->order[i] = &loan->entries[i].item;
    loan->slots[i] = static_cast<std::uint16_t>(i);
  }
  const std::span order(loan->order.data(), count);
  if (loan->carrier.part_as_submitted(order, std::span(loan->slots).first(count)) < count) return false;
  class Deaf final : public request::Completion {
   public:
    void ended(std::span<const std::uint16_t> /*numbers*/) noexcept override {}
  };
  Deaf ignored;
  request::run(process_, order,
               {.caller = request::Caller::part, .group = &loan->carrier, .bond = transfer::Bond::one_transfer},
               ignored);
  return settle(loan);
}

// How far they have come, as one transfer. What was left goes on in another class: what the page cache does not
// have with those that wait for a disk, the rest by itself.
bool Run::settle(VectoredLease& loan) noexcept {
  const request::Known first = loan->entries[0].known;
  std::uint64_t moved = 0;
  for (std::size_t i = 0; i < loan.count(); ++i) {
    const Entry& entry = loan->entries[i];
    const request::Item& item = entry.item;
    const bool is_left = !item.ended;
    if (!is_left && !item.outcome.ok()) failure_ = item.outcome;
    const std::uint64_t bytes = is_left ? item.progress.there : item.outcome.count();
    moved += bytes;
    seen_.add(entry.known.memory.device, bytes, first.path->traits.id, request::aligned(item.call));
    if (is_left) {
      if (entry.group_class() == GroupClass::disk && !not_cached_) {
        not_cached_ = true;
      } else {
        alone_ = true;
        if (item.call.size > 0 && moved == 0 && not_cached_) no_disk_ring_ = true;
      }
      break;
    }
    ended_ = bytes < item.call.size;
    if (ended_) break;
  }
  if (moved > 0 || ended_) count_way({first.path->traits.id, first.reason}, moved);
  advance(moved);
  return true;
}

// Host memory of the process, where whatever was registered there still holds all of the part.
bool Run::is_plain(const request::Call& part, process::BufferTable::Pin& registration) noexcept {
  const auto base = reinterpret_cast<std::uint64_t>(part.base);
  const std::uint64_t address = base + static_cast<std::uint64_t>(part.buffer_offset);
  if (!facts::is_host(gpu::inspect(address).kind)) return false;
  const auto range = process_.ranges().find(base, address, part.size);
  if (!range) return true;
  registration = process_.buffers().pin(range->handle);
  return registration && facts::is_host(registration->facts.kind) && address >= range->base && address < range->end &&
         part.size <= range->end - address;
}

// As O_DIRECT wants it; and nothing is read that lies behind the last whole block of the file, since the kernel would
// fill all of that block.
bool Run::is_in_step(const request::Call& part, std::uint64_t file_size) const noexcept {
  if (!file_.facts.direct) return true;
  const std::uint64_t step = std::max({512U, file_.facts.offset_alignment, file_.facts.memory_alignment});
  const auto at = static_cast<std::uint64_t>(part.file_offset);
  const std::uint64_t address =
      reinterpret_cast<std::uint64_t>(part.base) + static_cast<std::uint64_t>(part.buffer_offset);
  return (at | part.size | address) % step == 0 &&
         (call_.direction == Direction::write || (at < file_size && part.size <= file_size - at));
}

// Host memory, by one call of the system.
bool Run::straight() noexcept {
  constexpr auto furthest = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  VectoredLease loan;
  if (!loan || !request::check(file_, part_at(next_)).ok()) return false;
  facts::DescriptorCheck now(file_.descriptor(), file_.facts);
  if (!now.finds_the_file()) return false;
  std::array<iovec, io::most_in_a_vector> vector;
  std::size_t count = 0;
  std::uint64_t wanted = 0;
  for (std::size_t i = next_; i < call_.parts.size() && !loan.is_full(); ++i) {
    if (call_.parts[i].len == 0) continue;
    const request::Call part = part_at(i, wanted);
    const bool fits = part.size <= furthest - static_cast<std::uint64_t>(part.file_offset);
    if (!fits || !is_in_step(part, now.size()) || !is_plain(part, loan.add().registration)) break;
    vector[count++] = {static_cast<char*>(const_cast<void*>(part.base)) + part.buffer_offset, part.size};
    wanted += part.size;
  }
  if (count < 2) return false;
  const base::FileOffset at{static_cast<std::uint64_t>(part_at(next_).file_offset)};
  const std::span parts(vector.data(), count);
  const Outcome moved = call_.direction == Direction::read ? io::read_vector(file_.descriptor(), parts, at)
                                                           : io::write_vector(file_.descriptor(), parts, at);
  // EIO of a read may be no part's: a read of a part by itself finds out.
  const bool refused = !moved.ok() && !(call_.direction == Direction::read && moved.error() == EIO);
  if (refused) failure_ = moved;
  // A buffered read that got to the end of the file has its answer; what else came short is asked for again.
  const bool at_end =
      call_.direction == Direction::read && !file_.facts.direct && at.value + moved.count() >= now.size();
  ended_ = moved.count() < wanted && (refused || at_end);
  alone_ = moved.count() < wanted;
  if (moved.count() > 0 || ended_) {
    count_way(paths::decide({file_, {}, call_.direction}, {.direction = call_.direction}).choice(), moved.count());
  }
  advance(moved.count());
  return true;
}

// Plain memory all of which may be touched; larger parts are worth a transfer of their own.
bool Run::is_small_and_there(Entry& entry) noexcept {
  constexpr std::uint64_t largest = 65536;
  const request::Call& part = entry.item.call;
  if (part.size > largest || !request::check(file_, part).ok()) return false;
  if (is_plain(part, entry.registration)) return true;
  const auto base = reinterpret_cast<std::uint64_t>(part.base);
  const std::uint64_t address = base + static_cast<std::uint64_t>(part.buffer_offset);
  const facts::BufferFacts memory = gpu::inspect(address);
  if (memory.kind != facts::MemoryKind::device || gpu::contiguous_bytes(address, part.size) != part.size) return false;
  if (const auto range = process_.ranges().find(base, address, part.size)) {
    entry.registration = process_.buffers().pin(range->handle);
    if (!entry.registration) return false;
    const process::Buffer& buffer = *entry.registration;
    const bool same = buffer.facts.kind == memory.kind && buffer.facts.id == memory.id;
    const bool inside = address >= buffer.base && part.size <= buffer.base + buffer.size - address;
    if (!same || !inside) return false;
  }
  gpu::settle(memory, address);
  entry.known.memory = memory;
  return true;
}

// How many bytes there are of parts that are coalesced; 0 where none is ragged, or fewer than two go.
std::uint64_t Run::gather_for_bounce(VectoredLease& loan, std::size_t room) noexcept {
  facts::DescriptorCheck now(file_.descriptor(), file_.facts);
  if (!now.finds_the_file()) return 0;
  std::uint64_t wanted = 0;
  bool ragged = false;
  for (std::size_t i = next_; i < call_.parts.size() && !loan.is_full(); ++i) {
    if (call_.parts[i].len == 0) continue;
    Entry& entry = loan.add();
    entry.item.call = part_at(i, wanted);
    if (entry.item.call.size > room - wanted || !is_small_and_there(entry)) {
      loan.drop_last();
      break;
    }
    ragged = ragged || !is_in_step(entry.item.call, now.size());
    wanted += entry.item.call.size;
  }
  return loan.count() >= 2 && ragged ? wanted : 0;
}

// What one transfer has brought is copied part by part; a part that its memory refuses goes by itself next, and finds
// out.
bool Run::through_bounce_buffer() noexcept {
  const process::Options& options = file_.options;
  if (!file_.facts.direct || !route::compat_is_allowed(options.rules)) return false;
  VectoredLease loan;
  staging::BounceBuffer bounce = staging::BounceBuffer::take();
  if (!loan || !bounce) return false;
  const std::uint64_t wanted = gather_for_bounce(loan, bounce.bytes().size());
  if (wanted == 0) return false;
  const request::Call whole{
      call_.direction, call_.handle, bounce.bytes().data(), wanted, part_at(next_).file_offset, 0};
  const bool reads = call_.direction == Direction::read;
  observe::VectoredTransfer of_bounce;
  Outcome moved = reads ? move_part(whole, of_bounce) : Outcome::bytes(wanted);
  std::uint64_t copied = 0;
  for (std::size_t i = 0; i < loan.count() && copied < moved.count(); ++i) {
    const Entry& entry = loan->entries[i];
    const std::span bytes = bounce.bytes().subspan(copied, std::min(entry.item.call.size, moved.count() - copied));
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(entry.item.call.base) +
                                  static_cast<std::uint64_t>(entry.item.call.buffer_offset);
    paths::BounceCopier bounce_copier(entry.known.memory, options.copy_mode, bounce);
    if (!(reads ? bounce_copier.to_memory(address, bytes) : bounce_copier.from_memory(bytes, address)).ok()) break;
    copied += bytes.size();
  }
  if (!reads) {
    if (copied < wanted) return false;
    moved = move_part(whole, of_bounce);
    copied = moved.count();
  }
  if (!moved.ok()) failure_ = moved;
  for (std::size_t i = 0, notified = 0; i < loan.count() && notified < copied;
       notified += loan->entries[i++].item.call.size) {
    const Entry& entry = loan->entries[i];
    const bool on_device = !facts::is_host(entry.known.memory.kind);
    seen_.add(on_device ? entry.known.memory.device : -1, std::min(entry.item.call.size, copied - notified),
              paths::last_path().traits.id, request::aligned(entry.item.call));
  }
  alone_ = copied < moved.count();
  ended_ = !alone_ && moved.count() < wanted;
  advance(copied);
  return true;
}

}  // namespace

Outcome transfer_vectored(process::Process& process, const VectoredCall& call) noexcept {
  const Outcome total = refusal_of(call.parts);
  observe::VectoredTransfer seen{.direction = call.direction, .requested = total.count()};
  const auto refused = [&seen](Outcome refusal) {
    observe::count_vectored(seen, refusal);
    return refusal;
  };
  if (!total.ok()) return refused(total);
  const process::InFlight in_flight;  // before the pin, as in transfer()
  const process::FileTable::Pin file = process.files().pin(call.handle);
  if (!file) {
    const bool was = process.files().standing(call.handle) == process::HandleState::retired;
    return refused(was ? Outcome::refused(CU_FILE_HANDLE_NOT_REGISTERED) : Outcome::system_error(EINVAL));
  }
  const request::TransferTimer timer;
  const bool counting = observe::statistics_running();
  const observe::UnderWay under_way(call.direction, total.count());
  const auto begun = counting ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  const Outcome outcome = Run(process, *file, call, seen).all();
  const request::Call whole{call.direction, call.handle, nullptr, total.count(), call.file_offset, 0};
  request::TransferTimer::end(*file, whole, outcome, timer.so_far());
  if (!counting) return outcome;
  seen.duration = std::chrono::steady_clock::now() - begun;
  observe::count_vectored(seen, outcome);
  return outcome;
}

}  // namespace sluice::batch
