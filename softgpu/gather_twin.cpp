// The twin of src/gpu/kernels/gather.cu, as one block that does every chunk.
#include <thread>

#include "kernels.h"
#include "twins.h"

namespace sluice::softgpu::twin {

namespace {

constexpr std::uint32_t called_off = ~std::uint32_t{0};

// The parameters, in the kernel's order.
struct Arguments {
  explicit Arguments(const Launch& launch)
      : places(launch.parameter<std::uint64_t>(0)),
        target(launch.parameter<std::uint64_t>(1)),
        tickets(launch.parameter<std::uint64_t>(2)),
        drained(launch.parameter<std::uint64_t>(3)),
        words(launch.parameter<std::uint64_t>(4)),
        chunk_bytes(launch.parameter<std::uint32_t>(6)),
        stride(launch.parameter<std::uint32_t>(7)),
        skip(launch.parameter<std::uint32_t>(8)),
        chunks(launch.parameter<std::uint32_t>(9)),
        place_count(launch.parameter<std::uint32_t>(10)),
        first_number(launch.parameter<std::uint32_t>(11)),
        serial(launch.parameter<std::uint32_t>(12)) {}

  std::uint64_t places, target, tickets, drained, words;
  std::uint32_t chunk_bytes, stride, skip, chunks, place_count, first_number, serial;
};

// False: the launch was called off, or its context is gone.
bool wait_for_ticket(const Launch& launch, const Arguments& given, std::uint32_t chunk, std::uint64_t& ticket) {
  const auto word = launch.word<std::uint64_t>(given.tickets + 8 * std::uint64_t{chunk % given.place_count});
  while (!launch.ended()) {
    ticket = word.load(std::memory_order_acquire);
    const auto number = static_cast<std::uint32_t>(ticket);
    if (number == given.first_number + chunk) return true;
    if (chunk == 0 && number == called_off) return false;
    std::this_thread::yield();
  }
  return false;
}

void carry(const Launch& launch, const Arguments& given, std::uint32_t chunk, std::uint64_t length) {
  const std::uint64_t into = chunk == 0 ? given.skip : 0;
  const std::uint64_t place = chunk % given.place_count;
  if (length > 0) {
    launch.copy(given.target + std::uint64_t{chunk} * given.chunk_bytes + into,
                given.places + place * given.stride + into, length);
  }
  if (given.chunks > given.place_count) {
    launch.word<std::uint32_t>(given.drained + 4 * place).store(given.first_number + chunk, std::memory_order_release);
  }
}

}  // namespace

void gather(const Launch& launch) {
  const Arguments given(launch);
  const auto word = [&](std::uint64_t index) { return launch.word<std::uint32_t>(given.words + 4 * index); };
  word(0).store(given.serial, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint64_t ticket = 0;
  const bool go = wait_for_ticket(launch, given, 0, ticket);
  if (launch.ended()) return;
  word(1).store(given.serial << 2U | (go ? 1U : 2U), std::memory_order_release);
  for (std::uint32_t chunk = 0; go && chunk < given.chunks; ++chunk) {
    if (!wait_for_ticket(launch, given, chunk, ticket)) return;
    carry(launch, given, chunk, ticket >> 32U);
  }
  if (go) word(2).store(given.serial, std::memory_order_release);
  word(3).store(given.serial, std::memory_order_release);
}

}  // namespace sluice::softgpu::twin
