// SPDX-License-Identifier: Apache-2.0
#include <csi.grpc.pb.h>
#include "server/convert.h"
#include "server/services.h"

namespace sluice::csi {
namespace {

using grpc::ServerContext;
using grpc::Status;

CreateVolumeCall call_of(const wire::CreateVolumeRequest& request) {
  CreateVolumeCall call;
  call.name = request.name();
  call.range = from_wire(request.capacity_range());
  call.capabilities = capabilities_of(request.volume_capabilities());
  call.parameters = from_wire(request.parameters());
  call.mutable_parameters = from_wire(request.mutable_parameters());
  if (request.has_volume_content_source()) call.source = from_wire(request.volume_content_source());
  for (const wire::Topology& each : request.accessibility_requirements().requisite()) {
    call.requisite.push_back(from_wire(each.segments()));
  }
  return call;
}

class ControllerAdapter : public wire::Controller::Service {
 public:
  explicit ControllerAdapter(DriverState& driver) : driver_(driver) {}

  Status ControllerGetCapabilities(ServerContext* /*context*/,
                                   const wire::ControllerGetCapabilitiesRequest* /*request*/,
                                   wire::ControllerGetCapabilitiesResponse* response) override {
    using Rpc = wire::ControllerServiceCapability::RPC;
    std::vector<Rpc::Type> types = {Rpc::LIST_VOLUMES, Rpc::GET_VOLUME, Rpc::VOLUME_CONDITION,
                                    Rpc::SINGLE_NODE_MULTI_WRITER};
    // Only a node has the volume. Beside the resizer a change is agreed to where nodes follow the volume's class; else
    // a claim would wait for ever.
    if (driver_.settings().mode == Mode::node || driver_.settings().follow_classes) types.push_back(Rpc::MODIFY_VOLUME);
    // Namespaces of a target are made there.
    if (driver_.settings().service.driver == Driver::local) {
      types.insert(types.end(), {Rpc::CREATE_DELETE_VOLUME, Rpc::GET_CAPACITY, Rpc::CREATE_DELETE_SNAPSHOT,
                                 Rpc::LIST_SNAPSHOTS, Rpc::GET_SNAPSHOT, Rpc::CLONE_VOLUME});
    }
    // EXPAND_VOLUME is not among them: growing is the node's, and kubelet asks it by itself.
    for (const Rpc::Type type : types) response->add_capabilities()->mutable_rpc()->set_type(type);
    return Status::OK;
  }

  Status CreateVolume(ServerContext* /*context*/, const wire::CreateVolumeRequest* request,
                      wire::CreateVolumeResponse* response) override {
    return answer_of("CreateVolume", [&] {
      to_wire(driver_.controller().create_volume(call_of(*request)), response->mutable_volume());
    });
  }

  Status DeleteVolume(ServerContext* /*context*/, const wire::DeleteVolumeRequest* request,
                      wire::DeleteVolumeResponse* /*response*/) override {
    return answer_of("DeleteVolume", [&] { driver_.controller().delete_volume(request->volume_id()); });
  }

  Status ValidateVolumeCapabilities(ServerContext* /*context*/, const wire::ValidateVolumeCapabilitiesRequest* request,
                                    wire::ValidateVolumeCapabilitiesResponse* response) override {
    return answer_of("ValidateVolumeCapabilities", [&] {
      const std::string why_not = driver_.controller().validate(
          request->volume_id(), capabilities_of(request->volume_capabilities()), from_wire(request->parameters()));
      response->set_message(why_not);
      if (!why_not.empty()) return;
      auto* const confirmed = response->mutable_confirmed();
      *confirmed->mutable_volume_context() = request->volume_context();
      *confirmed->mutable_volume_capabilities() = request->volume_capabilities();
      *confirmed->mutable_parameters() = request->parameters();
      *confirmed->mutable_mutable_parameters() = request->mutable_parameters();
    });
  }

  Status ListVolumes(ServerContext* /*context*/, const wire::ListVolumesRequest* request,
                     wire::ListVolumesResponse* response) override {
    return answer_of("ListVolumes", [&] {
      const VolumeList list = driver_.controller().list_volumes(request->max_entries(), request->starting_token());
      for (const VolumeList::Entry& each : list.entries) {
        auto* const entry = response->add_entries();
        to_wire(each.volume, entry->mutable_volume());
        to_wire(each.condition, entry->mutable_status()->mutable_volume_condition());
      }
      response->set_next_token(list.next);
    });
  }

  Status ControllerGetVolume(ServerContext* /*context*/, const wire::ControllerGetVolumeRequest* request,
                             wire::ControllerGetVolumeResponse* response) override {
    return answer_of("ControllerGetVolume", [&] {
      const VolumeList::Entry entry = driver_.controller().get_volume(request->volume_id());
      to_wire(entry.volume, response->mutable_volume());
      to_wire(entry.condition, response->mutable_status()->mutable_volume_condition());
    });
  }

  Status ControllerModifyVolume(ServerContext* /*context*/, const wire::ControllerModifyVolumeRequest* request,
                                wire::ControllerModifyVolumeResponse* /*response*/) override {
    return answer_of("ControllerModifyVolume", [&] {
      driver_.controller().modify_volume(request->volume_id(), from_wire(request->mutable_parameters()));
    });
  }

  Status GetCapacity(ServerContext* /*context*/, const wire::GetCapacityRequest* request,
                     wire::GetCapacityResponse* response) override {
    return answer_of("GetCapacity", [&] {
      const CapacityAnswer answer = driver_.controller().capacity(capabilities_of(request->volume_capabilities()),
                                                                  from_wire(request->parameters()),
                                                                  from_wire(request->accessible_topology().segments()));
      response->set_available_capacity(answer.available);
      response->mutable_maximum_volume_size()->set_value(answer.largest);
      response->mutable_minimum_volume_size()->set_value(answer.smallest);
    });
  }

  Status CreateSnapshot(ServerContext* /*context*/, const wire::CreateSnapshotRequest* request,
                        wire::CreateSnapshotResponse* response) override {
    return answer_of("CreateSnapshot", [&] {
      to_wire(driver_.controller().create_snapshot(request->name(), request->source_volume_id(),
                                                   from_wire(request->parameters())),
              response->mutable_snapshot());
    });
  }

  Status DeleteSnapshot(ServerContext* /*context*/, const wire::DeleteSnapshotRequest* request,
                        wire::DeleteSnapshotResponse* /*response*/) override {
    return answer_of("DeleteSnapshot", [&] { driver_.controller().delete_snapshot(request->snapshot_id()); });
  }

  Status ListSnapshots(ServerContext* /*context*/, const wire::ListSnapshotsRequest* request,
                       wire::ListSnapshotsResponse* response) override {
    return answer_of("ListSnapshots", [&] {
      const SnapshotList list = driver_.controller().list_snapshots(
          request->max_entries(), request->starting_token(), request->source_volume_id(), request->snapshot_id());
      for (const Record& each : list.entries) to_wire(each, response->add_entries()->mutable_snapshot());
      response->set_next_token(list.next);
    });
  }

  Status GetSnapshot(ServerContext* /*context*/, const wire::GetSnapshotRequest* request,
                     wire::GetSnapshotResponse* response) override {
    return answer_of("GetSnapshot", [&] {
      to_wire(driver_.controller().get_snapshot(request->snapshot_id()), response->mutable_snapshot());
    });
  }

 private:
  DriverState& driver_;
};

}  // namespace

std::unique_ptr<grpc::Service> controller_service(DriverState& driver) {
  return std::make_unique<ControllerAdapter>(driver);
}

}  // namespace sluice::csi
