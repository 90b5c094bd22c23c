// SPDX-License-Identifier: Apache-2.0
// The driver as a process, and a client of its socket as kubelet and the sidecars are.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <csi.grpc.pb.h>
#include "core/types.h"
#include "tests/pool.h"

namespace sluice::csi {

namespace wire = ::csi::v1;

// The answer of a call, or its status.
template <typename Response>
struct Answer {
  grpc::Status status;
  Response value;
  bool ok() const { return status.ok(); }
  grpc::StatusCode code() const { return status.error_code(); }
};

class DriverProcess {
 public:
  // `more` are options besides the socket, the node and the pool.
  explicit DriverProcess(const LoopPool& pool, std::vector<std::string> more = {});
  ~DriverProcess();
  DriverProcess(const DriverProcess&) = delete;
  DriverProcess& operator=(const DriverProcess&) = delete;

  void start();
  // Waits for its end; returns what waitpid told.
  int stop(int signal);
  void restart(int signal) {
    stop(signal);
    start();
  }
  pid_t process() const { return process_; }
  std::string log() const;
  std::string socket() const { return folder_ + "/csi.sock"; }
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }

  wire::Identity::Stub& identity() { return *identity_; }
  wire::Controller::Stub& controller() { return *controller_; }
  wire::Node::Stub& node() { return *node_; }

 private:
  std::string folder_;
  std::string pool_;
  std::vector<std::string> more_;
  pid_t process_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<wire::Identity::Stub> identity_;
  std::unique_ptr<wire::Controller::Stub> controller_;
  std::unique_ptr<wire::Node::Stub> node_;
};

// One call with a deadline: ask(stub, &Stub::Method, request).
template <typename Stub, typename Request, typename Response>
Answer<Response> ask(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.set_wait_for_ready(true);
  Answer<Response> answer;
  answer.status = (stub.*method)(&context, request, &answer.value);
  return answer;
}

// Requests as kubelet and the provisioner send them.
wire::VolumeCapability mount_capability(
    wire::VolumeCapability::AccessMode::Mode mode = wire::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
wire::VolumeCapability block_capability();
wire::CreateVolumeRequest create_request(const std::string& name, std::int64_t bytes);

// A test with a pool and a driver, and the calls that most tests make.
class DriverTest : public testing::Test {
 protected:
  void SetUp() override;
  void begin(std::vector<std::string> more = {});

  Answer<wire::CreateVolumeResponse> create(const wire::CreateVolumeRequest& request);
  std::string made(const std::string& name, std::int64_t bytes = 16 << 20);  // the id
  Answer<wire::DeleteVolumeResponse> remove(const std::string& id);
  Answer<wire::NodeStageVolumeResponse> stage(const std::string& id,
                                              const wire::VolumeCapability& capability = mount_capability());
  Answer<wire::NodeUnstageVolumeResponse> unstage(const std::string& id);
  Answer<wire::NodePublishVolumeResponse> publish(const std::string& id, const std::string& target,
                                                  bool read_only = false,
                                                  const wire::VolumeCapability& capability = mount_capability());
  Answer<wire::NodeUnpublishVolumeResponse> unpublish(const std::string& id, const std::string& target);
  Answer<wire::NodeGetVolumeStatsResponse> stats(const std::string& id, const std::string& path);
  std::int64_t capacity();
  std::string staging(const std::string& id) const { return pool_->at("staging/" + id + "/globalmount"); }
  std::string target(const std::string& pod) const { return pool_->at("pods/" + pod + "/mount"); }

  std::unique_ptr<LoopPool> pool_;
  std::unique_ptr<DriverProcess> driver_;
  Map context_;  // of volumes that are staged
};

}  // namespace sluice::csi
