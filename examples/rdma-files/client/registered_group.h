// SPDX-License-Identifier: Apache-2.0
// Queue pairs for memory that cuFile has registered: of its own protection domain, made by libcufile_rdma.so.1.
#pragma once

#include "client/link_group.h"
#include "sluice_rdma.h"

namespace rdma_files {

class RegisteredGroup final : public LinkGroup {
 public:
  // On the adapter with this address, for ClientSettings::links; null where there is none that cuFile can use: calls
  // then come without tokens.
  static std::unique_ptr<LinkGroup> with_address(const std::string& address);
  ~RegisteredGroup() override;

  std::vector<Peer> own() const override { return own_; }
  void connect(const std::vector<Peer>& servers) override;

 private:
  RegisteredGroup(sluice_rdma_link_t* link, std::vector<Peer> own) : link_(link), own_(std::move(own)) {}

  sluice_rdma_link_t* const link_;
  const std::vector<Peer> own_;
};

}  // namespace rdma_files
