// SPDX-License-Identifier: Apache-2.0
// libcufile_rdma.so.1, where the process has it: a file system's client that connects queue pairs links with it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "rdma/verbs/interface.h"

namespace sluice::rdma {

struct Client {
  const verbs::Board* board = nullptr;
  decltype(&sluice_rdma_region_open) region_open = nullptr;
  decltype(&sluice_rdma_region_close) region_close = nullptr;
  decltype(&sluice_rdma_token_write) token_write = nullptr;
  decltype(&sluice_rdma_error) error = nullptr;
};

// Null where attach() has not found it. One load.
const Client* client() noexcept;

// Looks for it among the process's libraries; loads none. Control plane: takes the loader's lock, so none of ours may
// be held.
const Client* attach() noexcept;

// What is wrong with a library of that name, in one sentence; "" where there is none, or nothing is.
std::string refusal();

// Slots whose ports have connected links, a bit each.
std::uint32_t connected_slots(const verbs::Board& board) noexcept;
// How many there are, connected or not.
inline std::uint32_t slots_in_use(const verbs::Board& board) noexcept {
  return __atomic_load_n(&board.slots, __ATOMIC_ACQUIRE);
}

// One lock for all that is registered with adapters; held while a process forks.
std::mutex& control() noexcept;

}  // namespace sluice::rdma
