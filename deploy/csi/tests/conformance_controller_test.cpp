// SPDX-License-Identifier: Apache-2.0
// The controller's calls over the socket: codes, idempotency, lists, room, snapshots and clones.
#include <gmock/gmock.h>

#include <set>

#include "core/refusal.h"
#include "facts/read.h"
#include "tests/driver.h"

namespace sluice::csi {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Controller = wire::Controller::Stub;

constexpr std::int64_t mib = 1 << 20;

class ConformanceOfTheController : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (!IsSkipped()) begin();
  }

  Answer<wire::ListVolumesResponse> list(int most = 0, const std::string& token = "") {
    wire::ListVolumesRequest request;
    request.set_max_entries(most);
    request.set_starting_token(token);
    return ask(driver_->controller(), &Controller::ListVolumes, request);
  }
  Answer<wire::CreateSnapshotResponse> snapshot(const std::string& name, const std::string& volume) {
    wire::CreateSnapshotRequest request;
    request.set_name(name);
    request.set_source_volume_id(volume);
    return ask(driver_->controller(), &Controller::CreateSnapshot, request);
  }
  Answer<wire::DeleteSnapshotResponse> remove_snapshot(const std::string& id) {
    wire::DeleteSnapshotRequest request;
    request.set_snapshot_id(id);
    return ask(driver_->controller(), &Controller::DeleteSnapshot, request);
  }
  Answer<wire::ListSnapshotsResponse> list_snapshots(const std::string& volume = "", const std::string& id = "") {
    wire::ListSnapshotsRequest request;
    request.set_source_volume_id(volume);
    request.set_snapshot_id(id);
    return ask(driver_->controller(), &Controller::ListSnapshots, request);
  }
  StatusCode code_of(const wire::CreateVolumeRequest& request) { return create(request).code(); }
};

TEST_F(ConformanceOfTheController, SaysWhoItIsAndWhatItCanDo) {
  const auto info = ask(driver_->identity(), &wire::Identity::Stub::GetPluginInfo, wire::GetPluginInfoRequest());
  EXPECT_EQ(info.value.name(), "csi.sluice.dev");
  EXPECT_FALSE(info.value.vendor_version().empty());
  const auto probe = ask(driver_->identity(), &wire::Identity::Stub::Probe, wire::ProbeRequest());
  EXPECT_TRUE(probe.value.ready().value());
  const auto plugin =
      ask(driver_->identity(), &wire::Identity::Stub::GetPluginCapabilities, wire::GetPluginCapabilitiesRequest());
  EXPECT_EQ(plugin.value.capabilities_size(), 3);
  const auto can =
      ask(driver_->controller(), &Controller::ControllerGetCapabilities, wire::ControllerGetCapabilitiesRequest());
  std::set<int> types;
  for (const auto& each : can.value.capabilities()) types.insert(each.rpc().type());
  using Rpc = wire::ControllerServiceCapability::RPC;
  EXPECT_TRUE(types.contains(Rpc::CLONE_VOLUME));
  EXPECT_TRUE(types.contains(Rpc::GET_CAPACITY));
  // With it, every node's resizer would ask for every volume.
  EXPECT_FALSE(types.contains(Rpc::EXPAND_VOLUME));
}

