// SPDX-License-Identifier: Apache-2.0
// NVMe over fabrics, by /dev/nvme-fabrics and sysfs: connecting, finding a namespace, the state of its paths, letting
// go.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/parameters.h"
#include "core/types.h"
#include "facts/root.h"

namespace sluice::csi {

// What is written into the kernel. Tests put a kernel of their own in its place.
class NvmePort {
 public:
  NvmePort() = default;
  NvmePort(const NvmePort&) = delete;
  NvmePort& operator=(const NvmePort&) = delete;
  virtual ~NvmePort() = default;

  // A line of options for /dev/nvme-fabrics; 0 or an errno.
  virtual int connect(const std::string& options) = 0;
  // An attribute of sysfs; 0 or an errno.
  virtual int write(const std::string& path, const std::string& value) = 0;
};

class KernelNvmePort : public NvmePort {
 public:
  int connect(const std::string& options) override;
  int write(const std::string& path, const std::string& value) override;
};

struct FabricsPath {
  std::string controller;  // "nvme3"
  std::string transport;
  std::string address;  // "192.168.1.4:4420"
  std::string state;    // "live", "connecting": looked at before ana_state, which a lost path keeps
};

struct HostIdentity {
  std::string nqn;
  std::string id;
};

// /etc/nvme of the host; both made of the machine's id where they are missing, because a random pair would be another
// host after each restart.
HostIdentity host_identity(const facts::Root& root);

class Fabrics {
 public:
  Fabrics(facts::Root root, NvmePort& port) : root_(std::move(root)), port_(port) {}

  std::vector<FabricsPath> paths(const std::string& nqn) const;
  // Refuses attributes that no kernel should be asked with.
  static void check(const FabricsParameters& wanted);
  // Brings up every address that has no controller yet. Refused when none is up afterwards; the answer tells of those
  // that are missing.
  std::vector<std::string> connect(const FabricsParameters& wanted);
  // The head of the namespace, "nvme3n1"; its hidden paths have a "c" in their names.
  std::optional<std::string> find(const std::string& uuid) const;
  // As find, until it is there: heads come a moment after their controllers.
  std::string await(const std::string& uuid) const;
  void set_times(const FabricsParameters& wanted);
  void rescan(const std::string& nqn);
  void disconnect(const std::string& nqn);
  // Names of all namespaces of a subsystem.
  std::vector<std::string> namespaces(const std::string& nqn) const;
  Condition condition(const std::string& nqn) const;

 private:
  std::string options_for(const FabricsParameters& wanted, const std::string& address) const;
  std::vector<std::string> subsystems(const std::string& nqn) const;

  facts::Root root_;
  NvmePort& port_;
};

}  // namespace sluice::csi
