// SPDX-License-Identifier: Apache-2.0
// Streams of our own, in all contexts. Making one may wait until every stream of the context has come to rest, and most
// calls of the driver wait for that (on an H200 with driver 580 each 43rd does). So some are made ahead, and beyond
// these none is made while a stream of the context waits for us (gpu/stream_waits.h): one is shared, or done without.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/cuda_api.h"

namespace sluice::gpu {

struct Kernels;

// On some devices streams of another priority have hardware queues of their own; an H200 has none for them
// (gpu/engine_copy.h).
enum class StreamKind : std::uint8_t { usual, urgent };

struct OwnStream {
  cuda::Context context = nullptr;
  unsigned long long context_id = 0;  // tells a new context at an old address; 0 with drivers that have no ids
  StreamKind kind = StreamKind::usual;
  cuda::Stream stream = nullptr;
  bool is_makeshift = false;  // others have it, too, since none could be made

  bool serves(cuda::Context wanted, unsigned long long id, StreamKind of_kind) const noexcept {
    return stream != nullptr && context == wanted && context_id == id && kind == of_kind;
  }
};

// What is to be in it, and what its user can do where none may be made.
enum class StreamWish : std::uint8_t {
  shared,  // copies alone, which wait for nothing: another user of that sort may have it, too
  alone,   // kernels as well, or copies of a staging buffer; the user does without, at the price of much speed
  spare,   // the same, but with less to lose: what is made ahead is for others first
};

// A context has no more than so many of each kind to be shared that have one user each.
inline constexpr std::size_t most_own_streams = 64;

// One that is had by no user, or is made: `own` tells which is wanted, and gets its stream. With its context current.
// error_not_ready: none, as long as streams wait for us.
cuda::Result take_stream(OwnStream& own, StreamWish wish) noexcept;
// No stream waits for us in its context: a better one may be had.
bool may_do_better(const OwnStream& makeshift) noexcept;
void give_back_stream(const OwnStream& own) noexcept;

// One more for the time when none may be made, in their context, which is current. False: there are enough, or a stream
// waits, or the driver refuses.
bool make_stream_ahead(Kernels& there) noexcept;

// A driver does not wait with a stream that comes in the place of one that was destroyed. Ours would have the program's
// be the one that it waits with: so there is room for as many as it could have had without us.
class StreamRoom {
 public:
  explicit StreamRoom(Kernels& there) noexcept : there_(there) {}
  ~StreamRoom();  // with the context current
  StreamRoom(const StreamRoom&) = delete;
  StreamRoom& operator=(const StreamRoom&) = delete;
  // For one more. False as above.
  bool grow() noexcept;

 private:
  Kernels& there_;
  std::array<cuda::Stream, 35> streams_{};
  std::size_t count_ = 0;
};

// Of all contexts that there have been.
std::size_t own_stream_count() noexcept;

// Around fork: no child inherits the pool locked.
void own_streams_before_fork() noexcept;
void own_streams_after_fork() noexcept;

}  // namespace sluice::gpu
