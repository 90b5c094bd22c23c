// SPDX-License-Identifier: Apache-2.0
#include <csi.grpc.pb.h>
#include "server/convert.h"
#include "server/services.h"

namespace sluice::csi {
namespace {

using grpc::ServerContext;
using grpc::Status;

class NodeAdapter : public wire::Node::Service {
 public:
  explicit NodeAdapter(DriverState& driver) : driver_(driver) {}

  Status NodeGetCapabilities(ServerContext* /*context*/, const wire::NodeGetCapabilitiesRequest* /*request*/,
                             wire::NodeGetCapabilitiesResponse* response) override {
    using Rpc = wire::NodeServiceCapability::RPC;
    for (const Rpc::Type type : {Rpc::STAGE_UNSTAGE_VOLUME, Rpc::GET_VOLUME_STATS, Rpc::EXPAND_VOLUME,
                                 Rpc::VOLUME_CONDITION, Rpc::SINGLE_NODE_MULTI_WRITER}) {
      response->add_capabilities()->mutable_rpc()->set_type(type);
    }
    return Status::OK;
  }

  Status NodeGetInfo(ServerContext* /*context*/, const wire::NodeGetInfoRequest* /*request*/,
                     wire::NodeGetInfoResponse* response) override {
    const ServiceOptions& options = driver_.settings().service;
    response->set_node_id(options.node);
    if (options.driver == Driver::local) {
      (*response->mutable_accessible_topology()->mutable_segments())[options.names.topology_key()] = options.node;
    }
    return Status::OK;
  }

  Status NodeStageVolume(ServerContext* /*context*/, const wire::NodeStageVolumeRequest* request,
                         wire::NodeStageVolumeResponse* /*response*/) override {
    return answer_of("NodeStageVolume", [&] {
      driver_.node().stage({request->volume_id(), request->staging_target_path(),
                            from_wire(request->volume_capability()), from_wire(request->volume_context()),
                            from_wire(request->publish_context())});
    });
  }

  Status NodeUnstageVolume(ServerContext* /*context*/, const wire::NodeUnstageVolumeRequest* request,
                           wire::NodeUnstageVolumeResponse* /*response*/) override {
    return answer_of("NodeUnstageVolume",
                     [&] { driver_.node().unstage(request->volume_id(), request->staging_target_path()); });
  }

  Status NodePublishVolume(ServerContext* /*context*/, const wire::NodePublishVolumeRequest* request,
                           wire::NodePublishVolumeResponse* /*response*/) override {
    return answer_of("NodePublishVolume", [&] {
      driver_.node().publish({{request->volume_id(), request->staging_target_path(), request->target_path(),
                               from_wire(request->volume_capability()), request->readonly()},
                              from_wire(request->volume_context())});
    });
  }

  Status NodeUnpublishVolume(ServerContext* /*context*/, const wire::NodeUnpublishVolumeRequest* request,
                             wire::NodeUnpublishVolumeResponse* /*response*/) override {
    return answer_of("NodeUnpublishVolume",
                     [&] { driver_.node().unpublish(request->volume_id(), request->target_path()); });
  }

  Status NodeGetVolumeStats(ServerContext* /*context*/, const wire::NodeGetVolumeStatsRequest* request,
                            wire::NodeGetVolumeStatsResponse* response) override {
    return answer_of("NodeGetVolumeStats", [&] {
      const StatsAnswer answer = driver_.node().stats(request->volume_id(), request->volume_path());
      to_wire(answer.condition, response->mutable_volume_condition());
      add_usage(answer.usage, response);
    });
  }

  Status NodeExpandVolume(ServerContext* /*context*/, const wire::NodeExpandVolumeRequest* request,
                          wire::NodeExpandVolumeResponse* response) override {
    return answer_of("NodeExpandVolume", [&] {
      response->set_capacity_bytes(
          driver_.node().expand(request->volume_id(), request->volume_path(), from_wire(request->capacity_range())));
    });
  }

 private:
  static void add_usage(const Usage& usage, wire::NodeGetVolumeStatsResponse* response) {
    if (usage.total == 0) return;  // of a volume that is not well nothing is known
    wire::VolumeUsage* const bytes = response->add_usage();
    bytes->set_unit(wire::VolumeUsage::BYTES);
    bytes->set_total(usage.total);
    bytes->set_used(usage.used);
    bytes->set_available(usage.available);
    if (usage.total_inodes == 0) return;
    wire::VolumeUsage* const inodes = response->add_usage();
    inodes->set_unit(wire::VolumeUsage::INODES);
    inodes->set_total(usage.total_inodes);
    inodes->set_used(usage.used_inodes);
    inodes->set_available(usage.free_inodes);
  }

  DriverState& driver_;
};

}  // namespace

std::unique_ptr<grpc::Service> node_service(DriverState& driver) {
  return std::make_unique<NodeAdapter>(driver);
}

}  // namespace sluice::csi
