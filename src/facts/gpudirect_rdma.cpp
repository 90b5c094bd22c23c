// SPDX-License-Identifier: Apache-2.0
// NVIDIA advises dma-buf by now, and it needs no module of its own: it comes first.
#include "facts/gpudirect_rdma.h"

#include <algorithm>
#include <array>

#include "facts/read.h"

namespace sluice::facts {

namespace {

constexpr std::string_view core_dma_buf = "ib_umem_dmabuf_get";
constexpr std::string_view core_peers = "ib_register_peer_memory_client";
constexpr std::string_view sentinel = "vfs_read";  // in every kernel: where it is missing, the list is hidden

// The operation "register a dma-buf" of each driver that has one, and the driver that its cards show on the bus.
struct CardSymbol {
  std::string_view symbol;
  std::string_view driver;
};
constexpr std::array card_symbols{
    CardSymbol{"mlx5_ib_reg_user_mr_dmabuf", "mlx5_core"}, CardSymbol{"bnxt_re_reg_user_mr_dmabuf", "bnxt_en"},
    CardSymbol{"irdma_reg_user_mr_dmabuf", "ice"},         CardSymbol{"irdma_reg_user_mr_dmabuf", "idpf"},
    CardSymbol{"efa_reg_user_mr_dmabuf", "efa"},           CardSymbol{"mana_ib_reg_user_mr_dmabuf", "mana"},
    CardSymbol{"ionic_reg_user_mr_dmabuf", "ionic"},       CardSymbol{"rxe_reg_user_mr_dmabuf", ""},
};

bool holds(const std::vector<std::string_view>& list, std::string_view wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

bool is_known_card(std::string_view driver) {
  return std::any_of(card_symbols.begin(), card_symbols.end(),
                     [driver](const CardSymbol& card) { return card.driver == driver; });
}

bool card_registers(const RdmaKernelFacts& kernel, std::string_view driver) {
  return std::find(kernel.dma_buf_drivers.begin(), kernel.dma_buf_drivers.end(), driver) !=
         kernel.dma_buf_drivers.end();
}

RdmaObstacle against_dma_buf(const RdmaGpuFacts& gpu, const RdmaKernelFacts& kernel, std::string_view card) {
  if (gpu.supported == Told::no) return RdmaObstacle::gpu_without_rdma;
  if (gpu.dma_buf == Told::no) return RdmaObstacle::gpu_without_export;
  if (gpu.exported == Told::no) return RdmaObstacle::export_refused;
  if (!kernel.tells_symbols) return RdmaObstacle::nothing;
  if (!kernel.core_takes_dma_buf) return RdmaObstacle::core_without;
  // Of a card that is not in the table nothing is claimed.
  if (is_known_card(card) && !card_registers(kernel, card)) return RdmaObstacle::card_without;
  return RdmaObstacle::nothing;
}

RdmaObstacle against_peermem(const RdmaGpuFacts& gpu, const RdmaKernelFacts& kernel) {
  if (gpu.supported == Told::no) return RdmaObstacle::gpu_without_rdma;
  if (kernel.tells_symbols && !kernel.core_registers_peers) return RdmaObstacle::core_without;
  if (!kernel.peermem_loaded) return RdmaObstacle::not_loaded;
  return RdmaObstacle::nothing;
}

// The kernel's own modules of today tell no version; older ones tell "5.0-0", or the kernel's.
std::string ofed_version(const Root& root) {
  std::string version = read_value(root.at("/sys/module/mlx5_core/version")).value_or("");
  const bool has_compat = exists(root.at("/sys/module/mlx_compat"));
  const std::string compat = has_compat ? read_value(root.at("/sys/module/mlx_compat/version")).value_or("") : "";
  const bool is_year = version.size() > 3 && version[2] == '.' && version[0] >= '2' && version[0] <= '9';
  if (is_year || (has_compat && !version.empty())) return version;
  if (has_compat) return compat.empty() ? "of an unknown version" : compat;
  return {};
}

std::string peers_version(const Root& root) {
  for (const char* name : {"nv_mem", "nv_mem_nc"}) {
    const std::string place = root.at("/sys/kernel/mm/memory_peers/") + name + "/version";
    if (const auto version = read_value(place)) return *version;
  }
  return {};
}

}  // namespace

const std::vector<std::string_view>& rdma_symbols() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list{sentinel, core_dma_buf, core_peers};
    for (const CardSymbol& card : card_symbols) {
      if (!holds(list, card.symbol)) list.push_back(card.symbol);
    }
    return list;
  }();
  return names;
}

