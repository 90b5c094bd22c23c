// SPDX-License-Identifier: Apache-2.0
// The node's calls over the socket: bytes, options, order, repeats, health, growth, inline volumes, and what a restart
// keeps.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include <plugin_registration.grpc.pb.h>
#include "base/unique_fd.h"
#include "core/https.h"
#include "core/process.h"
#include "facts/read.h"
#include "tests/driver.h"

namespace sluice::csi::conformance_node_test {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using testing::Not;
using Node = wire::Node::Stub;
using Mode = wire::VolumeCapability::AccessMode;

constexpr std::int64_t mib = 1 << 20;

class ConformanceOfTheNode : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (!IsSkipped()) begin(options());
  }
  virtual std::vector<std::string> options() const { return {}; }

  Answer<wire::NodeExpandVolumeResponse> expand(const std::string& id, const std::string& path, std::int64_t bytes) {
    wire::NodeExpandVolumeRequest request;
    request.set_volume_id(id);
    request.set_volume_path(path);
    request.mutable_capacity_range()->set_required_bytes(bytes);
    return ask(driver_->node(), &Node::NodeExpandVolume, request);
  }
};

TEST_F(ConformanceOfTheNode, BytesSurviveUnstagingAndStagingAgain) {
  const std::string id = made("pvc-1");
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(publish(id, target("a")).ok());
  write_file(target("a") + "/file", "bytes");
  ASSERT_TRUE(unpublish(id, target("a")).ok());
  EXPECT_FALSE(facts::exists(target("a")));
  ASSERT_TRUE(unstage(id).ok());
  EXPECT_FALSE(is_mounted(staging(id)));
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(publish(id, target("b")).ok());
  EXPECT_EQ(read_file(target("b") + "/file"), "bytes");
}

