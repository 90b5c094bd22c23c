// SPDX-License-Identifier: Apache-2.0
// A driver without hooks reports a hole over all that was read. So the file system is asked, and only where it has none
// of the range itself is the memory cleared; where it cannot tell, the CPU reads.
#include "paths/nvfs/holes.h"

#include <algorithm>
#include <array>

#include "facts/extents.h"
#include "gpu/session.h"

namespace sluice::paths {

using nvfs::Filled;

namespace {

constexpr std::array<std::byte, 65536> zeros{};

}  // namespace

bool clear_device_memory(const facts::BufferFacts& memory, std::uint64_t address, std::uint64_t length) noexcept {
  gpu::Session session(memory);
  if (session.status() != cuda::success) return false;
  while (length > 0) {
    const std::uint64_t count = std::min<std::uint64_t>(length, zeros.size());
    if (session.copy_to_device(address, std::span(zeros).first(count)) != cuda::success) return false;
    address += count;
    length -= count;
  }
  return true;
}

Filled HolesOf::fill(std::uint64_t begin, std::uint64_t length) noexcept {
  const File& file = ends_->file;
  if (file.facts.kind == facts::FileKind::block_device) return Filled::over_data;
  const std::optional<bool> has_data = facts::has_data(file.descriptor(), {at_ + begin, length});
  if (!has_data) return Filled::left;
  if (*has_data) return Filled::over_data;
  // Streams of our own may stand behind those that wait for this transfer.
  if (ends_->device != nullptr) return Filled::left;
  return clear_device_memory(ends_->memory, address_ + begin, length) ? Filled::cleared : Filled::left;
}

}  // namespace sluice::paths
