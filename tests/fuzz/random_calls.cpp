// SPDX-License-Identifier: Apache-2.0
// Random calls over the whole public interface, with valid, stale, garbage and null arguments, from many threads that
// share files, handles, buffers, batches and streams. Nothing may crash, hang or leak; no answer may be one that its
// call does not have; bytes that are known are checked.
//
//   random_calls [--calls=N] [--threads=N] [--sequential] [--trace] [--patience=SECONDS]
//
//   --sequential         one thread, the actors in turn: a seed repeats every call and every answer
//   --trace              writes each call and its answer to stdout
//   --patience           after so long without the end of a call, the process aborts and says who is in which call
//   SLUICE_TEST_SEED     repeats a run; with threads only what each of them draws
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "fuzz/actor.h"
#include "fuzz/census.h"
#include "fuzz/watch.h"
#include "fuzz/world.h"
#include "support/calls.h"

namespace sluice::fuzz {
namespace {

struct Options {
  std::size_t calls = 100000;
  std::size_t threads = 12;
  std::size_t patience = 300;
  bool sequential = false;
  bool trace = false;
};

bool take_number(std::string_view argument, std::string_view name, std::size_t& value) {
  if (argument.substr(0, name.size()) != name) return false;
  const char* const begin = argument.data() + name.size();
  const char* const end = argument.data() + argument.size();
  return std::from_chars(begin, end, value).ptr == end && begin != end && value > 0;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--sequential") {
      options.sequential = true;
    } else if (argument == "--trace") {
      options.trace = true;
    } else if (!take_number(argument, "--calls=", options.calls) &&
               !take_number(argument, "--threads=", options.threads) &&
               !take_number(argument, "--patience=", options.patience)) {
      std::fprintf(stderr, "random_calls: \"%s\" is none of its options, or needs a number above 0\n", argv[i]);
      return false;
    }
  }
  return true;
}

struct Outcome {
  std::size_t calls = 0;
  std::size_t complaints = 0;
  std::uint64_t digest = 0;
};

void run_in_turns(std::vector<std::unique_ptr<Actor>>& actors, std::size_t calls, std::size_t round) {
  support::Random turns(support::mix(support::run_seed() + round));
  std::size_t made = 0;
  while (made < calls) {
    Actor& actor = *actors[turns.below(actors.size())];
    const std::size_t before = actor.calls();
    actor.step();
    made += actor.calls() - before;
  }
}

void run_at_once(std::vector<std::unique_ptr<Actor>>& actors, std::size_t calls) {
  const std::size_t each = calls / actors.size() + 1;
  std::vector<std::thread> threads;
  for (auto& actor : actors) {
    threads.emplace_back([&actor, each] {
      // Half of them work with a context current, half without.
      std::unique_ptr<support::ContextScope> scope;
      if (support::cuda() != nullptr && actor->number() % 2 == 0) {
        scope = std::make_unique<support::ContextScope>(support::primary_context(0));
      }
      while (actor->calls() < each) actor->step();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Everything from opening the files to closing them.
Outcome run_round(const Options& options, std::size_t calls, std::size_t round) {
  World world(options.threads, options.sequential);
  Outcome outcome;
  {
    Watch watch(options.threads, std::chrono::seconds(options.patience));
    std::vector<std::unique_ptr<Actor>> actors;
    for (std::size_t i = 0; i < options.threads; ++i) {
      actors.push_back(std::make_unique<Actor>(world, watch, i, round, options.trace));
    }
    if (options.sequential) {
      run_in_turns(actors, calls, round);
    } else {
      run_at_once(actors, calls);
    }
    // Some of what is open is given back one by one; the rest the driver has to take along.
    auto& entrances = world.entrances();
    for (std::size_t i = 0; i < entrances.size(); i += 2) cuFileHandleDeregister(entrances[i].handle.exchange(nullptr));
    for (std::size_t i = 0; i < World::kBatches; i += 2) cuFileBatchIODestroy(world.batches()[i].exchange(nullptr));
    support::close_driver_fully();
    if (cuFileUseCount() != 0) world.complain("the use count is not 0 after the last close");
    for (const auto& actor : actors) {
      outcome.calls += actor->calls();
      outcome.digest = support::mix(outcome.digest ^ actor->digest());
    }
  }
  outcome.complaints = world.complaints();
  return outcome;
}

// The library keeps one descriptor for its log from the first log on: that is no leak of what comes later.
void open_a_log_once() {
  const support::ScratchFile log;
  setenv("CUFILE_LOGFILE_PATH", log.path().c_str(), 1);
  cuFileDriverOpen();
  cuFileDriverClose();
  unsetenv("CUFILE_LOGFILE_PATH");
}

// Nor is what it keeps of its statistics, from the first time that they run: a descriptor, and the memory that others
// may look at.
void run_statistics_once() {
  cuFileDriverOpen();
  cuFileSetStatsLevel(3);
  cuFileStatsStart();
  cuFileStatsStop();
  cuFileStatsReset();
  cuFileSetStatsLevel(0);
  cuFileDriverClose();
}

int run(const Options& options) {
  mallopt(M_ARENA_MAX, 1);  // so that address space is not counted by the accident of which thread allocates first
  const support::ScratchFile configuration(Bytes{'{', '}'});  // one that says nothing, in place of the machine's
  setenv("CUFILE_ENV_PATH_JSON", configuration.path().c_str(), 1);
  open_a_log_once();
  run_statistics_once();
  std::printf("SLUICE_TEST_SEED=%llu, %zu calls, %zu %s\n", static_cast<unsigned long long>(support::run_seed()),
              options.calls, options.threads, options.sequential ? "actors in turn" : "threads");
  std::fflush(stdout);

  // What the library keeps for good it has after the first round; the others may add nothing.
  constexpr std::size_t rounds = 3;
  Census first;
  Outcome all;
  for (std::size_t round = 0; round < rounds; ++round) {
    const Outcome one = run_round(options, options.calls / rounds + 1, round);
    all.calls += one.calls;
    all.complaints += one.complaints;
    all.digest = support::mix(all.digest ^ one.digest);
    if (round == 0) {
      first = take_census();
      continue;
    }
    // A thread may have needed a bounce buffer at a moment when all others had theirs on loan, too. Verifying takes two
    // more of them for each transfer, also for those of batches and streams that are under way beside the threads.
    const std::size_t slack_kib = options.threads * 2048 * (std::getenv("SLUICE_VERIFY") != nullptr ? 6 : 1);
    for (const std::string& leak : settled_growth(first, slack_kib)) {
      std::fprintf(stderr, "random_calls: after round %zu: %s\n", round + 1, leak.c_str());
      ++all.complaints;
    }
  }
  std::printf("%zu calls, %zu complaints", all.calls, all.complaints);
  if (options.sequential) std::printf(", digest %016llx", static_cast<unsigned long long>(all.digest));
  std::printf("\n");
  return all.complaints == 0 && all.calls >= options.calls ? 0 : 1;
}

}  // namespace
}  // namespace sluice::fuzz

int main(int argc, char** argv) {
  sluice::fuzz::Options options;
  if (!sluice::fuzz::parse(argc, argv, options)) return 2;
  try {
    return sluice::fuzz::run(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "random_calls: %s\n", failure.what());
    return 1;
  }
}
