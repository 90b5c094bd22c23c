// Each ticket is read once. When the first has been read, the host may still put its mark over it; that comes too late.
#include "ticketed.h"

#include <optional>
#include <thread>

namespace sluice::softgpu {

namespace {

constexpr std::uint32_t called_off = ~std::uint32_t{0};
constexpr std::uint64_t ticket_bytes = 64;  // from one to the next
constexpr std::uint32_t ticket_slots = 256;
constexpr std::uint32_t go = 1;
constexpr std::uint32_t off = 2;

// Nothing: the launch was called off, which only shows instead of the first ticket, or its context is gone.
std::optional<std::uint64_t> await_ticket(const Launch& launch, const Ticketed& given, std::uint32_t chunk) {
  const auto word = launch.word<std::uint64_t>(given.tickets + ticket_bytes * std::uint64_t{chunk % ticket_slots});
  while (!launch.ended()) {
    const std::uint64_t ticket = word.load(std::memory_order_acquire);
    const auto number = static_cast<std::uint32_t>(ticket);
    if (number == given.first_number + chunk) return ticket;
    if (chunk == 0 && number == called_off) return std::nullopt;
    std::this_thread::yield();
  }
  return std::nullopt;
}

void tell_drained(const Launch& launch, const Ticketed& given, std::uint32_t chunk) {
  if (given.chunks <= given.silent_up_to) return;
  launch.word<std::uint32_t>(given.drained + 4 * std::uint64_t{chunk % ticket_slots})
      .store(given.first_number + chunk, std::memory_order_release);
}

}  // namespace

void carry_ticketed(const Launch& launch, const Ticketed& given, const CarryChunk& carry) {
  const auto word = [&](std::uint64_t index) { return launch.word<std::uint32_t>(given.words + 4 * index); };
  word(0).store(given.serial, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto ticket = await_ticket(launch, given, 0);
  if (launch.ended()) return;
  const bool carries = ticket.has_value();
  word(1).store(given.serial << 2U | (carries ? go : off), std::memory_order_release);
  for (std::uint32_t chunk = 0; carries && chunk < given.chunks; ++chunk) {
    if (chunk > 0) ticket = await_ticket(launch, given, chunk);
    if (!ticket) return;
    carry(chunk, static_cast<std::uint32_t>(*ticket >> 56U), static_cast<std::uint32_t>(*ticket >> 32U) & 0xffffffU);
    tell_drained(launch, given, chunk);
  }
  if (carries) word(2).store(given.serial, std::memory_order_release);
  word(3).store(given.serial, std::memory_order_release);
}

}  // namespace sluice::softgpu
