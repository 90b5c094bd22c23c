// The twin of src/gpu/kernels/scatter.cu, as one block that does every chunk.
#include <thread>

#include "kernels.h"
#include "twins.h"

namespace sluice::softgpu::twin {

namespace {

constexpr std::uint32_t scatter_called_off = ~std::uint32_t{0};

// The parameters, in the kernel's order.
struct ScatterArguments {
  explicit ScatterArguments(const Launch& launch)
      : places(launch.parameter<std::uint64_t>(0)),
        targets(launch.parameter<std::uint64_t>(1)),
        tickets(launch.parameter<std::uint64_t>(2)),
        drained(launch.parameter<std::uint64_t>(3)),
        words(launch.parameter<std::uint64_t>(4)),
        stride(launch.parameter<std::uint32_t>(6)),
        chunks(launch.parameter<std::uint32_t>(7)),
        place_count(launch.parameter<std::uint32_t>(8)),
        first_number(launch.parameter<std::uint32_t>(9)),
        serial(launch.parameter<std::uint32_t>(10)) {}

  std::uint64_t places, targets, tickets, drained, words;
  std::uint32_t stride, chunks, place_count, first_number, serial;
};

// False: the launch was called off, or its context is gone.
bool wait_for_ticket(const Launch& launch, const ScatterArguments& given, std::uint32_t chunk, std::uint64_t& ticket) {
  const auto word = launch.word<std::uint64_t>(given.tickets + 8 * std::uint64_t{chunk % given.place_count});
  while (!launch.ended()) {
    ticket = word.load(std::memory_order_acquire);
    const auto number = static_cast<std::uint32_t>(ticket);
    if (number == given.first_number + chunk) return true;
    if (chunk == 0 && number == scatter_called_off) return false;
    std::this_thread::yield();
  }
  return false;
}

void carry(const Launch& launch, const ScatterArguments& given, std::uint32_t chunk, std::uint64_t target,
           std::uint64_t length) {
  const std::uint64_t place = chunk % given.place_count;
  if (length > 0) launch.copy(target, given.places + place * given.stride + target % 16, length);
  if (given.chunks > given.place_count) {
    launch.word<std::uint32_t>(given.drained + 4 * place).store(given.first_number + chunk, std::memory_order_release);
  }
}

}  // namespace

void scatter(const Launch& launch) {
  const ScatterArguments given(launch);
  const auto word = [&](std::uint64_t index) { return launch.word<std::uint32_t>(given.words + 4 * index); };
  const auto target_of = [&](std::uint32_t chunk) {
    return launch.word<std::uint64_t>(given.targets + 8 * std::uint64_t{chunk}).load(std::memory_order_relaxed);
  };
  word(0).store(given.serial, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint64_t ticket = 0;
  const bool go = wait_for_ticket(launch, given, 0, ticket);
  if (launch.ended()) return;
  word(1).store(given.serial << 2U | (go ? 1U : 2U), std::memory_order_release);
  for (std::uint32_t chunk = 0; go && chunk < given.chunks; ++chunk) {
    const std::uint64_t target = target_of(chunk);
    if (!wait_for_ticket(launch, given, chunk, ticket)) return;
    carry(launch, given, chunk, target, ticket >> 32U);
  }
  if (go) word(2).store(given.serial, std::memory_order_release);
  word(3).store(given.serial, std::memory_order_release);
}

}  // namespace sluice::softgpu::twin
