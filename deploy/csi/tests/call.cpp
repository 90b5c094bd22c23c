// SPDX-License-Identifier: Apache-2.0
// One call of a socket's service, for tests that are scripts: `csi_call SOCKET csi.v1.Node.NodeStageVolume JSON` prints
// the answer as JSON, and ends with the call's code, which is 0 for success.
#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "tests/generic_call.h"

namespace sluice::csi {
namespace {

namespace proto = google::protobuf;

constexpr int wrong_usage = 64;

int call(const std::string& socket, const std::string& name, const std::string& json) {
  const proto::MethodDescriptor* const method = method_named(name);
  if (method == nullptr) throw std::invalid_argument("there is no method " + name);
  const auto request = new_message(method->input_type());
  const auto parsed = proto::util::JsonStringToMessage(json, request.get());
  if (!parsed.ok()) throw std::invalid_argument(parsed.ToString());
  const RawAnswer answer = call_raw(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()), *method,
                                    request->SerializeAsString());
  if (!answer.status.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), answer.status.error_message().c_str());
    return answer.status.error_code();
  }
  const auto response = new_message(method->output_type());
  if (!response->ParseFromString(answer.bytes)) throw std::runtime_error("the answer is none of " + name);
  std::string text;
  proto::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  static_cast<void>(proto::util::MessageToJsonString(*response, &text, options));
  std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace
}  // namespace sluice::csi

int main(int count, char** words) {
  if (count != 3 && count != 4) {
    std::fprintf(stderr, "usage: csi_call SOCKET PACKAGE.SERVICE.METHOD [JSON]\n");
    return sluice::csi::wrong_usage;
  }
  try {
    return sluice::csi::call(words[1], words[2], count == 4 ? words[3] : "{}");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "csi_call: %s\n", error.what());
    return sluice::csi::wrong_usage;
  }
}
