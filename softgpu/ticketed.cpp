// SPDX-License-Identifier: Apache-2.0
// Each ticket is read once. When the first has been read, the host may still put its mark over it; that comes too late.
#include "ticketed.h"

#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/kernel_protocol.h"

namespace sluice::softgpu {

using gpu::LaunchCommit;
using gpu::LaunchWords;

namespace {

constexpr int backoff = 50;                 // looks in vain, after which the slow block carries what it has
constexpr std::size_t most_of_a_block = 2;  // the chunk that it carries, and one that it has drawn ahead

std::uint64_t look(const Launch& launch, const Ticketed& given, std::uint32_t chunk) {
  const std::uint64_t ticket = given.tickets + sizeof(gpu::Ticket) * std::uint64_t{chunk % gpu::ticket_slots};
  return launch.word<std::uint64_t>(ticket).load(std::memory_order_acquire);
}

bool is_ticket_of(const Ticketed& given, std::uint32_t chunk, std::uint64_t ticket) {
  return gpu::ticket_number(ticket) == given.first_number + chunk;
}

// Nothing: the launch was revoked, which only shows instead of the first ticket, or its context is gone.
template <typename InVain>
std::optional<std::uint64_t> await_ticket(const Launch& launch, const Ticketed& given, std::uint32_t chunk,
                                          InVain in_vain) {
  for (int looks = 0; !launch.ended(); ++looks) {
    const std::uint64_t ticket = look(launch, given, chunk);
    if (is_ticket_of(given, chunk, ticket)) return ticket;
    if (chunk == 0 && gpu::ticket_number(ticket) == gpu::revoked_ticket) return std::nullopt;
    if (looks == backoff) in_vain();
    std::this_thread::yield();
  }
  return std::nullopt;
}

void store_completed(const Launch& launch, const Ticketed& given, std::uint32_t chunk) {
  if (given.chunks <= given.silent_up_to) return;
  launch.word<std::uint32_t>(given.completed + 4 * std::uint64_t{chunk % gpu::ticket_slots})
      .store(given.first_number + chunk, std::memory_order_release);
}

}  // namespace

void carry_ticketed(const Launch& launch, const Ticketed& given, Told told, const WayOfChunk& way_of) {
  const auto word = [&](std::size_t offset) { return launch.word<std::uint32_t>(given.words + offset); };
  std::vector<std::byte> bytes;
  const auto carry_one = [&](std::uint32_t chunk, std::uint64_t ticket) {
    const Way way = way_of(chunk, gpu::ticket_slot(ticket));
    launch.load(bytes, way.from, gpu::ticket_length(ticket));
    if (told == Told::in_place) launch.store(way.to, bytes);
    store_completed(launch, given, chunk);
    if (told == Told::in_place) return;
    std::this_thread::yield();
    launch.store(way.to, bytes);
  };
  std::vector<std::pair<std::uint32_t, std::uint64_t>> slow;  // what the slow block has: chunks and their tickets
  const auto carry_slow = [&] {
    for (const auto& [chunk, ticket] : std::exchange(slow, {})) carry_one(chunk, ticket);
  };
  word(offsetof(LaunchWords, begun)).store(given.launch_id, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto ticket = await_ticket(launch, given, 0, carry_slow);
  if (launch.ended()) return;
  const bool carries = ticket.has_value();
  const auto commit = gpu::commit_word(given.launch_id, carries ? LaunchCommit::carries : LaunchCommit::revoked);
  word(offsetof(LaunchWords, commit)).store(commit, std::memory_order_release);
  for (std::uint32_t chunk = 0; carries && chunk < given.chunks; ++chunk) {
    if (chunk > 0) ticket = await_ticket(launch, given, chunk, carry_slow);
    if (!ticket) return;
    const bool more = chunk + 1 < given.chunks && is_ticket_of(given, chunk + 1, look(launch, given, chunk + 1));
    if (more && slow.size() < most_of_a_block) {
      slow.emplace_back(chunk, *ticket);
    } else {
      carry_one(chunk, *ticket);
    }
  }
  carry_slow();
  if (carries) word(offsetof(LaunchWords, done)).store(given.launch_id, std::memory_order_release);
  word(offsetof(LaunchWords, left)).store(given.launch_id, std::memory_order_release);
}

}  // namespace sluice::softgpu
