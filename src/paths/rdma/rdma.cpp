// SPDX-License-Identifier: Apache-2.0
// Piece by piece: each has a text of its own, which names no byte outside of it.
#include "paths/rdma/rdma.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "gpu/memory.h"
#include "observe/log.h"
#include "paths/operations.h"
#include "paths/rdma/kept.h"
#include "rdma/memory.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::Outcome;
using rdma::Candidate;
using rdma::KeyState;

// Bytes under way by each slot, of all sessions, and how often one was chosen.
std::array<std::atomic<std::uint64_t>, verbs::most_slots> under_way;
std::atomic<std::uint32_t> turns;

class UnderWay {
 public:
  UnderWay(unsigned slot, std::uint64_t bytes) noexcept : slot_(slot), bytes_(bytes) {
    under_way[slot].fetch_add(bytes, std::memory_order_relaxed);
  }
  ~UnderWay() { under_way[slot_].fetch_sub(bytes_, std::memory_order_relaxed); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  const unsigned slot_;
  const std::uint64_t bytes_;
};

template <typename Each>
void for_each_slot(std::uint32_t mask, Each each) {
  for (; mask != 0; mask &= mask - 1) each(static_cast<unsigned>(std::countr_zero(mask)));
}

// The best that any usable adapter has of this buffer.
KeyState best_state(const verbs::Board& board, const rdma::Keys& keys, std::uint32_t usable) noexcept {
  bool untried = false;
  bool revoked = false;
  bool ready = false;
  for_each_slot(usable, [&](unsigned slot) {
    const KeyState state = keys.state(board, board.slot[slot].adapter);
    ready = ready || state == KeyState::ready;
    untried = untried || state == KeyState::untried;
    revoked = revoked || state == KeyState::revoked;
  });
  if (ready) return KeyState::ready;
  // A key that was revoked is not made anew: the operation that had it is still out there.
  if (revoked) return KeyState::revoked;
  return untried ? KeyState::untried : KeyState::refused;
}

// "Not by RDMA", as a file system or its server answers.
bool means_another_way(int error) noexcept {
  return error == EOPNOTSUPP || error == ENOSYS || error == EREMOTEIO;
}

void make_keys(const rdma::Client& client, rdma::Keys& keys, std::uint32_t slots, const RdmaOptions& options) {
  for_each_slot(slots, [&](unsigned slot) {
    keys.make(client, client.board->slot[slot].adapter, options.access, options.peer_type);
  });
}

// One item.
class ByServer {
 public:
  ByServer(Item& item, const rdma::Client& client, RdmaFile& file, rdma::Keys& keys) noexcept
      : item_(item), ends_(*item.ends), client_(client), file_(file), keys_(keys) {}

  void move() noexcept {
    std::uint32_t slots = file_.usable(*client_.board);
    std::uint64_t done = 0;
    const std::uint64_t length = item_.piece.length;
    while (done < length) {
      const auto chosen = choose(slots, done);
      if (!chosen) return stop(done);
      const OperationAnswer answer = move_some(*chosen, done);
      if (answer.count > 0) {
        done += static_cast<std::uint64_t>(answer.count);
        continue;
      }
      if (answer.count == 0) return end_at(done);
      if (answer.error == EINTR) continue;
      if (answer.late) return give_up(*chosen, done);
      if (!means_another_way(answer.error)) return fail(done, answer.error);
      // The server may reach the memory by another port.
      slots = answer.error == EREMOTEIO ? slots & ~(1U << *chosen) : 0;
      if (slots == 0) {
        file_.leave_alone();
        return stop(done);
      }
    }
    file_.went_well();
    finish(done);
  }

 private:
  std::optional<unsigned> choose(std::uint32_t slots, std::uint64_t done) const noexcept {
    const verbs::Board& board = *client_.board;
    const Nearness* const near = file_.session().nearness(ends_.memory.device);
    std::array<Candidate, verbs::most_slots> all;
    std::size_t count = 0;
    for_each_slot(slots, [&](unsigned slot) {
      if (!keys_.key_of(board, board.slot[slot].adapter, item_.piece.address + done)) return;
      const bool known = near != nullptr && slot < near->slots;
      all[count++] = {slot, known ? near->preference[slot] : 0, -1, under_way[slot].load(std::memory_order_relaxed)};
    });
    const RdmaOptions& options = ends_.file.options.rdma;
    count = rdma::keep_nearest({all.data(), count}, options.nearest);
    if (count == 0) return std::nullopt;
    const std::span<Candidate> candidates(all.data(), count);
    if (count > 1 && ends_.file.operations->getRDMADevicePriority != nullptr && !rank(candidates, done)) {
      return std::nullopt;
    }
    return candidates[rdma::choose(candidates, options.balance, turns.fetch_add(1, std::memory_order_relaxed))].slot;
  }

