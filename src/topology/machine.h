// SPDX-License-Identifier: Apache-2.0
// The machine as a tree: host bridges, the bridges below them, and the GPUs, drives and network cards at the ends, with
// their links; what lies beside the tree: NVLinks, addresses, controllers of drives behind a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "facts/root.h"

namespace sluice::topology {

// A link upwards, as both of its ends tell it. 0: not told.
struct Link {
  double speed = 0;  // GT/s
  double most_speed = 0;
  int width = 0;  // 16 of x16
  int most_width = 0;
  bool operator==(const Link&) const = default;
};

// Whether a bridge sends what its devices say to each other up to the host. Only root reads it.
enum class Acs : std::uint8_t { unknown, off, on };

// Where something hangs.
struct Place {
  std::string address;             // "0000:3b:00.0"; "" for what is on no PCI bus
  std::string root;                // of the host bridge: "pci0000:3a"
  std::vector<std::string> above;  // bridges, nearest first
  int node = -1;                   // NUMA; -1 where it is not known
  Link link;
};

struct Bridge {
  Place place;
  Acs acs = Acs::unknown;
};

enum class Kind : std::uint8_t { gpu, drive, nic };

struct Device {
  Kind kind = Kind::gpu;
  std::string name;   // "GPU0", "nvme0", "mlx5_0"; of GPUs by their order on the bus
  std::string model;  // "NVIDIA H200"; "" where it is not known
  Place place;
  std::uint32_t vendor = 0;
  std::uint32_t product = 0;
  // Of a network card.
  std::vector<std::string> rdma;        // "mlx5_0"
  std::vector<std::string> interfaces;  // "ens1f0np0"
  std::vector<std::string> addresses;   // IPv4, of these interfaces
};

// A controller of drives behind a network.
struct Remote {
  std::string name;       // "nvme2"
  std::string transport;  // "rdma", "tcp"
  std::string address;    // of the target
  std::string card;       // the network card that it goes through; "" where nothing tells
};

// How two GPUs reach each other. Told by the driver, not by the bus; in both directions.
struct Peer {
  std::string one;  // address on the bus
  std::string other;
  bool access = false;  // each can read the other's memory
  bool nvlink = false;  // by NVLink
  int links = 0;        // so many; 0 where it is not known
};

struct Address {
  std::string interface;
  std::string text;  // "10.0.0.4"
};

// What the bus does not tell.
struct Told {
  std::vector<Address> addresses = {};
  std::vector<Peer> peers = {};
  bool peers_known = false;  // the driver was asked
};

struct Node {
  int number = 0;
  std::string processors;      // "0-31"
  std::vector<int> distances;  // to each node; 10 to itself
};

struct Machine {
  std::vector<Node> nodes;
  std::map<std::string, Bridge> bridges;  // by address
  std::vector<Device> devices;            // GPUs, then drives, then network cards; by address, those on no bus last
  std::vector<Remote> remotes;
  Told told;
  std::string board;  // "DGX H100"; "" where it is not known
  bool guest = false;
  // The tree says nothing of what is near what: all hang right at the root, or at ports that a hypervisor made up.
  bool flat = false;
};

// `told`: of a recorded tree what told_in() gives, of the machine itself what own_addresses() and the driver give.
Machine read_machine(const facts::Root& root, Told told);

std::vector<const Device*> devices_of(const Machine& machine, Kind kind);
// By its name, or its address on the bus; none where there is none.
const Device* find_device(const Machine& machine, const std::string& name);
// By the name of an RDMA device, or of an interface.
const Device* find_card(const Machine& machine, const std::string& name);
const Peer* find_peer(const Machine& machine, const std::string& one, const std::string& other);

// Whether the link upwards runs at less than both of its ends can do. Nothing is claimed where an end is not known, nor
// of the speed of GPUs, which lower it while they idle, nor of ports that have no link upwards.
bool trained_down(const Machine& machine, const Device& device);
bool trained_down(const Machine& machine, const Bridge& bridge);
// What both ends of the link upwards can do.
Link best_of(const Machine& machine, const Place& place);
// Root ports and the lower ports of switches tell of the link below them, the upper ports of switches of the one above.
bool is_upper_port(const Bridge& bridge);

// GB/s in one direction, without what the protocol takes. 0 where it is not told.
double bandwidth_of(double speed, int width);

}  // namespace sluice::topology
