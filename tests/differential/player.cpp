// SPDX-License-Identifier: Apache-2.0
// Plays scripts of cuFile calls against any libcufile and answers what each call did.
//
//   player --library=FILE --folder=DIR [--seconds=N]
//
// Scripts come on standard input:  script NAME life|open|closed, a call a line, end.
// Answers go to standard output:   ready, once; for each script: answers NAME, a line a call, what memory and files
// hold, end, with the microseconds of the script, of the reset after it and of its calls by name. "life" starts as a
// process does that has not called the library yet, and ends the process; "open" with the driver open, by one call of
// DriverOpen; "closed" after the driver was opened and closed. A process plays scripts of one sort. Between them it
// brings the library back to where the first one found it; where that fails, or after a crash or a hang, which is the
// last answer of its script, the process ends. --seconds: for a call.
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "differential/answers.h"
#include "differential/session.h"
#include "differential/settings.h"

namespace sluice::differential {
namespace {

struct Options {
  std::string library;
  std::string folder;
  unsigned seconds = 10;
};

struct Script {
  std::string name;
  std::string mode;
  std::vector<std::string> calls;
};

std::optional<Script> next_script() {
  Script script;
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line == "end") return script;
    if (line.compare(0, 7, "script ") == 0) {
      const std::size_t space = line.find(' ', 7);
      script.name = line.substr(7, space - 7);
      script.mode = line.substr(space + 1);
    } else if (!line.empty()) {
      script.calls.push_back(line);
    }
  }
  return std::nullopt;
}

// How often a script made calls of one name, and what they took in all.
struct Took {
  int calls = 0;
  long long us = 0;
};

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool names(const Script& script, std::initializer_list<const char*> beginnings) {
  return std::any_of(script.calls.begin(), script.calls.end(), [&](const std::string& call) {
    return std::any_of(beginnings.begin(), beginnings.end(), [&](const char* one) { return call.rfind(one, 0) == 0; });
  });
}

class Player {
 public:
  explicit Player(const Options& options) : options_(options), library_(load_library(options.library)) {}

  // False: the process must end.
  bool play(const Script& script) {
    if (!world_) start(script.mode);
    const std::int64_t begun = now_us();
    const bool open = script.mode == "open";
    answers().begin(script.name);
    Session session(library_, *world_);
    int number = 0;
    std::map<std::string, Took> took;
    for (const std::string& call : script.calls) {
      allow(open ? 1 : 3);
      const std::int64_t called = now_us();
      session.call(++number, call);
      Took& one = took[call.substr(0, call.find(' '))];
      one = {one.calls + 1, one.us + now_us() - called};
    }
    allow(3);
    session.finish();
    answers().add("teardown");
    const std::int64_t played = now_us();
    opened_again_ = 0;
    const bool all = session.tear_down();
    const char* left = script.mode == "life" ? "life" : put_back(script, open);
    if (!all && script.mode == "open") left = "memory";
    if (const int result = cuda().context_synchronize()) {
      answers().add(" cuda=%d", result);
      if (cuda().context_synchronize() != 0) left = "cuda";  // it stays: no later script can use this context
    }
    world_->clean_up();
    limit_time(0);
    answers().add("\nend us=%lld reset=%lld opened=%d took=", static_cast<long long>(now_us() - begun),
                  static_cast<long long>(now_us() - played), opened_again_);
    for (const auto& [name, one] : took) answers().add("%s:%d:%lld,", name.c_str(), one.calls, one.us);
    answers().add(" left=%s\n", left);
    answers().deliver("");
    return std::string_view(left) == "nothing";
  }

 private:
  // What does not belong to any script has no limit here: those who wait for "ready" set it.
  void start(const std::string& mode) {
    const std::int64_t begun = now_us();
    world_.emplace(options_.folder);
    Error error{};
    if (mode != "life") error = library_.driver_open();
    if (mode == "closed") close(0);
    if (mode != "life") settings_ = Settings::of(library_, mode == "open");
    std::array<char, 100> line{};
    std::snprintf(line.data(), line.size(), "ready us=%lld open=%d/%d\n", static_cast<long long>(now_us() - begun),
                  static_cast<int>(error.err), static_cast<int>(error.cu_err));
    answers().deliver(line.data());
  }

  void allow(unsigned times) const { limit_time(times * options_.seconds * 1000); }

  // What is left that cannot be put back.
  const char* put_back(const Script& script, bool open) {
    const long wanted = open ? 1 : 0;
    if (names(script, {"Stats", "SetLevel"})) settings_.restore_statistics(library_);
    close(names(script, {"SetP2P"}) && settings_.has_other_flags(library_) ? 0 : wanted);
    // A use of a stale handle costs NVIDIA's library a count of its own.
    for (int i = 0; i < 4 && library_.use_count() < wanted; ++i, ++opened_again_) library_.driver_open();
    if (library_.use_count() != wanted) return "use";
    if (!names(script, {"Set"}) && opened_again_ == 0) return "nothing";
    // These cannot be asked for with the driver closed.
    if (!open && names(script, {"SetMax", "SetPoll", "SetP2P", "SetSlabs", "SetGpuSlabs"})) return "properties";
    settings_.restore(library_);
    return Settings::of(library_, open) == settings_ ? "nothing" : "settings";
  }

  void close(long wanted) const {
    for (int i = 0; i < 40 && library_.use_count() > wanted; ++i) library_.driver_close();
  }

  Options options_;
  Library library_;
  std::optional<World> world_;
  Settings settings_;
  int opened_again_ = 0;  // by the reset after the last script
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    const auto value = [&](std::string_view name) { return argument.substr(0, name.size()) == name; };
    if (value("--library=")) {
      options.library = argument.substr(10);
    } else if (value("--folder=")) {
      options.folder = argument.substr(9);
    } else if (value("--seconds=")) {
      options.seconds = static_cast<unsigned>(std::atoi(argv[i] + 10));
    } else {
      return false;
    }
  }
  return !options.library.empty() && !options.folder.empty();
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "player --library=FILE --folder=DIR [--seconds=N]\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // no process is left to read the answers
  keep_output_to_ourselves();
  guard_against_crashes();
  Player player(options);
  for (bool goes_on = true; goes_on;) {
    const std::optional<Script> script = next_script();
    goes_on = script && player.play(*script);
  }
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace
}  // namespace sluice::differential

int main(int argc, char** argv) {
  return sluice::differential::run(argc, argv);
}
