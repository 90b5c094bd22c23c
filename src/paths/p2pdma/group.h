// SPDX-License-Identifier: Apache-2.0
// Many items on the path `p2pdma` at a time, by one thread and one ring.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "gpu/pinnable.h"
#include "io/direct_queue.h"
#include "paths/group_mover.h"
#include "paths/p2pdma/direct_pair.h"

namespace sluice::paths {

inline constexpr std::size_t most_in_a_direct_group = 48;

// What has not ended and is not stopped, either, is to go by itself: the ring was lost, the file cannot be polled, or
// the pair was refused before its turn.
class DirectGroup final : public GroupMover {
 public:
  void move(std::span<Item> items, const Grouping& grouping, transfer::Bond bond,
            Completion& completion) noexcept override;

 private:
  bool begin_one(io::DirectQueue& queue) noexcept;
  void end_mapping(const io::DirectQueue& queue, const io::DirectQueue::Ended& ended) noexcept;

  std::span<Item> items_;
  bool polled_ = false;
  std::size_t next_ = 0;
  std::array<std::uint16_t, most_in_a_direct_group> again_;  // items that want another mapping; a stack
  std::size_t again_count_ = 0;
  std::array<DirectPair*, most_in_a_direct_group> pairs_;
  std::array<gpu::P2pMapping, most_in_a_direct_group> mappings_;
  std::size_t mapped_ = 0;
  std::array<std::uint16_t, io::DirectQueue::most_under_way> whole_;  // since `completion` was told
  std::size_t whole_count_ = 0;
};

}  // namespace sluice::paths
