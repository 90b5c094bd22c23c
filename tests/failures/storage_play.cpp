// SPDX-License-Identifier: Apache-2.0
// failing_storage: as failing_calls (play.cpp), but what fails is the storage or io_uring: of the reads and writes on
// the file, by system call or by request, one does not do what it was asked. failures.py starts it and reads the
// record.
//
//   failing_storage RECORD DIR PHASE KIND SITE TURN CODE
//     PHASE  as in play.cpp
//     KIND   storage: the call number TURN; SITE is odd for reads and even for writes, and tells what happens to
//            it, in the order of `ways`; SITE 0: they are counted.
//            rings: SITE 1: the visit number TURN to io_uring fails with the errno CODE; SITE 2: no ring is to be
//            had at all, for that reason; SITE 0: visits are counted
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "failures/pass.h"
#include "failures/record.h"
#include "failures/world.h"
#include "fault/interpose.h"

namespace sluice::failures {
namespace {

using fault::Direction;
using fault::Plan;
using fault::Step;

constexpr int kNoDriver = 77;

struct Asked {
  bool cold = false;
  bool rings = false;
  unsigned site = 0;
  std::size_t turn = 0;
  int code = 0;
};

struct Way {
  Step step;
  bool shortens_reads;  // the storage says that there is less: so may the library
};
// What can happen to one call.
const std::array<Way, 8> ways{{
    {fault::fail(EIO), false},
    {fault::fail(EINTR), false},
    {fault::fail(EAGAIN), false},
    {fault::fail(ENOSPC), false},
    {fault::shorten(4096), false},
    {fault::nothing(), true},
    {fault::detour(), false},
    {fault::hold(false), true},
}};

Direction direction_of(const Asked& asked) {
  return asked.site % 2 == 1 ? Direction::read : Direction::write;
}
const Way& way_of(const Asked& asked) {
  return ways.at((asked.site - 1) / 2);
}

// Lets go what is held, in its own time: the storage is late, and nothing that the test does hastens it.
class LateAnswer {
 public:
  explicit LateAnswer(Plan& plan) : plan_(plan), thread_([this] { run(); }) {}
  ~LateAnswer() {
    over_ = true;
    thread_.join();
  }
  LateAnswer(const LateAnswer&) = delete;
  LateAnswer& operator=(const LateAnswer&) = delete;

 private:
  void run() {
    while (!over_ && !plan_.has_blocked()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // Storage that is late is what is played: longer than a launch waits for its first chunk.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    plan_.release();
  }

  Plan& plan_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

void pass(World& world, Trouble trouble, bool opens, bool closes) {
  Pass one(world, trouble);
  if (opens) one.open_driver();
  one.work();
  if (closes) one.close_driver();
}

std::vector<Step> steps_of(const Asked& asked) {
  std::vector<Step> steps(asked.turn > 0 ? asked.turn - 1 : 0, fault::pass());
  if (asked.site != 0) steps.push_back(way_of(asked).step);
  steps.push_back(fault::pass());
  return steps;
}

void play_storage(World& world, const Asked& asked) {
  if (asked.site == 0) {
    // A plan is for one direction; the numbers of calls of both are told by two passes.
    for (const Direction direction : {Direction::read, Direction::write}) {
      const Plan plan(world.descriptor(false), direction, {fault::pass()});
      pass(world, Trouble::none, asked.cold, asked.cold);
      for (unsigned way = 0; way < ways.size(); ++way) {
        world.record().tell("site %u %zu", way * 2 + (direction == Direction::read ? 1U : 2U), plan.calls());
      }
    }
    if (!asked.cold) pass(world, Trouble::none, false, true);
    return;
  }
  Plan plan(world.descriptor(false), direction_of(asked), steps_of(asked));
  const LateAnswer late(plan);
  world.let_reads_be_short(way_of(asked).shortens_reads);
  pass(world, Trouble::once, asked.cold, true);
  if (plan.calls() >= asked.turn) world.record().tell("struck the storage");
}

void play_rings(World& world, const Asked& asked) {
  if (asked.site == 2) {
    const fault::RefusedRings none(asked.code);
    pass(world, Trouble::none, asked.cold, true);
    world.record().tell("struck rings: %zu", none.count());
    return;
  }
  const bool counts = asked.site == 0;
  const fault::RefusedVisits visits(counts ? 0 : asked.turn - 1, counts ? 0 : 1, asked.code);
  pass(world, Trouble::once, asked.cold, true);
  if (counts) world.record().tell("site 1 %zu", visits.visits());
  if (counts) world.record().tell("site 2 1");
  if (visits.visits() >= asked.turn) world.record().tell("struck a visit");
}

void play(World& world, const Asked& asked) {
  if (!asked.cold) pass(world, Trouble::none, true, false);
  if (asked.rings) play_rings(world, asked);
  if (!asked.rings) play_storage(world, asked);
  world.let_reads_be_short(false);
  pass(world, Trouble::none, true, true);
  if (world.could_not_look()) world.record().tell("blind");
  world.record().tell("over");
}

int run(int count, char** words) {
  if (count != 8) return 2;
  Record record(words[1]);
  if (support::cuda() == nullptr) return kNoDriver;
  const support::ContextScope context(support::primary_context(0));
  const Asked asked{std::string_view(words[3]) == "cold", std::string_view(words[4]) == "rings",
                    static_cast<unsigned>(std::strtoul(words[5], nullptr, 10)), std::strtoull(words[6], nullptr, 10),
                    std::atoi(words[7])};
  World world(record, words[2], 7);
  play(world, asked);
  alarm(0);
  return 0;
}

}  // namespace
}  // namespace sluice::failures

int main(int count, char** words) {
  return sluice::failures::run(count, words);
}
