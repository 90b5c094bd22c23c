// SPDX-License-Identifier: Apache-2.0
// One call of a socket's service, for tests that are scripts: `csi_call SOCKET csi.v1.Node.NodeStageVolume JSON` prints
// the answer as JSON, and ends with the call's code, which is 0 for success.
#include <device_plugin.pb.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include <csi.pb.h>
#include <plugin_registration.pb.h>

namespace {

namespace proto = google::protobuf;

constexpr int wrong_usage = 64;

// Descriptors are there once a message of their file was named.
void load_services() {
  csi::v1::ProbeRequest::descriptor();
  v1beta1::Empty::descriptor();
  pluginregistration::InfoRequest::descriptor();
}

std::unique_ptr<proto::Message> new_message(const proto::Descriptor* type) {
  return std::unique_ptr<proto::Message>(proto::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

grpc::ByteBuffer bytes_of(const proto::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

std::string text_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  buffer.Dump(&slices);
  std::string text;
  for (const grpc::Slice& each : slices) text.append(reinterpret_cast<const char*>(each.begin()), each.size());
  return text;
}

int call(const std::string& socket, const std::string& name, const std::string& json) {
  const proto::MethodDescriptor* const method = proto::DescriptorPool::generated_pool()->FindMethodByName(name);
  if (method == nullptr) throw std::invalid_argument("there is no method " + name);
  const std::unique_ptr<proto::Message> request = new_message(method->input_type());
  const auto parsed = proto::util::JsonStringToMessage(json, request.get());
  if (!parsed.ok()) throw std::invalid_argument(parsed.ToString());

  grpc::GenericStub stub(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  context.set_wait_for_ready(true);
  grpc::CompletionQueue queue;
  const auto path = "/" + method->service()->full_name() + "/" + method->name();
  const auto reader = stub.PrepareUnaryCall(&context, path, bytes_of(*request), &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  reader->StartCall();
  reader->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), status.error_message().c_str());
    return status.error_code();
  }
  const std::unique_ptr<proto::Message> response = new_message(method->output_type());
  if (!response->ParseFromString(text_of(answer))) throw std::runtime_error("the answer is no " + name);
  std::string text;
  proto::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  static_cast<void>(proto::util::MessageToJsonString(*response, &text, options));
  std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 && count != 4) {
    std::fprintf(stderr, "usage: csi_call SOCKET PACKAGE.SERVICE.METHOD [JSON]\n");
    return wrong_usage;
  }
  try {
    load_services();
    return call(words[1], words[2], count == 4 ? words[3] : "{}");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "csi_call: %s\n", error.what());
    return wrong_usage;
  }
}
