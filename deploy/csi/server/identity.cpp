// SPDX-License-Identifier: Apache-2.0
#include <csi.grpc.pb.h>
#include "base/version.h"
#include "server/convert.h"
#include "server/services.h"

namespace sluice::csi {
namespace {

class IdentityAdapter : public wire::Identity::Service {
 public:
  explicit IdentityAdapter(DriverState& driver) : driver_(driver) {}

  grpc::Status GetPluginInfo(grpc::ServerContext* /*context*/, const wire::GetPluginInfoRequest* /*request*/,
                             wire::GetPluginInfoResponse* response) override {
    const ServiceOptions& options = driver_.settings().service;
    response->set_name(options.names.of(options.driver));
    response->set_vendor_version(SLUICE_VERSION_TEXT);
    return grpc::Status::OK;
  }

  grpc::Status GetPluginCapabilities(grpc::ServerContext* /*context*/,
                                     const wire::GetPluginCapabilitiesRequest* /*request*/,
                                     wire::GetPluginCapabilitiesResponse* response) override {
    response->add_capabilities()->mutable_service()->set_type(wire::PluginCapability::Service::CONTROLLER_SERVICE);
    if (driver_.settings().service.driver == Driver::local) {
      response->add_capabilities()->mutable_service()->set_type(
          wire::PluginCapability::Service::VOLUME_ACCESSIBILITY_CONSTRAINTS);
    }
    response->add_capabilities()->mutable_volume_expansion()->set_type(wire::PluginCapability::VolumeExpansion::ONLINE);
    return grpc::Status::OK;
  }

  grpc::Status Probe(grpc::ServerContext* /*context*/, const wire::ProbeRequest* /*request*/,
                     wire::ProbeResponse* response) override {
    return answer_of("Probe", [&] { response->mutable_ready()->set_value(driver_.why_not_ready().empty()); });
  }

 private:
  DriverState& driver_;
};

}  // namespace

std::unique_ptr<grpc::Service> identity_service(DriverState& driver) {
  return std::make_unique<IdentityAdapter>(driver);
}

}  // namespace sluice::csi
