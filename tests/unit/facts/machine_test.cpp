// SPDX-License-Identifier: Apache-2.0
// What the machine's files tell about the kernel and nvidia-fs.ko.
#include "facts/machine.h"

#include <gtest/gtest.h>

#include <string>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

constexpr const char* release = "6.18.44-test";

Tree& with_release(Tree& tree) {
  return tree.file("/proc/sys/kernel/osrelease", std::string(release) + "\n");
}

TEST(OfMachine, TellsTheKernelsRelease) {
  Tree tree;
  with_release(tree);
  EXPECT_EQ(of_machine(tree.root()).kernel_release, release);
}

TEST(OfMachine, AsksTheSystemWhereProcfsIsMissing) {
  const Tree tree;
  EXPECT_FALSE(of_machine(tree.root()).kernel_release.empty());
}

TEST(OfMachine, ReadsTheConfigurationWhereverItLies) {
  for (const char* place :
       {"/boot/config-6.18.44-test", "/lib/modules/6.18.44-test/config", "/usr/lib/modules/6.18.44-test/config"}) {
    Tree yes;
    with_release(yes).file(place, "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\nCONFIG_X=m\n");
    EXPECT_TRUE(of_machine(yes.root()).kernel_has_p2pdma) << place;
    Tree no;
    with_release(no).file(place, "CONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n");
    EXPECT_FALSE(of_machine(no.root()).kernel_has_p2pdma) << place;
  }
}

TEST(OfMachine, IsNotMisledByLongerOrCommentedLines) {
  Tree tree;
  with_release(tree).file("/boot/config-6.18.44-test",
                          "XCONFIG_PCI_P2PDMA=y\nCONFIG_PCI_P2PDMA=yes\n#CONFIG_PCI_P2PDMA=y\n");
  EXPECT_FALSE(of_machine(tree.root()).kernel_has_p2pdma);
}

TEST(OfMachine, IgnoresAnotherKernelsConfiguration) {
  Tree tree;
  with_release(tree).file("/boot/config-6.1.0", "CONFIG_PCI_P2PDMA=y\n");
  EXPECT_FALSE(of_machine(tree.root()).kernel_has_p2pdma);
}

TEST(OfMachine, TakesADeviceThatGivesMemoryAsProof) {
  Tree tree;
  with_release(tree).folder("/sys/bus/pci/devices/0000:00:01.0").folder("/sys/bus/pci/devices/0000:02:00.0/p2pmem");
  EXPECT_TRUE(of_machine(tree.root()).kernel_has_p2pdma);
}

TEST(OfMachine, SearchesTheSymbolsOnlyWhenAskedTo) {
  Tree tree;
  with_release(tree).file("/proc/kallsyms",
                          "0000000000000000 T pci_p2pdma_add_resource\n0000000000000000 T pci_p2pdma_enable_store\n");
  EXPECT_FALSE(of_machine(tree.root(), KernelSearch::configuration).kernel_has_p2pdma);
  EXPECT_TRUE(of_machine(tree.root(), KernelSearch::symbols).kernel_has_p2pdma);
}

TEST(OfMachine, SeesThatRingsTakeDmaBufs) {
  Tree tree;
  with_release(tree).file("/proc/kallsyms", "0000000000000000 T dma_buf_io_ctx_create\n");
  EXPECT_FALSE(of_machine(tree.root(), KernelSearch::configuration).ring_takes_dma_buf);
  EXPECT_TRUE(of_machine(tree.root(), KernelSearch::symbols).ring_takes_dma_buf);
  tree.file("/proc/kallsyms", "0000000000000000 t __io_register_dmabuf\n");
  EXPECT_TRUE(of_machine(tree.root(), KernelSearch::symbols).ring_takes_dma_buf);
  tree.file("/proc/kallsyms", "0000000000000000 t io_release_dmabuf\n0000000000000000 T io_dmabuf_token_create\n");
  EXPECT_FALSE(of_machine(tree.root(), KernelSearch::symbols).ring_takes_dma_buf)
      << "the network's, and a name that was never merged";
}

TEST(OfMachine, IsNotMisledBySymbolsThatEveryKernelHas) {
  Tree tree;
  with_release(tree).file("/proc/kallsyms",
                          "0000000000000000 T dma_pci_p2pdma_supported\n"
                          "0000000000000000 T __pfx_pci_p2pdma_add_resource\n"
                          "0000000000000000 T pci_p2pdma_add_resource_x\n");
  EXPECT_FALSE(of_machine(tree.root(), KernelSearch::symbols).kernel_has_p2pdma);
}

TEST(OfMachine, LetsTheConfigurationOverruleTheSymbols) {
  Tree tree;
  with_release(tree)
      .file("/boot/config-6.18.44-test", "# CONFIG_PCI_P2PDMA is not set\n")
      .file("/proc/kallsyms", "0 T pci_p2pdma_add_resource\n");
  EXPECT_FALSE(of_machine(tree.root(), KernelSearch::symbols).kernel_has_p2pdma);
}

TEST(OfMachine, ReadsTheVersionOfNvidiaFs) {
  Tree tree;
  tree.file("/proc/driver/nvidia-fs/version", "version: 2.28\n");
  const MachineFacts facts = of_machine(tree.root());
  EXPECT_TRUE(facts.nvfs_loaded);
  EXPECT_EQ(facts.nvfs_version, "2.28");
}

TEST(OfMachine, TakesNvidiaFsForLoadedWithoutAVersion) {
  Tree tree;
  tree.file("/proc/driver/nvidia-fs/devcount", "1\n");
  EXPECT_TRUE(of_machine(tree.root()).nvfs_loaded);
  EXPECT_EQ(of_machine(tree.root()).nvfs_version, "");
}

TEST(OfMachine, FindsNothingInAnEmptyTree) {
  const Tree tree;
  const MachineFacts facts = of_machine(tree.root(), KernelSearch::symbols);
  EXPECT_FALSE(facts.kernel_has_p2pdma);
  EXPECT_FALSE(facts.nvfs_loaded);
  EXPECT_EQ(facts.nvfs_version, "");
}

}  // namespace
}  // namespace sluice::facts
