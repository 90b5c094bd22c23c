// SPDX-License-Identifier: Apache-2.0
// Whether nvidia-fs.ko has hooks in the driver below a file.
#include "facts/nvfs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

Tree& with_module(Tree& tree, const std::string& modules) {
  return tree.file("/proc/driver/nvidia-fs/version", "version: 2.28\n").file("/proc/driver/nvidia-fs/modules", modules);
}

FileFacts on_disk(const std::string& name, const std::string& driver, const std::string& transport = "") {
  FileFacts file;
  file.file_system = FileSystem::ext4;
  file.file_system_name = "ext4";
  file.block.name = name;
  file.block.driver = driver;
  file.block.transport = transport;
  return file;
}

FileFacts on(const std::string& file_system) {
  FileFacts file;
  file.file_system = FileSystem::network;
  file.file_system_name = file_system;
  return file;
}

NvfsHooks hooks_below(const Tree& tree, const FileFacts& file) {
  return NvfsHookSearch(tree.root()).hooks_below(file, of_nvfs(tree.root()));
}

std::string symbol(const std::string& name, const std::string& module) {
  return "0000000000000000 T " + name + "\t[" + module + "]\n";
}

TEST(OfNvfs, ReadsVersionsAsTheModuleWritesThem) {
  struct Case {
    const char* text;
    bool recent;
  };
  for (const Case& known :
       {Case{"version: 2.28\n", true}, Case{"version: 2.12\n", true}, Case{"version: 2.11\n", false},
        Case{"version: 2.7\n", false}, Case{"version: 3.0\n", true}, Case{"version: 1.20\n", false},
        Case{"2.29\n", true}, Case{"version:\n", false}, Case{"version: two\n", false}}) {
    Tree tree;
    tree.file("/proc/driver/nvidia-fs/version", known.text);
    EXPECT_TRUE(of_nvfs(tree.root()).loaded);
    EXPECT_EQ(of_nvfs(tree.root()).is_recent(), known.recent) << known.text;
  }
  EXPECT_FALSE(of_nvfs(Tree().root()).loaded);
}

TEST(OfNvfs, TakesKeysForWhatTheyAre) {
  Tree tree;
  with_module(tree, "nvme: (null)\nwekafsio: 1\nlnet: 2.15\n\nno line\n");
  EXPECT_EQ(of_nvfs(tree.root()).hooked, (std::vector<std::string>{"nvme", "lnet"}));
}

TEST(HooksBelow, WantTheListAndTheModuleThatDrivesTheDrive) {
  const FileFacts drive = on_disk("nvme0n1", "nvme", "pcie");
  Tree tree;
  with_module(tree, "nvme: (null)\n").file("/proc/kallsyms", symbol("nvme_v1_register_nvfs_dma_ops", "nvme"));
  EXPECT_EQ(hooks_below(tree, drive), NvfsHooks::present);
  tree.file("/proc/kallsyms", symbol("nvme_v2_register_nvfs_dma_ops", "nvme"));
  EXPECT_EQ(hooks_below(tree, drive), NvfsHooks::present);
  tree.file("/proc/kallsyms", symbol("nvme_v1_register_nvfs_dma_ops", "nvfsdisk"));
  EXPECT_EQ(hooks_below(tree, drive), NvfsHooks::foreign) << "another driver has them";
  tree.file("/proc/kallsyms", "0000000000000000 T nvme_v1_register_nvfs_dma_ops\n");
  EXPECT_EQ(hooks_below(tree, drive), NvfsHooks::foreign) << "of no module";
  with_module(tree, "wekafsio: 1\n").file("/proc/kallsyms", symbol("nvme_v1_register_nvfs_dma_ops", "nvme"));
  EXPECT_EQ(hooks_below(tree, drive), NvfsHooks::not_listed);
}

TEST(HooksBelow, AreOfTheTransport) {
  Tree tree;
  with_module(tree, "nvme: (null)\n").file("/proc/kallsyms", symbol("nvme_v1_register_nvfs_dma_ops", "nvme"));
  EXPECT_EQ(hooks_below(tree, on_disk("nvme1n1", "nvme", "rdma")), NvfsHooks::not_listed);
  with_module(tree, "nvme_rdma: (null)\n")
      .file("/proc/kallsyms", symbol("nvme_rdma_v1_register_nvfs_dma_ops", "nvme_rdma"));
  EXPECT_EQ(hooks_below(tree, on_disk("nvme1n1", "nvme", "rdma")), NvfsHooks::present);
}

TEST(HooksBelow, OfAnUnknownDriverAreFoundByItsModule) {
  Tree tree;
  with_module(tree, "nvme: (null)\n").file("/proc/kallsyms", symbol("nvme_v1_register_nvfs_dma_ops", "fastdisk"));
  tree.link("/sys/class/block/fast0/device/driver/module", "../../../module/fastdisk");
  EXPECT_EQ(hooks_below(tree, on_disk("fast0", "fastdisk-pci")), NvfsHooks::present);
  EXPECT_EQ(hooks_below(tree, on_disk("vda", "virtio_blk")), NvfsHooks::not_listed);
  EXPECT_EQ(hooks_below(tree, on_disk("", "")), NvfsHooks::unknown);
}

TEST(HooksBelow, OfAnArrayAreThoseOfAllItsMembers) {
  Tree tree;
  with_module(tree, "nvme: (null)\n").file("/proc/kallsyms", symbol("nvme_v1_register_nvfs_dma_ops", "nvme"));
  tree.disk("devices/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1", "259:0").disk("devices/virtual/block/loop3", "7:3");
  tree.file("/sys/devices/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1/device/transport", "pcie\n");
  FileFacts array = on_disk("md0", "md");
  array.block.members = {"nvme0n1"};
  EXPECT_EQ(hooks_below(tree, array), NvfsHooks::present);
  array.block.members = {"loop3", "nvme0n1"};
  EXPECT_EQ(hooks_below(tree, array), NvfsHooks::not_listed);
}

TEST(HooksBelow, OfFileSystemsAreTheirOwn) {
  Tree tree;
  with_module(tree, "lnet: 2.15\nbeegfs: (null)\nwekafsio: 1\n");
  EXPECT_EQ(hooks_below(tree, on("lustre")), NvfsHooks::present);
  EXPECT_EQ(hooks_below(tree, on("beegfs")), NvfsHooks::present);
  EXPECT_EQ(hooks_below(tree, on("nfs4")), NvfsHooks::not_listed);
  EXPECT_EQ(hooks_below(tree, on("wekafs")), NvfsHooks::unknown) << "its line proves nothing";
}

}  // namespace
}  // namespace sluice::facts
