// SPDX-License-Identifier: Apache-2.0
// Partitions over the socket: raw devices for pods, capacity that is told and given, and pods kept to a bandwidth.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>

#include "core/partition_disk.h"
#include "facts/read.h"
#include "tests/driver.h"
#include "tests/loop_device.h"

namespace sluice::csi::conformance_partition_test {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

constexpr std::int64_t mib = 1 << 20;

class ConformanceOfPartitions : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (IsSkipped()) return;
    drive_ = std::make_unique<LoopDevice>(pool_->at("drive"), 600 * mib, Partitions::gone_with_it);
    std::filesystem::create_directory(pool_->at("cgroup"));
    begin({"--drive", drive_->path(), "--state", pool_->at("state"), "--cgroups", pool_->at("cgroup")});
  }
  void TearDown() override {
    driver_.reset();
    pool_.reset();
    if (drive_ == nullptr) return;
    PartitionDisk disk(drive_->path());
    while (!disk.table().entries.empty()) disk.remove(disk.table().entries.front().name);
  }
  Answer<wire::CreateVolumeResponse> cut(const std::string& name, std::int64_t bytes,
                                         const wire::VolumeCapability& capability) {
    wire::CreateVolumeRequest request = create_request(name, bytes);
    *request.mutable_volume_capabilities(0) = capability;
    (*request.mutable_parameters())["backend"] = "partition";
    return create(request);
  }
  wire::GetCapacityResponse room() {
    wire::GetCapacityRequest request;
    (*request.mutable_parameters())["backend"] = "partition";
    return ask(driver_->controller(), &wire::Controller::Stub::GetCapacity, request).value;
  }

  std::unique_ptr<LoopDevice> drive_;
};

TEST_F(ConformanceOfPartitions, ARawDeviceComesToAPodAndGoesEvenIfTheDriverIsKilled) {
  const auto made = cut("pvc-1", 8 * mib, block_capability());
  ASSERT_TRUE(made.ok()) << made.status.error_message();
  const std::string id = made.value.volume().volume_id();
  for (const auto& [key, value] : made.value.volume().volume_context()) context_[key] = value;
  ASSERT_TRUE(stage(id, block_capability()).ok());
  for (int i = 0; i < 2; ++i) {
    const auto published = publish(id, target("a"), false, block_capability());
    ASSERT_TRUE(published.ok()) << published.status.error_message();
  }
  struct stat status {};
  ASSERT_EQ(stat(target("a").c_str(), &status), 0);
  EXPECT_TRUE(S_ISBLK(status.st_mode));
  EXPECT_EQ(remove(id).code(), StatusCode::FAILED_PRECONDITION);
  driver_->restart(SIGKILL);
  EXPECT_EQ(cut("pvc-1", 8 * mib, block_capability()).value.volume().volume_id(), id);
  ASSERT_TRUE(unpublish(id, target("a")).ok());
  EXPECT_FALSE(facts::exists(target("a")));
  ASSERT_TRUE(unstage(id).ok());
  EXPECT_TRUE(remove(id).ok());
  EXPECT_TRUE(remove(id).ok());
}

TEST_F(ConformanceOfPartitions, ARawDeviceThatIsGoneIsToldOfAndLeavesItsPod) {
  const auto made = cut("pvc-1", 8 * mib, block_capability());
  ASSERT_TRUE(made.ok()) << made.status.error_message();
  const std::string id = made.value.volume().volume_id();
  for (const auto& [key, value] : made.value.volume().volume_context()) context_[key] = value;
  ASSERT_TRUE(stage(id, block_capability()).ok());
  ASSERT_TRUE(publish(id, target("a"), false, block_capability()).ok());
  auto answer = stats(id, target("a"));
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_FALSE(answer.value.volume_condition().abnormal());
  drive_->lose(target("a"));
  answer = stats(id, target("a"));
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_TRUE(answer.value.volume_condition().abnormal());
  EXPECT_THAT(answer.value.volume_condition().message(), HasSubstr("the drive is gone"));
  // The driver brings the partition back, with the number that it had, or another one.
  driver_->restart(SIGTERM);
  answer = stats(id, target("a"));
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  EXPECT_TRUE(answer.value.volume_condition().abnormal());
  EXPECT_THAT(answer.value.volume_condition().message(), HasSubstr("the device below"));
  const auto unpublished = unpublish(id, target("a"));
  EXPECT_TRUE(unpublished.ok()) << unpublished.status.error_message();
  EXPECT_FALSE(facts::exists(target("a")));
  EXPECT_TRUE(unstage(id).ok());
}

