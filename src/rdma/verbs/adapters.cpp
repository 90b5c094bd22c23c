// SPDX-License-Identifier: Apache-2.0
#include "rdma/verbs/adapters.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice::verbs {

namespace {

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Adapter adapters[most_adapters];
unsigned adapter_count = 0;
bool watches_forks = false;
Board board;

// A child has the parent's adapters open and may use none of them: they are forgotten, not closed, since closing would
// take away what the parent goes on with.
void forget_in_child() noexcept {
  ++board.generation;
  adapter_count = 0;
  for (unsigned slot = 0; slot < board.slots; ++slot) __atomic_store_n(&board.slot[slot].state, 0, __ATOMIC_RELAXED);
  board.slots = 0;
  ++board.changes;
  forget_links();
  // Another thread may have held it. It is not held while the process forks: libcufile's handlers may wait for a thread
  // that waits for it.
  lock = PTHREAD_MUTEX_INITIALIZER;
}

bool is_open(const char* name) noexcept {
  for (unsigned number = 0; number < adapter_count; ++number) {
    if (std::strcmp(adapters[number].name, name) == 0) return true;
  }
  return false;
}

constexpr std::uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool stands_for_ipv4(const Gid& gid) noexcept {
  return std::memcmp(gid.raw, mapped_prefix, sizeof mapped_prefix) == 0;
}

bool is_zero(const Gid& gid) noexcept {
  constexpr Gid zero{};
  return std::memcmp(&gid, &zero, sizeof zero) == 0;
}

constexpr std::size_t most_gids = 256;

// All GIDs of a port. Without the call for all at once their types are not told: that of RoCE v2 follows that of v1.
std::size_t read_gids(const Api& verbs, Context* context, std::uint8_t port, int count, GidEntry* gids) noexcept {
  std::size_t found = 0;
  if (verbs.query_gid_table != nullptr) {
    auto* const all = static_cast<GidEntry*>(std::calloc(4 * most_gids, sizeof(GidEntry)));
    const std::ptrdiff_t got =
        all != nullptr ? verbs.query_gid_table(context, all, 4 * most_gids, 0, sizeof(GidEntry)) : -1;
    for (std::ptrdiff_t entry = 0; entry < got && found < most_gids; ++entry) {
      if (all[entry].port == port) gids[found++] = all[entry];
    }
    std::free(all);
    if (got >= 0) return found;
  }
  for (int index = 0; index < count && found < most_gids; ++index) {
    GidEntry entry{};
    if (verbs.query_gid(context, port, index, &entry.gid) != 0 || is_zero(entry.gid)) continue;
    entry.index = static_cast<std::uint32_t>(index);
    entry.type = roce_v2;
    gids[found++] = entry;
  }
  return found;
}

void take_gid(sluice_rdma_port_t& told, const GidEntry& entry) noexcept {
  told.has_gid = 1;
  told.gid_index = static_cast<int>(entry.index);
  std::memcpy(told.gid, entry.gid.raw, sizeof told.gid);
}

// Of InfiniBand the address is that of its interface for IP.
void find_interface_address(sluice_rdma_port_t& told) noexcept {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    char path[256];
    std::snprintf(path, sizeof path, "/sys/class/net/%s/device/infiniband/%s", one->ifa_name, told.device);
    if (::access(path, F_OK) != 0) continue;
    std::snprintf(path, sizeof path, "/sys/class/net/%s/dev_port", one->ifa_name);
    int number = 0;
    if (std::FILE* const file = std::fopen(path, "re")) {
      if (std::fscanf(file, "%d", &number) != 1) number = 0;
      std::fclose(file);
    }
    if (number + 1 != told.port) continue;
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, told.address,
                sizeof told.address);
    break;
  }
  ::freeifaddrs(all);
}

// Each address once, by RoCE v2 where there is that.
bool visit_addresses(Port& port, const GidEntry* gids, std::size_t count, PortVisitor visit, void* context,
                     bool& any) noexcept {
  for (std::size_t entry = 0; entry < count; ++entry) {
    if (!stands_for_ipv4(gids[entry].gid)) continue;
    const GidEntry* best = &gids[entry];
    bool told_before = false;
    for (std::size_t other = 0; other < count; ++other) {
      if (std::memcmp(&gids[other].gid, &best->gid, sizeof(Gid)) != 0) continue;
      if (other < entry) told_before = true;
      if (gids[other].type >= best->type) best = &gids[other];
    }
    if (told_before) continue;
    any = true;
    take_gid(port.told, *best);
    ::inet_ntop(AF_INET, best->gid.raw + sizeof mapped_prefix, port.told.address, sizeof port.told.address);
    if (visit(port, context)) return true;
  }
  return false;
}

bool visit_port(const Api& verbs, unsigned number, std::uint8_t port, const PortAttributes& attributes, GidEntry* gids,
                PortVisitor visit, void* context) noexcept {
  Port found{};
  found.adapter = number;
  std::memcpy(found.told.device, adapters[number].name, sizeof found.told.device);
  found.told.port = port;
  found.told.ethernet = attributes.layer == layer_ethernet ? 1 : 0;
  found.told.mtu = static_cast<std::uint8_t>(attributes.mtu);
  found.told.lid = attributes.lid;
  const std::size_t count = read_gids(verbs, adapters[number].context, port, attributes.gids, gids);
  bool any = false;
  if (found.told.ethernet != 0 && visit_addresses(found, gids, count, visit, context, any)) return true;
  if (any) return false;
  if (count > 0) take_gid(found.told, gids[0]);
  if (found.told.ethernet == 0) find_interface_address(found.told);
  return visit(found, context);
}

}  // namespace

