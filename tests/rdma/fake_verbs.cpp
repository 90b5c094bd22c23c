// SPDX-License-Identifier: Apache-2.0
// A stand-in for libibverbs.so.1: two adapters with three ports, whose "RDMA" copies memory of this process.
#include "rdma/fake_verbs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "rdma/verbs/verbs_abi.h"

namespace sluice::verbs {

struct Device {
  const char* name;
  unsigned first_port;
  unsigned ports;
};
struct Context {
  const Device* device;
};
struct Domain {
  Context* context;
};
struct CompletionQueue {
  Context* context;
};

}  // namespace sluice::verbs

namespace {

using namespace sluice::verbs;

constexpr std::size_t most_ports = 3;
Device devices[] = {{"fake0", 0, 1}, {"fake1", 1, 2}};

struct Pair {
  QueuePair shown{};
  int state = state_reset;
  std::uint32_t other = 0;
};
struct Region {
  MemoryRegion shown{};
  std::uint64_t seen_at = 0;  // where RDMA finds it
  std::byte* memory = nullptr;
  int access = 0;
};

struct World {
  std::mutex mutex;
  std::map<std::string, std::pair<int, int>> faults;  // error, count
  bool up[most_ports] = {true, true, true};
  std::set<std::unique_ptr<Context>> contexts;
  std::set<std::unique_ptr<Domain>> domains;
  std::set<std::unique_ptr<CompletionQueue>> queues;
  std::map<std::uint32_t, std::unique_ptr<Pair>> pairs;
  std::map<std::uint32_t, std::unique_ptr<Region>> regions;
  std::uint32_t next_qp = 0x11c;
  std::uint32_t next_key = 0xa1b2;
  FakeCounts made{};
};

World& world() {
  static auto* const the = new World;
  return *the;
}

// Whether a function is to fail; errno says how.
bool fails(const char* function) {
  World& all = world();
  const auto found = all.faults.find(function);
  if (found == all.faults.end() || found->second.second == 0) return false;
  if (found->second.second > 0) --found->second.second;
  errno = found->second.first;
  return true;
}

template <typename Set, typename Thing>
bool take_out(Set& set, Thing* thing) {
  for (auto it = set.begin(); it != set.end(); ++it) {
    if (it->get() != thing) continue;
    set.erase(it);
    return true;
  }
  return false;
}

Gid gid_of(unsigned port) {
  Gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[14] = port == 0 ? 0 : 1;
  gid.raw[15] = port == 2 ? 2 : 1;
  return gid;
}

// Both kinds of RoCE, v1 first, as adapters have them.
GidEntry entry_of(unsigned port, unsigned in_device, unsigned index) {
  return {gid_of(port), index, in_device, index == 1 ? roce_v2 : 1, 1};
}

MemoryRegion* keep(Domain* domain, std::uint64_t seen_at, std::byte* memory, std::size_t length, int access) {
  World& all = world();
  auto region = std::make_unique<Region>();
  const std::uint32_t key = all.next_key++;
  region->shown = {domain->context, domain, memory, length, key, key, key};
  region->seen_at = seen_at;
  region->memory = memory;
  region->access = access;
  MemoryRegion* const shown = &region->shown;
  all.regions[key] = std::move(region);
  ++all.made.regions_made;
  return shown;
}

// Memory that is not there is found before anything is registered, as the kernel's pinning does.
bool is_there(const void* memory, std::size_t length) {
  int ends[2];
  if (::pipe(ends) != 0) return false;
  const auto* const bytes = static_cast<const char*>(memory);
  const bool there = ::write(ends[1], bytes, 1) == 1 && ::write(ends[1], bytes + length - 1, 1) == 1;
  ::close(ends[0]);
  ::close(ends[1]);
  return there;
}

int reach(std::uint32_t qp, std::uint32_t rkey, std::uint64_t address, std::size_t size, int right, std::byte** at) {
  World& all = world();
  const auto pair = all.pairs.find(qp);
  if (pair == all.pairs.end() || pair->second->state < state_ready_to_receive) return ENOTCONN;
  const auto region = all.regions.find(rkey);
  if (region == all.regions.end() || region->second->shown.domain != pair->second->shown.domain) return EACCES;
  const Region& found = *region->second;
  if ((found.access & right) == 0) return EACCES;
  if (address < found.seen_at || size > found.shown.length || address - found.seen_at > found.shown.length - size) {
    return ERANGE;
  }
  *at = found.memory + (address - found.seen_at);
  return 0;
}

}  // namespace

