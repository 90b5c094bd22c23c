// SPDX-License-Identifier: Apache-2.0
// sluice-csi: the CSI driver. One binary for nodes and for the controller.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <csi.grpc.pb.h>
#include "base/version.h"
#include "core/class_follower.h"
#include "core/event_writer.h"
#include "core/log.h"
#include "core/refusal.h"
#include "facts/read.h"
#include "server/convert.h"
#include "server/device_plugin.h"
#include "server/dra_plugin.h"
#include "server/driver.h"
#include "server/metrics_server.h"
#include "server/services.h"
#include "server/socket.h"

namespace sluice::csi {
namespace {

struct CommandLine {
  Settings settings;
  std::string endpoint = "unix:///csi/csi.sock";
  std::string probe;
  bool alive = false;
  std::string mode = "node";
  std::string driver = "local";
  std::string quota = "require";
  unsigned lock_wait = 10;
};

constexpr const char* description =
    "The CSI driver of Sluice: volumes on local NVMe drives and on NVMe over fabrics, for pods with GPUs.\n"
    "A node's driver serves Identity, Controller and Node: volumes are made where their drives are. The controller's\n"
    "driver stands beside external-resizer. docs/guide/kubernetes.md begins with nothing and ends with a pod.";

constexpr const char* examples =
    "Examples:\n"
    "  sluice-csi --node a --pool /var/lib/sluice/pools/nvme0        a node's driver, for volumes on this drive\n"
    "  sluice-csi --mode controller                                  the driver beside external-resizer\n"
    "  sluice-csi --probe unix:///csi/csi.sock                       is it ready?";

void describe(CLI::App& app, CommandLine& line) {
  app.footer(examples);
  app.set_version_flag("--version", SLUICE_VERSION_TEXT);
  app.add_option("--mode", line.mode, "node or controller")
      ->check(CLI::IsMember({"node", "controller"}))
      ->default_val("node");
  app.add_option("--driver", line.driver, "local (csi.DOMAIN) or fabrics (nvmf.csi.DOMAIN)")
      ->check(CLI::IsMember({"local", "fabrics"}))
      ->default_val("local");
  app.add_option("--domain", line.settings.service.names.domain, "Of the driver's name and its labels")
      ->default_val("sluice.dev");
  app.add_option("--endpoint", line.endpoint, "The socket to serve: unix:///csi/csi.sock")->envname("CSI_ENDPOINT");
  app.add_option("--node", line.settings.service.node, "This node's name")->envname("NODE_NAME");
  app.add_option(
      "--pool", line.settings.pools,
      "Where a drive's xfs is mounted with prjquota, or PATH=DEVICE to format a blank drive and mount it; as often as "
      "there are drives");
  app.add_option(
      "--drive", line.settings.drives,
      "A whole drive to cut into partitions, for backend partition: blank, or cut by this driver; as often as "
      "there are drives");
  app.add_option("--quota", line.quota, "require, or none: limits of volumes are told and not enforced")
      ->check(CLI::IsMember({"require", "none"}))
      ->default_val("require");
  app.add_option("--state", line.settings.state, "The folder for records of partitions, and of volumes over fabrics")
      ->default_val("/var/lib/sluice-csi");
  app.add_option("--kit", line.settings.service.kit, "The folder with the library that inline volumes show");
  app.add_option("--cgroups", line.settings.service.cgroups,
                 "The host's /sys/fs/cgroup, to keep pods to the bandwidth of their volumes (io.max)");
  app.add_option("--features", line.settings.service.features,
                 "node-feature-discovery's folder features.d, to label the node DOMAIN/direct-path=verified");
  app.add_option("--sluice", line.settings.sluice, "The tool that tries the direct path")->default_val("sluice");
  app.add_option("--registration", line.settings.registration, "kubelet's folder plugins_registry, to register there");
  app.add_option("--kubelet-endpoint", line.settings.kubelet_endpoint, "The socket's path as kubelet sees it");
  app.add_option("--device-plugins", line.settings.device_plugins,
                 "kubelet's folder device-plugins, to offer DOMAIN/gds there");
  app.add_option("--metrics", line.settings.metrics, "Answer Prometheus at this address, such as 0.0.0.0:9958");
  app.add_flag("--dra", line.settings.dra,
               "Offer the drives with their bandwidth to the scheduler, as gds.DOMAIN (dynamic resource allocation)");
  app.add_flag("--events", line.settings.events, "Write what an operator should know as Events of the claims, too");
  app.add_flag(
      "--follow-classes", line.settings.follow_classes,
      "Let the VolumeAttributesClass of a volume be changed: a controller agrees, and each node brings it to its "
      "volumes when kubelet next asks about them");
  app.add_option(
      "--kube", line.settings.kube,
      "The API server, for --dra, --events and --follow-classes: https://HOST:PORT; the cluster's own unless given");
  app.add_option("--account", line.settings.account, "The folder with the service account's token and ca.crt")
      ->default_val("/var/run/secrets/kubernetes.io/serviceaccount");
  app.add_option("--cdi", line.settings.cdi, "The folder for the CDI specs of that resource and of drives")
      ->default_val("/var/run/cdi");
  app.add_option("--lock-wait", line.lock_wait, "Seconds to wait for an older process to leave the socket")
      ->default_val(10);
  app.add_option("--probe", line.probe,
                 "Ask the driver that serves this socket whether it is ready, and leave: 0 or 1");
  app.add_flag("--alive", line.alive, "With --probe: whether it answers at all");
}

std::string path_of(const std::string& endpoint) {
  constexpr std::string_view scheme = "unix://";
  return endpoint.starts_with(scheme) ? endpoint.substr(scheme.size()) : endpoint;
}

int probe(const std::string& endpoint, bool alive) {
  const auto channel = grpc::CreateChannel("unix:" + path_of(endpoint), grpc::InsecureChannelCredentials());
  const auto stub = ::csi::v1::Identity::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(3));
  ::csi::v1::ProbeResponse response;
  const grpc::Status status = stub->Probe(&context, {}, &response);
  if (!status.ok()) fmt::print(stderr, "sluice-csi: no driver answers at {}: {}\n", endpoint, status.error_message());
  if (status.ok() && alive) return EXIT_SUCCESS;
  if (status.ok() && !response.ready().value())
    fmt::print(stderr, "sluice-csi: not ready; the driver's log says why\n");
  return status.ok() && response.ready().value() ? EXIT_SUCCESS : EXIT_FAILURE;
}

std::unique_ptr<grpc::Server> listen(const std::string& path, const std::vector<grpc::Service*>& services) {
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(32);
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(1 << 20);
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  for (grpc::Service* const each : services) builder.RegisterService(each);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server)
    refuse(Code::failed_precondition, "Nothing can be served at " + path + ". Is its folder there and writable?");
  return server;
}

