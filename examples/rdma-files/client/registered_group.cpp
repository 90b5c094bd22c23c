// SPDX-License-Identifier: Apache-2.0
#include "client/registered_group.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "client/client.h"

namespace rdma_files {

namespace {

Peer peer_of(const sluice_rdma_endpoint_t& end) {
  Peer peer{.lid = end.lid, .queue_pair = end.qp, .first_packet = end.psn, .mtu = end.mtu};
  if (end.has_gid != 0) std::ranges::copy(end.gid, peer.gid.begin());
  return peer;
}

sluice_rdma_endpoint_t end_of(const Peer& peer) {
  sluice_rdma_endpoint_t end{};
  end.qp = peer.queue_pair;
  end.psn = peer.first_packet;
  end.lid = peer.lid;
  end.mtu = peer.mtu;
  end.has_gid = peer.gid == Gid{} ? 0 : 1;
  std::ranges::copy(peer.gid, end.gid);
  return end;
}

}  // namespace

std::unique_ptr<LinkGroup> RegisteredGroup::with_address(const std::string& address) {
  sockaddr_in wanted{};
  wanted.sin_family = AF_INET;
  if (::inet_pton(AF_INET, address.c_str(), &wanted.sin_addr) != 1) return nullptr;
  std::array<sluice_rdma_endpoint_t, Client::kPairs> ends{};
  sluice_rdma_link_t* link = nullptr;
  if (sluice_rdma_link_open(reinterpret_cast<const sockaddr*>(&wanted), Client::kPairs, &link, ends.data()) != 0)
    return nullptr;
  std::vector<Peer> own;
  std::ranges::transform(ends, std::back_inserter(own), peer_of);
  return std::unique_ptr<LinkGroup>(new RegisteredGroup(link, std::move(own)));
}

RegisteredGroup::~RegisteredGroup() {
  sluice_rdma_link_close(link_);
}

void RegisteredGroup::connect(const std::vector<Peer>& servers) {
  std::vector<sluice_rdma_endpoint_t> ends;
  std::ranges::transform(servers, std::back_inserter(ends), end_of);
  const int error = sluice_rdma_link_connect(link_, ends.data(), static_cast<unsigned>(ends.size()));
  if (error != 0) throw std::system_error(error, std::generic_category(), sluice_rdma_error());
}

}  // namespace rdma_files
