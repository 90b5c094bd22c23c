// One synchronous transfer, from a call's arguments to its answer.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "core/driver.h"
#include "engine/courier.h"

namespace sluice::core {

struct Call {
  base::Direction direction = base::Direction::read;
  void* handle = nullptr;
  const void* base = nullptr;  // memory starts at base + buffer_offset
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
};

// Checks in the order of the contract, resolves file and memory, runs the request, records it. The I/O path.
base::Outcome transfer(Driver& driver, const Call& call) noexcept;

// The same on a file that is pinned already; batches are counted as such.
enum class Origin : std::uint8_t { call, batch };
base::Outcome transfer(Driver& driver, File& file, const Call& call, Origin origin = Origin::call) noexcept;

// The same for a stream that has got there: device memory is reached through its courier, where there is one.
struct Manners {
  Origin origin = Origin::call;
  engine::Courier* courier = nullptr;
};
base::Outcome transfer(Driver& driver, File& file, const Call& call, const Manners& manners) noexcept;

// What a call is refused for without looking at the memory: null buffer, negative offsets, wrong access mode. 0:
// nothing.
base::Outcome check(const File& file, const Call& call) noexcept;

}  // namespace sluice::core
