// SPDX-License-Identifier: Apache-2.0
// The driver and a stand-in for kubelet: registration, the order of calls, retries, and either side starting anew.
#include "tests/kubelet.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <filesystem>

#include "facts/read.h"

namespace sluice::csi {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* driver_name = "csi.sluice.dev";

class KubeletTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (IsSkipped()) return;
    for (const char* const each : {"kubelet", "kubelet/plugins_registry", "kit"})
      std::filesystem::create_directory(pool_->at(each));
    write_file(pool_->at("kit/libcufile.so.0"), "library");
    kubelet_ = std::make_unique<Kubelet>(pool_->at("kubelet"));
  }
  void start_driver() { begin({"--registration", pool_->at("kubelet/plugins_registry"), "--kit", pool_->at("kit")}); }
  PodVolume claim(const std::string& pod, const std::string& name) {
    return {pod, name, made(name), {{"backend", "directory"}, {"type", "nvme-local"}}};
  }
  static std::vector<std::string> about(const std::vector<std::string>& calls, const std::string& volume) {
    std::vector<std::string> found;
    for (const std::string& each : calls) {
      if (each.find(" " + volume + " ") != std::string::npos) found.push_back(each);
    }
    return found;
  }

  std::unique_ptr<Kubelet> kubelet_;
};

TEST_F(KubeletTest, TheDriverRegistersItselfAndTellsItsNode) {
  start_driver();
  ASSERT_TRUE(kubelet_->await_registered(driver_name));
  EXPECT_EQ(kubelet_->node_of(driver_name), "node-a");
  EXPECT_THAT(kubelet_->calls(), ElementsAre("GetInfo csi.sluice.dev 0", "NodeGetInfo csi.sluice.dev 0",
                                             "NotifyRegistrationStatus csi.sluice.dev 0"));
  EXPECT_THAT(driver_->log(), HasSubstr("kubelet has registered this driver"));
}

TEST_F(KubeletTest, AKubeletThatKnowsNoneOfItsVersionsIsLogged) {
  kubelet_.reset();
  Kubelet old(pool_->at("kubelet"), "0.3.0");
  start_driver();
  ASSERT_TRUE(old.await_refused(driver_name));
  EXPECT_THAT(driver_->log(), HasSubstr("none of the versions is 0.3.0"));
}

TEST_F(KubeletTest, ADriverThatEndsIsMissedAndOneThatStartsIsRegisteredAgain) {
  start_driver();
  ASSERT_TRUE(kubelet_->await_registered(driver_name));
  driver_->stop(SIGTERM);
  EXPECT_TRUE(kubelet_->await_gone(driver_name));
  driver_->start();
  EXPECT_TRUE(kubelet_->await_registered(driver_name, 2));
  // Killed, it leaves its socket behind; the next one listens at a new one.
  driver_->restart(SIGKILL);
  EXPECT_TRUE(kubelet_->await_registered(driver_name, 3));
}

TEST_F(KubeletTest, APodsVolumeComesAndGoesInKubeletsOrder) {
  start_driver();
  ASSERT_TRUE(kubelet_->await_registered(driver_name));
  const PodVolume volume = claim("pod-1", "pvc-1");
  const PodVolume kit = {"pod-1", "kit", "csi-4711", {}, true, true};
  ASSERT_TRUE(kubelet_->mount(driver_name, volume)) << kubelet_->last_error();
  ASSERT_TRUE(kubelet_->mount(driver_name, kit)) << kubelet_->last_error();
  write_file(kubelet_->target(volume) + "/file", "bytes");
  EXPECT_EQ(read_file(kubelet_->target(kit) + "/libcufile.so.0"), "library");
  ASSERT_TRUE(kubelet_->unmount(driver_name, kit, true)) << kubelet_->last_error();
  ASSERT_TRUE(kubelet_->unmount(driver_name, volume, true)) << kubelet_->last_error();
  EXPECT_THAT(about(kubelet_->calls(), "pvc-1"),
              ElementsAre("NodeGetCapabilities pvc-1 0", "NodeStageVolume pvc-1 0", "NodePublishVolume pvc-1 0",
                          "NodeUnpublishVolume pvc-1 0", "NodeUnstageVolume pvc-1 0"));
  EXPECT_THAT(about(kubelet_->calls(), "kit"), ElementsAre("NodePublishVolume kit 0", "NodeUnpublishVolume kit 0"));
  EXPECT_EQ(count_mounts_below(pool_->at("kubelet")), 0);
}

