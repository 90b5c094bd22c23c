// SPDX-License-Identifier: Apache-2.0
#include "tests/kubelet.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include <plugin_registration.grpc.pb.h>
#include "facts/read.h"

namespace sluice::csi {
namespace {

namespace registration = ::pluginregistration;

std::shared_ptr<grpc::Channel> channel_to(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

// kubelet fails at once where nothing listens, and tries again; it does not wait for a connection.
template <typename Stub, typename Request, typename Response>
grpc::Status call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response& response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
  return (stub.*method)(&context, request, &response);
}

bool is_socket(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

std::string hash_of(const std::string& id) {
  return fmt::format("{:016x}", std::hash<std::string>()(id));
}

wire::VolumeCapability capability_of(const PodVolume& /*volume*/) {
  return mount_capability();
}

}  // namespace

Kubelet::Kubelet(std::string root, std::string version)
    : root_(std::move(root)),
      version_(std::move(version)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      folder_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  std::filesystem::create_directories(registry());
  inotify_add_watch(folder_.get(), registry().c_str(), IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM);
  thread_ = std::thread([this] { watch(); });
}

Kubelet::~Kubelet() {
  const std::uint64_t one = 1;
  const ssize_t ignored = write(stop_.get(), &one, sizeof one);
  static_cast<void>(ignored);
  thread_.join();
}

void Kubelet::watch() {
  std::array<char, 4096> events;
  for (;;) {
    look();
    std::array<pollfd, 2> wanted = {{{stop_.get(), POLLIN, 0}, {folder_.get(), POLLIN, 0}}};
    // A socket is there before a server listens: such a one is met by the next look.
    poll(wanted.data(), wanted.size(), 100);
    if ((wanted[0].revents & POLLIN) != 0) return;
    while (read(folder_.get(), events.data(), events.size()) > 0) {
    }
  }
}

// A socket that is there and not known is met; a known one that is not there, or is another one, is lost.
void Kubelet::look() {
  std::vector<std::string> lost;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [socket, driver] : sockets_) {
      struct stat status {};
      const bool same = lstat(socket.substr(socket.find('|') + 1).c_str(), &status) == 0 &&
                        socket.substr(0, socket.find('|')) == fmt::format("{}", status.st_ino);
      if (!same) lost.push_back(socket);
    }
  }
  for (const std::string& each : lost) lose(each);
  for (const std::string& name : facts::list_names(registry())) {
    const std::string path = registry() + "/" + name;
    if (is_socket(path)) meet(path);
  }
}

void Kubelet::meet(const std::string& socket) {
  struct stat status {};
  if (lstat(socket.c_str(), &status) != 0) return;
  const std::string key = fmt::format("{}|{}", status.st_ino, socket);
  {
    const std::lock_guard lock(mutex_);
    if (sockets_.contains(key)) return;
  }
  const auto stub = registration::Registration::NewStub(channel_to(socket));
  registration::PluginInfo info;
  if (!call(*stub, &registration::Registration::Stub::GetInfo, registration::InfoRequest(), info).ok()) return;
  note("GetInfo", info.name(), 0);
  const auto& versions = info.supported_versions();
  const bool known = info.type() == "CSIPlugin" && std::count(versions.begin(), versions.end(), version_) > 0;
  registration::RegistrationStatus answer;
  answer.set_plugin_registered(known);
  std::string node;
  if (known) {
    wire::NodeGetInfoResponse response;
    const auto asked = wire::Node::NewStub(channel_to(info.endpoint()));
    const grpc::Status got = call(*asked, &wire::Node::Stub::NodeGetInfo, wire::NodeGetInfoRequest(), response);
    note("NodeGetInfo", info.name(), got.error_code());
    if (!got.ok()) return;  // the next look asks again
    node = response.node_id();
  } else {
    answer.set_error("none of the versions is " + version_);
  }
  registration::RegistrationStatusResponse nothing;
  const grpc::Status told = call(*stub, &registration::Registration::Stub::NotifyRegistrationStatus, answer, nothing);
  note("NotifyRegistrationStatus", info.name(), told.error_code());
  const std::lock_guard lock(mutex_);
  sockets_[key] = info.name();
  Plugin& plugin = plugins_[info.name()];
  plugin.socket = key;
  plugin.endpoint = info.endpoint();
  plugin.node = node;
  plugin.there = known;
  plugin.refused = !known;
  plugin.registered += known ? 1 : 0;
  changed_.notify_all();
}

void Kubelet::lose(const std::string& socket) {
  const std::lock_guard lock(mutex_);
  Plugin& plugin = plugins_[sockets_[socket]];
  if (plugin.socket == socket) plugin.there = false;
  sockets_.erase(socket);
  changed_.notify_all();
}

template <typename Done>
bool Kubelet::await(Done done) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::minutes(1), done);
}

bool Kubelet::await_registered(const std::string& driver, int count) {
  return await([&] { return plugins_[driver].there && plugins_[driver].registered >= count; });
}
bool Kubelet::await_gone(const std::string& driver) {
  return await([&] { return !plugins_[driver].there; });
}
bool Kubelet::await_refused(const std::string& driver) {
  return await([&] { return plugins_[driver].refused; });
}

std::string Kubelet::node_of(const std::string& driver) {
  const std::lock_guard lock(mutex_);
  return plugins_[driver].node;
}

std::string Kubelet::endpoint_of(const std::string& driver) {
  const std::lock_guard lock(mutex_);
  const auto found = plugins_.find(driver);
  return found == plugins_.end() ? "" : found->second.endpoint;
}

