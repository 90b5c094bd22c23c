// SPDX-License-Identifier: Apache-2.0
#include "paths/rdma/kept.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <chrono>

#include "facts/root.h"
#include "gpu/memory.h"
#include "observe/log.h"
#include "paths/operations.h"
#include "topology/routing.h"
#include "topology/told.h"

namespace sluice::paths {

namespace {

using std::chrono::steady_clock;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t longest_pause = 64 * second;

std::int64_t now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

std::uint32_t changes_of(const verbs::Board& board) noexcept {
  return __atomic_load_n(&board.changes, __ATOMIC_ACQUIRE);
}

// IPv4 only: the list of the contract has no room for others.
std::vector<std::string> texts_of(const sockaddr_t* addresses, int count) {
  std::vector<std::string> texts;
  for (int number = 0; number < count; ++number) {
    if (addresses[number].sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN];
    const auto* const ipv4 = reinterpret_cast<const sockaddr_in*>(&addresses[number]);
    if (::inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text) != nullptr) texts.emplace_back(text);
  }
  return texts;
}

}  // namespace

const Nearness* RdmaSession::nearness(int device) const noexcept {
  const auto number = static_cast<std::size_t>(device);
  return number < most_devices ? known_[number].load(std::memory_order_acquire) : nullptr;
}

void RdmaSession::look(const verbs::Board& board, int device, const config::Config& config) {
  const auto number = static_cast<std::size_t>(device);
  if (number >= most_devices) return;
  const std::lock_guard lock(mutex_);
  const std::uint32_t slots = rdma::slots_in_use(board);
  const Nearness* const before = nearness(device);
  if (before != nullptr && before->slots == slots) return;
  auto made = std::make_unique<Nearness>();
  made->slots = slots;
  made->preference.fill(topology::worst_preference);
  const topology::Machine machine =
      topology::read_machine(facts::Root{}, {.addresses = topology::own_addresses(), .peers = {}});
  std::string address = gpu::pci_address(device);
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const topology::Device* const gpu = topology::find_device(machine, address);
  const topology::RoutingRules rules = topology::routing_rules(config);
  for (std::uint32_t slot = 0; gpu != nullptr && slot < slots; ++slot) {
    const topology::Device* const card = topology::find_card(machine, board.slot[slot].port.device);
    if (card != nullptr) made->preference[slot] = topology::preference_between(machine, *card, *gpu, rules);
  }
  all_.push_back(std::move(made));
  known_[number].store(all_.back().get(), std::memory_order_release);
}

RdmaFile::RdmaFile(const File& file, RdmaSession& session) : session_(session) {
  if (file.operations == nullptr || file.options.config == nullptr) return;
  const std::string_view kind = topology::routed_name(file.facts.file_system_name);
  configured_ = topology::addresses_for(*file.options.config, kind, file.facts.mount_point).addresses;
}

bool RdmaFile::is_concerned(const File& file, const rdma::Client* client) const noexcept {
  if (file.operations == nullptr) return false;
  return file.operations->getRDMADeviceList != nullptr || !configured_.empty() ||
         (client != nullptr && rdma::connected_slots(*client->board) != 0);
}

std::uint32_t RdmaFile::allowed(const verbs::Board& board, const std::vector<std::string>& addresses) const noexcept {
  std::uint32_t mask = 0;
  const std::uint32_t slots = rdma::slots_in_use(board);
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    const bool listed = std::any_of(addresses.begin(), addresses.end(), [&](const std::string& address) {
      return address == static_cast<const char*>(board.slot[slot].port.address);
    });
    if (listed) mask |= 1U << slot;
  }
  return mask;
}

std::uint32_t RdmaFile::usable(const verbs::Board& board) const noexcept {
  std::uint32_t mask = rdma::connected_slots(board);
  if (!configured_.empty()) mask &= allowed(board, configured_);
  // A list that is older than the links says nothing of them.
  const std::uint64_t listed = listed_.load(std::memory_order_acquire);
  const bool is_recent = listed >> 32U == std::uint64_t{changes_of(board)} + 1;
  return is_recent ? mask & static_cast<std::uint32_t>(listed) : mask;
}

bool RdmaFile::must_ask(const File& file, const verbs::Board& board) const noexcept {
  if (file.operations->getRDMADeviceList == nullptr) return false;
  return listed_.load(std::memory_order_acquire) >> 32U != std::uint64_t{changes_of(board)} + 1;
}

void RdmaFile::ask(const File& file, void* handle, const verbs::Board& board) {
  const std::uint64_t changes = std::uint64_t{changes_of(board)} + 1;
  const ListAnswer list = call_device_list(file, handle);
  if (list.late) return leave_alone("getRDMADeviceList", file.options.rdma.operation_limit_ms);
  // No list of its own: any.
  std::uint32_t mask = ~0U;
  if (list.count > 0 && list.addresses != nullptr) mask = allowed(board, texts_of(list.addresses, list.count));
  listed_.store(changes << 32U | mask, std::memory_order_release);
}

bool RdmaFile::is_left_alone() const noexcept {
  const std::int64_t until = until_.load(std::memory_order_relaxed);
  return until != 0 && now() < until;
}

void RdmaFile::leave_alone() noexcept {
  const bool again = until_.load(std::memory_order_relaxed) != 0;
  const std::int64_t pause = again ? std::min(2 * pause_.load(std::memory_order_relaxed), longest_pause) : second;
  pause_.store(pause, std::memory_order_relaxed);
  until_.store(now() + pause, std::memory_order_relaxed);
}

void RdmaFile::leave_alone(const char* operation, std::uint32_t limit_ms) noexcept {
  leave_alone();
  try {
    observe::log(
        config::LogLevel::error, "rdma",
        fmt::format("{} of a file system's has not answered within {} ms: for a while it is not asked, and its "
                    "files go through host memory",
                    operation, limit_ms));
  } catch (...) {  // NOLINT(bugprone-empty-catch): it is left alone, which is what counts
  }
}

}  // namespace sluice::paths
