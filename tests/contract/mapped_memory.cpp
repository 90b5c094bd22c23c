// SPDX-License-Identifier: Apache-2.0
// CUmemAllocationProp and CUmemAccessDesc are spelled out as far as they are needed: pinned memory of device 0, read
// and written.
#include "contract/mapped_memory.h"

#include <array>
#include <stdexcept>
#include <string>

namespace sluice::contract {

using support::cuda;

namespace {

struct Location {
  int type = 1;
  int id = 0;
};
struct AllocationProperties {
  int type = 1;
  int handle_types = 0;
  Location location;
  void* windows = nullptr;
  std::array<unsigned char, 8> flags{};
};
struct AccessDescription {
  Location location;
  int flags = 3;
};

void require(int answer, const char* call) {
  if (answer != 0) throw std::runtime_error(std::string(call) + ": " + std::to_string(answer));
}

}  // namespace

bool MappedMemory::available() {
  return cuda() != nullptr && cuda()->mem_create != nullptr;
}

MappedMemory::MappedMemory(std::size_t pieces, std::size_t piece) : piece_(piece), room_(2 * pieces * piece) {
  require(cuda()->mem_reserve(&address_, room_, 0, 0, 0), "cuMemAddressReserve");
  while (pieces_.size() < pieces) grow();
}

void MappedMemory::grow() {
  const AllocationProperties properties;
  const AccessDescription access;
  std::uint64_t fresh = 0;
  require(cuda()->mem_create(&fresh, piece_, &properties, 0), "cuMemCreate");
  const support::CudaAddress end = address_ + size();
  require(cuda()->mem_map(end, piece_, 0, fresh, 0), "cuMemMap");
  require(cuda()->mem_set_access(end, piece_, &access, 1), "cuMemSetAccess");
  pieces_.push_back(fresh);
}

MappedMemory::~MappedMemory() {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    cuda()->mem_unmap(address_ + i * piece_, piece_);
    cuda()->mem_release(pieces_[i]);
  }
  cuda()->mem_free_reserved(address_, room_);
}

support::Bytes MappedMemory::get(std::size_t offset, std::size_t length) const {
  support::Bytes bytes(length);
  require(cuda()->to_host(bytes.data(), address_ + offset, length), "cuMemcpyDtoH");
  return bytes;
}

}  // namespace sluice::contract
