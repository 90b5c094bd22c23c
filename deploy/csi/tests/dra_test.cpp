// SPDX-License-Identifier: Apache-2.0
// What the scheduler is told of drives, by a tree of sysfs; and what claims say.
#include "core/dra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/https.h"
#include "core/kubelet_paths.h"
#include "core/refusal.h"
#include "tests/pool.h"

namespace sluice::csi {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SysfsTree {
 public:
  SysfsTree() {
    std::string name = "/tmp/sluice-dra-XXXXXX";
    top_ = mkdtemp(name.data());
  }
  ~SysfsTree() { fs::remove_all(top_); }
  SysfsTree(const SysfsTree&) = delete;
  SysfsTree& operator=(const SysfsTree&) = delete;

  void drive(const std::string& name, const std::string& pcie_root, const std::string& speed,
             const std::string& width) {
    const std::string function = top_ + "/sys/devices/" + pcie_root + "/0000:10:01.0/" + name;
    const std::string block = function + "/nvme/ctl/" + name;
    fs::create_directories(block + "/device");
    fs::create_directories(top_ + "/sys/class/block");
    write_file(function + "/numa_node", "1\n");
    write_file(function + "/current_link_speed", speed + "\n");
    write_file(function + "/current_link_width", width + "\n");
    write_file(block + "/device/model", "Fast Drive 9000      \n");
    fs::create_symlink(block, top_ + "/sys/class/block/" + name);
  }
  void array(const std::string& name, const std::vector<std::string>& members) {
    fs::create_directories(top_ + "/sys/class/block/" + name + "/slaves");
    for (const std::string& each : members)
      fs::create_symlink(top_ + "/sys/class/block/" + each, top_ + "/sys/class/block/" + name + "/slaves/" + each);
  }
  facts::Root root() const { return facts::Root(top_); }

 private:
  std::string top_;
};

const DraNames names = {"gds.sluice.dev", "sluice.dev/drive", "node-a"};

TEST(DraDrives, HaveTheRootTheNodeAndTheBandwidthOfTheirLink) {
  SysfsTree tree;
  tree.drive("nvme0n1", "pci0000:10", "16.0 GT/s PCIe", "4");
  const DraDrive drive = dra_drive("nvme0n1", tree.root());
  EXPECT_EQ(drive.pcie_root, "pci0000:10");
  EXPECT_EQ(drive.numa, 1);
  EXPECT_EQ(drive.model, "Fast Drive 9000");
  EXPECT_EQ(drive.bandwidth, 7800000000);
  EXPECT_EQ(dra_drive("nothing", tree.root()).bandwidth, 0);
}

TEST(DraDrives, AnArrayHasItsMembersSumAndOnlyARootThatTheyShare) {
  SysfsTree tree;
  tree.drive("nvme0n1", "pci0000:10", "16.0 GT/s PCIe", "4");
  tree.drive("nvme1n1", "pci0000:10", "32.0 GT/s PCIe", "4");
  tree.drive("nvme2n1", "pci0000:20", "8.0 GT/s PCIe", "4");
  tree.array("md0", {"nvme0n1", "nvme1n1"});
  tree.array("md1", {"nvme0n1", "nvme2n1"});
  EXPECT_EQ(dra_drive("md0", tree.root()).pcie_root, "pci0000:10");
  EXPECT_EQ(dra_drive("md0", tree.root()).bandwidth, 23500000000);
  EXPECT_EQ(dra_drive("md1", tree.root()).pcie_root, "");
}

TEST(ResourceSlices, OfferABandwidthThatClaimsShareAndTheAttributeThatGpusHaveToo) {
  DraDrive drive = {"nvme0n1", "Fast", "pci0000:10", 1, 12000000000, true};
  const auto slice = nlohmann::json::parse(resource_slice(names, {drive}, "uid", 3));
  EXPECT_EQ(slice["spec"]["pool"]["generation"], 3);
  const auto& device = slice["spec"]["devices"][0];
  EXPECT_EQ(device["attributes"]["resource.kubernetes.io/pcieRoot"]["string"], "pci0000:10");
  EXPECT_EQ(device["attributes"]["verified"]["bool"], true);
  EXPECT_EQ(device["capacity"]["bandwidth"]["value"], "12G");
  EXPECT_EQ(device["allowMultipleAllocations"], true);
  drive.bandwidth = 7800000000;
  EXPECT_THAT(resource_slice(names, {drive}, "", 1), HasSubstr("7800M"));
  // One of which nothing is known is a device that one claim has.
  drive.bandwidth = 0;
  EXPECT_THAT(resource_slice(names, {drive}, "", 1), testing::Not(HasSubstr("allowMultipleAllocations")));
}

TEST(ResourceSlices, AreTheSameWhateverTheOrderOfTheirFields) {
  const DraDrive drive = {"nvme0n1", "Fast", "pci0000:10", 1, 12000000000, true};
  const std::string slice = resource_slice(names, {drive}, "uid", 3);
  EXPECT_TRUE(same_offer(nlohmann::json::parse(slice).dump(), resource_slice(names, {drive}, "", 1)));
  EXPECT_FALSE(same_offer(slice, resource_slice(names, {}, "uid", 3)));
  EXPECT_FALSE(same_offer("{}", slice));
  EXPECT_FALSE(same_offer("no json", slice));
}

TEST(ResourceClaims, AskForAFolderByTheConfigurationThatIsNearestToTheirRequest) {
  const auto asked = [](const std::string& request, const std::string& configurations) {
    const std::string text =
        R"({"kind":"ResourceClaim","metadata":{"uid":"u"},"status":{"allocation":{"devices":{"results":[)"
        R"({"driver":"gds.sluice.dev","pool":"n","device":"d","request":")" +
        request + R"("}],"config":[)" + configurations + "]}}}}";
    return claim_in(text, "gds.sluice.dev").allocations.at(0).folder;
  };
  const std::string of_all = R"({"opaque":{"driver":"gds.sluice.dev","parameters":{"size":"1Gi","path":"/a"}}})";
  const std::string of_one =
      R"({"requests":["fast"],"opaque":{"driver":"gds.sluice.dev","parameters":{"size":"2G","path":"/b"}}})";
  const std::string of_another_driver = R"({"opaque":{"driver":"gpu.example","parameters":7}})";
  EXPECT_FALSE(asked("fast", of_another_driver));
  EXPECT_EQ(asked("slow", of_all + "," + of_one)->path, "/a");
  EXPECT_EQ(asked("fast", of_all + "," + of_one)->bytes, 2000000000);
  EXPECT_EQ(asked("fast/either", of_one)->path, "/b");
  EXPECT_FALSE(asked("faster", of_one));
  for (const char* const wrong : {"7", "{}", R"({"size":"1Gi"})", R"({"size":"1Gi","path":"/"})",
                                  R"({"size":"0","path":"/a"})", R"({"size":7,"path":"/a"})",
                                  R"({"size":"1Gi","path":"/a/../b"})", R"({"size":"1Gi","path":"/a","mode":"x"})"}) {
    EXPECT_THROW(asked("fast", R"({"opaque":{"driver":"gds.sluice.dev","parameters":)" + std::string(wrong) + "}}"),
                 Refusal)
        << wrong;
  }
}

