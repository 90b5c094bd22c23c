// SPDX-License-Identifier: Apache-2.0
#include "core/fabrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <system_error>

#include "base/unique_fd.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

constexpr int usual_ctrl_loss = 1800;  // seconds; the kernel's own is 600
constexpr int usual_reconnect_delay = 2;

// "traddr=10.0.0.1,trsvcid=4420,src_addr=10.0.0.9" as "10.0.0.1:4420".
std::string address_in(const std::string& text) {
  std::string address;
  std::string service;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (part.starts_with("traddr=")) address = part.substr(7);
    if (part.starts_with("trsvcid=")) service = part.substr(8);
  }
  return address + ":" + service;
}

std::pair<std::string, std::string> split_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const bool whole = colon == std::string::npos || address.back() == ']';
  std::string host = whole ? address : address.substr(0, colon);
  std::string service = whole ? "4420" : address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  const bool plain =
      host.find_first_of(",\n= ") == std::string::npos && service.find_first_not_of("0123456789") == std::string::npos;
  if (host.empty() || service.empty() || !plain) {
    refuse(Code::invalid_argument,
           fmt::format("\"{}\" is no address. Write it as 192.168.1.4:4420 or [fd00::4]:4420.", address));
  }
  return {host, service};
}

std::string why_not_connected(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "nothing listens there";
    case EIO:
      return "the target does not admit this host, or failed; dmesg says which";
    case EINVAL:
      return "the kernel knows an option not, or the host's id does not belong to its NQN";
    case ENOENT:
    case ENXIO:
    case ENODEV:
      return "/dev/nvme-fabrics or the transport is missing: modprobe nvme-tcp, or nvme-rdma";
    default:
      return std::generic_category().message(error);
  }
}

// Heads are called nvme3n1; nvme3c4n1 is one path of such a head.
bool is_head(const std::string& name) {
  if (!name.starts_with("nvme")) return false;
  std::size_t at = 4;
  while (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0) ++at;
  return at > 4 && at < name.size() && name[at] == 'n' && name.find('p') == std::string::npos;
}

// Two dashed forms of 32 hexadecimal digits.
std::string uuid_like(std::string digits) {
  digits.resize(32, '0');
  return digits.substr(0, 8) + "-" + digits.substr(8, 4) + "-" + digits.substr(12, 4) + "-" + digits.substr(16, 4) +
         "-" + digits.substr(20);
}

}  // namespace

int KernelNvmePort::connect(const std::string& options) {
  const base::UniqueFd file(open("/dev/nvme-fabrics", O_RDWR | O_CLOEXEC));
  if (!file) return errno;
  return ::write(file.get(), options.data(), options.size()) < 0 ? errno : 0;
}

int KernelNvmePort::write(const std::string& path, const std::string& value) {
  const base::UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return errno;
  return ::write(file.get(), value.data(), value.size()) < 0 ? errno : 0;
}

HostIdentity host_identity(const facts::Root& root) {
  HostIdentity host = {facts::read_value(root.at("/etc/nvme/hostnqn")).value_or(""),
                       facts::read_value(root.at("/etc/nvme/hostid")).value_or("")};
  if (!host.nqn.empty() && !host.id.empty()) return host;
  const std::string machine = facts::read_value(root.at("/etc/machine-id")).value_or("");
  if (machine.empty()) {
    refuse(Code::failed_precondition,
           "This node has neither /etc/nvme/hostnqn and hostid nor /etc/machine-id. Give it one "
           "(nvme gen-hostnqn), a different one for each node.");
  }
  // Both or neither: a host id that does not belong to its NQN is refused by the kernel.
  host.id = uuid_like(machine);
  host.nqn = "nqn.2014-08.org.nvmexpress:uuid:" + host.id;
  return host;
}

std::vector<std::string> Fabrics::subsystems(const std::string& nqn) const {
  std::vector<std::string> found;
  const std::string folder = root_.at("/sys/class/nvme-subsystem");
  for (const std::string& name : facts::list_names(folder)) {
    std::string subsystem = fmt::format("{}/{}", folder, name);
    if (facts::read_value(subsystem + "/subsysnqn") == nqn) found.push_back(std::move(subsystem));
  }
  return found;
}

std::vector<FabricsPath> Fabrics::paths(const std::string& nqn) const {
  std::vector<FabricsPath> found;
  const std::string folder = root_.at("/sys/class/nvme");
  for (const std::string& name : facts::list_names(folder)) {
    const std::string controller = fmt::format("{}/{}", folder, name);
    if (facts::read_value(controller + "/subsysnqn") != nqn) continue;
    found.push_back({name, facts::read_value(controller + "/transport").value_or(""),
                     address_in(facts::read_value(controller + "/address").value_or("")),
                     facts::read_value(controller + "/state").value_or("")});
  }
  return found;
}

std::string Fabrics::options_for(const FabricsParameters& wanted, const std::string& address) const {
  const HostIdentity host = host_identity(root_);
  const auto [traddr, trsvcid] = split_address(address);
  std::string options =
      fmt::format("nqn={},transport={},traddr={},trsvcid={},hostnqn={},hostid={},ctrl_loss_tmo={},reconnect_delay={}",
                  wanted.nqn, wanted.transport, traddr, trsvcid, host.nqn, host.id,
                  wanted.ctrl_loss_tmo.value_or(usual_ctrl_loss), usual_reconnect_delay);
  if (wanted.fast_io_fail_tmo) options += fmt::format(",fast_io_fail_tmo={}", *wanted.fast_io_fail_tmo);
  return options;
}

