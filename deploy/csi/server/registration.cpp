// SPDX-License-Identifier: Apache-2.0
#include <plugin_registration.grpc.pb.h>
#include "core/log.h"
#include "server/services.h"

namespace sluice::csi {
namespace {

namespace kubelet = ::pluginregistration;

class RegistrationAdapter : public kubelet::Registration::Service {
 public:
  explicit RegistrationAdapter(const Settings& settings) : settings_(settings) {}

  grpc::Status GetInfo(grpc::ServerContext* /*context*/, const kubelet::InfoRequest* /*request*/,
                       kubelet::PluginInfo* response) override {
    response->set_type("CSIPlugin");
    response->set_name(settings_.service.names.of(settings_.service.driver));
    response->set_endpoint(settings_.kubelet_endpoint.empty() ? settings_.endpoint : settings_.kubelet_endpoint);
    response->add_supported_versions("1.0.0");
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(grpc::ServerContext* /*context*/, const kubelet::RegistrationStatus* request,
                                        kubelet::RegistrationStatusResponse* /*response*/) override {
    if (request->plugin_registered()) {
      log_line("info", "kubelet has registered this driver.");
    } else {
      log_line("error", "kubelet does not register this driver: " + request->error());
    }
    return grpc::Status::OK;
  }

 private:
  const Settings& settings_;
};

}  // namespace

std::unique_ptr<grpc::Service> registration_service(const Settings& settings) {
  return std::make_unique<RegistrationAdapter>(settings);
}

}  // namespace sluice::csi
