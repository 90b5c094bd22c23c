// SPDX-License-Identifier: Apache-2.0
#include "rdma/keys.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace sluice::rdma {

namespace {

std::uint32_t generation_of(const verbs::Board& board) noexcept {
  return __atomic_load_n(&board.generation, __ATOMIC_RELAXED);
}

}  // namespace

Keys::~Keys() {
  const Client* const there = client();
  if (there == nullptr) return;
  for (const auto& keys : all_) close(*there, *keys);
}

void Keys::close(const Client& client, OfAdapter& keys) noexcept {
  for (Piece& piece : keys.pieces) client.region_close(std::exchange(piece.region, nullptr));
}

const Keys::OfAdapter* Keys::known(const verbs::Board& board, unsigned adapter) const noexcept {
  const OfAdapter* const keys = adapters_[adapter].load(std::memory_order_acquire);
  return keys != nullptr && keys->generation == generation_of(board) ? keys : nullptr;
}

KeyState Keys::state(const verbs::Board& board, unsigned adapter) const noexcept {
  const OfAdapter* const keys = known(board, adapter);
  return keys != nullptr ? keys->state.load(std::memory_order_acquire) : KeyState::untried;
}

std::unique_ptr<Keys::OfAdapter> Keys::made_for(const Client& client, unsigned adapter, unsigned access,
                                                PeerType wanted) const {
  auto made = std::make_unique<OfAdapter>();
  made->generation = generation_of(*client.board);
  for (std::uint64_t begin = 0; begin < size_; begin += SLUICE_RDMA_MOST_BYTES) {
    const std::uint64_t length = std::min<std::uint64_t>(SLUICE_RDMA_MOST_BYTES, size_ - begin);
    made->pieces.emplace_back();  // before there is something to lose
    Registered piece = register_with(client, adapter, memory_, address_ + begin, length, access, wanted);
    if (piece.region == nullptr) {
      made->pieces.pop_back();
      close(client, *made);
      made->pieces.clear();
      made->why_not = std::move(piece.why_not);
      made->state = KeyState::refused;
      break;
    }
    made->way = piece.way;
    made->pieces.back() = {piece.region, piece.rkey, piece.there};
  }
  return made;
}

// The driver and the adapter are asked without the lock: fork takes it, and holds locks that the driver's calls need.
void Keys::make(const Client& client, unsigned adapter, unsigned access, PeerType wanted) {
  if (known(*client.board, adapter) != nullptr) return;
  std::unique_ptr<OfAdapter> made = made_for(client, adapter, access, wanted);
  const bool flushes = made->state == KeyState::ready && visibility_of(memory_) == Visibility::flushed;
  {
    const std::lock_guard lock(control());
    if (known(*client.board, adapter) == nullptr) {
      all_.reserve(all_.size() + 1);
      if (made->state == KeyState::ready) must_flush_.store(flushes, std::memory_order_relaxed);
      adapters_[adapter].store(made.get(), std::memory_order_release);
      all_.push_back(std::move(made));
      return;
    }
  }
  close(client, *made);  // another thread was faster
}

std::optional<Keys::Key> Keys::key_of(const verbs::Board& board, unsigned adapter,
                                      std::uint64_t address) const noexcept {
  const OfAdapter* const keys = known(board, adapter);
  if (keys == nullptr || keys->state.load(std::memory_order_acquire) != KeyState::ready) return std::nullopt;
  const std::uint64_t number = (address - address_) / SLUICE_RDMA_MOST_BYTES;
  if (address < address_ || number >= keys->pieces.size()) return std::nullopt;
  const Piece& piece = keys->pieces[number];
  const std::uint64_t end = std::min(size_, (number + 1) * SLUICE_RDMA_MOST_BYTES);
  const std::uint64_t begin = number * SLUICE_RDMA_MOST_BYTES;
  return Key{piece.rkey, piece.there + (address - address_ - begin), address_ + end};
}

void Keys::revoke(const Client& client, unsigned adapter) noexcept {
  const std::lock_guard lock(control());
  OfAdapter* const keys = adapters_[adapter].load(std::memory_order_acquire);
  if (keys == nullptr || keys->state != KeyState::ready) return;
  keys->state.store(KeyState::revoked, std::memory_order_release);
  close(client, *keys);
}

std::string Keys::words(const verbs::Board& board, unsigned adapter) const {
  const OfAdapter* const keys = known(board, adapter);
  if (keys == nullptr) return "no key yet";
  switch (keys->state.load(std::memory_order_acquire)) {
    case KeyState::ready:
      return std::string("key by ") + words_of(keys->way);
    case KeyState::revoked:
      return "key revoked";
    default:
      return "no key: " + keys->why_not;
  }
}

}  // namespace sluice::rdma
