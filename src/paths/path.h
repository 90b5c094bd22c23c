// SPDX-License-Identifier: Apache-2.0
// One way of moving bytes. A path says what keeps it from a request, and moves items: ranges that it has taken. The
// table of all (paths/table.h) is walked in order of preference; nothing outside of this folder names a path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/outcome.h"
#include "base/strong.h"
#include "facts/buffer.h"
#include "facts/descriptor_check.h"
#include "paths/attachment.h"
#include "paths/file.h"
#include "paths/file_side.h"
#include "paths/grouping.h"
#include "route/decision.h"
#include "route/route.h"

namespace sluice::paths {

// What to move.
struct Piece {
  base::Direction direction;
  route::SegmentMode carry;
  base::FileOffset at;
  std::uint64_t address;
  std::uint64_t length;
};

// Device memory that is reached in an order of the program's, which others keep. (Without one, streams of our own reach
// it.)
class DeviceSide {
 public:
  // What was known of memory when the request was put into that order, if all of it lies there and stays until then.
  virtual const facts::BufferFacts* remembers(std::uint64_t address, std::uint64_t length) const noexcept = 0;
  // Answers as a path does. The bytes of a read are in place for what comes later in that order.
  virtual base::Outcome move(const facts::BufferFacts& memory, const Piece& piece, FileSide& file) noexcept = 0;
  // What the memory holds when all that went before is in place.
  virtual base::Outcome read_back(std::uint64_t address, std::span<std::byte> into) noexcept = 0;

 protected:
  ~DeviceSide() = default;
};

// Both ends of a request. Everything in it outlives the request.
struct Ends {
  File& file;
  facts::DescriptorCheck& now;  // the descriptor just now
  const facts::BufferFacts& memory;
  void* handle = nullptr;                   // what the caller's own operations are called with
  const Attachments* registered = nullptr;  // of the buffer, where all of the request lies in one
  DeviceSide* device = nullptr;             // null: streams of our own
};

// What a path decides by.
enum class Trust : std::uint8_t {
  what_is_known,
  what_is_hoped_for,  // as if each trial had succeeded
};
struct Facts {
  const File& file;
  const facts::BufferFacts& memory;
  base::Direction direction;
  bool stopped = false;  // it is the rest of a request that a path has begun and does not go on with
  Trust trust = Trust::what_is_known;
  // Of the buffer, where all of the request lies in a registered one. Only where the request itself is decided; else a
  // registration is taken for granted.
  const Attachments* registered = nullptr;
  bool knows_registration = false;
};

// A range on its way, and what came of it.
struct Item {
  const Ends* ends;
  Piece piece;
  // The count is short at the end of the file, or when the system refuses in mid-way; an error says that nothing was
  // moved. Memory behind the count and file content outside the piece are as they were. (But where a descriptor has
  // come to belong to another file, that one's bytes may be in the memory.)
  base::Outcome outcome = base::Outcome::bytes(0);

  // Of one that goes with others. It has not ended where they could not carry it: the outcome is what is in place, and
  // the rest goes on as paths::rest_of() tells.
  bool ended = false;
  bool stopped = false;  // the path does not go on with it
  bool alone = false;    // nor does any group
};

// Told of items that have ended while others are on their way: their numbers among those that are moved.
class Completion {
 public:
  virtual void ended(std::span<const std::uint16_t> items) noexcept = 0;

 protected:
  ~Completion() = default;
};

// How much depends on a trial, when it could not be made before or another thread is at it.
enum class Need : std::uint8_t {
  convenient,  // tries again now and then, and does not wait
  pressing,    // tries again each time
  absolute,    // and waits for the other thread: there is no other way to go
};

// A refusal that is not told: the path is for files of another kind.
inline constexpr auto unconcerned = SLUICE_REASON_COUNT;

class GroupMover;  // paths/group_mover.h

class Path {
 public:
  struct Traits {
    sluice_path_t id;
    // Why a request takes this path. The last path of the table has none: what keeps a request from the others.
    route::Reason taken = unconcerned;
    bool device_memory_only = false;  // it refuses host memory without being asked
    bool whole_blocks_only = false;   // the last path has the edges, and what this one does not go on with
    bool cpu_moves = false;           // device memory goes this way only where allow_compat_mode lets it
    bool hands_on = false;            // what it stops at goes on by the next path that takes the request
    bool doubts_short = false;        // a read that comes short while the file goes on is asked for again
  };

  explicit constexpr Path(const Traits& own) noexcept : traits(own) {}
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  // What the path keeps with a session, a file, a buffer; null: nothing. Control plane; may throw.
  virtual std::unique_ptr<SessionAttachment> of_session(const Options& options) const;
  virtual std::unique_ptr<Attachment> of_file(const File& file, SessionAttachment* session) const;
  virtual std::unique_ptr<Attachment> of_buffer(std::uint64_t address, std::uint64_t size,
                                                const facts::BufferFacts& facts, const Options& options) const;

  // Whether the path has anything to do with a file: asked once, behind of_file(). Where not, refuses() would answer
  // `unconcerned` to each request, and is not asked.
  virtual bool concerns(const File& file) const noexcept;
  // What keeps the path from a request; nothing: it takes it. The last one of the table takes what comes.
  virtual std::optional<route::Reason> refuses(const Facts& facts) const noexcept = 0;
  // How it wants a request cut that it takes.
  virtual route::Cutting cutting(const Facts& facts) const noexcept = 0;
  // It refuses with SLUICE_REASON_NOT_PROVEN or _RDMA_NOT_TRIED, and a trial may change that: makes or awaits it, on
  // the calling thread. The descriptor is the file's. Not from within an order that DeviceSide keeps: a trial copies on
  // streams of our own.
  virtual void try_out(const Ends& ends, Need need) const noexcept;
  // Does move() itself ask whether the descriptor is still the file's?
  virtual bool checks_descriptor(const Ends& ends, base::Direction direction, std::uint64_t length) const noexcept;
  // With which others an item of one segment may go; by itself unless a path says more.
  virtual Grouping grouping(const Facts& facts, const route::Segment& all) const noexcept;
  // What moves such a group. Null: there is no memory.
  virtual std::unique_ptr<GroupMover> group_mover(GroupClass group_class) const noexcept;
  // Moves items that are cut as it wants them, and answers in each.
  virtual void move(std::span<Item> items, Completion& completion) const noexcept = 0;

  // For people: every reason that keeps it from a request, in the order in which their remedies uncover them; and what
  // a trial has seen ("" where there is nothing to say).
  virtual void tell_reasons(const Facts& facts, std::vector<route::Reason>& reasons) const;
  virtual std::string words(const Facts& facts) const;

  const Traits traits;

 protected:
  // Paths live as long as the process and are never destroyed through this face.
  ~Path() = default;
};

}  // namespace sluice::paths
