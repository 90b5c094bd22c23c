// SPDX-License-Identifier: Apache-2.0
#include "tests/generic_call.h"

#include <device_plugin.pb.h>
#include <dra.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>

#include <csi.pb.h>
#include <plugin_registration.pb.h>

namespace sluice::csi {
namespace {

namespace proto = google::protobuf;

// Descriptors are there once a message of their file was named.
const proto::DescriptorPool& pool() {
  ::csi::v1::ProbeRequest::descriptor();
  ::v1beta1::Empty::descriptor();
  ::pluginregistration::InfoRequest::descriptor();
  ::k8s::io::kubelet::pkg::apis::dra::v1::Claim::descriptor();
  return *proto::DescriptorPool::generated_pool();
}

}  // namespace

const proto::MethodDescriptor* method_named(const std::string& name) {
  return pool().FindMethodByName(name);
}

std::vector<const proto::MethodDescriptor*> methods_of(const std::vector<std::string>& services) {
  std::vector<const proto::MethodDescriptor*> methods;
  for (const std::string& name : services) {
    const proto::ServiceDescriptor* const service = pool().FindServiceByName(name);
    for (int i = 0; service != nullptr && i < service->method_count(); ++i) methods.push_back(service->method(i));
  }
  return methods;
}

std::unique_ptr<proto::Message> new_message(const proto::Descriptor* type) {
  return std::unique_ptr<proto::Message>(proto::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

RawAnswer call_raw(const std::shared_ptr<grpc::Channel>& channel, const proto::MethodDescriptor& method,
                   const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  context.set_wait_for_ready(true);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  const auto reader = stub.PrepareUnaryCall(&context, "/" + method.service()->full_name() + "/" + method.name(),
                                            grpc::ByteBuffer(&slice, 1), &queue);
  grpc::ByteBuffer buffer;
  RawAnswer answer;
  reader->StartCall();
  reader->Finish(&buffer, &answer.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!answer.status.ok()) return answer;
  std::vector<grpc::Slice> slices;
  buffer.Dump(&slices);
  for (const grpc::Slice& each : slices) answer.bytes.append(reinterpret_cast<const char*>(each.begin()), each.size());
  return answer;
}

}  // namespace sluice::csi