void Fabrics::check(const FabricsParameters& wanted) {
  if (wanted.nqn.empty() || wanted.addresses.empty() || wanted.uuid.empty()) {
    refuse(Code::invalid_argument, "nqn, addresses and uuid have to be given. Put them into the volume's attributes.");
  }
  for (const std::string& address : wanted.addresses) split_address(address);
}

std::vector<std::string> Fabrics::connect(const FabricsParameters& wanted) {
  check(wanted);
  std::vector<std::string> missing;
  std::size_t up = 0;
  for (const std::string& address : wanted.addresses) {
    const auto [host, service] = split_address(address);
    const std::string target = fmt::format("{}:{}", host, service);
    const std::vector<FabricsPath> known = paths(wanted.nqn);
    // A controller that is connecting counts: the kernel goes on by itself, and would refuse a second one.
    const bool there = std::any_of(known.begin(), known.end(), [&](const FabricsPath& each) {
      return each.address == target && each.transport == wanted.transport && each.state != "deleting" &&
             each.state != "dead";
    });
    const int error = there ? 0 : port_.connect(options_for(wanted, address));
    if (error == 0 || error == EALREADY) {
      ++up;
    } else {
      missing.push_back(fmt::format("{}: {}", address, why_not_connected(error)));
    }
  }
  if (up > 0) return missing;
  std::string all;
  for (const std::string& each : missing) all += (all.empty() ? "" : "; ") + each;
  refuse(Code::failed_precondition,
         fmt::format("{} is reached by no address ({}). Look at the target and the network.", wanted.nqn, all));
}

std::optional<std::string> Fabrics::find(const std::string& uuid) const {
  const std::string folder = root_.at("/sys/block");
  for (const std::string& name : facts::list_names(folder)) {
    if (is_head(name) && facts::read_value(fmt::format("{}/{}/uuid", folder, name)) == uuid) return name;
  }
  return std::nullopt;
}

std::string Fabrics::await(const std::string& uuid) const {
  constexpr int attempts = 100;
  for (int i = 0; i < attempts; ++i) {
    if (const std::optional<std::string> name = find(uuid)) return *name;
    const timespec pause = {0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
  refuse(Code::failed_precondition,
         fmt::format("The subsystem is connected, and has no namespace {}. Look at uuid in the volume's "
                     "attributes, and at what the target gives this host.",
                     uuid));
}

void Fabrics::set_times(const FabricsParameters& wanted) {
  for (const FabricsPath& each : paths(wanted.nqn)) {
    const std::string folder = root_.at("/sys/class/nvme/" + each.controller);
    const std::pair<const char*, std::optional<int>> attributes[] = {{"/ctrl_loss_tmo", wanted.ctrl_loss_tmo},
                                                                     {"/fast_io_fail_tmo", wanted.fast_io_fail_tmo}};
    for (const auto& [name, seconds] : attributes) {
      if (!seconds) continue;
      const int error = port_.write(folder + name, std::to_string(*seconds));
      if (error != 0) refuse_errno(fmt::format("setting {}{}", each.controller, name), error);
    }
  }
  if (wanted.iopolicy.empty()) return;
  for (const std::string& each : subsystems(wanted.nqn)) {
    const int error = port_.write(each + "/iopolicy", wanted.iopolicy);
    if (error != 0) refuse_errno("setting the I/O policy " + wanted.iopolicy, error);
  }
}

void Fabrics::rescan(const std::string& nqn) {
  for (const FabricsPath& each : paths(nqn)) {
    if (each.state == "live") port_.write(root_.at("/sys/class/nvme/" + each.controller + "/rescan_controller"), "1");
  }
}

void Fabrics::disconnect(const std::string& nqn) {
  for (const FabricsPath& each : paths(nqn)) {
    const int error = port_.write(root_.at("/sys/class/nvme/" + each.controller + "/delete_controller"), "1");
    if (error != 0 && error != ENOENT && error != ENODEV) refuse_errno("disconnecting " + each.controller, error);
  }
}

std::vector<std::string> Fabrics::namespaces(const std::string& nqn) const {
  std::vector<std::string> heads;
  for (const std::string& subsystem : subsystems(nqn)) {
    for (const std::string& name : facts::list_names(subsystem)) {
      if (is_head(name)) heads.push_back(name);
    }
  }
  return heads;
}

Condition Fabrics::condition(const std::string& nqn) const {
  const std::vector<FabricsPath> all = paths(nqn);
  const auto live = std::count_if(all.begin(), all.end(), [](const FabricsPath& each) { return each.state == "live"; });
  std::string lost;
  for (const FabricsPath& each : all) {
    if (each.state != "live") lost += fmt::format("{}{} is {}", lost.empty() ? "" : ", ", each.address, each.state);
  }
  if (all.empty()) return {true, "the target is not connected"};
  if (live == 0) return {true, "no path is live: " + lost};
  return {false, lost.empty() ? fmt::format("{} paths are live", live)
                              : fmt::format("{} of {} paths are live: {}", live, all.size(), lost)};
}

}  // namespace sluice::csi
