// SPDX-License-Identifier: Apache-2.0
// The keys of one registered buffer: what each adapter knows of it. Made when a transfer or the registration wants
// them, gone with the buffer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "facts/buffer.h"
#include "rdma/client.h"
#include "rdma/memory.h"

namespace sluice::rdma {

enum class KeyState : std::uint8_t {
  untried,
  ready,
  refused,  // the adapter or the driver does not do it: words() tells
  revoked,  // an operation did not answer in time, and may not reach the memory any more
};

class Keys {
 public:
  Keys(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& memory) noexcept
      : address_(address), size_(size), memory_(memory) {}
  ~Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  // Of the adapter that a slot of the board stands for. One load or two.
  KeyState state(const verbs::Board& board, unsigned adapter) const noexcept;
  // What is untried is tried, by several threads where they come at a time. Control plane; throws std::bad_alloc.
  void make(const Client& client, unsigned adapter, unsigned access, PeerType wanted);

  // The key of this byte, and where the memory that it is for ends. None where there is no key that is ready.
  struct Key {
    std::uint32_t rkey;
    std::uint64_t there;  // where RDMA finds it
    std::uint64_t end;
  };
  std::optional<Key> key_of(const verbs::Board& board, unsigned adapter, std::uint64_t address) const noexcept;
  // Returns once the adapter lets no peer reach the memory by it.
  void revoke(const Client& client, unsigned adapter) noexcept;

  bool must_flush() const noexcept { return must_flush_.load(std::memory_order_relaxed); }

  // For people: "key by dma-buf", "no key: ...".
  std::string words(const verbs::Board& board, unsigned adapter) const;

 private:
  struct Piece {
    verbs::Region* region = nullptr;
    std::uint32_t rkey = 0;
    std::uint64_t there = 0;
  };
  struct OfAdapter {
    std::uint32_t generation = 0;
    std::atomic<KeyState> state{KeyState::ready};
    Way way = Way::none;
    std::vector<Piece> pieces;  // of SLUICE_RDMA_MOST_BYTES each, the last one shorter
    std::string why_not;
  };
  std::unique_ptr<OfAdapter> made_for(const Client& client, unsigned adapter, unsigned access, PeerType wanted) const;
  const OfAdapter* known(const verbs::Board& board, unsigned adapter) const noexcept;
  static void close(const Client& client, OfAdapter& keys) noexcept;

  const std::uint64_t address_;
  const std::uint64_t size_;
  const facts::BufferFacts memory_;
  std::atomic<bool> must_flush_{false};
  std::array<std::atomic<OfAdapter*>, verbs::most_adapters> adapters_{};
  std::vector<std::unique_ptr<OfAdapter>> all_;  // control(): those that fork has made worthless, too
};

}  // namespace sluice::rdma