void Kubelet::note(const std::string& call, const std::string& volume, int code) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(fmt::format("{} {} {}", call, volume, code));
}

std::vector<std::string> Kubelet::calls() {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::string Kubelet::last_error() {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

std::string Kubelet::staging(const std::string& driver, const PodVolume& volume) const {
  return fmt::format("{}/plugins/kubernetes.io/csi/{}/{}/globalmount", root_, driver, hash_of(volume.id));
}

std::string Kubelet::target(const PodVolume& volume) const {
  return fmt::format("{}/pods/{}/volumes/kubernetes.io~csi/{}/mount", root_, volume.pod, volume.name);
}

template <typename Call>
bool Kubelet::until_ok(const std::string& driver, const char* name, const PodVolume& volume, int& attempts, Call once) {
  while (attempts-- > 0) {
    const grpc::Status status = once();
    note(name, volume.name, status.error_code());
    if (status.ok()) return true;
    {
      const std::lock_guard lock(mutex_);
      last_error_ = fmt::format("{} {}: {}", name, volume.name, status.error_message());
    }
    // kubelet waits half a second at first, and twice as long each time; a driver that starts is waited for.
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      channel_to(endpoint_of(driver))
          ->WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    }
  }
  return false;
}

bool Kubelet::mount(const std::string& driver, const PodVolume& volume, int attempts) {
  const auto stub_of = [&] { return wire::Node::NewStub(channel_to(endpoint_of(driver))); };
  const std::string place = target(volume);
  std::filesystem::create_directories(facts::parent_path(place));
  if (!volume.inlined) {
    wire::NodeGetCapabilitiesResponse capabilities;
    if (!until_ok(driver, "NodeGetCapabilities", volume, attempts, [&] {
          return call(*stub_of(), &wire::Node::Stub::NodeGetCapabilities, wire::NodeGetCapabilitiesRequest(),
                      capabilities);
        }))
      return false;
    // The folder is kubelet's, and so is a note beside it: from it a kubelet that starts anew learns of the volume.
    std::filesystem::create_directories(staging(driver, volume));
    write_file(std::string(facts::parent_path(staging(driver, volume))) + "/vol_data.json", volume.id);
    wire::NodeStageVolumeRequest request;
    request.set_volume_id(volume.id);
    request.set_staging_target_path(staging(driver, volume));
    *request.mutable_volume_capability() = capability_of(volume);
    for (const auto& [key, value] : volume.context) (*request.mutable_volume_context())[key] = value;
    wire::NodeStageVolumeResponse response;
    if (!until_ok(driver, "NodeStageVolume", volume, attempts,
                  [&] { return call(*stub_of(), &wire::Node::Stub::NodeStageVolume, request, response); }))
      return false;
  }
  wire::NodePublishVolumeRequest request;
  request.set_volume_id(volume.id);
  if (!volume.inlined) request.set_staging_target_path(staging(driver, volume));
  request.set_target_path(place);
  request.set_readonly(volume.read_only);
  *request.mutable_volume_capability() = capability_of(volume);
  auto& context = *request.mutable_volume_context();
  for (const auto& [key, value] : volume.context) context[key] = value;
  // podInfoOnMount.
  context["csi.storage.k8s.io/pod.uid"] = volume.pod;
  context["csi.storage.k8s.io/pod.name"] = volume.pod;
  context["csi.storage.k8s.io/pod.namespace"] = "default";
  context["csi.storage.k8s.io/serviceAccount.name"] = "default";
  context["csi.storage.k8s.io/ephemeral"] = volume.inlined ? "true" : "false";
  wire::NodePublishVolumeResponse response;
  return until_ok(driver, "NodePublishVolume", volume, attempts,
                  [&] { return call(*stub_of(), &wire::Node::Stub::NodePublishVolume, request, response); });
}

bool Kubelet::unmount(const std::string& driver, const PodVolume& volume, bool last, int attempts) {
  const auto stub_of = [&] { return wire::Node::NewStub(channel_to(endpoint_of(driver))); };
  wire::NodeUnpublishVolumeRequest request;
  request.set_volume_id(volume.id);
  request.set_target_path(target(volume));
  wire::NodeUnpublishVolumeResponse response;
  if (!until_ok(driver, "NodeUnpublishVolume", volume, attempts,
                [&] { return call(*stub_of(), &wire::Node::Stub::NodeUnpublishVolume, request, response); }))
    return false;
  // What the driver has left in the pod's folder would keep the pod terminating.
  std::error_code error;
  std::filesystem::remove(facts::parent_path(target(volume)), error);
  if (error) return false;
  if (volume.inlined || !last) return true;
  wire::NodeUnstageVolumeRequest unstage;
  unstage.set_volume_id(volume.id);
  unstage.set_staging_target_path(staging(driver, volume));
  wire::NodeUnstageVolumeResponse nothing;
  if (!until_ok(driver, "NodeUnstageVolume", volume, attempts,
                [&] { return call(*stub_of(), &wire::Node::Stub::NodeUnstageVolume, unstage, nothing); }))
    return false;
  const std::string folder(facts::parent_path(staging(driver, volume)));
  std::filesystem::remove(folder + "/vol_data.json", error);
  std::filesystem::remove(folder + "/globalmount", error);
  std::filesystem::remove(folder, error);
  return !facts::exists(folder);
}

}  // namespace sluice::csi
