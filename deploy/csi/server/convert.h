// SPDX-License-Identifier: Apache-2.0
// Between the protocol's messages and our own types. Secrets are not converted: nothing behind this line ever holds
// one.
#pragma once

#include <google/protobuf/map.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <csi.pb.h>
#include "core/controller_service.h"
#include "core/metrics.h"
#include "core/refusal.h"
#include "core/types.h"

namespace sluice::csi {

namespace wire = ::csi::v1;

Map from_wire(const google::protobuf::Map<std::string, std::string>& map);
void to_wire(const Map& map, google::protobuf::Map<std::string, std::string>* to);
Capability from_wire(const wire::VolumeCapability& capability);
template <typename Messages>
std::vector<Capability> capabilities_of(const Messages& messages) {
  std::vector<Capability> all;
  for (const wire::VolumeCapability& each : messages) all.push_back(from_wire(each));
  return all;
}
Range from_wire(const wire::CapacityRange& range);
Content from_wire(const wire::VolumeContentSource& source);
void to_wire(const VolumeAnswer& answer, wire::Volume* to);
void to_wire(const Record& snapshot, wire::Snapshot* to);
void to_wire(const Condition& condition, wire::VolumeCondition* to);

// What a refusal, or any other exception, is to the caller. It is logged with the call's name.
grpc::Status status_of(const char* call, const Refusal& refusal);
grpc::Status status_of(const char* call, const std::exception& error);

// Counts the calls that are under way, so that the process ends after them.
class CallScope {
 public:
  CallScope();
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};
void wait_for_calls(std::chrono::seconds at_most);

// Of this process.
CallCounts& call_counts();

// Runs a call's body: the one place where exceptions end.
template <typename Body>
grpc::Status status_after(const char* call, Body&& body) {
  try {
    body();
    return grpc::Status::OK;
  } catch (const Refusal& refusal) {
    return status_of(call, refusal);
  } catch (const std::exception& error) {
    return status_of(call, error);
  }
}

template <typename Body>
grpc::Status answer_of(const char* call, Body&& body) {
  const CallScope scope;
  const auto begin = std::chrono::steady_clock::now();
  grpc::Status status = status_after(call, std::forward<Body>(body));
  call_counts().count(call, status.error_code(), std::chrono::steady_clock::now() - begin);
  return status;
}

}  // namespace sluice::csi
