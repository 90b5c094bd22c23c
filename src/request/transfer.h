// SPDX-License-Identifier: Apache-2.0
// One synchronous transfer, from a call's arguments to its answer.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/outcome.h"
#include "base/strong.h"
#include "observe/statistics.h"
#include "paths/path.h"
#include "process/process.h"

namespace sluice::request {

struct Call {
  base::Direction direction = base::Direction::read;
  void* handle = nullptr;
  const void* base = nullptr;  // memory starts at base + buffer_offset
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
};

// Checks in the order of the contract, resolves file and memory, runs the request, records it. The I/O path.
base::Outcome transfer(process::Process& process, const Call& call) noexcept;

// The same on a file that is pinned already.
base::Outcome transfer(process::Process& process, process::File& file, const Call& call) noexcept;

// The same of a batch's entry that others have been at before. The outcome is that of the whole.
struct Progress {
  std::uint64_t there = 0;  // bytes from its start that are in place: fewer than it asks for
  bool stopped = false;     // the drive moves nothing more of it
  bool begun() const noexcept { return there > 0 || stopped; }
};
base::Outcome transfer_entry(process::Process& process, process::File& file, const Call& call,
                             const Progress& before) noexcept;

// The same of a part of a vectored call, whose caller pins, watches and counts for all parts. `seen` is told what went
// to or from a device.
base::Outcome transfer_part(process::Process& process, process::File& file, const Call& call,
                            observe::VectoredTransfer& seen) noexcept;

// What is left of a call behind so many bytes; and the outcome of the whole, when that was the rest's. An error counts
// only where nothing had been moved.
Call rest_of(const Call& call, std::uint64_t there) noexcept;
base::Outcome after_prefix(std::uint64_t there, base::Outcome rest) noexcept;

// The same for a stream that has got there: device memory is reached in its order, where something keeps that. NVIDIA's
// library has codes of its own here for memory that a call may not touch: so have we.
// NVIDIA's library also looks less closely at offsets that are read when the stream gets there.
enum class OffsetsAre : std::uint8_t { fixed, read_late };
base::Outcome transfer_in_stream(process::Process& process, process::File& file, const Call& call,
                                 paths::DeviceSide* device, OffsetsAre offset) noexcept;

// What a call is refused for without looking at the memory: null buffer, negative offsets, wrong access mode. 0:
// nothing.
base::Outcome check(const process::File& file, const Call& call) noexcept;
// No file has an offset that such a range ends at.
bool ends_beyond_all_files(off_t offset, std::size_t size) noexcept;

// Does a call by a pointer that was registered leave what was registered there, and is still there?
bool leaves_registered(const process::Buffer& buffer, const Call& call) noexcept;

// For the batch runner.

// Before the first use of device memory: exit() is to wait for transfers before the driver goes.
void watch_exit_behind_the_driver() noexcept;
// Offset, size and address all whole pages, as the statistics tell.
bool aligned(const Call& call) noexcept;

}  // namespace sluice::request
