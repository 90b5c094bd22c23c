// SPDX-License-Identifier: Apache-2.0
// Queue pairs of one protection domain, by which one server reaches memory of this process.
#pragma once

#include <deque>
#include <vector>

#include "verbs/queue_pair.h"

namespace rdma_files {

class LinkGroup {
 public:
  LinkGroup() = default;
  LinkGroup(const LinkGroup&) = delete;
  LinkGroup& operator=(const LinkGroup&) = delete;
  virtual ~LinkGroup() = default;  // from then on the server reaches nothing by it

  virtual std::vector<Peer> own() const = 0;
  // The server's ends, in the same order.
  virtual void connect(const std::vector<Peer>& servers) = 0;
};

// Of libibverbs itself, for memory that this library registers.
class OwnGroup final : public LinkGroup {
 public:
  // In the device's protection domain: memory that was registered there before is reached, too.
  OwnGroup(std::shared_ptr<Device> device, std::size_t count);

  std::vector<Peer> own() const override;
  void connect(const std::vector<Peer>& servers) override;

  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  // Memory that the server may read and write as long as this lives.
  VerbsMemory registered(void* memory, std::size_t size) const;
  // What describes a part of it.
  Token token_of(const ibv_mr& region, std::size_t offset, std::uint32_t size) const;

 private:
  std::shared_ptr<Device> device_;
  std::deque<QueuePair> pairs_;
};

}  // namespace rdma_files
