// SPDX-License-Identifier: Apache-2.0
#include "verbs/device.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

namespace rdma_files {

namespace {

constexpr std::size_t most_gids = 256;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

// RoCE knows an IPv4 address as an IPv6 one that holds it.
Gid gid_of(const std::string& address) {
  Gid gid{};
  gid[10] = gid[11] = 0xff;
  if (::inet_pton(AF_INET, address.c_str(), &gid[12]) != 1) fail(address, EINVAL);
  return gid;
}

// RoCE v2 crosses routers as v1 does not; where a port has the address in both forms v2 is taken.
std::optional<ibv_gid_entry> find_gid(ibv_context* context, const Gid& wanted) {
  std::vector<ibv_gid_entry> entries(most_gids);
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  std::optional<ibv_gid_entry> found;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<std::size_t>(i)];
    if (!std::ranges::equal(std::span(entry.gid.raw), wanted)) continue;
    if (!found || entry.gid_type == IBV_GID_TYPE_ROCE_V2) found = entry;
  }
  return found;
}

}  // namespace

std::shared_ptr<Device> Device::with_address(const std::string& address) {
  const Gid wanted = gid_of(address);
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) fail("no RDMA device can be listed", errno);
  const std::unique_ptr<ibv_device*, Freed<&ibv_free_device_list>> freed(list);
  for (int i = 0; i < count; ++i) {
    VerbsContext context(ibv_open_device(list[i]));
    const std::optional<ibv_gid_entry> found = context ? find_gid(context.get(), wanted) : std::nullopt;
    if (!found) continue;
    auto device = std::make_shared<Device>();
    device->context_ = std::move(context);
    device->domain_.reset(ibv_alloc_pd(device->context_.get()));
    if (!device->domain_) fail("ibv_alloc_pd", errno);
    device->port_ = static_cast<std::uint8_t>(found->port_num);
    device->gid_index_ = static_cast<std::uint8_t>(found->gid_index);
    device->gid_ = wanted;
    if (const int error = ibv_query_port(device->context_.get(), device->port_, &device->attributes_); error != 0) {
      fail("ibv_query_port", error);
    }
    return device;
  }
  fail("no RDMA device has the address " + address, ENODEV);
}

VerbsMemory Device::registered(void* memory, std::size_t size, unsigned access) const {
  VerbsMemory region(ibv_reg_mr(domain_.get(), memory, size, access));
  if (!region) fail("ibv_reg_mr of " + std::to_string(size) + " bytes", errno);
  return region;
}

}  // namespace rdma_files