RdmaKernelFacts rdma_kernel_facts(const Root& root) {
  std::vector<std::string> texts;
  for (const std::string_view name : rdma_symbols()) texts.push_back(" " + std::string(name));
  const std::vector<bool> there =
      file_contains(root.at("/proc/kallsyms"), std::vector<std::string_view>(texts.begin(), texts.end()));
  std::vector<std::string_view> found;
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (there[i]) found.push_back(rdma_symbols()[i]);
  }
  return rdma_kernel_facts(root, found, holds(found, sentinel));
}

RdmaKernelFacts rdma_kernel_facts(const Root& root, const std::vector<std::string_view>& found, bool tells_symbols) {
  RdmaKernelFacts facts;
  facts.tells_symbols = tells_symbols;
  facts.core_takes_dma_buf = holds(found, core_dma_buf);
  facts.core_registers_peers = holds(found, core_peers);
  for (const CardSymbol& card : card_symbols) {
    if (holds(found, card.symbol)) facts.dma_buf_drivers.emplace_back(card.driver);
  }
  facts.peermem_loaded = exists(root.at("/sys/module/nvidia_peermem"));
  facts.legacy_loaded = exists(root.at("/sys/module/nv_peer_mem"));
  facts.peers_version = peers_version(root);
  facts.ofed = ofed_version(root);
  return facts;
}

RdmaDecision decide_rdma(const RdmaGpuFacts& gpu, const RdmaKernelFacts& kernel, std::string_view card_driver) {
  RdmaDecision decision;
  decision.dma_buf = against_dma_buf(gpu, kernel, card_driver);
  decision.peermem = against_peermem(gpu, kernel);
  decision.needs_flush = gpu.ordering == 0;
  if (decision.dma_buf == RdmaObstacle::nothing) {
    decision.way = RdmaWay::dma_buf;
    decision.proven = gpu.exported == Told::yes && card_registers(kernel, card_driver) && kernel.core_takes_dma_buf;
  } else if (decision.peermem == RdmaObstacle::nothing) {
    decision.way = RdmaWay::peermem;
    decision.proven = gpu.supported == Told::yes && kernel.core_registers_peers;
  } else {
    decision.proven = true;
  }
  return decision;
}

std::string_view name_of(RdmaWay way) {
  switch (way) {
    case RdmaWay::dma_buf:
      return "dma-buf";
    case RdmaWay::peermem:
      return "nvidia_peermem";
    case RdmaWay::none:
      break;
  }
  return "none";
}

std::string_view words_for(RdmaObstacle obstacle, RdmaWay way) {
  switch (obstacle) {
    case RdmaObstacle::nothing:
      return "";
    case RdmaObstacle::gpu_without_rdma:
      return "the GPU has no GPUDirect RDMA";
    case RdmaObstacle::gpu_without_export:
      return "the driver exports no dma-buf";
    case RdmaObstacle::export_refused:
      return "the driver refuses to export a dma-buf";
    case RdmaObstacle::core_without:
      return way == RdmaWay::peermem ? "ib_core has no ib_register_peer_memory_client" : "ib_core takes no dma-buf";
    case RdmaObstacle::card_without:
      return "the card's driver registers no dma-buf";
    case RdmaObstacle::not_loaded:
      return "nvidia_peermem is not loaded";
  }
  return "";
}

}  // namespace sluice::facts
