// Chunks in flight, each carried to its end.
#include "engine/direct_io.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine/file_io.h"
#include "engine/pause.h"

namespace sluice::engine {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;

constexpr std::uint64_t chunk_bytes = std::uint64_t{1} << 20;

// A part of the stretch that is on its way.
struct Chunk {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  std::uint64_t done = 0;  // from begin on
  std::uint64_t from = 0;  // where the present request starts, at most `done`
  int refusals = 0;
  bool busy = false;
};

// The first place of the stretch that is not in place, and why.
struct Stop {
  std::uint64_t at = 0;
  int error = 0;  // 0: the end of the file
};

class Transfer {
 public:
  Transfer(const Stretch& stretch, Direction direction, Uring& ring) noexcept
      : stretch_(stretch), direction_(direction), ring_(ring), stop_{stretch.memory.size(), 0} {}

  // The outcome; EOPNOTSUPP when nothing was moved because the file cannot be polled.
  Outcome run() noexcept {
    while (start_more() || busy_ > 0) {
      std::array<UringAnswer, Uring::depth> answers;
      const int count = ring_.wait(answers);
      if (count < 0) return lost_ring(-count);
      for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
    }
    if (stop_.error != 0 && stop_.at == 0) return Outcome::system_error(stop_.error);
    return Outcome::bytes(stop_.at);
  }

 private:
  // Nothing is begun behind a place where the transfer has come to its end.
  bool start_more() noexcept {
    bool any = false;
    for (std::size_t slot = 0; slot < chunks_.size() && next_ < stop_.at; ++slot) {
      Chunk& chunk = chunks_[slot];
      if (chunk.busy) continue;
      chunk = {next_, std::min(chunk_bytes, stretch_.memory.size() - next_), 0, 0, 0, true};
      next_ += chunk.length;
      ++busy_;
      submit(slot);
      any = true;
    }
    return any;
  }

  // From the start of the block that the last answer stopped in: O_DIRECT knows whole blocks only.
  void submit(std::size_t slot) noexcept {
    Chunk& chunk = chunks_[slot];
    chunk.from = chunk.done - chunk.done % stretch_.block;
    const std::uint64_t begin = chunk.begin + chunk.from;
    ring_.add({direction_, stretch_.fd, stretch_.memory.data() + begin,
               static_cast<std::uint32_t>(chunk.length - chunk.from), FileOffset{stretch_.at.value + begin}, slot});
  }

  void settle(const UringAnswer& answer) noexcept {
    const auto slot = static_cast<std::size_t>(answer.tag);
    Chunk& chunk = chunks_[slot];
    if (answer.result < 0) {
      const int error = -answer.result;
      const bool again = error == EINTR || (error == EAGAIN && ++chunk.refusals < most_refusals_in_a_row);
      if (again) return submit(slot);
      return finish(chunk, error);
    }
    chunk.refusals = 0;
    const std::uint64_t reached = chunk.from + static_cast<std::uint64_t>(answer.result);
    if (reached <= chunk.done) return finish(chunk, direction_ == Direction::write ? ENOSPC : 0);
    chunk.done = std::min(reached, chunk.length);
    if (chunk.done < chunk.length) return submit(slot);
    finish(chunk, 0);
  }

  void finish(Chunk& chunk, int error) noexcept {
    chunk.busy = false;
    --busy_;
    const std::uint64_t end = chunk.begin + chunk.done;
    if (chunk.done < chunk.length && end < stop_.at) stop_ = {end, error};
  }

  // The ring takes nothing more, and has nothing of ours any more.
  Outcome lost_ring(int error) noexcept {
    for (Chunk& chunk : chunks_) {
      if (chunk.busy) finish(chunk, error);
    }
    return stop_.at == 0 ? Outcome::system_error(error) : Outcome::bytes(stop_.at);
  }

  const Stretch& stretch_;
  const Direction direction_;
  Uring& ring_;
  std::array<Chunk, Uring::depth> chunks_{};
  std::uint64_t next_ = 0;
  unsigned busy_ = 0;
  Stop stop_;
};

Outcome move_in_turn(const Stretch& stretch, Direction direction) noexcept {
  return direction == Direction::read ? read_span(stretch.fd, stretch.memory, stretch.at, stretch.block)
                                      : write_span(stretch.fd, stretch.memory, stretch.at, stretch.block);
}

}  // namespace

DirectResult move_direct(const Stretch& stretch, Direction direction, Completion completion) noexcept {
  bool unpollable = false;
  if (completion != Completion::interrupt) {
    if (const Uring::Use ring = Uring::of_this_thread(completion)) {
      const Outcome outcome = Transfer(stretch, direction, *ring).run();
      if (outcome.error() != EOPNOTSUPP) return {outcome, true, false};
      unpollable = true;
    }
  }
  if (const Uring::Use ring = Uring::of_this_thread(Completion::interrupt)) {
    return {Transfer(stretch, direction, *ring).run(), false, unpollable};
  }
  return {move_in_turn(stretch, direction), false, unpollable};
}

}  // namespace sluice::engine
