// SPDX-License-Identifier: Apache-2.0
// How network cards reach GPU memory: by dma-buf, by nvidia_peermem, or not at all; and what speaks against each way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "facts/root.h"

namespace sluice::facts {

// What the kernel shows. Names of symbols can be read without root; a container or a hardened kernel may hide them.
struct RdmaKernelFacts {
  bool tells_symbols = false;         // without them, what follows as "yes" or "no" by symbols is not known
  bool core_takes_dma_buf = false;    // ib_umem_dmabuf_get: Linux 5.12 and later, and NVIDIA's own network drivers
  bool core_registers_peers = false;  // ib_register_peer_memory_client: NVIDIA's own network drivers, not all of them
  std::vector<std::string> dma_buf_drivers;  // drivers of cards that register a dma-buf, by symbol: "mlx5_core", "efa"
  bool peermem_loaded = false;               // nvidia_peermem
  bool legacy_loaded = false;                // nv_peer_mem
  std::string peers_version;  // what the client shows below memory_peers; "" says nothing: legacy cores only
  std::string ofed;           // version of NVIDIA's own network drivers: "24.10-1.1.4"; "" for the kernel's
};

// The symbols that the above rests on, for one reading together with others' wishes.
const std::vector<std::string_view>& rdma_symbols();

// Reads the list of symbols, which is long: control plane, some 50 ms.
RdmaKernelFacts rdma_kernel_facts(const Root& root);
// With those of rdma_symbols() that are in the list; `tells_symbols` says whether there was a list.
RdmaKernelFacts rdma_kernel_facts(const Root& root, const std::vector<std::string_view>& found, bool tells_symbols);

// A yes or no that may not have been asked for.
enum class Told : std::uint8_t { unknown, no, yes };

// What the driver says of one device. The caller asks: the library by its table of calls, the doctor in a child.
struct RdmaGpuFacts {
  Told supported = Told::unknown;  // attribute 116
  int ordering = 0;                // attribute 118: 0 none, 100 for the device itself, 200 for all devices
  Told dma_buf = Told::unknown;    // attribute 124
  Told exported = Told::unknown;   // whether cuMemGetHandleForAddressRange gave a descriptor, where it was tried
};

enum class RdmaWay : std::uint8_t { none, dma_buf, peermem };

// What speaks against a way; the first that holds.
enum class RdmaObstacle : std::uint8_t {
  nothing,
  gpu_without_rdma,    // attribute 116 is 0: unified memory, or a card that is not made for it
  gpu_without_export,  // attribute 124 is 0: the closed module, or a driver before 515
  export_refused,      // the attribute promises it, and the export fails
  core_without,        // the kernel's RDMA takes no dma-buf; or registers no peers
  card_without,        // the driver of this card registers no dma-buf
  not_loaded,          // nvidia_peermem
};

struct RdmaDecision {
  RdmaWay way = RdmaWay::none;
  RdmaObstacle dma_buf = RdmaObstacle::nothing;
  RdmaObstacle peermem = RdmaObstacle::nothing;
  // Everything that the way rests on was seen. False where symbols are hidden or the export was not tried: then only
  // registering memory tells.
  bool proven = false;
  // The GPU may see a card's writes later than the card says that they are done: flush before telling.
  bool needs_flush = false;
};

// Pure. `card_driver` is the driver of the card on its bus: "mlx5_core"; "" for RDMA in software, which reaches no GPU
// memory by hardware but may register a dma-buf.
RdmaDecision decide_rdma(const RdmaGpuFacts& gpu, const RdmaKernelFacts& kernel, std::string_view card_driver);

// "dma-buf", "nvidia_peermem", "none".
std::string_view name_of(RdmaWay way);
// Half a sentence about the way: "the driver exports no dma-buf"; "" for nothing.
std::string_view words_for(RdmaObstacle obstacle, RdmaWay way);

}  // namespace sluice::facts
