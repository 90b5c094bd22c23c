// SPDX-License-Identifier: Apache-2.0
// Many pieces on the path `p2pdma` at a time, by one thread and one ring.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "gpu/pinnable.h"
#include "io/direct_queue.h"
#include "paths/p2pdma/direct_pair.h"
#include "paths/path.h"

namespace sluice::paths {

// A piece of whole blocks (route::Carry::direct) of a file whose pair is proven. Everything outlives the run.
struct DirectMember {
  int fd = -1;
  const facts::FileFacts* facts = nullptr;
  const facts::BufferFacts* memory = nullptr;
  DirectPair* pair = nullptr;
  Piece piece;

  // What came of it.
  std::uint64_t done = 0;  // from the piece's start on
  bool stopped = false;    // the drive moves nothing more, and the pair has heard of it: the rest is the CPU's
};

// For one run at a time.
class DirectGroup {
 public:
  static constexpr std::size_t most = 48;

  // Told of members that are in place as a whole, while others are on their way.
  class Listener {
   public:
    virtual void in_place(std::span<const std::uint16_t> members) noexcept = 0;

   protected:
    ~Listener() = default;
  };

  // At most `most` members; the ring is one for this way of completion. What is not done in the end and not stopped,
  // either, is to go by itself: the ring was lost, the file cannot be polled, or the pair was refused before its turn.
  void run(std::span<DirectMember> members, io::Uring& ring, io::CompletionMode completion,
           Listener& listener) noexcept;

 private:
  bool begin_one(io::DirectQueue& queue) noexcept;
  void end_mapping(const io::DirectQueue& queue, const io::DirectQueue::Ended& ended) noexcept;

  std::span<DirectMember> members_;
  bool polled_ = false;
  std::size_t next_ = 0;
  std::array<std::uint16_t, most> again_;  // members that want another mapping; a stack
  std::size_t again_count_ = 0;
  std::array<gpu::P2pMapping, most> mappings_;
  std::size_t mapped_ = 0;
  std::array<std::uint16_t, io::DirectQueue::most_under_way> whole_;  // since the listener was told
  std::size_t whole_count_ = 0;
};

}  // namespace sluice::paths
