// SPDX-License-Identifier: Apache-2.0
// The ways of a network card to GPU memory: what the kernel shows, and what follows from it.
#include "facts/gpudirect_rdma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* card = "mlx5_core";

// A data-centre GPU on the open module, tried.
RdmaGpuFacts good_gpu() {
  return {.supported = Told::yes, .ordering = 100, .dma_buf = Told::yes, .exported = Told::yes};
}

// A kernel of today with its own network drivers.
RdmaKernelFacts good_kernel() {
  RdmaKernelFacts kernel;
  kernel.tells_symbols = true;
  kernel.core_takes_dma_buf = true;
  kernel.dma_buf_drivers = {card};
  return kernel;
}

// NVIDIA's network drivers of old, with the module that goes with them.
RdmaKernelFacts peermem_kernel() {
  RdmaKernelFacts kernel;
  kernel.tells_symbols = true;
  kernel.core_registers_peers = true;
  kernel.peermem_loaded = true;
  return kernel;
}

TEST(DecideRdma, TakesDmaBufWhereAllPartsAreThere) {
  const RdmaDecision decision = decide_rdma(good_gpu(), good_kernel(), card);
  EXPECT_EQ(decision.way, RdmaWay::dma_buf);
  EXPECT_EQ(decision.dma_buf, RdmaObstacle::nothing);
  EXPECT_EQ(decision.peermem, RdmaObstacle::core_without);
  EXPECT_TRUE(decision.proven);
}

TEST(DecideRdma, PrefersDmaBufToPeermem) {
  RdmaKernelFacts kernel = good_kernel();
  kernel.core_registers_peers = true;
  kernel.peermem_loaded = true;
  const RdmaDecision decision = decide_rdma(good_gpu(), kernel, card);
  EXPECT_EQ(decision.way, RdmaWay::dma_buf);
  EXPECT_EQ(decision.peermem, RdmaObstacle::nothing);
}

TEST(DecideRdma, TakesPeermemWhereTheDriverExportsNothing) {
  RdmaGpuFacts gpu = good_gpu();
  gpu.dma_buf = Told::no;
  gpu.exported = Told::unknown;
  const RdmaDecision decision = decide_rdma(gpu, peermem_kernel(), card);
  EXPECT_EQ(decision.way, RdmaWay::peermem);
  EXPECT_EQ(decision.dma_buf, RdmaObstacle::gpu_without_export);
  EXPECT_TRUE(decision.proven);
}

TEST(DecideRdma, BelievesTheExportMoreThanTheAttribute) {
  RdmaGpuFacts gpu = good_gpu();
  gpu.exported = Told::no;
  EXPECT_EQ(decide_rdma(gpu, good_kernel(), card).dma_buf, RdmaObstacle::export_refused);
  EXPECT_EQ(decide_rdma(gpu, good_kernel(), card).way, RdmaWay::none);
  EXPECT_EQ(decide_rdma(gpu, peermem_kernel(), card).way, RdmaWay::peermem);
}

TEST(DecideRdma, NamesWhatIsMissingOnTheSideOfTheCard) {
  RdmaKernelFacts old = good_kernel();
  old.core_takes_dma_buf = false;
  EXPECT_EQ(decide_rdma(good_gpu(), old, card).dma_buf, RdmaObstacle::core_without);
  EXPECT_EQ(decide_rdma(good_gpu(), good_kernel(), "bnxt_en").dma_buf, RdmaObstacle::card_without);
  EXPECT_EQ(decide_rdma(good_gpu(), good_kernel(), "").dma_buf, RdmaObstacle::card_without) << "RDMA in software";
}

TEST(DecideRdma, ClaimsNothingOfACardThatIsNotKnown) {
  const RdmaDecision decision = decide_rdma(good_gpu(), good_kernel(), "newcomer");
  EXPECT_EQ(decision.way, RdmaWay::dma_buf);
  EXPECT_FALSE(decision.proven);
}

TEST(DecideRdma, TakesHiddenSymbolsAndUntriedExportsAsUnproven) {
  RdmaGpuFacts untried = good_gpu();
  untried.exported = Told::unknown;
  EXPECT_EQ(decide_rdma(untried, good_kernel(), card).way, RdmaWay::dma_buf);
  EXPECT_FALSE(decide_rdma(untried, good_kernel(), card).proven);
  EXPECT_EQ(decide_rdma(good_gpu(), RdmaKernelFacts{}, card).way, RdmaWay::dma_buf);
  EXPECT_FALSE(decide_rdma(good_gpu(), RdmaKernelFacts{}, card).proven);
}

TEST(DecideRdma, HasNoWayToUnifiedMemory) {
  RdmaGpuFacts gpu = good_gpu();
  gpu.supported = Told::no;
  RdmaKernelFacts kernel = peermem_kernel();
  kernel.core_takes_dma_buf = true;
  const RdmaDecision decision = decide_rdma(gpu, kernel, card);
  EXPECT_EQ(decision.way, RdmaWay::none);
  EXPECT_EQ(decision.dma_buf, RdmaObstacle::gpu_without_rdma);
  EXPECT_EQ(decision.peermem, RdmaObstacle::gpu_without_rdma);
}

