// SPDX-License-Identifier: Apache-2.0
#include "server/device_plugin.h"

#include <device_plugin.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/unique_fd.h"
#include "core/log.h"
#include "core/ready_thread.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

namespace plugin = ::v1beta1;

constexpr int slots = 64;
constexpr const char* socket_name = "sluice.sock";

}  // namespace

class DevicePluginAdapter : public plugin::DevicePlugin::Service {
 public:
  explicit DevicePluginAdapter(std::string device) : device_(std::move(device)) {}

  // Streams end when it is called; nothing else ends them.
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* /*context*/, const plugin::Empty* /*request*/,
                                      plugin::DevicePluginOptions* /*response*/) override {
    return grpc::Status::OK;
  }

  grpc::Status ListAndWatch(grpc::ServerContext* /*context*/, const plugin::Empty* /*request*/,
                            grpc::ServerWriter<plugin::ListAndWatchResponse>* writer) override {
    plugin::ListAndWatchResponse list;
    for (int i = 0; i < slots; ++i) {
      plugin::Device* const device = list.add_devices();
      device->set_id("slot-" + std::to_string(i));
      device->set_health("Healthy");
    }
    writer->Write(list);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    return grpc::Status::OK;
  }

  grpc::Status Allocate(grpc::ServerContext* /*context*/, const plugin::AllocateRequest* request,
                        plugin::AllocateResponse* response) override {
    for (int i = 0; i < request->container_requests_size(); ++i) {
      response->add_container_responses()->add_cdi_devices()->set_name(device_);
    }
    return grpc::Status::OK;
  }

 private:
  std::string device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

class DevicePlugin::Worker {
 public:
  explicit Worker(DevicePluginOptions options)
      : options_(std::move(options)),
        watch_(watch_on(options_.folder)),
        thread_(
            watch_.get(), [this] { serve(); },
            [this] {
              if (!must_return()) return;
              served_.reset();
              serve();
            }) {}

 private:
  static base::UniqueFd watch_on(const std::string& folder) {
    base::UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    inotify_add_watch(watch.get(), folder.c_str(), IN_CREATE | IN_DELETE | IN_MOVED_TO);
    return watch;
  }

  void serve() {
    // Pods that are started from now on get what the spec says now.
    try {
      write_cdi_spec(options_.cdi);
    } catch (const std::exception& error) {
      log_line("error", error.what());
    }
    served_ = std::make_unique<Served>(cdi_name(options_.cdi), socket());
    if (!served_->server) log_line("error", socket() + " cannot be served: is the folder kubelet's device-plugins?");
    // kubelet removes all other files, and then makes its own socket: registering waits for that.
    // What has happened up to here is answered by this server.
    must_return();
    if (served_->server) register_at_kubelet();
  }

  std::string socket() const { return options_.folder + "/" + socket_name; }
  std::string kubelet() const { return options_.folder + "/kubelet.sock"; }

  void register_at_kubelet() {
    if (!facts::exists(kubelet())) return;  // the watch tells when it comes
    const auto channel = grpc::CreateChannel("unix:" + kubelet(), grpc::InsecureChannelCredentials());
    const auto stub = plugin::Registration::NewStub(channel);
    plugin::RegisterRequest request;
    request.set_version("v1beta1");
    request.set_endpoint(socket_name);
    request.set_resource_name(options_.cdi.kind);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    plugin::Empty answer;
    const grpc::Status status = stub->Register(&context, request, &answer);
    log_line(status.ok() ? "info" : "error", status.ok()
                                                 ? "kubelet has registered the device plugin."
                                                 : "kubelet refuses the device plugin: " + status.error_message());
  }

  // Whether kubelet's socket was made anew, or ours removed.
  bool must_return() {
    alignas(inotify_event) std::array<char, 4096> buffer;
    bool found = false;
    for (ssize_t got = read(watch_.get(), buffer.data(), buffer.size()); got > 0;
         got = read(watch_.get(), buffer.data(), buffer.size())) {
      for (ssize_t at = 0; at < got;) {
        inotify_event event{};
        std::copy_n(buffer.data() + at, sizeof event, reinterpret_cast<char*>(&event));
        const std::string name = event.len > 0 ? buffer.data() + at + sizeof event : "";
        at += static_cast<ssize_t>(sizeof event + event.len);
        if (name == "kubelet.sock" && (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) found = true;
        if (name == socket_name && (event.mask & IN_DELETE) != 0 && !facts::exists(socket())) found = true;
      }
    }
    return found;
  }

  // A socket of its own, from kubelet's start to its next.
  struct Served {
    Served(std::string device, const std::string& path) : adapter(std::move(device)) {
      grpc::ServerBuilder builder;
      builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
      builder.RegisterService(&adapter);
      server = builder.BuildAndStart();
    }
    ~Served() {
      adapter.end();
      if (server) server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
    }
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;

    DevicePluginAdapter adapter;
    std::unique_ptr<grpc::Server> server;
  };

  DevicePluginOptions options_;
  base::UniqueFd watch_;
  std::unique_ptr<Served> served_;
  ReadyThread thread_;  // last: it uses the others
};

DevicePlugin::DevicePlugin(DevicePluginOptions options) : worker_(std::make_unique<Worker>(std::move(options))) {}
DevicePlugin::~DevicePlugin() = default;

}  // namespace sluice::csi