TEST_F(ConformanceOfPartitions, CapacityToldIsCapacityGivenAndOtherThanThePools) {
  const std::int64_t most = room().maximum_volume_size().value();
  EXPECT_NE(most, capacity());
  EXPECT_EQ(cut("more", most + 1, block_capability()).code(), StatusCode::RESOURCE_EXHAUSTED);
  const auto all = cut("all", most, mount_capability());
  ASSERT_TRUE(all.ok()) << all.status.error_message();
  EXPECT_EQ(room().available_capacity(), 0);
  EXPECT_EQ(all.value.volume().capacity_bytes(), most);
}

TEST_F(ConformanceOfPartitions, APodIsKeptToTheBandwidthOfItsVolumesByItsCgroup) {
  wire::CreateVolumeRequest request = create_request("pvc-1", 16 * mib);
  (*request.mutable_mutable_parameters())["bandwidth"] = "500M";
  const auto first = create(request);
  ASSERT_TRUE(first.ok()) << first.status.error_message();
  request.set_name("pvc-2");
  (*request.mutable_mutable_parameters())["bandwidth"] = "1G";
  const std::string second = create(request).value.volume().volume_id();
  const std::string pod = "11111111-2222-3333-4444-555555555555";
  const std::string cgroup = pool_->at(
      "cgroup/kubepods.slice/kubepods-burstable.slice/"
      "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice");
  const auto bring = [&](const std::string& id, const std::string& name) {
    EXPECT_TRUE(stage(id).ok());
    const std::string path = pool_->at("kubelet/pods/" + pod + "/volumes/kubernetes.io~csi/" + name + "/mount");
    EXPECT_TRUE(publish(id, path).ok());
    return path;
  };
  const std::string path = bring(first.value.volume().volume_id(), "pvc-1");
  EXPECT_THAT(driver_->log(), HasSubstr("BandwidthNotEnforced"));
  // Its cgroup comes later; kubelet asks for the volume's usage every now and then.
  std::filesystem::create_directories(cgroup);
  write_file(cgroup + "/io.max", "");
  ASSERT_TRUE(stats(first.value.volume().volume_id(), path).ok());
  EXPECT_THAT(read_file(cgroup + "/io.max"), HasSubstr(" rbps=500000000 wbps=500000000\n"));
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_THAT(read_file(cgroup + "/io.max"), testing::StartsWith(std::to_string(major(status.st_dev)) + ":" +
                                                                 std::to_string(minor(status.st_dev)) + " "));
  bring(second, "pvc-2");
  EXPECT_THAT(read_file(cgroup + "/io.max"), HasSubstr(" rbps=1500000000 wbps=1500000000\n"));
  // A change reaches the pod at once, also one that lifts the limit.
  wire::ControllerModifyVolumeRequest change;
  change.set_volume_id(second);
  const std::pair<const char*, const char*> changes[] = {{"250M", "750000000"}, {"max", "max"}, {"1G", "1500000000"}};
  for (const auto& [bandwidth, limit] : changes) {
    (*change.mutable_mutable_parameters())["bandwidth"] = bandwidth;
    ASSERT_TRUE(ask(driver_->controller(), &wire::Controller::Stub::ControllerModifyVolume, change).ok());
    EXPECT_THAT(read_file(cgroup + "/io.max"), HasSubstr(std::string(" rbps=") + limit + " wbps=" + limit + "\n"));
  }
  // One without a bandwidth lies on the same drive, and the kernel cannot tell them apart.
  bring(made("pvc-3", 16 * mib), "pvc-3");
  EXPECT_THAT(read_file(cgroup + "/io.max"), HasSubstr(" rbps=max wbps=max\n"));
  // A raw device is published outside of the pod's folder, and limited by the drive that it is a part of.
  request = create_request("pvc-4", 8 * mib);
  *request.mutable_volume_capabilities(0) = block_capability();
  (*request.mutable_parameters())["backend"] = "partition";
  (*request.mutable_mutable_parameters())["bandwidth"] = "2G";
  const auto raw = create(request);
  ASSERT_TRUE(raw.ok()) << raw.status.error_message();
  const std::string id = raw.value.volume().volume_id();
  for (const auto& [key, value] : raw.value.volume().volume_context()) context_[key] = value;
  const std::string device = pool_->at("kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-4/" + pod);
  ASSERT_TRUE(stage(id, block_capability()).ok());
  ASSERT_TRUE(publish(id, device, false, block_capability()).ok());
  EXPECT_THAT(read_file(cgroup + "/io.max"),
              HasSubstr(std::to_string(major(drive_->number())) + ":" + std::to_string(minor(drive_->number())) +
                        " rbps=2000000000 wbps=2000000000\n"));
  ASSERT_TRUE(unpublish(id, device).ok());
  ASSERT_TRUE(unstage(id).ok());
  EXPECT_TRUE(remove(id).ok());
}

}  // namespace
}  // namespace sluice::csi::conformance_partition_test
