// SPDX-License-Identifier: Apache-2.0
#include "client/link_group.h"

#include <algorithm>

namespace rdma_files {

OwnGroup::OwnGroup(std::shared_ptr<Device> device, std::size_t count) : device_(std::move(device)) {
  for (std::size_t i = 0; i < count; ++i) pairs_.emplace_back(device_, 1U, Exposure::reads_and_writes);
}

std::vector<Peer> OwnGroup::own() const {
  std::vector<Peer> peers;
  std::ranges::transform(pairs_, std::back_inserter(peers), [](const QueuePair& pair) { return pair.own(); });
  return peers;
}

void OwnGroup::connect(const std::vector<Peer>& servers) {
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i].link(servers.at(i));
}

VerbsMemory OwnGroup::registered(void* memory, std::size_t size) const {
  return device_->registered(memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

Token OwnGroup::token_of(const ibv_mr& region, std::size_t offset, std::uint32_t size) const {
  const Peer first = pairs_.front().own();
  return {.address = reinterpret_cast<std::uintptr_t>(region.addr) + offset,
          .size = size,
          .key = region.rkey,
          .lid = first.lid,
          .queue_pair = first.queue_pair,
          .gid = first.gid};
}

}  // namespace rdma_files