// Beside the driver's own socket, and so where kubelet sees it, too.
std::unique_ptr<DraPlugin> offer_drives(DriverState& driver) {
  const Settings& settings = driver.settings();
  const auto folder_of = [](const std::string& path) { return std::string(facts::parent_path(path)); };
  DraOptions options;
  // What the host sees, too, so that a container runtime finds what is mounted there.
  const std::string folder =
      folder_of(settings.kubelet_endpoint.empty() ? settings.endpoint : settings.kubelet_endpoint);
  options.socket = folder_of(settings.endpoint) + "/dra.sock";
  options.kubelet_endpoint = folder + "/dra.sock";
  options.registration = settings.registration;
  options.kube = settings.kube;
  options.account = settings.account;
  options.cgroups = settings.service.cgroups;
  options.names = {"gds." + settings.service.names.domain, settings.service.names.domain + "/drive",
                   settings.service.node};
  options.cdi.folder = settings.cdi;
  options.cdi.kind = options.names.cdi;
  options.cdi.kit = settings.service.kit;
  options.claims = options.cdi;
  options.claims.kind = settings.service.names.domain + "/claim";
  options.drives = [&driver] { return driver.drives(); };
  options.folders = driver.claim_folders(folder + "/claims");
  auto plugin = std::make_unique<DraPlugin>(std::move(options));
  driver.at_probe([&plugin = *plugin] { plugin.wake(); });
  return plugin;
}

