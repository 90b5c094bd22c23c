// SPDX-License-Identifier: Apache-2.0
// Windows are taken without waiting while calls are under way, so that no two threads wait for each other: a thread
// that waits for a window holds none.
#include "nvfs/group.h"

#include <algorithm>
#include <cerrno>

#include "base/spin_backoff.h"

namespace sluice::nvfs {

using base::Direction;

void Group::run(const Node& node, std::span<Member> members) noexcept {
  for (Member& member : members) {
    member.done = member.length;  // until something stops it
    member.error = 0;
    member.trouble = Trouble::none;
  }
  Group(node, members).run();
}

void Group::run() noexcept {
  base::SpinBackoff backoff;
  for (;;) {
    while (count_ < most_under_way && has_more() && begin_one()) backoff = {};
    if (count_ == 0) {
      if (!has_more()) return;
      continue;
    }
    if (reap()) {
      backoff = {};
    } else {
      backoff.wait();
    }
  }
}

// A member that has been stopped wants nothing more.
bool Group::has_more() noexcept {
  while (member_ < members_.size() && from_ >= members_[member_].done) {
    ++member_;
    from_ = 0;
  }
  return member_ < members_.size();
}

// False where the window is in use, and calls of this group are under way.
bool Group::begin_one() noexcept {
  Member& member = members_[member_];
  const std::uint64_t address = member.address + from_;
  Window& window = member.windows->at(address);
  if (count_ == 0) {
    window.lock().lock();
  } else if (!window.lock().try_lock()) {
    return false;
  }
  const std::uint64_t end = std::min(member.length, from_ + (window.end() - address));
  Flight flight{&member, &window, from_, end, {}};
  const int error = member.windows->require(node_, window);
  // All windows that may be mapped are in use, and some of them here: they will be free.
  if (error == EAGAIN && count_ > 0) {
    window.lock().unlock();
    return false;
  }
  from_ = end;
  if (error != 0) {
    stop(member, flight.next, error, error == EAGAIN ? Trouble::none : Trouble::not_mapped);
    window.lock().unlock();
    return true;
  }
  take(flight, count_ == 0 && !has_more());
  return true;
}

// What is alone goes by synchronous calls: the kernel waits better than a loop.
void Group::take(Flight& flight, bool alone) noexcept {
  if (go_on(flight, alone) == Step::under_way) {
    flights_[count_++] = flight;
  } else {
    end(flight);
  }
}

Group::Step Group::go_on(Flight& flight, bool alone) noexcept {
  Member& member = *flight.member;
  const Call call = member.direction == Direction::read ? Call::read : Call::write;
  while (flight.next < std::min(flight.end, member.done)) {
    const std::uint64_t address = member.address + flight.next;
    const std::uint64_t length = flight.window->longest_call(address, flight.end - flight.next);
    flight.piece = {member.file, member.at + flight.next, address, length};
    flight.next += length;
    const std::int64_t answer =
        alone ? flight.window->move(node_, call, flight.piece) : flight.window->begin(node_, call, flight.piece);
    // Kernels that end every call at once answer what it moved.
    if (!alone && answer == 0) return Step::under_way;
    settle(flight, answer);
  }
  return Step::ended;
}

bool Group::reap() noexcept {
  bool any = false;
  for (std::size_t i = 0; i < count_;) {
    Flight& flight = flights_[i];
    if (!flight.window->has_ended()) {
      ++i;
      continue;
    }
    any = true;
    settle(flight, flight.window->ended_with());
    if (go_on(flight, false) == Step::under_way) {
      ++i;
      continue;
    }
    end(flight);
    flights_[i] = flights_[--count_];
  }
  return any;
}

void Group::settle(Flight& flight, std::int64_t answer) noexcept {
  Member& member = *flight.member;
  const std::uint64_t begin = flight.next - flight.piece.length;
  if (answer < 0) {
    const bool gone = flight.window->is_dead();
    return stop(member, begin, static_cast<int>(-answer), gone ? Trouble::memory_gone : Trouble::none);
  }
  const auto count = std::min(static_cast<std::uint64_t>(answer), flight.piece.length);
  if (member.direction == Direction::write && count == 0) return stop(member, begin, EIO, Trouble::wrote_nothing);
  if (member.direction == Direction::read && flight.window->is_sparse()) fill_holes(flight, count);
  // A read that is short has come to the end of the file; a write is asked for the rest, and tells.
  if (count < flight.piece.length) stop(member, begin + count, 0, Trouble::none);
}

// Who writes into a hole while it is read makes it look like one over data: the call is made once more.
void Group::fill_holes(Flight& flight, std::uint64_t count) noexcept {
  Member& member = *flight.member;
  const std::uint64_t begin = flight.piece.at - member.at;
  if (!flight.window->is_understood()) return stop(member, begin, EIO, Trouble::not_understood);
  if (fill_each(flight, count)) return;
  const std::int64_t answer = flight.window->move(node_, Call::read, flight.piece);
  if (answer < static_cast<std::int64_t>(count)) return stop(member, begin, EAGAIN, Trouble::none);
  if (!flight.window->is_sparse() || (flight.window->is_understood() && fill_each(flight, count))) return;
  // The other bytes of the call are where these are: elsewhere.
  stop(member, begin, EIO, Trouble::hole_over_data);
}

// False for a hole over data.
bool Group::fill_each(Flight& flight, std::uint64_t count) noexcept {
  Member& member = *flight.member;
  const std::uint64_t end = flight.piece.at + count;
  for (const Hole& hole : flight.window->holes()) {
    const std::uint64_t from = flight.window->holes_counted_from() + hole.first * block_bytes;
    const std::uint64_t first = std::max(from, flight.piece.at);
    const std::uint64_t last = std::min(from + hole.count * block_bytes, end);
    if (first >= last) continue;
    const Filled filled = member.holes != nullptr ? member.holes->fill(first - member.at, last - first) : Filled::left;
    if (filled == Filled::over_data) return false;
    if (filled == Filled::left) stop(member, first - member.at, EAGAIN, Trouble::none);
  }
  return true;
}

void Group::end(const Flight& flight) noexcept {
  if (flight.window->is_mapped() && flight.window->is_dead()) flight.member->windows->give_up(*flight.window);
  flight.window->lock().unlock();
}

// The first place at which anything has stopped counts.
void Group::stop(Member& member, std::uint64_t at, int error, Trouble trouble) noexcept {
  if (trouble != Trouble::none && member.trouble == Trouble::none) member.trouble = trouble;
  if (at >= member.done) return;
  member.done = at;
  member.error = error;
}

}  // namespace sluice::nvfs