TEST(DecideRdma, SaysWhichModuleIsMissing) {
  RdmaGpuFacts gpu = good_gpu();
  gpu.dma_buf = Told::no;
  RdmaKernelFacts kernel = peermem_kernel();
  kernel.peermem_loaded = false;
  const RdmaDecision decision = decide_rdma(gpu, kernel, card);
  EXPECT_EQ(decision.way, RdmaWay::none);
  EXPECT_EQ(decision.peermem, RdmaObstacle::not_loaded);
}

TEST(DecideRdma, AsksForAFlushWhereTheGpuOrdersNoWrites) {
  RdmaGpuFacts gpu = good_gpu();
  EXPECT_FALSE(decide_rdma(gpu, good_kernel(), card).needs_flush);
  gpu.ordering = 200;
  EXPECT_FALSE(decide_rdma(gpu, good_kernel(), card).needs_flush);
  gpu.ordering = 0;
  EXPECT_TRUE(decide_rdma(gpu, good_kernel(), card).needs_flush);
}

TEST(DecideRdma, HasWordsForEveryObstacle) {
  for (int obstacle = 1; obstacle <= static_cast<int>(RdmaObstacle::not_loaded); ++obstacle) {
    EXPECT_FALSE(words_for(static_cast<RdmaObstacle>(obstacle), RdmaWay::dma_buf).empty()) << obstacle;
  }
  EXPECT_NE(words_for(RdmaObstacle::core_without, RdmaWay::dma_buf),
            words_for(RdmaObstacle::core_without, RdmaWay::peermem));
}

TEST(RdmaKernelFacts, ComesFromSymbolsAndModules) {
  Tree tree;
  tree.file("/proc/kallsyms",
            "0000000000000000 T vfs_read\n"
            "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n"
            "0000000000000000 T ib_register_peer_memory_client\t[ib_core]\n"
            "0000000000000000 t irdma_reg_user_mr_dmabuf\t[irdma]\n"
            "0000000000000000 t efa_reg_user_mr_dmabuf\t[efa]\n")
      .folder("/sys/module/nvidia_peermem")
      .file("/sys/kernel/mm/memory_peers/nv_mem/version", "570.86.15\n")
      .file("/sys/module/mlx5_core/version", "24.10-1.1.4\n");
  const RdmaKernelFacts facts = rdma_kernel_facts(tree.root());
  EXPECT_TRUE(facts.tells_symbols);
  EXPECT_TRUE(facts.core_takes_dma_buf);
  EXPECT_TRUE(facts.core_registers_peers);
  EXPECT_THAT(facts.dma_buf_drivers, ElementsAre("ice", "idpf", "efa"));
  EXPECT_TRUE(facts.peermem_loaded);
  EXPECT_FALSE(facts.legacy_loaded);
  EXPECT_EQ(facts.peers_version, "570.86.15");
  EXPECT_EQ(facts.ofed, "24.10-1.1.4");
}

TEST(RdmaKernelFacts, KnowsAHiddenListOfSymbolsFromAKernelWithoutThem) {
  Tree hidden;
  hidden.file("/proc/kallsyms", "");
  EXPECT_FALSE(rdma_kernel_facts(hidden.root()).tells_symbols);
  Tree plain;
  plain.file("/proc/kallsyms", "0000000000000000 T vfs_read\n");
  const RdmaKernelFacts facts = rdma_kernel_facts(plain.root());
  EXPECT_TRUE(facts.tells_symbols);
  EXPECT_FALSE(facts.core_takes_dma_buf);
  EXPECT_THAT(facts.dma_buf_drivers, IsEmpty());
}

TEST(RdmaKernelFacts, TakesTheKernelsOwnVersionForNoOfed) {
  Tree old;
  old.file("/sys/module/mlx5_core/version", "5.0-0\n");
  EXPECT_EQ(rdma_kernel_facts(old.root()).ofed, "");
  Tree kernels;
  kernels.file("/sys/module/mlx5_core/version", "6.8.0\n");
  EXPECT_EQ(rdma_kernel_facts(kernels.root()).ofed, "");
  Tree ofed;
  ofed.folder("/sys/module/mlx_compat").file("/sys/module/mlx5_core/version", "5.8-1.0.1\n");
  EXPECT_EQ(rdma_kernel_facts(ofed.root()).ofed, "5.8-1.0.1");
  Tree hushed;
  hushed.folder("/sys/module/mlx_compat");
  EXPECT_EQ(rdma_kernel_facts(hushed.root()).ofed, "of an unknown version");
}

}  // namespace
}  // namespace sluice::facts
