// Chunks in flight, each carried to its end. There are as many places for stretches as for chunks: one that is cut to
// its end has a chunk on its way, and while one is being cut no other is added.
#include "io/direct_queue.h"

#include <algorithm>
#include <cerrno>

#include "base/pause.h"

namespace sluice::io {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;

constexpr std::uint64_t longest_chunk = std::uint64_t{1} << 20;

}  // namespace

void DirectQueue::add(const Stretch& stretch, Direction direction, std::uint32_t tag) noexcept {
  std::size_t place = 0;
  while (courses_[place].taken) ++place;
  courses_[place] = {stretch, direction, tag, 0, stretch.memory.size(), 0, 0, true};
  ++underway_;
  cut_ = place;
  cut_more();
}

// Nothing is begun behind a place where the stretch has come to its end.
void DirectQueue::cut_more() noexcept {
  if (cut_ == nobody) return;
  Course& course = courses_[cut_];
  for (std::size_t slot = 0; slot < chunks_.size() && course.next < course.stop; ++slot) {
    Chunk& chunk = chunks_[slot];
    if (chunk.busy) continue;
    chunk = {cut_, course.next, std::min(longest_chunk, course.stretch.memory.size() - course.next), 0, 0, 0, true};
    course.next += chunk.length;
    ++course.busy;
    ++busy_;
    submit(slot);
  }
  if (course.next >= course.stop) cut_ = nobody;
}

// From the start of the block that the last answer stopped in: O_DIRECT knows whole blocks only.
void DirectQueue::submit(std::size_t slot) noexcept {
  Chunk& chunk = chunks_[slot];
  const Course& course = courses_[chunk.course];
  const Stretch& stretch = course.stretch;
  chunk.from = chunk.done - chunk.done % stretch.block;
  const std::uint64_t begin = chunk.begin + chunk.from;
  ring_.add({.direction = course.direction,
             .fd = stretch.fd,
             .address = stretch.memory.data() + begin,
             .length = static_cast<std::uint32_t>(chunk.length - chunk.from),
             .at = FileOffset{stretch.at.value + begin},
             .tag = slot});
}

void DirectQueue::settle(const UringAnswer& answer) noexcept {
  const auto slot = static_cast<std::size_t>(answer.tag);
  Chunk& chunk = chunks_[slot];
  if (answer.result < 0) {
    const int error = -answer.result;
    const bool passing = error == EAGAIN || was_not_tried(error);
    const bool again = error == EINTR || (passing && ++chunk.refusals < base::most_refusals_in_a_row);
    return again ? submit(slot) : finish(chunk, error);
  }
  chunk.refusals = 0;
  const std::uint64_t reached = chunk.from + static_cast<std::uint64_t>(answer.result);
  if (reached <= chunk.done) {
    return finish(chunk, courses_[chunk.course].direction == Direction::write ? ENOSPC : 0);
  }
  chunk.done = std::min(reached, chunk.length);
  if (chunk.done < chunk.length) return submit(slot);
  finish(chunk, 0);
}

void DirectQueue::finish(Chunk& chunk, int error) noexcept {
  chunk.busy = false;
  --busy_;
  Course& course = courses_[chunk.course];
  --course.busy;
  const std::uint64_t end = chunk.begin + chunk.done;
  if (chunk.done < chunk.length && end < course.stop) {
    course.stop = end;
    course.error = error;
  }
}

// The ring takes nothing more, and has nothing of ours any more.
void DirectQueue::lose(int error) noexcept {
  lost_ = true;
  for (Chunk& chunk : chunks_) {
    if (chunk.busy) finish(chunk, error);
  }
  if (cut_ == nobody) return;
  Course& course = courses_[cut_];
  if (course.next < course.stop) {
    course.stop = course.next;
    course.error = error;
  }
  cut_ = nobody;
}

unsigned DirectQueue::collect(std::span<Ended, most_under_way> ended) noexcept {
  unsigned count = 0;
  for (std::size_t place = 0; place < courses_.size(); ++place) {
    Course& course = courses_[place];
    if (!course.taken || course.busy > 0 || place == cut_) continue;
    const bool nothing = course.stop == 0 && course.error != 0;
    ended[count++] = {course.tag, nothing ? Outcome::system_error(course.error) : Outcome::bytes(course.stop)};
    course.taken = false;
    --underway_;
  }
  return count;
}

unsigned DirectQueue::step(std::span<Ended, most_under_way> ended) noexcept {
  std::array<UringAnswer, Uring::depth> answers;
  const int count = ring_.wait(answers);
  if (count < 0) {
    lose(-count);
  } else {
    for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
    cut_more();
  }
  return collect(ended);
}

}  // namespace sluice::io
