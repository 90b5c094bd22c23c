// SPDX-License-Identifier: Apache-2.0
// What a twin sees of its launch.
#include <utility>

#include "context.h"
#include "copy.h"
#include "kernels.h"
#include "place.h"
#include "refusal.h"

namespace sluice::softgpu {

namespace {

Place known(std::uint64_t address, std::uint64_t size) {
  try {
    return device_place(address, size);
  } catch (const Refusal&) {
    if (auto place = leaving_place(address, size)) return std::move(*place);
    throw KernelFault{cuda::error_illegal_address};
  }
}

Place reachable(Workspace& from, std::uint64_t address, std::uint64_t size, int access) {
  Place place = known(address, size);
  for (const auto& owner : place.owners) {
    if (from.access_to(*owner) < access) throw KernelFault{cuda::error_illegal_address};
  }
  return place;
}

}  // namespace

const std::byte* Launch::parameter_bytes(std::size_t index, std::size_t size) const {
  // A twin that reads what the PTX does not declare is no twin of it.
  if (index >= sizes_.size() || sizes_[index] != size) throw KernelFault{cuda::error_launch_failed};
  std::size_t end = 0;
  for (std::size_t before = 0; before < index; ++before) end = parameter_offset(end, sizes_[before]) + sizes_[before];
  return parameters_.data() + parameter_offset(end, size);
}

// A kernel that waits asks for the same words again and again. The table of all memory has a lock, which those who
// allocate or free would then hardly get. What has been reached once stays so, whatever becomes of it.
std::byte* Launch::reach(std::uint64_t address, std::uint64_t size) const {
  for (const auto& memory : reached_) {
    const std::uint64_t into = address - memory->start;
    if (into < memory->size && size <= memory->size - into) return memory->bytes + into;
  }
  Place place = reachable(workspace_, address, size, cuda::access_read_write);
  if (place.pieces.size() != 1) throw KernelFault{cuda::error_illegal_address};
  reached_.push_back(std::move(place.owners.front()));
  return place.pieces.front().bytes;
}

void* Launch::word_bytes(std::uint64_t address, std::uint64_t size) const {
  if (address % size != 0) throw KernelFault{cuda::error_misaligned_address};
  return reach(address, size);
}

void Launch::copy(std::uint64_t to, std::uint64_t from, std::uint64_t size) const {
  if (size == 0) return;
  move_bytes(reachable(workspace_, to, size, cuda::access_read_write),
             reachable(workspace_, from, size, cuda::access_read));
}

void Launch::load(std::vector<std::byte>& into, std::uint64_t from, std::uint64_t size) const {
  into.resize(size);
  if (size == 0) return;
  Place own;
  own.pieces = {{into.data(), size}};
  move_bytes(own, reachable(workspace_, from, size, cuda::access_read));
}

void Launch::store(std::uint64_t to, std::vector<std::byte>& bytes) const {
  if (bytes.empty()) return;
  Place own;
  own.pieces = {{bytes.data(), bytes.size()}};
  move_bytes(reachable(workspace_, to, bytes.size(), cuda::access_read_write), own);
}

}  // namespace sluice::softgpu