extern "C" {

void fake_verbs_fail(const char* function, int error, int count) {
  const std::lock_guard lock(world().mutex);
  if (function == nullptr) return world().faults.clear();
  world().faults[function] = {error, count};
}

void fake_verbs_set_port(unsigned port, bool up) {
  const std::lock_guard lock(world().mutex);
  world().up[port] = up;
}

FakeCounts fake_verbs_counts() {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  FakeCounts counts = all.made;
  counts.contexts = static_cast<unsigned>(all.contexts.size());
  counts.domains = static_cast<unsigned>(all.domains.size());
  counts.completion_queues = static_cast<unsigned>(all.queues.size());
  counts.queue_pairs = static_cast<unsigned>(all.pairs.size());
  counts.regions = static_cast<unsigned>(all.regions.size());
  return counts;
}

// The lock is held while bytes move: deregistering waits for what is on its way, as an adapter makes it wait.
int fake_verbs_remote_write(std::uint32_t qp, std::uint32_t rkey, std::uint64_t address, const void* from,
                            std::size_t size) {
  const std::lock_guard lock(world().mutex);
  std::byte* at = nullptr;
  const int answer = reach(qp, rkey, address, size, access_remote_write, &at);
  if (answer == 0) std::memcpy(at, from, size);
  return answer;
}

int fake_verbs_remote_read(std::uint32_t qp, std::uint32_t rkey, std::uint64_t address, void* into, std::size_t size) {
  const std::lock_guard lock(world().mutex);
  std::byte* at = nullptr;
  const int answer = reach(qp, rkey, address, size, access_remote_read, &at);
  if (answer == 0) std::memcpy(into, at, size);
  return answer;
}

std::uint32_t fake_verbs_other_end(std::uint32_t qp) {
  const std::lock_guard lock(world().mutex);
  const auto pair = world().pairs.find(qp);
  return pair != world().pairs.end() ? pair->second->other : 0;
}

Device** ibv_get_device_list(int* count) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return nullptr;
  auto** const list = static_cast<Device**>(std::calloc(3, sizeof(Device*)));
  list[0] = &devices[0];
  list[1] = &devices[1];
  *count = 2;
  return list;
}

void ibv_free_device_list(Device** list) {
  std::free(static_cast<void*>(list));
}

const char* ibv_get_device_name(Device* device) {
  return device->name;
}

Context* ibv_open_device(Device* device) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return nullptr;
  return world().contexts.insert(std::make_unique<Context>(Context{device})).first->get();
}

int ibv_close_device(Context* context) {
  const std::lock_guard lock(world().mutex);
  return take_out(world().contexts, context) ? 0 : -1;
}

int ibv_query_port(Context* context, std::uint8_t port, PortAttributes* attributes) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return errno;
  if (port == 0 || port > context->device->ports) return EINVAL;
  attributes->state = world().up[context->device->first_port + port - 1] ? port_active : 1;
  attributes->mtu = 5;
  attributes->gids = 2;
  attributes->layer = layer_ethernet;
  return 0;
}

int ibv_query_gid(Context* context, std::uint8_t port, int index, Gid* gid) {
  if (index < 0 || index > 1) return -1;
  *gid = gid_of(context->device->first_port + port - 1);
  return 0;
}

std::ptrdiff_t _ibv_query_gid_table(Context* context, GidEntry* entries, std::size_t most, std::uint32_t /*flags*/,
                                    std::size_t size) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return -errno;
  if (size != sizeof(GidEntry)) return -EINVAL;
  std::size_t count = 0;
  for (unsigned port = 0; port < context->device->ports; ++port) {
    for (unsigned index = 0; index < 2 && count < most; ++index) {
      entries[count++] = entry_of(context->device->first_port + port, port + 1, index);
    }
  }
  return static_cast<std::ptrdiff_t>(count);
}