  // Asks the file system for each one's priority. False: it does not answer, and is left alone.
  bool rank(std::span<Candidate> candidates, std::uint64_t done) const noexcept {
    for (Candidate& candidate : candidates) {
      const PriorityAnswer answer = priority_of(candidate.slot, done);
      if (answer.late) {
        file_.leave_alone("getRDMADevicePriority", ends_.file.options.rdma.operation_limit_ms);
        return false;
      }
      candidate.priority = answer.priority;
    }
    return true;
  }

  PriorityAnswer priority_of(unsigned slot, std::uint64_t done) const noexcept {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, client_.board->slot[slot].port.address, &address.sin_addr);
    sockaddr_t told;
    static_assert(sizeof told == sizeof address);
    std::memcpy(&told, &address, sizeof told);
    return call_device_priority(
        ends_,
        {item_.piece.direction, item_.piece.address + done, item_.piece.length - done, item_.piece.at.value + done},
        told);
  }

  OperationAnswer move_some(unsigned slot, std::uint64_t done) const noexcept {
    const verbs::Slot& there = client_.board->slot[slot];
    const std::uint64_t address = item_.piece.address + done;
    const auto key = keys_.key_of(*client_.board, there.adapter, address);
    if (!key) return {-1, EREMOTEIO};  // revoked just now
    const std::uint64_t size =
        std::min({item_.piece.length - done, key->end - address, std::uint64_t{SLUICE_RDMA_MOST_BYTES}});
    sluice_rdma_token_t token{
        key->there, static_cast<std::uint32_t>(size), key->rkey, there.port.lid, 0, there.port.has_gid, {}};
    token.qp = static_cast<std::uint32_t>(__atomic_load_n(&there.state, __ATOMIC_ACQUIRE));
    std::memcpy(token.gid, there.port.gid, sizeof token.gid);
    std::array<char, SLUICE_RDMA_TOKEN_LENGTH + 1> text;
    if (client_.token_write(&token, text.data()) != 0) return {-1, EREMOTEIO};
    const UnderWay counted(slot, size);
    return call_operation(ends_, {item_.piece.direction, address, size, item_.piece.at.value + done, text.data()});
  }

  // All that goes, went.
  void finish(std::uint64_t done) noexcept {
    item_.outcome = Outcome::bytes(done);
    if (done == 0 || item_.piece.direction == Direction::write || !keys_.must_flush()) return;
    const cuda::Result flushed = rdma::flush(ends_.memory);
    if (flushed != cuda::success) item_.outcome = gpu::as_outcome(flushed);
  }
  void end_at(std::uint64_t done) noexcept {
    if (done == 0 && item_.piece.direction == Direction::write) {
      item_.outcome = Outcome::system_error(ENOSPC);
      return;
    }
    finish(done);
  }
  void fail(std::uint64_t done, int error) noexcept {
    if (done > 0) return finish(done);
    item_.outcome = Outcome::system_error(error);
  }
  // The rest goes another way.
  void stop(std::uint64_t done) noexcept {
    finish(done);
    item_.stopped = item_.outcome.ok();
  }
  // An operation that is late may still have its server write: not to this memory.
  void give_up(unsigned slot, std::uint64_t done) noexcept {
    keys_.revoke(client_, client_.board->slot[slot].adapter);
    try {
      observe::log(config::LogLevel::error, "rdma",
                   fmt::format("an operation of a file system's has not answered within {} ms: its key is revoked, "
                               "and the buffer goes through host memory until it is registered anew",
                               ends_.file.options.rdma.operation_limit_ms));
    } catch (...) {  // NOLINT(bugprone-empty-catch): the key is revoked, which is what counts
    }
    fail(done, ETIMEDOUT);
  }

  Item& item_;
  const Ends& ends_;
  const rdma::Client& client_;
  RdmaFile& file_;
  rdma::Keys& keys_;
};

}  // namespace

constinit const Rdma rdma_path;

std::unique_ptr<SessionAttachment> Rdma::of_session(const Options& /*options*/) const {
  return std::make_unique<RdmaSession>();
}

std::unique_ptr<Attachment> Rdma::of_file(const File& file, SessionAttachment* session) const {
  if (session == nullptr || !(file.facts.caller_reads || file.facts.caller_writes)) return nullptr;
  return std::make_unique<RdmaFile>(file, *static_cast<RdmaSession*>(session));
}

std::unique_ptr<Attachment> Rdma::of_buffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts,
                                            const Options& options) const {
  if (facts.kind == facts::MemoryKind::managed) return nullptr;
  auto made = std::make_unique<RdmaBuffer>(address, size, facts);
  // A stream's turn makes no keys: so they are made now where there are links.
  if (const rdma::Client* const client = rdma::client()) {
    const std::uint32_t slots = rdma::connected_slots(*client->board);
    // Host memory may be registered as longer than it is: then nothing of it is known to the adapter.
    make_keys(*client, made->keys, slots, options.rdma);
  }
  return made;
}

