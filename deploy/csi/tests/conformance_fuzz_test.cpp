// SPDX-License-Identifier: Apache-2.0
// Requests that no client sends: random messages of every method, built field by field from the protocol's own
// description, and bytes that are no message. Each is answered by a code of CSI; the driver lives, and what was there
// before is whole.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <random>

#include "tests/driver.h"
#include "tests/generic_call.h"

namespace sluice::csi {
namespace {

namespace proto = google::protobuf;
using grpc::StatusCode;

class FuzzOfRequests : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (IsSkipped()) return;
    const char* const given = std::getenv("SLUICE_CSI_SEED");
    seed_ = given != nullptr ? std::strtoul(given, nullptr, 10) : std::random_device()();
    random_.seed(seed_);
    begin({"--lock-wait", "30"});
  }
  unsigned long below(unsigned long end) { return random_() % end; }

  // Paths lie in the test's own folder: what is random must not be a path of the machine's.
  std::string text() {
    switch (below(12)) {
      case 0:
        return {};
      case 1:
        return std::string(below(300), 'x');
      case 2:
        return pool_->at("wild/" + std::to_string(below(4)));
      case 3:
        return pool_->at("wild/../" + std::to_string(below(4)));
      case 4:
        return std::string("nul\0inside", 10);
      case 5:
        return "../../etc/passwd";
      case 6:
        return pool_->at("staging/" + kept_ + "/globalmount");
      case 7:
        return kept_;
      case 8:
        return pool_->at("pods/wild/mount");
      case 9:
        return "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";
      case 10:
        return "csi.storage.k8s.io/ephemeral";
      default:
        return known_[below(known_.size())];
    }
  }

  std::int64_t number() {
    constexpr std::int64_t some[] = {0, 1, -1, 4096, 1 << 20, 1 << 24, std::int64_t{1} << 40, INT64_MAX, INT64_MIN};
    return some[below(std::size(some))];
  }

  void fill(proto::Message& message, int depth) {
    const proto::Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const proto::FieldDescriptor& field = *type.field(i);
      const unsigned long count = field.is_repeated() ? below(4) : (below(4) == 0 ? 0 : 1);
      for (unsigned long n = 0; n < count; ++n) put(message, field, depth);
    }
  }

  void put(proto::Message& message, const proto::FieldDescriptor& field, int depth) {
    const proto::Reflection& by = *message.GetReflection();
    const bool many = field.is_repeated();
    switch (field.cpp_type()) {
      case proto::FieldDescriptor::CPPTYPE_STRING:
        return many ? by.AddString(&message, &field, text()) : by.SetString(&message, &field, text());
      case proto::FieldDescriptor::CPPTYPE_INT64:
        return by.SetInt64(&message, &field, number());
      case proto::FieldDescriptor::CPPTYPE_INT32:
        return by.SetInt32(&message, &field, static_cast<int>(number()));
      case proto::FieldDescriptor::CPPTYPE_BOOL:
        return by.SetBool(&message, &field, below(2) == 0);
      case proto::FieldDescriptor::CPPTYPE_ENUM: {
        const int value = below(8) == 0 ? 4711 : static_cast<int>(below(9));
        return many ? by.AddEnumValue(&message, &field, value) : by.SetEnumValue(&message, &field, value);
      }
      case proto::FieldDescriptor::CPPTYPE_MESSAGE:
        if (depth < 5) fill(many ? *by.AddMessage(&message, &field) : *by.MutableMessage(&message, &field), depth + 1);
        return;
      default:
        return;
    }
  }

  unsigned long seed_ = 0;
  std::mt19937_64 random_;
  std::string kept_;
  std::vector<std::string> known_ = {"backend", "directory", "partition", "type", "nvme-local", "directPath",
                                     "require", "bandwidth", "5G",        "xfs",  "ext4",       "noatime",
                                     "after:x", "true",      "pvc-wild",  "off",  "root",       "fuzzed"};
};

TEST_F(FuzzOfRequests, EveryOneIsAnsweredAndWhatWasThereIsWhole) {
  const bool full = std::getenv("SLUICE_TEST_FULL") != nullptr;
  const int calls = full ? 100000 : 1000;
  kept_ = made("kept");
  ASSERT_TRUE(stage(kept_).ok());
  ASSERT_TRUE(publish(kept_, target("kept")).ok());
  write_file(target("kept") + "/file", "bytes");
  const std::vector<const proto::MethodDescriptor*> methods =
      methods_of({"csi.v1.Identity", "csi.v1.Controller", "csi.v1.Node"});
  ASSERT_GE(methods.size(), 25U);
  std::map<StatusCode, int> codes;
  for (int i = 0; i < calls; ++i) {
    const proto::MethodDescriptor& method = *methods[below(methods.size())];
    std::string bytes;
    if (below(10) == 0) {
      for (auto n = below(200); n > 0; --n) bytes += static_cast<char>(random_());
    } else {
      const auto request = new_message(method.input_type());
      fill(*request, 0);
      bytes = request->SerializePartialAsString();
      if (below(10) == 0 && !bytes.empty()) bytes[below(bytes.size())] = static_cast<char>(random_());
    }
    const RawAnswer answer = call_raw(driver_->channel(), method, bytes);
    ++codes[answer.status.error_code()];
    const StatusCode code = answer.status.error_code();
    // gRPC's own word for bytes that are no message is INTERNAL; the driver's for what it has not foreseen is, too, and
    // that has a cause that is no parsing.
    const bool foreseen = code != StatusCode::UNKNOWN && code != StatusCode::UNAVAILABLE &&
                          code != StatusCode::DEADLINE_EXCEEDED && code != StatusCode::CANCELLED;
    ASSERT_TRUE(foreseen) << method.full_name() << " answers " << code << " " << answer.status.error_message()
                          << " (call " << i << " of SLUICE_CSI_SEED=" << seed_ << ")";
    if (i % 100 == 99) {
      ASSERT_TRUE(ask(driver_->identity(), &wire::Identity::Stub::Probe, wire::ProbeRequest()).value.ready().value())
          << "call " << i << " of SLUICE_CSI_SEED=" << seed_;
    }
  }
  EXPECT_GT(codes[StatusCode::OK], 0);
  EXPECT_GT(codes[StatusCode::INVALID_ARGUMENT], 0);
  // Random requests may have unpublished and removed even this one, by its right name: then it is gone whole.
  const bool there = is_mounted(target("kept"));
  if (there) {
    EXPECT_EQ(read_file(target("kept") + "/file"), "bytes") << "SLUICE_CSI_SEED=" << seed_;
  }
  driver_->restart(SIGTERM);
  EXPECT_TRUE(ask(driver_->identity(), &wire::Identity::Stub::Probe, wire::ProbeRequest()).value.ready().value());
}

}  // namespace
}  // namespace sluice::csi
