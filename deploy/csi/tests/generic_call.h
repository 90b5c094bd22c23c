// SPDX-License-Identifier: Apache-2.0
// Calls of any service by name, with messages that the protocol's own descriptions make.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

namespace sluice::csi {

// "csi.v1.Node.NodeStageVolume"; nullptr when there is none.
const google::protobuf::MethodDescriptor* method_named(const std::string& name);
// Of services that answer once: every method of these.
std::vector<const google::protobuf::MethodDescriptor*> methods_of(const std::vector<std::string>& services);

std::unique_ptr<google::protobuf::Message> new_message(const google::protobuf::Descriptor* type);

struct RawAnswer {
  grpc::Status status;
  std::string bytes;
};
// The request as bytes, which need not be a message.
RawAnswer call_raw(const std::shared_ptr<grpc::Channel>& channel, const google::protobuf::MethodDescriptor& method,
                   const std::string& request);

}  // namespace sluice::csi
