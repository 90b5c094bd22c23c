// SPDX-License-Identifier: Apache-2.0
// An RDMA adapter by the address of one of its ports, its protection domain, and memory that it may move.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <string>

#include "wire/message.h"

namespace rdma_files {

// The mistakes of libibverbs are integers or null; here each is a std::system_error that says what was tried.
template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const noexcept {
    Free(object);
  }
};
using VerbsContext = std::unique_ptr<ibv_context, Freed<&ibv_close_device>>;
using VerbsDomain = std::unique_ptr<ibv_pd, Freed<&ibv_dealloc_pd>>;
using VerbsMemory = std::unique_ptr<ibv_mr, Freed<&ibv_dereg_mr>>;

class Device {
 public:
  // The port that has this IPv4 address among its GIDs. ENODEV where none has.
  static std::shared_ptr<Device> with_address(const std::string& address);

  ibv_context* context() const noexcept { return context_.get(); }
  ibv_pd* domain() const noexcept { return domain_.get(); }
  std::uint8_t port() const noexcept { return port_; }
  std::uint8_t gid_index() const noexcept { return gid_index_; }
  const Gid& gid() const noexcept { return gid_; }
  const ibv_port_attr& attributes() const noexcept { return attributes_; }
  const char* name() const noexcept { return ibv_get_device_name(context_->device); }

  // `access` in the terms of verbs; 0: only for what this end itself asks of its adapter.
  VerbsMemory registered(void* memory, std::size_t size, unsigned access) const;

 private:
  VerbsContext context_;
  VerbsDomain domain_;
  ibv_port_attr attributes_{};
  Gid gid_{};
  std::uint8_t port_ = 0;
  std::uint8_t gid_index_ = 0;
};

}  // namespace rdma_files
