// SPDX-License-Identifier: Apache-2.0
#include "gdsio/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "common/cufile_words.h"
#include "common/error.h"
#include "common/pattern.h"
#include "common/text.h"
#include "common/written.h"
#include "gdsio/node.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t page = 4096;

// What hinders a write that took a part: the rest is written once more, by a plain call, which tells its cause.
// Negated; 0 where nothing hinders it. Without O_DIRECT, which would want whole blocks.
std::int64_t ask_for_cause(int descriptor, std::span<const std::byte> rest, std::uint64_t offset) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) != 0) return 0;
  std::int64_t cause = 0;
  while (!rest.empty() && cause == 0) {
    const ssize_t count = pwrite(descriptor, rest.data(), rest.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cause = -errno;
    if (count == 0) break;
    rest = rest.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    offset += static_cast<std::uint64_t>(std::max<ssize_t>(count, 0));
  }
  if (cause == 0 && fdatasync(descriptor) != 0 && errno != EINVAL) cause = -errno;  // as a server's answer comes late
  fcntl(descriptor, F_SETFL, flags);
  return cause;
}

std::string why_incomplete(const Piece& piece, std::int64_t result) {
  if (result < 0) return cause_words(result);
  return piece.writes ? fmt::format("only {} were written", format_bytes(static_cast<std::uint64_t>(result)))
                      : "the file ended too early";
}

const char* remedy_for(const Piece& piece, std::int64_t result, bool by_cufile) {
  if (result == -ENOSPC || result == -EDQUOT) return "Make room on the file system, or use a smaller -s.";
  if (const char* remedy = remedy_for_cause(result); remedy != nullptr) return remedy;
  if (piece.writes)
    return by_cufile ? "See what the file system has logged; -x 2 does without cuFile."
                     : "See what the file system has logged.";
  return by_cufile ? "See that the file keeps its size; -x 2 does without cuFile."
                   : "See that the file keeps its size.";
}

}  // namespace

Worker::Worker(const Settings& settings, const JobSettings& job, const std::vector<std::unique_ptr<Target>>& targets,
               const Gpu* gpu, unsigned index, unsigned count, unsigned number)
    : settings_(&settings),
      job_(&job),
      gpu_(gpu),
      number_(number),
      depth_(depth_of(settings, job)),
      slot_((settings.sizes.largest + page - 1) / page * page),
      pieces_(depth_),
      noise_(settings.seed * 2654435761u + number + 1) {
  plan_ways(targets, index, count);
}

Worker::~Worker() = default;

void Worker::plan_ways(const std::vector<std::unique_ptr<Target>>& targets, unsigned index, unsigned count) {
  const Settings& settings = *settings_;
  const SizeRange sizes = settings.sizes;
  const bool one_size = sizes.smallest == sizes.largest;
  const std::uint64_t alignment =
      settings.unaligned ? 1 : settings.alignment.value_or(one_size ? sizes.smallest : page);
  const auto order = is_random(settings.operation) ? Walk::Order::random : Walk::Order::ascending;
  const auto end = settings.seconds ? Walk::End::never : Walk::End::after_one_pass;
  const auto add = [&](const Target& target, std::uint64_t begin, std::uint64_t bytes, std::uint64_t which) {
    ways_.push_back({&target, Walk(begin, bytes, sizes, order, alignment, settings.seed * 8191 + which, end)});
  };
  if (job_->file.empty()) {
    for (unsigned i = index * depth_; i < (index + 1) * depth_; ++i)
      add(*targets[i], targets[i]->begin(), targets[i]->size(), i);
    return;
  }
  // Parts of one file are whole transfers of the largest size, the last one excepted.
  const Target& target = *targets.front();
  const std::uint64_t transfers = (target.size() + sizes.largest - 1) / sizes.largest;
  const std::uint64_t first = transfers * index / count * sizes.largest;
  const std::uint64_t last = std::min(transfers * (index + 1) / count * sizes.largest, target.size());
  add(target, target.begin() + first, last > first ? last - first : 0, index);
}

void Worker::prepare() {
  if (job_->node) bind_to_this_node(*job_->node);
  if (gpu_ != nullptr) gpu_->enter();
  const auto kind = settings_->transfer == Transfer::cpu_only ? MemoryKind::heap : settings_->memory;
  memory_ = make_memory(kind, gpu_, slot_ * depth_);
  scratch_.resize(slot_);
  if (is_write(settings_->operation) || settings_->mixed) fill_once();
  if (uses_cufile(settings_->transfer) && settings_->registers) {
    const CUfileError_t result = cuFileBufRegister(memory_->address(), memory_->size(), 0);
    if (result.err != CU_FILE_SUCCESS) {
      throw ToolError(fmt::format("{} of memory cannot be registered with cuFile: {}.", format_bytes(memory_->size()),
                                  cufile_words(result.err)),
                      "Leave the registration out with -b, or use fewer threads or smaller transfers.");
    }
    registered_ = true;
  }
  mover_ = make_mover(*settings_, gpu_, *memory_, depth_);
}

