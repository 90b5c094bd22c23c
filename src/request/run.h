// SPDX-License-Identifier: Apache-2.0
// The one door: every transfer of the process goes through here. Resolved, decided, moved, checked where that is asked
// for, counted. No lock, no heap, no exception.
#pragma once

#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "process/process.h"
#include "request/item.h"
#include "transfer/bond.h"

namespace sluice::request {

class Group;

enum class Caller : std::uint8_t {
  call,    // waits for it
  batch,   // has queued it
  plan,    // likewise, as a part of a plan
  stream,  // has queued it, and the stream has got there
  part,    // of a vectored call, which counts and watches for all its parts
};

// Some time lies between the program's call and the turn of what it has asked for.
constexpr bool has_queued(Caller caller) noexcept {
  return caller == Caller::batch || caller == Caller::plan;
}

struct Options {
  Caller caller = Caller::call;
  paths::DeviceSide* device = nullptr;  // what keeps the order of device memory; null: streams of our own
  unsigned stream_flags = 0;  // that the stream was registered with: what it does not fix may reach before a pointer
  // Of several that go together: what carries them, and whether they are one transfer.
  Group* group = nullptr;
  transfer::Bond bond = transfer::Bond::none;
};

// Told of items that end while others are on their way, by their numbers; it is not told of the rest.
using paths::Completion;

// Runs on the calling thread. One item has ended when it returns; of several that go together, those that have not are
// to come again: each knows what is left of it, and with which others it may go.
void run(process::Process& process, std::span<Item* const> items, const Options& options,
         Completion& completion) noexcept;

// The same of one whose completion is this answer.
base::Outcome run(process::Process& process, Item& item, const Options& options) noexcept;

// By a call's arguments: the handle is looked up and pinned.
base::Outcome run(process::Process& process, const Call& call) noexcept;

// Before the first use of device memory: exit() is to wait for transfers before the driver goes.
void watch_exit_behind_the_driver() noexcept;

}  // namespace sluice::request