TEST_F(KubeletTest, AKubeletThatStartsAnewAsksForEverythingAgainAndChangesNothing) {
  start_driver();
  ASSERT_TRUE(kubelet_->await_registered(driver_name));
  const PodVolume stays = claim("stays", "pvc-1");
  const PodVolume gone = claim("gone", "pvc-2");
  for (const PodVolume& each : {stays, gone}) ASSERT_TRUE(kubelet_->mount(driver_name, each)) << kubelet_->last_error();
  write_file(kubelet_->target(stays) + "/file", "bytes");
  const int mounts = count_mounts_below(pool_->at("kubelet"));
  kubelet_.reset();
  kubelet_ = std::make_unique<Kubelet>(pool_->at("kubelet"));
  ASSERT_TRUE(kubelet_->await_registered(driver_name));
  ASSERT_TRUE(kubelet_->mount(driver_name, stays)) << kubelet_->last_error();
  EXPECT_EQ(count_mounts_below(pool_->at("kubelet")), mounts);
  EXPECT_EQ(read_file(kubelet_->target(stays) + "/file"), "bytes");
  // Of the other pod it finds the folders alone.
  ASSERT_TRUE(kubelet_->unmount(driver_name, gone, true)) << kubelet_->last_error();
  ASSERT_TRUE(kubelet_->unmount(driver_name, stays, true)) << kubelet_->last_error();
  EXPECT_EQ(count_mounts_below(pool_->at("kubelet")), 0);
}

TEST_F(KubeletTest, WhatWasNeverBroughtIsTakenAwayWithoutAComplaint) {
  start_driver();
  ASSERT_TRUE(kubelet_->await_registered(driver_name));
  const PodVolume volume = claim("pod-1", "pvc-1");
  std::filesystem::create_directories(facts::parent_path(kubelet_->target(volume)));
  std::filesystem::create_directories(kubelet_->staging(driver_name, volume));
  EXPECT_TRUE(kubelet_->unmount(driver_name, volume, true)) << kubelet_->last_error();
  EXPECT_FALSE(facts::exists(kubelet_->target(volume)));
}

// Pods start and end on several threads while the driver is killed again and again: kubelet's retries bring each volume
// to its pod, and nothing is left of those that have ended.
TEST_F(KubeletTest, PodsStartAndEndWhileTheDriverIsKilled) {
  start_driver();
  ASSERT_TRUE(kubelet_->await_registered(driver_name));
  constexpr int pods = 4;
  constexpr int rounds = 6;
  std::vector<PodVolume> volumes;
  for (int i = 0; i < pods; ++i) volumes.push_back(claim("pod-" + std::to_string(i), "pvc-" + std::to_string(i)));
  std::atomic<int> left = pods;
  std::vector<std::string> wrong(pods);
  std::vector<std::thread> workers;
  for (int i = 0; i < pods; ++i) {
    workers.emplace_back([&, i] {
      const PodVolume& volume = volumes[static_cast<std::size_t>(i)];
      std::string& why = wrong[static_cast<std::size_t>(i)];
      for (int round = 0; round < rounds && why.empty(); ++round) {
        if (!kubelet_->mount(driver_name, volume)) why = kubelet_->last_error();
        const std::string file = kubelet_->target(volume) + "/file";
        const std::string expected = round == 0 ? "" : std::to_string(round - 1);
        if (why.empty() && read_file(file) != expected) why = "other bytes than were written";
        if (why.empty()) write_file(file, std::to_string(round));
        if (why.empty() && !kubelet_->unmount(driver_name, volume, true)) why = kubelet_->last_error();
      }
      --left;
    });
  }
  int killed = 0;
  while (left > 0 && killed < 10) {
    driver_->restart(SIGKILL);
    ++killed;
    kubelet_->await_registered(driver_name, 1 + killed);
  }
  for (std::thread& each : workers) each.join();
  EXPECT_THAT(wrong, testing::Each(""));
  EXPECT_EQ(count_mounts_below(pool_->at("kubelet")), 0);
  for (const PodVolume& each : volumes) EXPECT_TRUE(remove(each.id).ok());
}

}  // namespace
}  // namespace sluice::csi
