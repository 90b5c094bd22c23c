// SPDX-License-Identifier: Apache-2.0
// failing_calls: one process in which one call fails, and what becomes of it. failures.py starts it and reads the
// record.
//
//   failing_calls RECORD DIR PHASE KIND SITE TURN CODE
//     PHASE  cold: it fails in the first pass, from the opening of the driver on; warm: in the second one, with the
//            driver open
//     KIND   allocation, system_call, driver_call: the call number TURN at SITE fails; SITE 0: none does, the sites are
//     told.
//            A driver's answers CODE; CODE allocations fail in a row;
//            refused: the kernel refuses the system call number SITE with the errno CODE from then on
//   failing_calls --refusable    tells the names and numbers of system calls that can be refused
//
// A call that takes a minute ends it by SIGALRM. Exit status 0 when all passes are over; the record says whether they
// were good.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "failures/pass.h"
#include "failures/point.h"
#include "failures/record.h"
#include "failures/refused_calls.h"
#include "failures/world.h"

namespace sluice::failures {
namespace {

constexpr int kNoDriver = 77;

struct Asked {
  bool cold = false;
  std::string_view kind;
  std::uint64_t site = 0;
  std::size_t turn = 0;
  int code = 0;
  std::size_t run = 1;
};

Kind kind_of(std::string_view name) {
  if (name == "allocation") return Kind::allocation;
  if (name == "system_call") return Kind::system_call;
  return name == "driver_call" ? Kind::driver_call : Kind::none;
}

void begin_trouble(World& world, const Asked& asked) {
  if (asked.kind != "refused") {
    return arm({kind_of(asked.kind), asked.site, asked.turn, asked.run, asked.code});
  }
  if (!refuse(static_cast<long>(asked.site), asked.code)) world.record().tell("skipped: no filters here");
}

// What is refused stays so; of many allocations that fail, the first call and the next one may have some.
Trouble trouble_while(const Asked& asked) {
  return asked.kind == "refused" || asked.run > 1 ? Trouble::staying : Trouble::once;
}

void pass(World& world, Trouble trouble, bool opens, bool closes) {
  Pass one(world, trouble);
  if (opens) one.open_driver();
  one.work();
  if (closes) one.close_driver();
}

void play(World& world, const Asked& asked) {
  if (!asked.cold) pass(world, Trouble::none, true, false);
  begin_trouble(world, asked);
  pass(world, trouble_while(asked), asked.cold, true);
  disarm();
  // What was refused twice may not have been given back.
  if (asked.run > 1) support::close_driver_fully();
  pass(world, asked.kind == "refused" ? Trouble::staying : Trouble::none, true, true);
  if (world.could_not_look()) world.record().tell("blind");
  world.record().tell("over");
}

int tell_refusable() {
  for (const SystemCall& call : refusable_calls()) std::printf("%s %ld\n", call.name, call.number);
  return 0;
}

int run(int count, char** words) {
  if (count == 2 && std::string_view(words[1]) == "--refusable") return tell_refusable();
  if (count != 8) return 2;
  Record record(words[1]);
  if (support::cuda() == nullptr) return kNoDriver;
  const support::ContextScope context(support::primary_context(0));
  Asked asked{std::string_view(words[3]) == "cold", words[4], std::strtoull(words[5], nullptr, 10),
              std::strtoull(words[6], nullptr, 10), std::atoi(words[7])};
  if (asked.kind == "allocation" && asked.code > 1) asked.run = static_cast<std::size_t>(asked.code);
  World world(record, words[2], 7);
  prepare_point(record);
  play(world, asked);
  alarm(0);
  return 0;
}

}  // namespace
}  // namespace sluice::failures

int main(int count, char** words) {
  return sluice::failures::run(count, words);
}
