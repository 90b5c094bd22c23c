// SPDX-License-Identifier: Apache-2.0
// Two bounce buffers side by side: one from the file, one from the memory. Slow, and nothing clever, on purpose.
#include "request/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "gpu/memory.h"
#include "gpu/session.h"
#include "observe/log.h"
#include "paths/userspace.h"
#include "staging/bounce_buffer.h"
#include "transfer/host_copy.h"

namespace sluice::request {

namespace {

using base::FileOffset;
using base::Outcome;

void complain(config::LogLevel level, const std::string& text) noexcept {
  observe::log(level, "verify", text);
}

Outcome fetch(const Request& request, const paths::Ends& ends, std::optional<gpu::Session>& session,
              std::uint64_t offset, std::span<std::byte> into) {
  const std::uint64_t address = request.address + offset;
  // What has not got the bytes there either says why.
  if (ends.device != nullptr && !facts::is_host(ends.memory.kind)) return ends.device->read_back(address, into);
  if (session) {
    // By a stream of our own: others may stand before what this is part of, in a stream of the program's.
    const cuda::Result opened = session->status();
    const cuda::Result result = opened == cuda::success ? session->copy_from_device(into, address) : opened;
    return result == cuda::success ? Outcome::bytes(into.size()) : gpu::as_outcome(result);
  }
  return transfer::copy_from_caller(into, address);
}

Outcome compare(const Request& request, const paths::Ends& ends, Outcome moved) {
  const staging::BounceBuffer on_file = staging::BounceBuffer::take();
  const staging::BounceBuffer in_memory = staging::BounceBuffer::take();
  if (!on_file || !in_memory) return moved;
  std::optional<gpu::Session> session;
  const bool on_device = !facts::is_host(ends.memory.kind);
  if (ends.device == nullptr && on_device) {
    session.emplace(ends.memory);
  }
  for (std::uint64_t offset = 0; offset < moved.count();) {
    const std::uint64_t length = std::min<std::uint64_t>(moved.count() - offset, staging::bounce_buffer_bytes);
    const auto expected = on_file.bytes().first(length);
    const auto found = in_memory.bytes().first(length);
    const Outcome read = paths::read_plainly(ends, expected, FileOffset{request.at.value + offset});
    if (!read.ok()) {
      complain(config::LogLevel::warn, "the file cannot be read back: this transfer is not verified");
      return moved;
    }
    if (const Outcome fetched = fetch(request, ends, session, offset, found); !fetched.ok()) {
      complain(config::LogLevel::error, "the memory cannot be read back: this transfer is not verified");
      return fetched;
    }
    const auto difference = std::mismatch(expected.begin(), expected.end(), found.begin());
    const auto same = static_cast<std::uint64_t>(difference.first - expected.begin());
    if (read.count() < length || same < length) {
      complain(config::LogLevel::error,
               fmt::format("file and memory differ at file offset {}, {} bytes into a {} of {}",
                           request.at.value + offset + same, offset + same,
                           request.direction == base::Direction::read ? "read" : "write", request.size));
      return Outcome::refused(CU_FILE_IO_ERROR);
    }
    offset += length;
  }
  return moved;
}

}  // namespace

base::Outcome verified(const Request& request, const paths::Ends& ends, base::Outcome moved) noexcept {
  try {
    return compare(request, ends, moved);
  } catch (...) {
    return moved;  // no memory for a sentence: the transfer itself has succeeded
  }
}

}  // namespace sluice::request
