// SPDX-License-Identifier: Apache-2.0
// The rules, as they were read off the answers to 120,000 scripts (tests/differential).
#include "request/answer.h"

#include <cerrno>
#include <limits>
#include <optional>

#include "gpu/memory.h"

namespace sluice::request {

using base::Direction;
using base::Outcome;
using facts::Access;

namespace {

// How many bytes the pointer of a call was registered with; nothing where it was not.
std::optional<std::uint64_t> registered_size(process::Process& process, const Call& call) noexcept {
  const auto base = reinterpret_cast<std::uint64_t>(call.base);
  const auto range = process.ranges().find(base, base, 1);
  if (!range || range->base != base) return std::nullopt;
  const process::BufferTable::Pin buffer = process.buffers().pin(range->handle);
  const facts::BufferFacts now = gpu::inspect(base);
  if (!buffer || buffer->facts.kind != now.kind || buffer->facts.id != now.id) return std::nullopt;
  return buffer->size;
}

// Two pages of a device's memory go one way there, more of it another way, and what was registered a third one.
int cannot(process::Process& process, const Call& call) noexcept {
  if (!facts::is_host(gpu::inspect(reinterpret_cast<std::uint64_t>(call.base)).kind)) {
    return call.size > 2 * contract_page && !registered_size(process, call) ? EPERM : EIO;
  }
  if (call.direction == Direction::read) return EPERM;
  return call.size == std::numeric_limits<std::size_t>::max() ? EPERM : EIO;
}

bool has_few_words_for(Direction direction, int error) noexcept {
  return error == EFAULT || error == EFBIG || error == CU_FILE_CUDA_POINTER_RANGE_ERROR ||
         (error == CU_FILE_INVALID_FILE_OPEN_FLAG && direction == Direction::write);
}

bool is_whole_pages(const Call& call) noexcept {
  const auto together = static_cast<std::uint64_t>(call.file_offset) | call.size |
                        static_cast<std::uint64_t>(call.buffer_offset) | reinterpret_cast<std::uint64_t>(call.base);
  return together % contract_page == 0;
}

}  // namespace

bool exceeds_registered(process::Process& process, const Call& call) noexcept {
  const std::optional<std::uint64_t> registered = registered_size(process, call);
  const std::uint64_t end = static_cast<std::uint64_t>(call.buffer_offset) + call.size;
  return registered && (call.size > *registered || end > *registered);
}

int answer_to(const Call& call, int error) noexcept {
  return has_few_words_for(call.direction, error) ? cannot(process::Process::instance(), call) : error;
}

Outcome answer_in_stream(process::Process& process, const process::File& file, const Call& call, unsigned flags,
                         Outcome failed) noexcept {
  const bool of_registration =
      failed.error() == CU_FILE_INVALID_MAPPING_RANGE || failed.error() == CU_FILE_INTERNAL_ERROR;
  const bool names_only = failed.error() == EPERM && file.facts.access == Access::none;
  if (!of_registration && failed.error() != CU_FILE_INVALID_VALUE && !names_only &&
      !has_few_words_for(call.direction, failed.error())) {
    return failed;
  }
  const bool looks_at_offset = (flags & (CU_FILE_STREAM_FIXED_FILE_OFFSET | CU_FILE_STREAM_FIXED_FILE_SIZE)) != 0;
  const bool looks_at_end = (flags & CU_FILE_STREAM_FIXED_FILE_SIZE) != 0;
  if ((call.file_offset < 0 && looks_at_offset) ||
      (ends_beyond_all_files(call.file_offset, call.size) && looks_at_end)) {
    return Outcome::refused(CU_FILE_INVALID_VALUE);
  }
  if (call.direction == Direction::read && file.facts.access == Access::write_only) {
    return Outcome::refused(CU_FILE_INVALID_FILE_OPEN_FLAG);
  }
  // Offset and size are added as words, and held against what was registered, or against the size itself.
  const std::uint64_t end = static_cast<std::uint64_t>(call.buffer_offset) + call.size;
  const std::optional<std::uint64_t> registered = registered_size(process, call);
  if (registered && end > *registered) return Outcome::refused(CU_FILE_INVALID_MAPPING_SIZE);
  if (of_registration) return failed;
  if (!registered && end > call.size) return Outcome::system_error(EIO);
  if ((flags & CU_FILE_STREAM_PAGE_ALIGNED_INPUTS) != 0 && !is_whole_pages(call)) return Outcome::system_error(EIO);
  return Outcome::system_error(EPERM);
}

}  // namespace sluice::request
