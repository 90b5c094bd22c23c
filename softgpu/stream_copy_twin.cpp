// SPDX-License-Identifier: Apache-2.0
// The twin of src/gpu/kernels/stream_copy.cu, as two blocks: one that carries what comes, and one that is as slow as it
// may be. What the first one has left may be overtaken by all that comes behind it, which devices do now and then.
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "answer.h"
#include "gpu/kernel_protocol.h"
#include "kernels.h"
#include "twins.h"

namespace sluice::softgpu::twin {

namespace {

// The parameters, in the kernel's order.
struct StreamCopy {
  explicit StreamCopy(const Launch& launch)
      : staging(launch.parameter<std::uint64_t>(0)),
        commands(launch.parameter<std::uint64_t>(1)),
        acked(launch.parameter<std::uint64_t>(2)),
        words(launch.parameter<std::uint64_t>(3)),
        resume(launch.parameter<std::uint64_t>(4)),
        counters(launch.parameter<std::uint64_t>(5)),
        slot_bytes(launch.parameter<std::uint32_t>(6)),
        slots(launch.parameter<std::uint32_t>(7)) {}

  std::uint64_t staging, commands, acked, words, resume, counters;
  std::uint32_t slot_bytes, slots;
};

using Command = gpu::StreamCopyCommand;
using Kind = gpu::StreamCopyKind;

// Asks once.
bool look(const Launch& launch, const StreamCopy& given, std::uint32_t number, Command& seen) {
  using Slot = gpu::StreamCopySlot;
  const std::uint64_t slot = given.commands + sizeof(Slot) * std::uint64_t{number % given.slots};
  const auto word = [&](std::size_t offset) { return launch.word<std::uint64_t>(slot + offset); };
  const std::uint64_t second = word(offsetof(Slot, second_word)).load(std::memory_order_acquire);
  const std::uint64_t first = word(offsetof(Slot, first_word)).load(std::memory_order_acquire);
  if (!gpu::has_number(first, second, number)) return false;
  seen = gpu::command_of(first, second);
  return true;
}

// False: the context is gone.
bool wait_for_command(const Launch& launch, const StreamCopy& given, std::uint32_t number, Command& seen) {
  while (!launch.ended()) {
    if (look(launch, given, number, seen)) return true;
    std::this_thread::yield();
  }
  return false;
}

// What the host says to a launch that was revoked, one of both. Neither: the context is gone.
struct Resumed {
  std::uint32_t over = 0;  // nothing is left, and here the next one begins
  std::uint32_t from = 0;  // it carries after all, from this number on
};
Resumed wait_until_resumed(const Launch& launch, const StreamCopy& given) {
  const auto over = launch.word<std::uint32_t>(given.resume);
  const auto from = launch.word<std::uint32_t>(given.resume + 4);
  while (!launch.ended()) {
    const Resumed resumed{over.load(std::memory_order_acquire), from.load(std::memory_order_acquire)};
    if (resumed.over != 0 || resumed.from != 0) return resumed;
    std::this_thread::yield();
  }
  return {};
}

void carry(const Launch& launch, const StreamCopy& given, std::uint32_t number, const Command& command) {
  const std::uint64_t slot = given.staging + std::uint64_t{number % given.slots} * given.slot_bytes + command.offset;
  if (command.kind == Kind::to_device) {
    launch.copy(command.address, slot, command.length);
  } else {
    launch.copy(slot, command.address, command.length);
  }
  launch.word<std::uint32_t>(given.acked + sizeof(gpu::StreamCopyAck) * std::uint64_t{number % given.slots})
      .store(number, std::memory_order_release);
}

// Carries all from this command on until the last one, and answers its number. 0: the context is gone.
std::uint32_t carry_all(const Launch& launch, const StreamCopy& given, std::uint32_t number, Command command) {
  constexpr int backoff = 50;  // looks in vain, after which the slow block carries what it has
  std::uint32_t slow_number = 0;
  Command slow{};
  bool has_slow = false;
  const auto carry_slow = [&] {
    if (std::exchange(has_slow, false)) carry(launch, given, slow_number, slow);
  };
  while (command.kind != Kind::end) {
    Command next{};
    if (!has_slow && look(launch, given, number + 1, next)) {
      slow_number = number;
      slow = command;
      has_slow = true;
    } else {
      carry(launch, given, number, command);
    }
    ++number;
    for (int looks = 0; !look(launch, given, number, command); ++looks) {
      if (launch.ended()) return 0;
      if (looks == backoff) carry_slow();
      std::this_thread::yield();
    }
  }
  carry_slow();
  return number;
}

// As on a device that has died without a word.
void stand_still(const Launch& launch) {
  while (!launch.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

void stream_copy(const Launch& launch) {
  const StreamCopy given(launch);
  const auto word = [&](std::uint64_t index) { return launch.word<std::uint32_t>(given.words + 4 * index); };
  const auto counter = [&](std::uint64_t index) { return launch.word<std::uint32_t>(given.counters + 4 * index); };
  const std::uint32_t first = counter(gpu::at_first).load();
  std::uint32_t number = first;
  word(0).store(first, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Command command{};
  // One that was revoked before it began has nothing to stand still in: the copy engine has done its work.
  if (early_admission("sluice_stream_copy") != cuda::success &&
      !(look(launch, given, number, command) && command.kind == Kind::revoked)) {
    return stand_still(launch);
  }
  if (!wait_for_command(launch, given, number, command)) return;
  const bool off = command.kind == Kind::revoked;
  word(1).store(off ? gpu::revoked_launch(first) : gpu::committed_launch(first), std::memory_order_release);
  const Resumed resumed = off ? wait_until_resumed(launch, given) : Resumed{.from = first};
  if (resumed.from != 0) {
    number = resumed.from;
    // One that was not revoked keeps what it has read: by now, the mark may stand there.
    if (off && !wait_for_command(launch, given, number, command)) return;
    number = carry_all(launch, given, number, command);
    if (number == 0) return;
    ++number;
  } else {
    number = resumed.over;
    if (number == 0) return;
  }
  number = gpu::following_launch(number);
  counter(gpu::at_draws).store(number);
  counter(gpu::at_first).store(number);
  word(2).store(first, std::memory_order_release);
}

}  // namespace sluice::softgpu::twin
