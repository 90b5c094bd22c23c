// SPDX-License-Identifier: Apache-2.0
// The part of libibverbs' binary interface that is spoken here, in our own words, as libibverbs.so.1 has it since
// rdma-core 17. No header of it is needed to build; tests/rdma compares this page with <infiniband/verbs.h> where one
// is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::verbs {

struct Device;
struct Context;
struct Domain;
struct CompletionQueue;

struct alignas(8) Gid {
  std::uint8_t raw[16];
};

// ibv_gid_entry; types: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2
inline constexpr std::uint32_t roce_v2 = 2;
struct GidEntry {
  Gid gid;
  std::uint32_t index;
  std::uint32_t port;
  std::uint32_t type;
  std::uint32_t interface;
};
static_assert(sizeof(GidEntry) == 32);

// ibv_port_attr
inline constexpr int port_active = 4;
inline constexpr std::uint8_t layer_ethernet = 2;
struct PortAttributes {
  int state;
  int most_mtu;
  int mtu;
  int gids;
  std::uint32_t capabilities;
  std::uint32_t most_message;
  std::uint32_t bad_pkeys;
  std::uint32_t bad_qkeys;
  std::uint16_t pkeys;
  std::uint16_t lid;
  std::uint16_t manager_lid;
  std::uint8_t lmc;
  std::uint8_t most_virtual;
  std::uint8_t manager_level;
  std::uint8_t subnet_timeout;
  std::uint8_t init_type;
  std::uint8_t width;
  std::uint8_t speed;
  std::uint8_t physical_state;
  std::uint8_t layer;
  std::uint8_t flags;
  std::uint16_t more_capabilities;
  std::uint32_t more_speed;
};

// ibv_mr
struct MemoryRegion {
  Context* context;
  Domain* domain;
  void* address;
  std::size_t length;
  std::uint32_t handle;
  std::uint32_t lkey;
  std::uint32_t rkey;
};
inline constexpr int access_local_write = 1;
inline constexpr int access_remote_write = 2;
inline constexpr int access_remote_read = 4;

// ibv_qp: its beginning
struct QueuePair {
  Context* context;
  void* own;
  Domain* domain;
  CompletionQueue* sends;
  CompletionQueue* receives;
  void* shared_receives;
  std::uint32_t handle;
  std::uint32_t number;
};

struct Capacity {
  std::uint32_t send_requests;
  std::uint32_t receive_requests;
  std::uint32_t send_pieces;
  std::uint32_t receive_pieces;
  std::uint32_t inline_bytes;
};

// ibv_qp_init_attr
inline constexpr int type_reliable = 2;
struct QueuePairWanted {
  void* own;
  CompletionQueue* sends;
  CompletionQueue* receives;
  void* shared_receives;
  Capacity capacity;
  int type;
  int signal_all;
};

// ibv_ah_attr
struct AddressAttributes {
  Gid gid;
  std::uint32_t flow_label;
  std::uint8_t gid_index;
  std::uint8_t hop_limit;
  std::uint8_t traffic_class;
  std::uint16_t lid;
  std::uint8_t level;
  std::uint8_t path_bits;
  std::uint8_t rate;
  std::uint8_t is_global;
  std::uint8_t port;
};

// ibv_qp_attr
enum State : int { state_reset = 0, state_init = 1, state_ready_to_receive = 2, state_ready_to_send = 3 };
inline constexpr int set_state = 1 << 0;
inline constexpr int set_access = 1 << 3;
inline constexpr int set_pkey = 1 << 4;
inline constexpr int set_port = 1 << 5;
inline constexpr int set_address = 1 << 7;
inline constexpr int set_mtu = 1 << 8;
inline constexpr int set_timeout = 1 << 9;
inline constexpr int set_retries = 1 << 10;
inline constexpr int set_not_ready_retries = 1 << 11;
inline constexpr int set_receive_psn = 1 << 12;
inline constexpr int set_reads = 1 << 13;
inline constexpr int set_not_ready_timer = 1 << 15;
inline constexpr int set_send_psn = 1 << 16;
inline constexpr int set_served_reads = 1 << 17;
inline constexpr int set_other = 1 << 20;
struct QueuePairAttributes {
  int state;
  int present_state;
  int mtu;
  int migration;
  std::uint32_t qkey;
  std::uint32_t receive_psn;
  std::uint32_t send_psn;
  std::uint32_t other;
  std::uint32_t access;
  Capacity capacity;
  AddressAttributes address;
  AddressAttributes alternative;
  std::uint16_t pkey_index;
  std::uint16_t alternative_pkey_index;
  std::uint8_t draining_notice;
  std::uint8_t draining;
  std::uint8_t reads;         // of the other side's memory at a time
  std::uint8_t served_reads;  // of ours
  std::uint8_t not_ready_timer;
  std::uint8_t port;
  std::uint8_t timeout;
  std::uint8_t retries;
  std::uint8_t not_ready_retries;
  std::uint8_t alternative_port;
  std::uint8_t alternative_timeout;
  std::uint32_t rate_limit;
};

}  // namespace sluice::verbs
