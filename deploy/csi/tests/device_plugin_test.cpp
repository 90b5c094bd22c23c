// SPDX-License-Identifier: Apache-2.0
// The device plugin against a kubelet of the test's own, which starts anew as the real one does: its folder emptied
// first.
#include <device_plugin.grpc.pb.h>
#include <gmock/gmock.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "facts/read.h"
#include "tests/driver.h"

namespace sluice::csi {
namespace {

namespace plugin = ::v1beta1;

class FakeKubelet : public plugin::Registration::Service {
 public:
  explicit FakeKubelet(const std::string& folder) : folder_(folder) { start(); }

  grpc::Status Register(grpc::ServerContext* /*context*/, const plugin::RegisterRequest* request,
                        plugin::Empty* /*response*/) override {
    const std::lock_guard lock(mutex_);
    last_ = *request;
    ++count_;
    registered_.notify_all();
    return grpc::Status::OK;
  }

  void start() {
    for (const std::string& name : facts::list_names(folder_)) std::filesystem::remove(folder_ + "/" + name);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + folder_ + "/kubelet.sock", grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  void stop() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  // The count of registrations once it is at least this; or what it is after a minute.
  int await(int count) {
    std::unique_lock lock(mutex_);
    registered_.wait_for(lock, std::chrono::minutes(1), [&] { return count_ >= count; });
    return count_;
  }
  plugin::RegisterRequest last() {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  std::string folder_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable registered_;
  plugin::RegisterRequest last_;
  int count_ = 0;
};

class DevicePluginTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (IsSkipped()) return;
    for (const char* const each : {"device-plugins", "kit"}) std::filesystem::create_directory(pool_->at(each));
    kubelet_ = std::make_unique<FakeKubelet>(pool_->at("device-plugins"));
    begin({"--device-plugins", pool_->at("device-plugins"), "--cdi", pool_->at("cdi"), "--kit", pool_->at("kit")});
  }

  std::unique_ptr<plugin::DevicePlugin::Stub> plugin_of(const plugin::RegisterRequest& request) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return plugin::DevicePlugin::NewStub(grpc::CreateCustomChannel(
        "unix:" + pool_->at("device-plugins/" + request.endpoint()), grpc::InsecureChannelCredentials(), arguments));
  }
  static int devices_of(plugin::DevicePlugin::Stub& stub) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    context.set_wait_for_ready(true);
    const auto reader = stub.ListAndWatch(&context, plugin::Empty());
    plugin::ListAndWatchResponse list;
    const bool came = reader->Read(&list);
    context.TryCancel();
    reader->Finish();
    return came ? list.devices_size() : -1;
  }

  std::unique_ptr<FakeKubelet> kubelet_;
};

TEST_F(DevicePluginTest, RegistersOffersSlotsAndNamesTheCdiDevice) {
  ASSERT_EQ(kubelet_->await(1), 1);
  const plugin::RegisterRequest request = kubelet_->last();
  EXPECT_EQ(request.version(), "v1beta1");
  EXPECT_EQ(request.resource_name(), "sluice.dev/gds");
  const auto stub = plugin_of(request);
  EXPECT_EQ(devices_of(*stub), 64);
  plugin::AllocateRequest allocate;
  allocate.add_container_requests()->add_devices_ids("slot-3");
  const auto answer = ask(*stub, &plugin::DevicePlugin::Stub::Allocate, allocate);
  ASSERT_TRUE(answer.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.value.container_responses_size(), 1);
  EXPECT_EQ(answer.value.container_responses(0).cdi_devices(0).name(), "sluice.dev/gds=all");
  EXPECT_THAT(read_file(pool_->at("cdi/sluice.dev-gds.json")), testing::HasSubstr(pool_->at("kit")));
}

TEST_F(DevicePluginTest, ComesBackWhenKubeletHasStartedAnew) {
  ASSERT_EQ(kubelet_->await(1), 1);
  kubelet_->stop();
  kubelet_->start();
  ASSERT_GE(kubelet_->await(2), 2);
  // It may register once more, when it learns late of kubelet's socket: then the first stream ends, and the next one
  // stays.
  int devices = -1;
  for (int i = 0; i < 50 && devices < 0; ++i) devices = devices_of(*plugin_of(kubelet_->last()));
  EXPECT_EQ(devices, 64);
  driver_->stop(SIGTERM);
  EXPECT_FALSE(facts::exists(pool_->at("device-plugins/sluice.sock")));
}

}  // namespace
}  // namespace sluice::csi
