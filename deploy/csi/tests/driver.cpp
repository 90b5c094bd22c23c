// SPDX-License-Identifier: Apache-2.0
#include "tests/driver.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace sluice::csi {

DriverProcess::DriverProcess(const LoopPool& pool, std::vector<std::string> more)
    : folder_(pool.folder()), pool_(pool.path()), more_(std::move(more)) {
  start();
}

DriverProcess::~DriverProcess() {
  stop(SIGKILL);
}

void DriverProcess::start() {
  std::vector<std::string> words = {
      SLUICE_CSI_BINARY, "--endpoint", "unix://" + socket(), "--node", "node-a", "--pool", pool_, "--quota", "none"};
  words.insert(words.end(), more_.begin(), more_.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string log = folder_ + "/log";
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int error = posix_spawn(&process_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("sluice-csi cannot be started");
  grpc::ChannelArguments channel;
  // Each start is a new server at the same path: no memory of the last one's end, and no connection of another test.
  channel.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  channel.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  channel.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 50);
  channel_ = grpc::CreateCustomChannel("unix:" + socket(), grpc::InsecureChannelCredentials(), channel);
  identity_ = wire::Identity::NewStub(channel_);
  controller_ = wire::Controller::NewStub(channel_);
  node_ = wire::Node::NewStub(channel_);
}

int DriverProcess::stop(int signal) {
  if (process_ <= 0) return 0;
  kill(process_, signal);
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  return status;
}

std::string DriverProcess::log() const {
  return read_file(folder_ + "/log");
}

wire::VolumeCapability mount_capability(wire::VolumeCapability::AccessMode::Mode mode) {
  wire::VolumeCapability capability;
  capability.mutable_mount();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

wire::VolumeCapability block_capability() {
  wire::VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(wire::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  return capability;
}

wire::CreateVolumeRequest create_request(const std::string& name, std::int64_t bytes) {
  wire::CreateVolumeRequest request;
  request.set_name(name);
  request.mutable_capacity_range()->set_required_bytes(bytes);
  *request.add_volume_capabilities() = mount_capability();
  return request;
}

void DriverTest::SetUp() {
  const std::string why = why_no_pool();
  if (!why.empty()) GTEST_SKIP() << why;
  pool_ = std::make_unique<LoopPool>();
}

void DriverTest::begin(std::vector<std::string> more) {
  driver_ = std::make_unique<DriverProcess>(*pool_, std::move(more));
}

Answer<wire::CreateVolumeResponse> DriverTest::create(const wire::CreateVolumeRequest& request) {
  return ask(driver_->controller(), &wire::Controller::Stub::CreateVolume, request);
}

std::string DriverTest::made(const std::string& name, std::int64_t bytes) {
  const auto answer = create(create_request(name, bytes));
  EXPECT_TRUE(answer.ok()) << answer.status.error_message();
  return answer.value.volume().volume_id();
}

Answer<wire::DeleteVolumeResponse> DriverTest::remove(const std::string& id) {
  wire::DeleteVolumeRequest request;
  request.set_volume_id(id);
  return ask(driver_->controller(), &wire::Controller::Stub::DeleteVolume, request);
}

Answer<wire::NodeStageVolumeResponse> DriverTest::stage(const std::string& id,
                                                        const wire::VolumeCapability& capability) {
  wire::NodeStageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(staging(id));
  *request.mutable_volume_capability() = capability;
  for (const auto& [key, value] : context_) (*request.mutable_volume_context())[key] = value;
  return ask(driver_->node(), &wire::Node::Stub::NodeStageVolume, request);
}

Answer<wire::NodeUnstageVolumeResponse> DriverTest::unstage(const std::string& id) {
  wire::NodeUnstageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(staging(id));
  return ask(driver_->node(), &wire::Node::Stub::NodeUnstageVolume, request);
}

Answer<wire::NodePublishVolumeResponse> DriverTest::publish(const std::string& id, const std::string& target,
                                                            bool read_only, const wire::VolumeCapability& capability) {
  wire::NodePublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(staging(id));
  request.set_target_path(target);
  request.set_readonly(read_only);
  *request.mutable_volume_capability() = capability;
  return ask(driver_->node(), &wire::Node::Stub::NodePublishVolume, request);
}

Answer<wire::NodeUnpublishVolumeResponse> DriverTest::unpublish(const std::string& id, const std::string& target) {
  wire::NodeUnpublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_target_path(target);
  return ask(driver_->node(), &wire::Node::Stub::NodeUnpublishVolume, request);
}

Answer<wire::NodeGetVolumeStatsResponse> DriverTest::stats(const std::string& id, const std::string& path) {
  wire::NodeGetVolumeStatsRequest request;
  request.set_volume_id(id);
  request.set_volume_path(path);
  return ask(driver_->node(), &wire::Node::Stub::NodeGetVolumeStats, request);
}

std::int64_t DriverTest::capacity() {
  return ask(driver_->controller(), &wire::Controller::Stub::GetCapacity, wire::GetCapacityRequest())
      .value.available_capacity();
}

}  // namespace sluice::csi