Domain* ibv_alloc_pd(Context* context) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return nullptr;
  return world().domains.insert(std::make_unique<Domain>(Domain{context})).first->get();
}

int ibv_dealloc_pd(Domain* domain) {
  const std::lock_guard lock(world().mutex);
  return take_out(world().domains, domain) ? 0 : EINVAL;
}

MemoryRegion* ibv_reg_mr(Domain* domain, void* address, std::size_t length, int access) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return nullptr;
  if (!is_there(address, length)) {
    errno = EFAULT;
    return nullptr;
  }
  return keep(domain, reinterpret_cast<std::uint64_t>(address), static_cast<std::byte*>(address), length, access);
}

// The soft GPU's descriptor is of its memory file, and stands at the first byte. What is mapped stays so.
MemoryRegion* ibv_reg_dmabuf_mr(Domain* domain, std::uint64_t offset, std::size_t length, std::uint64_t seen_at,
                                int descriptor, int access) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return nullptr;
  const off_t begin = ::lseek(descriptor, 0, SEEK_CUR);
  void* const mapped =
      begin < 0 ? MAP_FAILED : ::mmap(nullptr, offset + length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, begin);
  if (mapped == MAP_FAILED) return nullptr;
  ++world().made.dma_buf_regions_made;
  return keep(domain, seen_at, static_cast<std::byte*>(mapped) + offset, length, access);
}

int ibv_dereg_mr(MemoryRegion* region) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return errno;
  return world().regions.erase(region->rkey) == 1 ? 0 : EINVAL;
}

CompletionQueue* ibv_create_cq(Context* context, int, void*, void*, int) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return nullptr;
  return world().queues.insert(std::make_unique<CompletionQueue>(CompletionQueue{context})).first->get();
}

int ibv_destroy_cq(CompletionQueue* queue) {
  const std::lock_guard lock(world().mutex);
  return take_out(world().queues, queue) ? 0 : EINVAL;
}

QueuePair* ibv_create_qp(Domain* domain, QueuePairWanted* wanted) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return nullptr;
  auto pair = std::make_unique<Pair>();
  pair->shown.context = domain->context;
  pair->shown.domain = domain;
  pair->shown.sends = wanted->sends;
  pair->shown.receives = wanted->receives;
  pair->shown.number = world().next_qp++;
  QueuePair* const shown = &pair->shown;
  world().pairs[shown->number] = std::move(pair);
  return shown;
}

int ibv_modify_qp(QueuePair* shown, QueuePairAttributes* wanted, int mask) {
  const std::lock_guard lock(world().mutex);
  if (fails(__func__)) return errno;
  Pair& pair = *world().pairs.at(shown->number);
  if ((mask & set_state) == 0 || wanted->state != pair.state + 1) return EINVAL;
  constexpr int to_init = set_state | set_pkey | set_port | set_access;
  constexpr int to_receive =
      set_state | set_address | set_mtu | set_other | set_receive_psn | set_served_reads | set_not_ready_timer;
  constexpr int to_send = set_state | set_timeout | set_retries | set_not_ready_retries | set_send_psn | set_reads;
  const int needed = wanted->state == state_init               ? to_init
                     : wanted->state == state_ready_to_receive ? to_receive
                                                               : to_send;
  if (mask != needed) return EINVAL;
  if (wanted->state == state_ready_to_receive) {
    if (wanted->mtu < 1 || wanted->mtu > 5 || wanted->address.is_global != 1) return EINVAL;
    pair.other = wanted->other;
  }
  pair.state = wanted->state;
  return 0;
}

int ibv_destroy_qp(QueuePair* shown) {
  const std::lock_guard lock(world().mutex);
  return world().pairs.erase(shown->number) == 1 ? 0 : EINVAL;
}
}