int serve(const Settings& settings, const sigset_t& ends) {
  umask(0077);
  const SocketLock lock(settings.endpoint, settings.lock_wait);
  DriverState driver(settings);
  driver.why_not_ready();
  const std::unique_ptr<DraPlugin> dra = settings.dra ? offer_drives(driver) : nullptr;
  std::unique_ptr<EventWriter> events;
  if (settings.events) {
    events = std::make_unique<EventWriter>(
        EventOptions{settings.kube, settings.account, settings.service.names.of(settings.service.driver),
                     settings.service.node},
        driver.volumes());
    set_event_sink([&writer = *events](const Event& event) { writer.take(event); });
  }
  std::unique_ptr<ClassFollower> follower;
  if (settings.follow_classes && settings.mode == Mode::node) {
    FollowerOptions options = {settings.kube, settings.account, settings.service.names.of(settings.service.driver), {}};
    options.change = [&driver](const std::string& id, const Map& parameters) {
      driver.controller().modify_volume(id, parameters);
    };
    follower = std::make_unique<ClassFollower>(std::move(options));
    driver.at_sight(
        [&follower = *follower](const std::string& id, const std::string& target) { follower.look(id, target); });
  }
  std::unique_ptr<MetricsServer> metrics;
  if (!settings.metrics.empty()) {
    metrics = std::make_unique<MetricsServer>(settings.metrics,
                                              [&driver] { return metrics_text(driver.volumes(), call_counts()); });
  }
  const auto identity = identity_service(driver);
  const auto controller = controller_service(driver);
  const auto node = node_service(driver);
  std::vector<grpc::Service*> services = {identity.get(), controller.get()};
  if (settings.mode == Mode::node) services.push_back(node.get());
  const auto server = listen(settings.endpoint, services);

  // Last: kubelet calls as soon as it sees this socket.
  const auto registration = registration_service(driver.settings());
  std::unique_ptr<SocketLock> registration_lock;
  std::unique_ptr<grpc::Server> registering;
  if (!settings.registration.empty()) {
    const std::string path =
        settings.registration + "/" + settings.service.names.of(settings.service.driver) + "-reg.sock";
    registration_lock = std::make_unique<SocketLock>(path, settings.lock_wait);
    registering = listen(path, {registration.get()});
  }
  std::unique_ptr<DevicePlugin> device_plugin;
  if (!settings.device_plugins.empty()) {
    CdiOptions cdi;
    cdi.folder = settings.cdi;
    cdi.kind = settings.service.names.domain + "/gds";
    cdi.kit = settings.service.kit;
    device_plugin = std::make_unique<DevicePlugin>(DevicePluginOptions{settings.device_plugins, std::move(cdi)});
  }
  log_line("info",
           fmt::format("{} {} serves {} as {}.", settings.service.names.of(settings.service.driver),
                       SLUICE_VERSION_TEXT, settings.endpoint, settings.mode == Mode::node ? "node" : "controller"));
  int signal = 0;
  sigwait(&ends, &signal);
  log_line("info", "The driver ends. Mounts stay, and the next one takes them over.");
  // Calls are waited for; clients that keep a connection open without one are not.
  wait_for_calls(std::chrono::seconds(20));
  const auto deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(100);
  if (registering) registering->Shutdown(deadline);
  server->Shutdown(deadline);
  set_event_sink({});
  return EXIT_SUCCESS;
}

void check(const CommandLine& line) {
  const Settings& settings = line.settings;
  if (settings.mode == Mode::node && settings.service.node.empty()) {
    refuse(Code::invalid_argument, "The node's name is missing. Give --node NAME, or NODE_NAME in the environment.");
  }
  if (!settings.device_plugins.empty() && settings.service.kit.empty()) {
    refuse(Code::invalid_argument, "--device-plugins offers the library, and none is named. Give --kit, too.");
  }
  if (settings.dra && (settings.registration.empty() || settings.service.kit.empty())) {
    refuse(Code::invalid_argument,
           "--dra wants to be registered, and offers the library. Give --registration and --kit, too.");
  }
  for (const std::string& pool : settings.pools) {
    if (!pool.starts_with('/')) refuse(Code::invalid_argument, "--pool wants an absolute path, and not " + pool + ".");
  }
  for (const std::string& drive : settings.drives) {
    if (!drive.starts_with('/')) refuse(Code::invalid_argument, "--drive wants a path in /dev, and not " + drive + ".");
  }
}

int run(int count, char** words) {
  CLI::App app(description, "sluice-csi");
  CommandLine line;
  describe(app, line);
  CLI11_PARSE(app, count, words);
  if (!line.probe.empty()) return probe(line.probe, line.alive);
  line.settings.mode = line.mode == "node" ? Mode::node : Mode::controller;
  line.settings.service.driver = line.driver == "local" ? Driver::local : Driver::fabrics;
  line.settings.quota = line.quota == "require" ? QuotaWish::require : QuotaWish::none;
  line.settings.lock_wait = std::chrono::seconds(line.lock_wait);
  line.settings.endpoint = path_of(line.endpoint);
  check(line);
  // An API server that goes away in the middle of a request is an error of that request.
  signal(SIGPIPE, SIG_IGN);
  // Before any thread: all inherit it, and one waits.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  return serve(line.settings, ends);
}

}  // namespace
}  // namespace sluice::csi

int main(int count, char** words) {
  try {
    return sluice::csi::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice-csi: %s\n", error.what());
  } catch (...) {
    std::fputs("sluice-csi: it ends by an unknown exception\n", stderr);
  }
  return EXIT_FAILURE;
}