TEST(KubeletsPaths, TellThePodAndThePersistentVolume) {
  const std::string mounted = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pvc-1/mount";
  EXPECT_EQ(persistent_volume_of(mounted), "pvc-1");
  EXPECT_EQ(pod_of(mounted), "u");
  const std::string raw = "/k/pods/x/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-2/u";
  EXPECT_EQ(persistent_volume_of(raw), "pvc-2");
  EXPECT_EQ(pod_of(raw), "u");
  for (const char* const other : {"/var/lib/kubelet/pods", "/mnt/x", "", "/k/volumeDevices/publish/pvc-2"}) {
    EXPECT_EQ(persistent_volume_of(other), "") << other;
    EXPECT_EQ(pod_of(other), "") << other;
  }
}

TEST(ResourceClaims, OfAnotherFormAreRefused) {
  for (
      const char* const text :
      {"", "[]", "{}", R"({"kind":"ResourceClaim"})", R"({"kind":"ResourceClaim","metadata":{"uid":7}})",
       R"({"kind":"ResourceClaim","metadata":{"uid":"u"},"status":{"allocation":{"devices":{"results":[{"driver":"gds.sluice.dev"}]}}}})"})
    EXPECT_THROW(claim_in(text, "gds.sluice.dev"), Refusal) << text;
}

TEST(ApiServers, AreWrittenAsUrls) {
  EXPECT_EQ(server_at("https://10.96.0.1:443").host, "10.96.0.1");
  EXPECT_EQ(server_at("https://[fd00::1]:6443").host, "fd00::1");
  EXPECT_EQ(server_at("https://[fd00::1]:6443").port, "6443");
  EXPECT_EQ(server_at("https://kubernetes.default/").port, "443");
  EXPECT_FALSE(server_at("http://localhost:8001").tls);
  for (const char* const wrong : {"", "10.96.0.1", "https://", "https://host:port", "ftp://host", "https://a/b"})
    EXPECT_THROW(server_at(wrong), Refusal) << wrong;
}

}  // namespace
}  // namespace sluice::csi
