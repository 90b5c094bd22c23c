// SPDX-License-Identifier: Apache-2.0
#include "server/dra_plugin.h"

#include <dra.grpc.pb.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <plugin_registration.grpc.pb.h>
#include "core/bandwidth.h"
#include "core/log.h"
#include "core/record.h"
#include "core/refusal.h"
#include "facts/read.h"
#include "server/convert.h"
#include "server/socket.h"

namespace sluice::csi {
namespace {

namespace dra = ::k8s::io::kubelet::pkg::apis::dra::v1;
namespace kubelet_side = ::pluginregistration;

constexpr std::chrono::seconds lock_wait(10);

class DraAdapter : public dra::DRAPlugin::Service {
 public:
  explicit DraAdapter(const DraOptions& options) : options_(options) {}

  grpc::Status NodePrepareResources(grpc::ServerContext* /*context*/, const dra::NodePrepareResourcesRequest* request,
                                    dra::NodePrepareResourcesResponse* response) override {
    const CallScope scope;
    for (const dra::Claim& claim : request->claims()) {
      dra::NodePrepareResourceResponse& answer = (*response->mutable_claims())[claim.uid()];
      try {
        prepare(claim, answer);
      } catch (const std::exception& error) {
        answer.clear_devices();
        answer.set_error(error.what());
        log_line("warning",
                 fmt::format("NodePrepareResources of {}/{}: {}", claim.namespace_(), claim.name(), error.what()));
      }
    }
    return grpc::Status::OK;
  }

  // The pod is gone, and with it its limits; what was made for the claim goes.
  grpc::Status NodeUnprepareResources(grpc::ServerContext* /*context*/,
                                      const dra::NodeUnprepareResourcesRequest* request,
                                      dra::NodeUnprepareResourcesResponse* response) override {
    const CallScope scope;
    for (const dra::Claim& claim : request->claims()) {
      dra::NodeUnprepareResourceResponse& answer = (*response->mutable_claims())[claim.uid()];
      try {
        want_uid(claim.uid());
        remove_claim_spec(options_.claims, claim.uid());
        options_.folders->remove(claim.uid());
      } catch (const std::exception& error) {
        answer.set_error(error.what());
        log_line("warning",
                 fmt::format("NodeUnprepareResources of {}/{}: {}", claim.namespace_(), claim.name(), error.what()));
      }
    }
    return grpc::Status::OK;
  }

 private:
  // It becomes a part of names of files.
  static void want_uid(const std::string& uid) {
    if (!is_safe_id(uid)) refuse(Code::invalid_argument, "The claim's uid is none of Kubernetes'.");
  }

  void prepare(const dra::Claim& wanted, dra::NodePrepareResourceResponse& answer) {
    want_uid(wanted.uid());
    // The request holds only the claim's name: what was allocated has to be read.
    KubeApi api(options_.kube, options_.account);
    const DraClaim claim = read_claim(api, wanted.namespace_(), wanted.name(), options_.names.driver);
    if (claim.uid != wanted.uid())
      refuse(Code::not_found, "A claim of this name was made anew; the one that is asked for is gone.");
    const std::vector<DraDrive> drives = options_.drives();
    DriveLimits limits;
    std::vector<ClaimDevice> own;
    for (const DraAllocation& each : claim.allocations) {
      const auto drive = std::find_if(drives.begin(), drives.end(),
                                      [&](const DraDrive& one) { return dra_device_name(one.name) == each.device; });
      if (each.pool != options_.names.node || drive == drives.end())
        refuse(Code::not_found,
               fmt::format("{} of {} was allocated, and is no drive of this node.", each.device, each.pool));
      dra::Device* const device = answer.add_devices();
      device->add_request_names(each.request);
      device->set_pool_name(each.pool);
      device->set_device_name(each.device);
      device->add_cdi_device_ids(cdi_name(options_.cdi, each.device));
      if (each.share) device->set_share_id(*each.share);
      if (each.folder) {
        own.push_back(room_on(drive->name, claim.uid, *each.folder, own));
        device->add_cdi_device_ids(cdi_name(options_.claims, own.back().name));
      }
      const auto number = facts::read_value("/sys/class/block/" + drive->name + "/dev");
      if (each.bandwidth && number) {
        auto& limit = limits[*number];
        limit = limit.value_or(0) + *each.bandwidth;
      }
    }
    if (!own.empty()) write_claim_spec(options_.claims, claim.uid, own);
    if (options_.cgroups.empty() || limits.empty()) return;
    for (const std::string& pod : claim.pods) {
      const std::string why = set_limits(options_.cgroups, pod, limits);
      if (!why.empty()) log_event("Warning", "BandwidthNotEnforced", wanted.name(), why);
    }
  }

