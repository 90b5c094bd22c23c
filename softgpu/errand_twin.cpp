// The twin of src/gpu/kernels/errand.cu, as one block that follows every command.
#include <chrono>
#include <thread>

#include "answer.h"
#include "kernels.h"
#include "twins.h"

namespace sluice::softgpu::twin {

namespace {

constexpr std::uint32_t kind_end = 0;
constexpr std::uint32_t kind_to_device = 1;
constexpr std::uint32_t kind_called_off = 3;

constexpr std::uint64_t line_bytes = 64;  // from one command to the next, and from one answer to the next

// The parameters, in the kernel's order.
struct Errand {
  explicit Errand(const Launch& launch)
      : ring(launch.parameter<std::uint64_t>(0)),
        commands(launch.parameter<std::uint64_t>(1)),
        acked(launch.parameter<std::uint64_t>(2)),
        words(launch.parameter<std::uint64_t>(3)),
        resume(launch.parameter<std::uint64_t>(4)),
        counters(launch.parameter<std::uint64_t>(5)),
        place_bytes(launch.parameter<std::uint32_t>(6)),
        places(launch.parameter<std::uint32_t>(7)) {}

  std::uint64_t ring, commands, acked, words, resume, counters;
  std::uint32_t place_bytes, places;
};

struct Command {
  std::uint64_t address = 0;
  std::uint32_t kind = 0;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

// False: the context is gone.
bool wait_for_command(const Launch& launch, const Errand& given, std::uint32_t number, Command& seen) {
  const std::uint64_t slot = given.commands + line_bytes * std::uint64_t{number % given.places};
  const auto what_word = launch.word<std::uint64_t>(slot + 8);
  const auto where_word = launch.word<std::uint64_t>(slot);
  while (!launch.ended()) {
    const std::uint64_t what = what_word.load(std::memory_order_acquire);
    const std::uint64_t where = where_word.load(std::memory_order_acquire);
    if (what >> 32U == number && where >> 56U == (number & 0xffU)) {
      const auto low = static_cast<std::uint32_t>(what);
      seen = {where & 0x00ffffffffffffffU, low >> 30U, low >> 17U & 0x1fffU, low & 0x1ffffU};
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

// 0: the context is gone.
std::uint32_t wait_until_resumed(const Launch& launch, const Errand& given) {
  const auto word = launch.word<std::uint32_t>(given.resume);
  while (!launch.ended()) {
    if (const std::uint32_t next = word.load(std::memory_order_acquire); next != 0) return next;
    std::this_thread::yield();
  }
  return 0;
}

void carry(const Launch& launch, const Errand& given, std::uint32_t number, const Command& command) {
  const std::uint64_t place = given.ring + std::uint64_t{number % given.places} * given.place_bytes + command.offset;
  if (command.kind == kind_to_device) {
    launch.copy(command.address, place, command.length);
  } else {
    launch.copy(place, command.address, command.length);
  }
  launch.word<std::uint32_t>(given.acked + line_bytes * std::uint64_t{number % given.places})
      .store(number, std::memory_order_release);
}

// As on a device that has died without a word.
void stand_still(const Launch& launch) {
  while (!launch.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

void errand(const Launch& launch) {
  const Errand given(launch);
  const auto word = [&](std::uint64_t index) { return launch.word<std::uint32_t>(given.words + 4 * index); };
  const auto counter = [&](std::uint64_t index) { return launch.word<std::uint32_t>(given.counters + 4 * index); };
  const std::uint32_t first = counter(1).load();
  std::uint32_t number = first;
  word(0).store(first, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (early_admission("sluice_errand") != cuda::success) return stand_still(launch);
  Command command;
  if (!wait_for_command(launch, given, number, command)) return;
  const bool off = command.kind == kind_called_off;
  word(1).store(first << 1U | (off ? 1U : 0U), std::memory_order_release);
  if (off) {
    number = wait_until_resumed(launch, given);
    if (number == 0) return;
  } else {
    while (command.kind != kind_end) {
      carry(launch, given, number, command);
      if (!wait_for_command(launch, given, ++number, command)) return;
    }
    ++number;
  }
  counter(0).store(number);
  counter(1).store(number);
  word(2).store(first, std::memory_order_release);
}

}  // namespace sluice::softgpu::twin
