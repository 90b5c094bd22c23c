// SPDX-License-Identifier: Apache-2.0
#include "rdma/client.h"

#include <dlfcn.h>

#include <atomic>

#include "base/never_destroyed.h"

namespace sluice::rdma {

namespace {

constexpr const char* name = "libcufile_rdma.so.1";

std::atomic<const Client*> found{nullptr};
std::atomic<bool> is_foreign{false};

template <typename Function>
bool find(void* library, Function& function, const char* symbol) noexcept {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

// NVIDIA's library has the same name.
bool is_ours(void* library) noexcept {
  int (*number)() = nullptr;
  return find(library, number, "sluice_rdma_interface") && number() == verbs::interface_number;
}

}  // namespace

const Client* client() noexcept {
  return found.load(std::memory_order_acquire);
}

const Client* attach() noexcept {
  if (const Client* const known = client()) return known;
  // It stays where it is once it is loaded (nodelete), so the handle need not be kept.
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  static Client client;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const Client* const known = rdma::client()) return known;
  const verbs::Board* (*board)() = nullptr;
  const bool whole = is_ours(library) && find(library, board, "sluice_rdma_links_board") &&
                     find(library, client.region_open, "sluice_rdma_region_open") &&
                     find(library, client.region_close, "sluice_rdma_region_close") &&
                     find(library, client.token_write, "sluice_rdma_token_write") &&
                     find(library, client.error, "sluice_rdma_error");
  is_foreign.store(!whole, std::memory_order_relaxed);
  if (!whole) return nullptr;
  client.board = board();
  found.store(&client, std::memory_order_release);
  return &client;
}

std::string refusal() {
  if (!is_foreign.load(std::memory_order_relaxed)) return "";
  return "the libcufile_rdma.so.1 of this process is not this build's";
}

std::uint32_t connected_slots(const verbs::Board& board) noexcept {
  std::uint32_t mask = 0;
  const std::uint32_t count = slots_in_use(board);
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    if (__atomic_load_n(&board.slot[slot].state, __ATOMIC_ACQUIRE) >> 32 != 0) mask |= 1U << slot;
  }
  return mask;
}

std::mutex& control() noexcept {
  static base::NeverDestroyed<std::mutex> mutex;
  return mutex.get();
}

}  // namespace sluice::rdma