  // The next of the claim's folders, on the drive that it was given.
  ClaimDevice room_on(const std::string& drive, const std::string& claim, const DraFolder& folder,
                      const std::vector<ClaimDevice>& before) const {
    for (const ClaimDevice& each : before) {
      if (each.inside == folder.path)
        refuse(Code::invalid_argument,
               "Two drives of the claim are to be at " + folder.path + ". Give each request a path of its own.");
    }
    const std::string name = ClaimFolders::name_of(claim, before.size());
    return {name, options_.folders->make(name, drive, folder.bytes), folder.path};
  }

  const DraOptions& options_;
};

class DraRegistration : public kubelet_side::Registration::Service {
 public:
  DraRegistration(const DraOptions& options, std::function<void()> registered)
      : options_(options), registered_(std::move(registered)) {}

  grpc::Status GetInfo(grpc::ServerContext* /*context*/, const kubelet_side::InfoRequest* /*request*/,
                       kubelet_side::PluginInfo* response) override {
    response->set_type("DRAPlugin");
    response->set_name(options_.names.driver);
    response->set_endpoint(options_.kubelet_endpoint);
    response->add_supported_versions("v1.DRAPlugin");
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(grpc::ServerContext* /*context*/,
                                        const kubelet_side::RegistrationStatus* request,
                                        kubelet_side::RegistrationStatusResponse* /*response*/) override {
    if (!request->plugin_registered()) {
      log_line("error", "kubelet does not register the plugin for dynamic resource allocation: " + request->error());
      return grpc::Status::OK;
    }
    log_line("info", "kubelet has registered the plugin for dynamic resource allocation.");
    // A kubelet that starts anew has removed the slices of plugins that it does not know.
    registered_();
    return grpc::Status::OK;
  }

 private:
  const DraOptions& options_;
  std::function<void()> registered_;
};

std::unique_ptr<grpc::Server> serve_at(const std::string& path, grpc::Service& service) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server)
    refuse(Code::failed_precondition, "Nothing can be served at " + path + ". Is its folder there and writable?");
  return server;
}

}  // namespace

class DraPlugin::Worker {
 public:
  explicit Worker(DraOptions options)
      : options_(std::move(options)),
        adapter_(std::make_unique<DraAdapter>(options_)),
        registration_(std::make_unique<DraRegistration>(options_, [this] { wake(true); })),
        lock_(options_.socket, lock_wait),
        registration_lock_(registration_socket(), lock_wait),
        server_(serve_at(options_.socket, *adapter_)),
        registering_(serve_at(registration_socket(), *registration_)),
        thread_([this] { run(); }) {}

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
    const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(100);
    registering_->Shutdown(deadline);
    server_->Shutdown(deadline);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void wake(bool anew) {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
      anew_ = anew_ || anew;
    }
    changed_.notify_all();
  }

 private:
  std::string registration_socket() const { return options_.registration + "/" + options_.names.driver + "-reg.sock"; }

  void run() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return woken_ || ended_; });
        if (ended_) return;
        woken_ = false;
        if (std::exchange(anew_, false)) offered_.clear();
      }
      try {
        publish();
      } catch (const std::exception& error) {
        if (last_told_ != error.what()) log_line("error", error.what());
        last_told_ = error.what();
      }
    }
  }

  // Asks for nothing while what was offered last is still so.
  void publish() {
    const std::vector<DraDrive> drives = options_.drives();
    const std::string wanted = resource_slice(options_.names, drives, "", 1);
    if (wanted == offered_) return;
    CdiOptions cdi = options_.cdi;
    for (const DraDrive& each : drives) cdi.drives.push_back(dra_device_name(each.name));
    write_cdi_spec(cdi);
    KubeApi api(options_.kube, options_.account);
    publish_slice(api, options_.names, drives);
    offered_ = wanted;
    last_told_.clear();
    log_line("info", fmt::format("{} drives are offered as the ResourceSlice of this node.", drives.size()));
  }

  DraOptions options_;
  std::unique_ptr<grpc::Service> adapter_;
  std::unique_ptr<grpc::Service> registration_;
  SocketLock lock_;
  SocketLock registration_lock_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool anew_ = false;
  bool ended_ = false;
  std::string offered_;
  std::string last_told_;
  std::unique_ptr<grpc::Server> registering_;  // last: kubelet calls as soon as it sees this socket
  std::thread thread_;
};

DraPlugin::DraPlugin(DraOptions options) : worker_(std::make_unique<Worker>(std::move(options))) {}
DraPlugin::~DraPlugin() = default;
void DraPlugin::wake() {
  worker_->wake(false);
}

}  // namespace sluice::csi