TEST_F(ConformanceOfTheController, MakesAVolumeOnceForAName) {
  const auto first = create(create_request("pvc-1", 20 * mib));
  ASSERT_TRUE(first.ok()) << first.status.error_message();
  EXPECT_GE(first.value.volume().capacity_bytes(), 20 * mib);
  ASSERT_EQ(first.value.volume().accessible_topology_size(), 1);
  EXPECT_EQ(first.value.volume().accessible_topology(0).segments().at("topology.csi.sluice.dev/node"), "node-a");
  const auto second = create(create_request("pvc-1", 20 * mib));
  EXPECT_EQ(second.value.volume().volume_id(), first.value.volume().volume_id());
  EXPECT_EQ(code_of(create_request("pvc-1", 40 * mib)), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(list().value.entries_size(), 1);
  EXPECT_TRUE(remove(first.value.volume().volume_id()).ok());
  EXPECT_TRUE(remove(first.value.volume().volume_id()).ok());
  EXPECT_EQ(list().value.entries_size(), 0);
}

TEST_F(ConformanceOfTheController, RefusesWhatIsMissingOrCannotBe) {
  EXPECT_EQ(code_of(create_request("", mib)), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of(create_request(std::string(129, 'n'), mib)), StatusCode::INVALID_ARGUMENT);
  wire::CreateVolumeRequest request = create_request("pvc-1", mib);
  request.clear_volume_capabilities();
  EXPECT_EQ(code_of(request), StatusCode::INVALID_ARGUMENT);
  *request.add_volume_capabilities() = mount_capability(wire::VolumeCapability::AccessMode::MULTI_NODE_MULTI_WRITER);
  EXPECT_EQ(code_of(request), StatusCode::INVALID_ARGUMENT);
  *request.mutable_volume_capabilities(0) = block_capability();
  EXPECT_EQ(code_of(request), StatusCode::INVALID_ARGUMENT);
  request = create_request("pvc-1", 2 * mib);
  request.mutable_capacity_range()->set_limit_bytes(mib);
  EXPECT_EQ(code_of(request), StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(code_of(create_request("pvc-1", std::int64_t{1} << 50)), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(remove("").code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(remove("no-such-volume").ok());
  EXPECT_TRUE(remove("../../etc").ok());
}

TEST_F(ConformanceOfTheController, NamesTheKnownParametersWhereOneIsUnknown) {
  wire::CreateVolumeRequest request = create_request("pvc-1", mib);
  (*request.mutable_parameters())["bakend"] = "directory";
  const auto answer = create(request);
  EXPECT_EQ(answer.code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("backend"));
}

TEST_F(ConformanceOfTheController, SendsAVolumeForAnotherNodeThere) {
  wire::CreateVolumeRequest request = create_request("pvc-1", mib);
  auto* const topology = request.mutable_accessibility_requirements()->add_requisite();
  (*topology->mutable_segments())["topology.csi.sluice.dev/node"] = "node-b";
  EXPECT_EQ(code_of(request), StatusCode::RESOURCE_EXHAUSTED);
  (*topology->mutable_segments())["topology.csi.sluice.dev/node"] = "node-a";
  EXPECT_EQ(code_of(request), StatusCode::OK);
}

TEST_F(ConformanceOfTheController, GivesAllTheCapacityThatItTells) {
  const std::int64_t room = capacity();
  ASSERT_GT(room, 100 * mib);
  const std::string id = made("all", room);
  EXPECT_EQ(capacity(), 0);
  EXPECT_EQ(code_of(create_request("more", mib)), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(remove(id).ok());
  EXPECT_EQ(capacity(), room);
  wire::GetCapacityRequest elsewhere;
  (*elsewhere.mutable_accessible_topology()->mutable_segments())["topology.csi.sluice.dev/node"] = "node-b";
  EXPECT_EQ(ask(driver_->controller(), &Controller::GetCapacity, elsewhere).value.available_capacity(), 0);
}

TEST_F(ConformanceOfTheController, ListsInPagesThatMissNothing) {
  std::set<std::string> made_ids;
  for (int i = 0; i < 7; ++i) made_ids.insert(made("pvc-" + std::to_string(i), mib));
  std::set<std::string> listed;
  std::string token;
  int pages = 0;
  do {
    const auto page = list(3, token);
    ASSERT_TRUE(page.ok());
    ASSERT_LE(page.value.entries_size(), 3);
    for (const auto& each : page.value.entries()) {
      EXPECT_TRUE(listed.insert(each.volume().volume_id()).second);
      EXPECT_FALSE(each.status().volume_condition().abnormal());
    }
    token = page.value.next_token();
  } while (!token.empty() && ++pages < 10);
  EXPECT_EQ(listed, made_ids);
  EXPECT_EQ(list(0, "7").code(), StatusCode::ABORTED);
  EXPECT_EQ(list(-1, "").code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ConformanceOfTheController, ConfirmsOnlyWhatCanBeHad) {
  const std::string id = made("pvc-1");
  wire::ValidateVolumeCapabilitiesRequest request;
  request.set_volume_id(id);
  EXPECT_EQ(ask(driver_->controller(), &Controller::ValidateVolumeCapabilities, request).code(),
            StatusCode::INVALID_ARGUMENT);
  *request.add_volume_capabilities() = mount_capability();
  EXPECT_TRUE(ask(driver_->controller(), &Controller::ValidateVolumeCapabilities, request).value.has_confirmed());
  *request.add_volume_capabilities() = block_capability();
  const auto refused = ask(driver_->controller(), &Controller::ValidateVolumeCapabilities, request);
  EXPECT_TRUE(refused.ok());
  EXPECT_FALSE(refused.value.has_confirmed());
  EXPECT_FALSE(refused.value.message().empty());
  request.set_volume_id("no-such-volume");
  EXPECT_EQ(ask(driver_->controller(), &Controller::ValidateVolumeCapabilities, request).code(), StatusCode::NOT_FOUND);
}

TEST_F(ConformanceOfTheController, ModifiesBandwidthAndKeepsIt) {
  const std::string id = made("pvc-1");
  wire::ControllerModifyVolumeRequest request;
  request.set_volume_id(id);
  (*request.mutable_mutable_parameters())["bandwidth"] = "5G";
  EXPECT_TRUE(ask(driver_->controller(), &Controller::ControllerModifyVolume, request).ok());
  EXPECT_TRUE(ask(driver_->controller(), &Controller::ControllerModifyVolume, request).ok());
  EXPECT_THAT(read_file(pool_->path() + "/sluice-csi/records/" + id + ".json"), HasSubstr("\"bandwidth\": \"5G\""));
  (*request.mutable_mutable_parameters())["bandwidth"] = "much";
  EXPECT_EQ(ask(driver_->controller(), &Controller::ControllerModifyVolume, request).code(),
            StatusCode::INVALID_ARGUMENT);
  request.set_volume_id("no-such-volume");
  (*request.mutable_mutable_parameters())["bandwidth"] = "5G";
  EXPECT_EQ(ask(driver_->controller(), &Controller::ControllerModifyVolume, request).code(), StatusCode::NOT_FOUND);
}

TEST_F(ConformanceOfTheController, KeepsSnapshotsApartFromWhatComesAfter) {
  const std::string id = made("pvc-1");
  ASSERT_TRUE(stage(id).ok());
  write_file(staging(id) + "/file", "before");
  const auto taken = snapshot("snap-1", id);
  ASSERT_TRUE(taken.ok()) << taken.status.error_message();
  EXPECT_TRUE(taken.value.snapshot().ready_to_use());
  EXPECT_GT(taken.value.snapshot().creation_time().seconds(), 0);
  write_file(staging(id) + "/file", "after");
  EXPECT_EQ(snapshot("snap-1", id).value.snapshot().snapshot_id(), taken.value.snapshot().snapshot_id());
  EXPECT_EQ(snapshot("snap-1", made("pvc-2")).code(), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(snapshot("snap-2", "no-such-volume").code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(snapshot("", id).code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(snapshot("snap-2", "").code(), StatusCode::INVALID_ARGUMENT);

  wire::CreateVolumeRequest request = create_request("restored", 16 * mib);
  request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(taken.value.snapshot().snapshot_id());
  const auto restored = create(request);
  ASSERT_TRUE(restored.ok()) << restored.status.error_message();
  const std::string copy = restored.value.volume().volume_id();
  EXPECT_EQ(restored.value.volume().content_source().snapshot().snapshot_id(), taken.value.snapshot().snapshot_id());
  ASSERT_TRUE(stage(copy).ok());
  EXPECT_EQ(read_file(staging(copy) + "/file"), "before");
  // The same name without the content is another volume.
  EXPECT_EQ(code_of(create_request("restored", 16 * mib)), StatusCode::ALREADY_EXISTS);

  // A snapshot outlives its volume.
  ASSERT_TRUE(unstage(id).ok());
  ASSERT_TRUE(remove(id).ok());
  EXPECT_EQ(list_snapshots(id).value.entries_size(), 1);
  EXPECT_EQ(list_snapshots("", taken.value.snapshot().snapshot_id()).value.entries_size(), 1);
  EXPECT_EQ(list_snapshots("", "no-such-snapshot").value.entries_size(), 0);
  wire::GetSnapshotRequest get;
  get.set_snapshot_id(taken.value.snapshot().snapshot_id());
  EXPECT_EQ(ask(driver_->controller(), &Controller::GetSnapshot, get).value.snapshot().source_volume_id(), id);
  EXPECT_TRUE(remove_snapshot(taken.value.snapshot().snapshot_id()).ok());
  EXPECT_TRUE(remove_snapshot(taken.value.snapshot().snapshot_id()).ok());
  EXPECT_EQ(ask(driver_->controller(), &Controller::GetSnapshot, get).code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(read_file(staging(copy) + "/file"), "before");
}

TEST_F(ConformanceOfTheController, ClonesAVolumeThatIsInUse) {
  const std::string id = made("pvc-1");
  ASSERT_TRUE(stage(id).ok());
  write_file(staging(id) + "/file", "bytes");
  wire::CreateVolumeRequest request = create_request("clone", 16 * mib);
  request.mutable_volume_content_source()->mutable_volume()->set_volume_id(id);
  const auto clone = create(request);
  ASSERT_TRUE(clone.ok()) << clone.status.error_message();
  ASSERT_TRUE(stage(clone.value.volume().volume_id()).ok());
  EXPECT_EQ(read_file(staging(clone.value.volume().volume_id()) + "/file"), "bytes");
  request.set_name("small");
  request.mutable_capacity_range()->set_required_bytes(mib);
  EXPECT_EQ(code_of(request), StatusCode::OUT_OF_RANGE);
  request.mutable_volume_content_source()->mutable_volume()->set_volume_id("no-such-volume");
  EXPECT_EQ(code_of(request), StatusCode::NOT_FOUND);
}

TEST_F(ConformanceOfTheController, AnswersUnknownVolumesOfEachCall) {
  wire::ControllerGetVolumeRequest get;
  get.set_volume_id("no-such-volume");
  EXPECT_EQ(ask(driver_->controller(), &Controller::ControllerGetVolume, get).code(), StatusCode::NOT_FOUND);
  get.set_volume_id(made("pvc-1"));
  EXPECT_EQ(ask(driver_->controller(), &Controller::ControllerGetVolume, get).value.volume().volume_id(),
            get.volume_id());
  wire::ControllerPublishVolumeRequest attach;
  EXPECT_EQ(ask(driver_->controller(), &Controller::ControllerPublishVolume, attach).code(),
            static_cast<StatusCode>(Code::unsupported));
}

}  // namespace
}  // namespace sluice::csi
