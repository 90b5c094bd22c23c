// SPDX-License-Identifier: Apache-2.0
// CUmemAllocationProp and CUmemAccessDesc are spelled out as far as they are needed.
#include "callers/mapped_range.h"

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace sluice::callers {

using support::cuda;

namespace {

struct Location {
  int type = 1;  // a device
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  // pinned
  int handle_types = 0;
  Location location;
  void* windows = nullptr;
  std::array<unsigned char, 8> flags{};
};
struct AccessDescription {
  Location location;
  int flags = 3;  // read and write
};
constexpr int kPosixDescriptor = 1;

void succeed(int answer, const char* call) {
  if (answer != 0) throw std::runtime_error(std::string(call) + ": CUDA error " + std::to_string(answer));
}

std::uint64_t create(std::size_t size, int device, int handle_types) {
  AllocationProperties properties;
  properties.handle_types = handle_types;
  properties.location.id = device;
  std::uint64_t fresh = 0;
  succeed(cuda()->mem_create(&fresh, size, &properties, 0), "cuMemCreate");
  return fresh;
}

}  // namespace

bool MappedRange::available() {
  return cuda() != nullptr && cuda()->mem_create != nullptr;
}

bool MappedRange::can_be_shared() {
  return available() && cuda()->mem_export != nullptr && cuda()->mem_import != nullptr;
}

MappedRange::MappedRange(std::size_t pieces, std::size_t piece) : piece_(piece), device_(0) {
  reserve(pieces);
  while (pieces_.size() < pieces) map(create(piece, device_, 0));
}

MappedRange::MappedRange(std::size_t pieces, std::size_t piece, int device, Shared /*shared*/)
    : piece_(piece), device_(device) {
  reserve(pieces);
  while (pieces_.size() < pieces) map(create(piece, device_, kPosixDescriptor));
}

MappedRange::MappedRange(std::span<const support::Fd> descriptors, std::size_t piece, int device)
    : piece_(piece), device_(device) {
  reserve(descriptors.size());
  for (const support::Fd& each : descriptors) {
    std::uint64_t handle = 0;
    auto* const number = reinterpret_cast<void*>(static_cast<std::intptr_t>(each.get()));
    succeed(cuda()->mem_import(&handle, number, kPosixDescriptor), "cuMemImportFromShareableHandle");
    map(handle);
  }
}

MappedRange::~MappedRange() {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    cuda()->mem_unmap(address_ + i * piece_, piece_);
    cuda()->mem_release(pieces_[i]);
  }
  cuda()->mem_free_reserved(address_, room_);
}

void MappedRange::reserve(std::size_t pieces) {
  room_ = pieces * piece_;
  succeed(cuda()->mem_reserve(&address_, room_, 0, 0, 0), "cuMemAddressReserve");
}

void MappedRange::map(std::uint64_t handle) {
  const support::CudaAddress end = address_ + size();
  succeed(cuda()->mem_map(end, piece_, 0, handle, 0), "cuMemMap");
  AccessDescription access;
  access.location.id = device_;
  pieces_.push_back(handle);
  // Over all that there is by now, as a range is made to grow.
  succeed(cuda()->mem_set_access(address_, size(), &access, 1), "cuMemSetAccess");
}

std::vector<support::Fd> MappedRange::share() const {
  std::vector<support::Fd> descriptors;
  for (const std::uint64_t handle : pieces_) {
    int fd = -1;
    succeed(cuda()->mem_export(&fd, handle, kPosixDescriptor, 0), "cuMemExportToShareableHandle");
    descriptors.emplace_back(fd);
  }
  return descriptors;
}

void MappedRange::put(std::size_t offset, std::span<const unsigned char> bytes) const {
  const support::ContextScope scope(support::primary_context(device_));
  succeed(cuda()->to_device(address_ + offset, bytes.data(), bytes.size()), "cuMemcpyHtoD");
  succeed(cuda()->context_synchronize(), "cuCtxSynchronize");
}

support::Bytes MappedRange::get(std::size_t offset, std::size_t length) const {
  const support::ContextScope scope(support::primary_context(device_));
  support::Bytes bytes(length);
  succeed(cuda()->to_host(bytes.data(), address_ + offset, length), "cuMemcpyDtoH");
  return bytes;
}

void MappedRange::fill(unsigned char value) const {
  const support::ContextScope scope(support::primary_context(device_));
  succeed(cuda()->fill(address_, value, size()), "cuMemsetD8");
  succeed(cuda()->context_synchronize(), "cuCtxSynchronize");
}

}  // namespace sluice::callers