TEST_F(ConformanceOfTheNode, EachCallTwiceIsAsOnce) {
  const std::string id = made("pvc-1");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(stage(id).ok());
  const int staged = count_mounts_below(pool_->folder());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(publish(id, target("a")).ok());
  EXPECT_EQ(count_mounts_below(pool_->folder()), staged + 1);
  EXPECT_EQ(publish(id, target("a"), true).code(), StatusCode::ALREADY_EXISTS);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(unpublish(id, target("a")).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(unstage(id).ok());
  EXPECT_EQ(count_mounts_below(pool_->folder()), staged - 1);
}

TEST_F(ConformanceOfTheNode, ReadOnlyIsReadOnlyForThatPodAlone) {
  const std::string id = made("pvc-1");
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(publish(id, target("writer")).ok());
  ASSERT_TRUE(publish(id, target("reader"), true).ok());
  write_file(target("writer") + "/file", "bytes");
  EXPECT_EQ(read_file(target("reader") + "/file"), "bytes");
  EXPECT_EQ(mkdir((target("reader") + "/folder").c_str(), 0700), -1);
  EXPECT_EQ(errno, EROFS);
}

TEST_F(ConformanceOfTheNode, MountOptionsArriveAndNobarrierIsLeftOutWithAnEvent) {
  const std::string id = made("pvc-1");
  wire::VolumeCapability capability = mount_capability();
  for (const char* const each : {"noatime", "nodiratime", "nobarrier", "noexec"})
    capability.mutable_mount()->add_mount_flags(each);
  ASSERT_TRUE(stage(id, capability).ok());
  ASSERT_TRUE(publish(id, target("a")).ok());
  const std::string mounts = facts::read_text("/proc/self/mountinfo").value_or("");
  const std::size_t line = mounts.find(" " + target("a") + " ");
  ASSERT_NE(line, std::string::npos);
  EXPECT_THAT(mounts.substr(line, mounts.find('\n', line) - line),
              testing::AllOf(HasSubstr("noatime"), HasSubstr("nosuid"), HasSubstr("nodev"), HasSubstr("noexec")));
  EXPECT_THAT(driver_->log(), testing::AllOf(HasSubstr("MountOptionLeftOut"), HasSubstr("nobarrier")));
  EXPECT_THAT(read_file(pool_->path() + "/sluice-csi/records/" + id + ".json"), HasSubstr("nobarrier"));
}

TEST_F(ConformanceOfTheNode, UnknownMountOptionsFailAtStageWithTheKernelsWords) {
  const std::string id = made("pvc-1");
  wire::VolumeCapability capability = mount_capability();
  capability.mutable_mount()->add_mount_flags("frobnicate");
  const auto answer = stage(id, capability);
  EXPECT_EQ(answer.code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("Unknown parameter 'frobnicate'"));
  EXPECT_FALSE(is_mounted(staging(id)));
}

TEST_F(ConformanceOfTheNode, WantsStagingBeforePublishing) {
  const std::string id = made("pvc-1");
  EXPECT_EQ(publish(id, target("a")).code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(publish("no-such-volume", target("a")).code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(stage("no-such-volume").code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(unpublish("no-such-volume", target("a")).ok());
  EXPECT_TRUE(unstage("no-such-volume").ok());
}

TEST_F(ConformanceOfTheNode, RefusesCallsWithoutTheirFields) {
  EXPECT_EQ(ask(driver_->node(), &Node::NodeStageVolume, wire::NodeStageVolumeRequest()).code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ask(driver_->node(), &Node::NodeUnstageVolume, wire::NodeUnstageVolumeRequest()).code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ask(driver_->node(), &Node::NodePublishVolume, wire::NodePublishVolumeRequest()).code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ask(driver_->node(), &Node::NodeUnpublishVolume, wire::NodeUnpublishVolumeRequest()).code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ask(driver_->node(), &Node::NodeGetVolumeStats, wire::NodeGetVolumeStatsRequest()).code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ask(driver_->node(), &Node::NodeExpandVolume, wire::NodeExpandVolumeRequest()).code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(publish(made("pvc-1"), pool_->at("a/../../../etc")).code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ConformanceOfTheNode, OneWriterIsOnePod) {
  const std::string id = made("pvc-1");
  const wire::VolumeCapability one = mount_capability(Mode::SINGLE_NODE_SINGLE_WRITER);
  ASSERT_TRUE(stage(id, one).ok());
  ASSERT_TRUE(publish(id, target("a"), false, one).ok());
  EXPECT_EQ(publish(id, target("b"), false, one).code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(publish(id, target("a"), false, one).ok());
  ASSERT_TRUE(unpublish(id, target("a")).ok());
  EXPECT_TRUE(publish(id, target("b"), false, one).ok());
}

TEST_F(ConformanceOfTheNode, AVolumeInUseIsNotRemoved) {
  const std::string id = made("pvc-1");
  ASSERT_TRUE(stage(id).ok());
  EXPECT_EQ(remove(id).code(), StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(unstage(id).ok());
  EXPECT_TRUE(remove(id).ok());
}

TEST_F(ConformanceOfTheNode, WhatAnotherHasMountedIsLeftAlone) {
  const std::string id = made("pvc-1");
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(unstage(id).ok());
  ASSERT_EQ(mount("tmpfs", staging(id).c_str(), "tmpfs", 0, "size=1m"), 0);
  EXPECT_EQ(stage(id).code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(unstage(id).ok());
  EXPECT_TRUE(is_mounted(staging(id)));
  ASSERT_EQ(umount(staging(id).c_str()), 0);
  EXPECT_TRUE(stage(id).ok());
}

TEST_F(ConformanceOfTheNode, TellsSizeAndHealthOfWhatIsPublished) {
  const std::string id = made("pvc-1", 32 * mib);
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(publish(id, target("a")).ok());
  const auto answer = stats(id, target("a"));
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.value.usage_size(), 2);
  EXPECT_EQ(answer.value.usage(0).total(), 32 * mib);
  EXPECT_FALSE(answer.value.volume_condition().abnormal());
  EXPECT_EQ(stats(id, pool_->at("nowhere")).code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(stats("no-such-volume", target("a")).code(), StatusCode::NOT_FOUND);
}

TEST_F(ConformanceOfTheNode, GrowsInUseAndNeverShrinks) {
  const std::string id = made("pvc-1", 16 * mib);
  EXPECT_EQ(expand(id, staging(id), 32 * mib).code(), StatusCode::NOT_FOUND);
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(publish(id, target("a")).ok());
  const auto grown = expand(id, target("a"), 32 * mib);
  ASSERT_TRUE(grown.ok()) << grown.status.error_message();
  EXPECT_EQ(grown.value.capacity_bytes(), 32 * mib);
  EXPECT_EQ(expand(id, target("a"), 8 * mib).value.capacity_bytes(), 32 * mib);
  EXPECT_EQ(stats(id, target("a")).value.usage(0).total(), 32 * mib);
  EXPECT_EQ(expand(id, target("a"), std::int64_t{1} << 50).code(), StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ConformanceOfTheNode, KilledAtAnyTimeItGoesOnWhereItWas) {
  const std::string id = made("pvc-1");
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(publish(id, target("a")).ok());
  write_file(target("a") + "/file", "bytes");
  driver_->restart(SIGKILL);
  EXPECT_EQ(read_file(target("a") + "/file"), "bytes");
  EXPECT_EQ(made("pvc-1"), id);
  EXPECT_TRUE(stage(id).ok());
  EXPECT_TRUE(publish(id, target("a")).ok());
  driver_->restart(SIGTERM);
  EXPECT_TRUE(unpublish(id, target("a")).ok());
  EXPECT_TRUE(unstage(id).ok());
  EXPECT_TRUE(remove(id).ok());
}

// A killer beside the caller: wherever a call was, the same call afterwards brings it to its end.
TEST_F(ConformanceOfTheNode, KilledInTheMiddleOfCallsItLosesNothing) {
  for (int round = 0; round < 12; ++round) {
    const std::string name = "pvc-" + std::to_string(round);
    std::thread caller([&] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      wire::CreateVolumeResponse response;
      driver_->controller().CreateVolume(&context, create_request(name, mib), &response);
    });
    usleep(static_cast<useconds_t>(round) * 400);
    driver_->stop(SIGKILL);
    caller.join();
    driver_->start();
    const std::string id = made(name, mib);
    ASSERT_TRUE(stage(id).ok());
    ASSERT_TRUE(unstage(id).ok());
    ASSERT_TRUE(remove(id).ok());
  }
  EXPECT_TRUE(facts::list_names(pool_->path() + "/sluice-csi/volumes").empty());
  EXPECT_TRUE(facts::list_names(pool_->path() + "/sluice-csi/making").empty());
}

TEST_F(ConformanceOfTheNode, ConcurrentCallsForOneVolumeSucceedOrAreAborted) {
  const std::string id = made("pvc-1");
  ASSERT_TRUE(stage(id).ok());
  std::vector<std::thread> callers;
  std::atomic<int> others = 0;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        const std::string path = target("p" + std::to_string(i));
        for (const StatusCode code : {publish(id, path).code(), unpublish(id, path).code()}) {
          if (code != StatusCode::OK && code != StatusCode::ABORTED) ++others;
        }
      }
    });
  }
  for (std::thread& each : callers) each.join();
  EXPECT_EQ(others, 0);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(unpublish(id, target("p" + std::to_string(i))).ok());
  EXPECT_TRUE(unstage(id).ok());
}

TEST_F(ConformanceOfTheNode, SecretsAreNeverLogged) {
  wire::CreateVolumeRequest request = create_request("pvc-1", mib);
  (*request.mutable_secrets())["key"] = "hunter2";
  (*request.mutable_parameters())["nobody-knows-this"] = "x";
  EXPECT_FALSE(create(request).ok());
  wire::NodeStageVolumeRequest stage_request;
  stage_request.set_volume_id("no-such-volume");
  stage_request.set_staging_target_path(staging("x"));
  *stage_request.mutable_volume_capability() = mount_capability();
  (*stage_request.mutable_secrets())["key"] = "hunter2";
  EXPECT_FALSE(ask(driver_->node(), &Node::NodeStageVolume, stage_request).ok());
  EXPECT_THAT(driver_->log(), testing::AllOf(HasSubstr("nobody-knows-this"), Not(HasSubstr("hunter2"))));
}

TEST_F(ConformanceOfTheNode, SaysWhereItIs) {
  const auto info = ask(driver_->node(), &Node::NodeGetInfo, wire::NodeGetInfoRequest());
  EXPECT_EQ(info.value.node_id(), "node-a");
  EXPECT_EQ(info.value.accessible_topology().segments().at("topology.csi.sluice.dev/node"), "node-a");
}

TEST_F(ConformanceOfTheNode, ASecondDriverDoesNotTakeTheSocketOver) {
  ASSERT_TRUE(ask(driver_->identity(), &wire::Identity::Stub::Probe, wire::ProbeRequest()).ok());
  const ProgramResult second =
      run_program({SLUICE_CSI_BINARY, "--endpoint", "unix://" + driver_->socket(), "--node", "b", "--lock-wait", "1"},
                  std::chrono::seconds(30));
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.output, HasSubstr("Another process serves"));
  EXPECT_TRUE(ask(driver_->identity(), &wire::Identity::Stub::Probe, wire::ProbeRequest()).value.ready().value());
  EXPECT_EQ(run_program({SLUICE_CSI_BINARY, "--probe", driver_->socket()}, std::chrono::seconds(30)).status, 0);
  driver_->stop(SIGTERM);
  EXPECT_EQ(run_program({SLUICE_CSI_BINARY, "--probe", driver_->socket()}, std::chrono::seconds(30)).status, 1);
}

TEST_F(ConformanceOfTheNode, PrometheusIsToldOfCallsRoomAndVolumes) {
  driver_.reset();
  // A port that is free: the kernel gives one, and the driver takes it a moment later.
  const base::UniqueFd free(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const int yes = 1;
  setsockopt(free.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ASSERT_EQ(bind(free.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(getsockname(free.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  begin({"--metrics", "127.0.0.1:" + port});
  wire::CreateVolumeRequest request = create_request("pvc-1", 32 * mib);
  (*request.mutable_parameters())["csi.storage.k8s.io/pvc/name"] = "da\"ta";
  (*request.mutable_parameters())["csi.storage.k8s.io/pvc/namespace"] = "default";
  const std::string id = create(request).value.volume().volume_id();
  ASSERT_TRUE(stage(id).ok());
  ASSERT_FALSE(stage("no-such-volume").ok());
  const HttpAnswer answer =
      ask_server(server_at("http://127.0.0.1:" + port), "GET", "/metrics", {}, "", std::chrono::seconds(20));
  EXPECT_EQ(answer.status, 200);
  const std::string labels = "{volume=\"" + id + "\",namespace=\"default\",claim=\"da\\\"ta\"";
  EXPECT_THAT(answer.body, testing::AllOf(HasSubstr("sluice_csi_calls_total{call=\"NodeStageVolume\",code=\"0\"} 1\n"),
                                          HasSubstr("sluice_csi_calls_total{call=\"NodeStageVolume\",code=\"5\"} 1\n"),
                                          HasSubstr("sluice_csi_call_seconds_total{call=\"CreateVolume\"} "),
                                          HasSubstr("sluice_csi_room_bytes{backend=\"directory\",drive=\"loop"),
                                          HasSubstr("sluice_csi_volume_bytes" + labels + "} 33554432\n"),
                                          HasSubstr("sluice_csi_volume_healthy" + labels + "} 1\n"),
                                          HasSubstr("sluice_csi_direct_path" + labels + ",result=\"no-gpu\"} 1\n")));
  EXPECT_EQ(ask_server(server_at("http://127.0.0.1:" + port), "GET", "/x", {}, "", std::chrono::seconds(20)).status,
            404);
}

// What a pod is: another user, no capability, no way to get one. It reads a file of the volume into the memory of a
// GPU, which is the soft one here, has every byte compared, and says which path the bytes took.
TEST_F(ConformanceOfTheNode, AProcessWithoutPrivilegesReadsVerifiedBytesThroughTheLibrary) {
  if (!facts::exists(SLUICE_BINARY) || !facts::exists(SLUICE_SOFT_GPU "/libcuda.so.1")) {
    GTEST_SKIP() << "sluice or the soft GPU is not built";
  }
  const std::string id = made("pvc-1");
  chmod(pool_->folder().c_str(), 0755);
  mkdir(pool_->at("pods").c_str(), 0755);
  mkdir(pool_->at("pods/a").c_str(), 0755);
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(publish(id, target("a")).ok());
  write_file(target("a") + "/file", read_file(pool_->path() + "/sluice-csi/trial"));
  const ProgramResult run =
      run_program({"setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--no-new-privs", "--bounding-set=-all",
                   "--inh-caps=-all", "env", "SLUICE_SOFTGPU=1", "HOME=/", "LD_LIBRARY_PATH=" SLUICE_SOFT_GPU,
                   SLUICE_BINARY, "doctor", "--json", target("a") + "/file"},
                  std::chrono::seconds(60));
  const std::string::size_type trial = run.output.find("\"trial.");
  ASSERT_NE(trial, std::string::npos) << run.output;
  EXPECT_THAT(run.output.substr(trial), testing::AllOf(HasSubstr("every byte right"), HasSubstr("1048576 bytes")));
}

class ConformanceOfKubeletsSide : public ConformanceOfTheNode {
 protected:
  std::vector<std::string> options() const override {
    mkdir(pool_->at("kit").c_str(), 0755);
    write_file(pool_->at("kit/libcufile.so.0"), "library");
    return {"--registration", pool_->at("plugins_registry"), "--kit",
            pool_->at("kit"), "--kubelet-endpoint",          "/var/lib/kubelet/plugins/csi.sluice.dev/csi.sock"};
  }
  Answer<wire::NodePublishVolumeResponse> publish_inline(const std::string& id, const std::string& path) {
    wire::NodePublishVolumeRequest request;
    request.set_volume_id(id);
    request.set_target_path(path);
    request.set_readonly(true);
    *request.mutable_volume_capability() = mount_capability();
    (*request.mutable_volume_context())["csi.storage.k8s.io/ephemeral"] = "true";
    return ask(driver_->node(), &Node::NodePublishVolume, request);
  }
};

TEST_F(ConformanceOfKubeletsSide, RegistersItselfByItsOwnSocket) {
  ASSERT_TRUE(ask(driver_->identity(), &wire::Identity::Stub::Probe, wire::ProbeRequest()).ok());
  const auto channel = grpc::CreateChannel("unix:" + pool_->at("plugins_registry/csi.sluice.dev-reg.sock"),
                                           grpc::InsecureChannelCredentials());
  const auto stub = ::pluginregistration::Registration::NewStub(channel);
  const auto info = ask(*stub, &::pluginregistration::Registration::Stub::GetInfo, ::pluginregistration::InfoRequest());
  ASSERT_TRUE(info.ok()) << info.status.error_message();
  EXPECT_EQ(info.value.type(), "CSIPlugin");
  EXPECT_EQ(info.value.name(), "csi.sluice.dev");
  EXPECT_EQ(info.value.endpoint(), "/var/lib/kubelet/plugins/csi.sluice.dev/csi.sock");
  ASSERT_EQ(info.value.supported_versions_size(), 1);
  EXPECT_EQ(info.value.supported_versions(0), "1.0.0");
  ::pluginregistration::RegistrationStatus status;
  status.set_plugin_registered(true);
  EXPECT_TRUE(ask(*stub, &::pluginregistration::Registration::Stub::NotifyRegistrationStatus, status).ok());
}

TEST_F(ConformanceOfKubeletsSide, AnInlineVolumeIsTheKitReadOnly) {
  ASSERT_TRUE(publish_inline("csi-1", target("a")).ok());
  ASSERT_TRUE(publish_inline("csi-1", target("a")).ok());
  EXPECT_EQ(read_file(target("a") + "/libcufile.so.0"), "library");
  EXPECT_EQ(mkdir((target("a") + "/folder").c_str(), 0700), -1);
  EXPECT_EQ(errno, EROFS);
  driver_->restart(SIGKILL);
  EXPECT_TRUE(unpublish("csi-1", target("a")).ok());
  EXPECT_FALSE(facts::exists(target("a")));
  EXPECT_EQ(read_file(pool_->at("kit/libcufile.so.0")), "library");
}

}  // namespace
}  // namespace sluice::csi::conformance_node_test
