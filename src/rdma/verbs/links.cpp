// SPDX-License-Identifier: Apache-2.0
// Queue pairs that answer: a server reads and writes registered memory by them, and nothing is ever sent from here.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "rdma/verbs/adapters.h"

namespace {

using sluice::verbs::Port;
using sluice::verbs::QueuePair;

}  // namespace

struct sluice_rdma_link {
  Port port;
  sluice::verbs::Slot* slot;
  std::uint32_t generation;
  bool connected;
  unsigned count;
  sluice::verbs::CompletionQueue* completions;
  QueuePair* pairs[SLUICE_RDMA_MOST_QUEUE_PAIRS];
  std::uint32_t psn[SLUICE_RDMA_MOST_QUEUE_PAIRS];
  sluice_rdma_link* older;  // of the connected ones, on whatever port
};

namespace sluice::verbs {

namespace {

sluice_rdma_link* newest = nullptr;  // of those that are connected

constexpr std::uint32_t bits_24 = 0xffffff;
constexpr int remote_access = access_remote_write | access_remote_read;

// So many reads of a server's are served at a time; adapters that serve fewer refuse it.
constexpr std::uint8_t served_reads = 16;

struct Wanted {
  char address[INET_ADDRSTRLEN];
  Port port;
  bool found;
};

bool is_wanted(const Port& port, void* context) noexcept {
  auto& wanted = *static_cast<Wanted*>(context);
  wanted.found = wanted.address[0] == '\0' || std::strcmp(wanted.address, port.told.address) == 0;
  if (wanted.found) wanted.port = port;
  return wanted.found;
}

int find_port(const sockaddr* address, Wanted& wanted) noexcept {
  if (address != nullptr) {
    if (address->sa_family != AF_INET) return refuse(EINVAL, "the address is no IPv4 address");
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, wanted.address,
                sizeof wanted.address);
  }
  visit_ports(is_wanted, &wanted);
  if (wanted.found) return 0;
  if (address == nullptr) return refuse(ENODEV, "no RDMA adapter has a port that is up");
  return refuse(ENODEV, "no port that is up has the address %s", wanted.address);
}

int set_up(QueuePair& pair, std::uint8_t port) noexcept {
  QueuePairAttributes wanted{};
  wanted.state = state_init;
  wanted.port = port;
  wanted.access = remote_access;
  return api()->modify_qp(&pair, &wanted, set_state | set_pkey | set_port | set_access);
}

int connect(QueuePair& pair, const Port& own, std::uint32_t psn, const sluice_rdma_endpoint_t& other) noexcept {
  QueuePairAttributes wanted{};
  wanted.state = state_ready_to_receive;
  wanted.mtu = std::min(own.told.mtu, other.mtu);
  wanted.other = other.qp;
  wanted.receive_psn = other.psn;
  wanted.served_reads = served_reads;
  wanted.not_ready_timer = 12;
  wanted.address.lid = other.lid;
  wanted.address.port = own.told.port;
  // InfiniBand: only what lies in another subnet is addressed by GID.
  if (own.told.ethernet != 0 || std::memcmp(own.told.gid, other.gid, 8) != 0) {
    wanted.address.is_global = other.has_gid;
    wanted.address.gid_index = static_cast<std::uint8_t>(own.told.gid_index);
    wanted.address.hop_limit = 64;
    std::memcpy(wanted.address.gid.raw, other.gid, sizeof other.gid);
  }
  constexpr int receiving =
      set_state | set_address | set_mtu | set_other | set_receive_psn | set_served_reads | set_not_ready_timer;
  int answer = api()->modify_qp(&pair, &wanted, receiving);
  if (answer == EINVAL) {
    wanted.served_reads = 1;
    answer = api()->modify_qp(&pair, &wanted, receiving);
  }
  if (answer != 0) return answer;
  wanted.state = state_ready_to_send;
  wanted.timeout = 14;
  wanted.retries = 7;
  wanted.not_ready_retries = 7;
  wanted.send_psn = psn;
  wanted.reads = 1;
  return api()->modify_qp(&pair, &wanted,
                          set_state | set_timeout | set_retries | set_not_ready_retries | set_send_psn | set_reads);
}

void take_down(sluice_rdma_link& link) noexcept {
  const Api& verbs = *api();
  for (unsigned pair = 0; pair < link.count; ++pair) verbs.destroy_qp(link.pairs[pair]);
  if (link.completions != nullptr) verbs.destroy_cq(link.completions);
}

int build(sluice_rdma_link& link, unsigned count) noexcept {
  const Api& verbs = *api();
  Adapter& own = *adapter(link.port.adapter);
  Domain* const domain = domain_of(own);
  if (domain == nullptr) return errno != 0 ? errno : ENOMEM;
  link.completions = verbs.create_cq(own.context, 1, nullptr, nullptr, 0);
  if (link.completions == nullptr) {
    return refuse(errno, "%s gives no completion queue: %s", own.name, ::strerrordesc_np(errno));
  }
  for (unsigned number = 0; number < count; ++number) {
    QueuePairWanted wanted{};
    wanted.sends = wanted.receives = link.completions;
    wanted.capacity = {1, 1, 1, 1, 0};
    wanted.type = type_reliable;
    QueuePair* const pair = verbs.create_qp(domain, &wanted);
    if (pair == nullptr) return refuse(errno, "%s gives no queue pair: %s", own.name, ::strerrordesc_np(errno));
    link.pairs[link.count++] = pair;
    if (::getrandom(&link.psn[number], sizeof link.psn[number], 0) < 0) link.psn[number] = pair->number * 2654435761u;
    link.psn[number] &= bits_24;
    if (const int answer = set_up(*pair, link.port.told.port); answer != 0) {
      return refuse(answer, "%s port %d takes no queue pair: %s", own.name, link.port.told.port,
                    ::strerrordesc_np(answer));
    }
  }
  return 0;
}

bool fits(const sluice_rdma_endpoint_t& end) noexcept {
  return end.qp <= bits_24 && end.psn <= bits_24 && end.mtu >= 1 && end.mtu <= 5 && end.has_gid <= 1;
}

// What texts for this port say from now on.
void announce_port(Slot& slot) noexcept {
  std::uint32_t links = 0;
  std::uint32_t qp = 0;
  for (const sluice_rdma_link* link = newest; link != nullptr; link = link->older) {
    if (link->slot != &slot) continue;
    if (links++ == 0) qp = link->pairs[0]->number;
  }
  announce(slot, links, qp);
}

void forget(const sluice_rdma_link& gone) noexcept {
  for (sluice_rdma_link** link = &newest; *link != nullptr; link = &(*link)->older) {
    if (*link != &gone) continue;
    *link = gone.older;
    return;
  }
}

int connect_all(sluice_rdma_link& link, const sluice_rdma_endpoint_t* theirs) noexcept {
  if (link.connected) return refuse(ENOTCONN, "the link was connected before: close it and open another one");
  if (link.generation != generation()) return refuse(ENOTCONN, "the link came through fork: open another one");
  link.slot = slot_for(link.port);
  if (link.slot == nullptr) return refuse(ENOSPC, "there are ports with links already, as many as can be kept");
  for (unsigned pair = 0; pair < link.count; ++pair) {
    const int answer = connect(*link.pairs[pair], link.port, link.psn[pair], theirs[pair]);
    if (answer != 0) {
      return refuse(answer, "%s port %d cannot be connected: %s", link.port.told.device, link.port.told.port,
                    ::strerrordesc_np(answer));
    }
  }
  link.connected = true;
  link.older = newest;
  newest = &link;
  announce_port(*link.slot);
  return 0;
}

}  // namespace