void Worker::finish() {
  mover_.reset();
  if (registered_) cuFileBufDeregister(memory_->address());
  registered_ = false;
  memory_.reset();
}

void Worker::fill_once() {
  std::fill(scratch_.begin(), scratch_.end(), std::byte{0xA5});
  for (unsigned i = 0; i < depth_; ++i) {
    if (settings_->random_fill) fill_with_noise(scratch_, noise_);
    memory_->put(i * slot_, scratch_.data(), slot_);
  }
}

bool Worker::wants_write() {
  const bool writes = is_write(settings_->operation);
  if (!settings_->mixed) return writes;
  noise_ = noise_ * 6364136223846793005u + 1442695040888963407u;
  return (noise_ >> 33) % 100 < settings_->same_percent ? writes : !writes;
}

// The next round of pieces; false when there is nothing left to do.
bool Worker::gather() {
  pieces_.clear();
  for (unsigned i = 0; i < depth_; ++i) {
    Way& way = ways_[i % ways_.size()];
    const std::optional<Extent> extent = way.walk.next();
    if (!extent) continue;
    Piece piece;
    piece.target = way.target;
    piece.file_offset = extent->offset;
    piece.size = extent->size;
    piece.memory_offset = i * slot_;
    piece.writes = wants_write();
    pieces_.push_back(piece);
  }
  return !pieces_.empty();
}

void Worker::fill(const Piece& piece) {
  const std::span<std::byte> bytes = std::span(scratch_).first(piece.size);
  if (settings_->verify) {
    fill_with_pattern(bytes, piece.file_offset, settings_->seed);
  } else if (settings_->refill) {
    fill_with_noise(bytes, noise_);
  } else {
    return;
  }
  memory_->put(piece.memory_offset, bytes.data(), bytes.size());
}

void Worker::fail(const Piece& piece) {
  tell("Tid: {} incomplete {}, done = {} issued = {}\n", number_, piece.writes ? "Write" : "Read",
       std::max<std::int64_t>(piece.done, 0), piece.size);
  std::int64_t result = piece.done;
  if (piece.writes && result >= 0) {
    const auto done = static_cast<std::size_t>(result);
    const std::span<std::byte> rest = std::span(scratch_).first(piece.size - done);
    memory_->get(piece.memory_offset + done, rest.data(), rest.size());
    const std::int64_t cause = ask_for_cause(piece.target->descriptor(), rest, piece.file_offset + done);
    if (cause != 0) result = cause;
  }
  throw ToolError(
      fmt::format("A {} of {} at {} of {} failed: {}.", piece.writes ? "write" : "read", format_bytes(piece.size),
                  piece.file_offset, printable(piece.target->path()), why_incomplete(piece, result)),
      remedy_for(piece, result, uses_cufile(settings_->transfer)));
}

void Worker::account(const Piece& piece, Shared& shared) {
  if (piece.done != static_cast<std::int64_t>(piece.size)) fail(piece);
  latencies_.add(piece.time);
  bytes_ += piece.size;
  shared.bytes.fetch_add(piece.size, std::memory_order_relaxed);
}

void Worker::verify(const Piece& piece) {
  const std::span<std::byte> found = std::span(scratch_).first(piece.size);
  memory_->get(piece.memory_offset, found.data(), found.size());
  const std::size_t wrong = first_wrong_byte(found, piece.file_offset, settings_->seed);
  if (wrong == found.size()) return;
  throw ToolError(fmt::format("Verification failed: {} differs at offset {}.", printable(piece.target->path()),
                              piece.file_offset + wrong),
                  "Was it written with -V and the same -k, and a random one with the same -w, -o, -s and -i?");
}

void Worker::work(Shared& shared, std::chrono::steady_clock::time_point deadline) {
  while (!shared.stop.load(std::memory_order_relaxed) && gather()) {
    for (const Piece& piece : pieces_) {
      if (piece.writes) fill(piece);
    }
    mover_->move(pieces_);
    if (settings_->verify) mover_->drain();
    for (const Piece& piece : pieces_) {
      account(piece, shared);
      if (settings_->verify && !piece.writes) verify(piece);
    }
    if (settings_->seconds && std::chrono::steady_clock::now() >= deadline) break;
  }
  mover_->drain();
}

}  // namespace sluice::tools