Locked::Locked() noexcept {
  pthread_mutex_lock(&lock);
}

Locked::~Locked() {
  pthread_mutex_unlock(&lock);
}

int open_adapters() noexcept {
  const Api* const verbs = api();
  if (verbs == nullptr) return ENOSYS;
  if (!watches_forks) {
    watches_forks = true;
    pthread_atfork(nullptr, nullptr, forget_in_child);
  }
  int count = 0;
  Device** const list = verbs->get_device_list(&count);
  if (list == nullptr) return refuse(ENODEV, "libibverbs lists no adapters: %s", ::strerrordesc_np(errno));
  for (int device = 0; device < count && adapter_count < most_adapters; ++device) {
    const char* const name = verbs->get_device_name(list[device]);
    if (name == nullptr || is_open(name)) continue;
    Context* const context = verbs->open_device(list[device]);
    if (context == nullptr) continue;
    Adapter& opened = adapters[adapter_count];
    opened = {context, nullptr, {}};
    std::snprintf(opened.name, sizeof opened.name, "%s", name);
    ++adapter_count;
  }
  verbs->free_device_list(list);
  return 0;
}

Adapter* adapter(unsigned number) noexcept {
  return number < adapter_count ? &adapters[number] : nullptr;
}

Domain* domain_of(Adapter& adapter) noexcept {
  if (adapter.domain == nullptr) {
    adapter.domain = api()->alloc_pd(adapter.context);
    if (adapter.domain == nullptr) {
      refuse(errno, "%s gives no protection domain: %s", adapter.name, ::strerrordesc_np(errno));
    }
  }
  return adapter.domain;
}

void visit_ports(PortVisitor visit, void* context) noexcept {
  const Api& verbs = *api();
  auto* const gids = static_cast<GidEntry*>(std::calloc(most_gids, sizeof(GidEntry)));
  if (gids == nullptr) return;
  bool enough = false;
  for (unsigned number = 0; number < adapter_count && !enough; ++number) {
    for (std::uint8_t port = 1; !enough; ++port) {
      PortAttributes attributes{};
      if (verbs.query_port(adapters[number].context, port, &attributes) != 0) break;
      if (attributes.state != port_active) continue;
      enough = visit_port(verbs, number, port, attributes, gids, visit, context);
    }
  }
  std::free(gids);
}

std::uint32_t generation() noexcept {
  return board.generation;
}

Slot* slot_of(const Port& port) noexcept {
  for (unsigned number = 0; number < board.slots; ++number) {
    Slot& slot = board.slot[number];
    if (slot.adapter == port.adapter && slot.port.port == port.told.port && slot.port.lid == port.told.lid &&
        slot.port.gid_index == port.told.gid_index && std::memcmp(slot.port.gid, port.told.gid, 16) == 0) {
      return &slot;
    }
  }
  return nullptr;
}

Slot* slot_for(const Port& port) noexcept {
  if (Slot* const known = slot_of(port)) return known;
  if (board.slots == most_slots) return nullptr;
  Slot& slot = board.slot[board.slots];
  slot.port = port.told;
  slot.adapter = port.adapter;
  // A reader of the number sees what was written before it.
  __atomic_store_n(&board.slots, board.slots + 1, __ATOMIC_RELEASE);
  return &slot;
}

void announce(Slot& slot, std::uint32_t links, std::uint32_t qp) noexcept {
  __atomic_store_n(&slot.state, static_cast<std::uint64_t>(links) << 32 | qp, __ATOMIC_RELEASE);
  __atomic_add_fetch(&board.changes, 1, __ATOMIC_RELEASE);
}

}  // namespace sluice::verbs

extern "C" {

int sluice_rdma_interface() {
  return sluice::verbs::interface_number;
}

const sluice::verbs::Board* sluice_rdma_links_board() {
  return &sluice::verbs::board;
}

int sluice_rdma_ports(sluice_rdma_port_visitor_t visit, void* context) {
  using namespace sluice::verbs;
  if (visit == nullptr) return refuse(EINVAL, "there is no function to tell the ports to");
  // Told behind the lock: the caller's function may call us.
  constexpr unsigned most = 64;
  struct Found {
    sluice_rdma_port_t ports[most];
    unsigned count;
  };
  auto* const found = static_cast<Found*>(std::calloc(1, sizeof(Found)));
  if (found == nullptr) return refuse(ENOMEM, "there is no memory");
  int answer = 0;
  {
    const Locked locked;
    answer = open_adapters();
    const auto note = [](const Port& port, void* there) {
      auto& all = *static_cast<Found*>(there);
      all.ports[all.count] = port.told;
      if (const Slot* const slot = slot_of(port)) {
        all.ports[all.count].links = static_cast<unsigned>(slot->state >> 32);
      }
      return ++all.count == most;
    };
    if (answer == 0) visit_ports(note, found);
  }
  for (unsigned port = 0; port < found->count; ++port) visit(&found->ports[port], context);
  std::free(found);
  return answer;
}
}