void forget_links() noexcept {
  newest = nullptr;
}

}  // namespace sluice::verbs

extern "C" {

int sluice_rdma_link_open(const struct sockaddr* address, unsigned count, sluice_rdma_link_t** link,
                          sluice_rdma_endpoint_t* own) {
  using namespace sluice::verbs;
  if (link == nullptr || own == nullptr) return refuse(EINVAL, "there is no place for the answer");
  if (count == 0 || count > SLUICE_RDMA_MOST_QUEUE_PAIRS) {
    return refuse(EINVAL, "a link has 1 to %u queue pairs", SLUICE_RDMA_MOST_QUEUE_PAIRS);
  }
  const Locked locked;
  if (const int answer = open_adapters(); answer != 0) return answer;
  Wanted wanted{};
  if (const int answer = find_port(address, wanted); answer != 0) return answer;
  auto* const made = static_cast<sluice_rdma_link*>(std::calloc(1, sizeof(sluice_rdma_link)));
  if (made == nullptr) return refuse(ENOMEM, "there is no memory");
  made->port = wanted.port;
  made->generation = generation();
  if (const int answer = build(*made, count); answer != 0) {
    take_down(*made);
    std::free(made);
    return answer;
  }
  for (unsigned pair = 0; pair < count; ++pair) {
    const sluice_rdma_port_t& port = made->port.told;
    own[pair] = {made->pairs[pair]->number, made->psn[pair], port.lid, port.mtu, port.has_gid, {}};
    std::memcpy(own[pair].gid, port.gid, sizeof port.gid);
  }
  *link = made;
  return 0;
}

int sluice_rdma_link_connect(sluice_rdma_link_t* link, const sluice_rdma_endpoint_t* theirs, unsigned count) {
  using namespace sluice::verbs;
  if (link == nullptr || theirs == nullptr) return refuse(EINVAL, "there is nothing to connect");
  if (count != link->count) return refuse(EINVAL, "the link has %u queue pairs, not %u", link->count, count);
  if (!std::all_of(theirs, theirs + count, fits)) {
    return refuse(EINVAL, "the other side's endpoint has a field that is out of range");
  }
  const Locked locked;
  return connect_all(*link, theirs);
}

void sluice_rdma_link_port(const sluice_rdma_link_t* link, sluice_rdma_port_t* port) {
  if (link == nullptr || port == nullptr) return;
  *port = link->port.told;
  const sluice::verbs::Locked locked;
  if (link->connected && link->generation == sluice::verbs::generation()) {
    port->links = static_cast<unsigned>(link->slot->state >> 32);
  }
}

void sluice_rdma_link_close(sluice_rdma_link_t* link) {
  using namespace sluice::verbs;
  if (link == nullptr) return;
  {
    const Locked locked;
    // A child takes nothing away from its parent.
    if (link->generation == generation()) {
      if (link->connected) {
        forget(*link);
        announce_port(*link->slot);
      }
      take_down(*link);
    }
  }
  std::free(link);
}
}