bool Rdma::concerns(const File& file) const noexcept {
  return file.facts.caller_reads || file.facts.caller_writes;
}

std::optional<route::Reason> Rdma::refuses(const Facts& facts) const noexcept {
  const facts::FileFacts& file = facts.file.facts;
  if (!(facts.direction == Direction::read ? file.caller_reads : file.caller_writes)) return unconcerned;
  const RdmaFile* const kept = rdma_file_of(facts.file);
  const rdma::Client* const client = rdma::client();
  // What this path has nothing to say of goes by the operations because they are there.
  if (kept == nullptr || !kept->is_concerned(facts.file, client)) return SLUICE_REASON_CALLER_OPERATIONS;
  const Options& options = facts.file.options;
  if (options.rules.plain) return SLUICE_REASON_PLAIN_MODE;
  if (options.rules.force_compat) return SLUICE_REASON_FORCED_BY_CONFIGURATION;
  if (facts.memory.kind == facts::MemoryKind::managed) return SLUICE_REASON_MANAGED_MEMORY;
  if (facts.direction == Direction::write && !options.rdma.writes) return SLUICE_REASON_RDMA_WRITES_OFF;
  if (client == nullptr) return SLUICE_REASON_RDMA_NO_LIBRARY;
  const std::uint32_t usable = kept->usable(*client->board);
  if (usable == 0) return SLUICE_REASON_RDMA_NOT_CONNECTED;
  if (facts.trust == Trust::what_is_hoped_for) return std::nullopt;
  if (facts.stopped || kept->is_left_alone()) return SLUICE_REASON_RDMA_REFUSED;
  if (!facts.knows_registration) return std::nullopt;
  const RdmaBuffer* const buffer = rdma_buffer_of(facts.registered);
  if (buffer == nullptr) return SLUICE_REASON_RDMA_UNREGISTERED;
  if (kept->must_ask(facts.file, *client->board)) return SLUICE_REASON_RDMA_NOT_TRIED;
  switch (best_state(*client->board, buffer->keys, usable)) {
    case KeyState::ready:
      return std::nullopt;
    case KeyState::untried:
      return SLUICE_REASON_RDMA_NOT_TRIED;
    case KeyState::revoked:
      return SLUICE_REASON_RDMA_REVOKED;
    case KeyState::refused:
      break;
  }
  return SLUICE_REASON_RDMA_NO_KEY;
}

route::Cutting Rdma::cutting(const Facts& /*facts*/) const noexcept {
  return {.whole = route::SegmentMode::direct};
}

void Rdma::try_out(const Ends& ends, Need /*need*/) const noexcept {
  const rdma::Client* const client = rdma::client();
  RdmaFile* const file = rdma_file_of(ends.file);
  if (client == nullptr || file == nullptr) return;
  try {
    if (ends.handle != nullptr && file->must_ask(ends.file, *client->board)) {
      file->ask(ends.file, ends.handle, *client->board);
    }
    if (ends.memory.device >= 0 && ends.file.options.config != nullptr) {
      file->session().look(*client->board, ends.memory.device, *ends.file.options.config);
    }
    if (RdmaBuffer* const buffer = rdma_buffer_of(ends.registered)) {
      make_keys(*client, buffer->keys, file->usable(*client->board), ends.file.options.rdma);
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): without memory for it, it stays untried
  }
}

void Rdma::move(std::span<Item> items, Completion& /*completion*/) const noexcept {
  const rdma::Client* const client = rdma::client();
  for (Item& item : items) {
    RdmaFile* const file = rdma_file_of(item.ends->file);
    RdmaBuffer* const buffer = rdma_buffer_of(item.ends->registered);
    if (client == nullptr || file == nullptr || buffer == nullptr) {
      item.stopped = true;
      continue;
    }
    ByServer(item, *client, *file, buffer->keys).move();
  }
}

std::string Rdma::words(const Facts& facts) const {
  const RdmaFile* const file = rdma_file_of(facts.file);
  const rdma::Client* const client = rdma::client();
  if (file == nullptr || !file->is_concerned(facts.file, client)) return "";
  if (client == nullptr) return rdma::refusal();
  const RdmaBuffer* const buffer = rdma_buffer_of(facts.registered);
  std::string all;
  for_each_slot(file->usable(*client->board), [&](unsigned number) {
    const verbs::Slot& slot = client->board->slot[number];
    all += fmt::format(
        "{}{} port {} ({}), {}", all.empty() ? "RDMA: " : "; ", slot.port.device, slot.port.port, slot.port.address,
        buffer != nullptr ? buffer->keys.words(*client->board, slot.adapter) : "a key once the memory is registered");
  });
  return all;
}

}  // namespace sluice::paths
