// Plays scripts of cuFile calls against any libcufile and answers what each call did.
//
//   player --library=FILE --folder=DIR [--alone] [--seconds=N]
//
// Scripts come on standard input:  script NAME life|open, a call a line, end.
// Answers go to standard output:   answers NAME, a line a call, what memory and files hold, end.
// "life" starts as a process does that has not called the library yet; "open" with the driver open, by one call of
// DriverOpen. Many scripts run in one process: each "life" in a copy of the library that is loaded for it, the "open"
// ones one after the other in a copy that stays. --alone: the library as it is, for one script. A crash or a hang is
// the last answer of a script, and the process ends after it.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "differential/answers.h"
#include "differential/session.h"

namespace sluice::differential {
namespace {

struct Options {
  std::string library;
  std::string folder;
  bool alone = false;
  unsigned seconds = 5;
};

struct Script {
  std::string name;
  bool open = false;
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
      script.open = line.substr(space + 1) == "open";
    } else if (!line.empty()) {
      script.calls.push_back(line);
    }
  }
  return std::nullopt;
}

class Player {
 public:
  explicit Player(const Options& options)
      : options_(options), copies_(options.library, options.folder), world_(options.folder) {}

  void play(const Script& script) {
    answers().begin(script.name);
    limit_time(options_.seconds * 1000);
    const Library library = script.open ? open_library() : fresh();
    Session session(library, world_);
    int number = 0;
    for (const std::string& call : script.calls) session.call(++number, call);
    session.finish();
    answers().add("teardown");
    session.tear_down();
    if (!script.open) close(library);
    if (script.open && library.use_count() != 1) {
      close(library);
      opened_.reset();
    }
    if (const int result = cuda().context_synchronize()) {
      answers().add(" cuda=%d\n", result);
      answers().deliver("end\n");
      std::_Exit(0);  // no later script can use this context
    }
    world_.clean_up();
    limit_time(0);
    answers().deliver("\nend\n");
  }

 private:
  Library fresh() { return options_.alone ? load_library(options_.library) : copies_.next(); }

  Library open_library() {
    if (!opened_) {
      opened_ = fresh();
      opened_->driver_open();
    }
    return *opened_;
  }

  static void close(const Library& library) {
    for (int i = 0; i < 40 && library.use_count() > 0; ++i) library.driver_close();
  }

  Options options_;
  Copies copies_;
  World world_;
  std::optional<Library> opened_;
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
    } else if (argument == "--alone") {
      options.alone = true;
    } else {
      return false;
    }
  }
  return !options.library.empty() && !options.folder.empty();
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "player --library=FILE --folder=DIR [--alone] [--seconds=N]\n");
    return 2;
  }
  keep_output_to_ourselves();
  guard_against_crashes();
  Player player(options);
  while (const std::optional<Script> script = next_script()) player.play(*script);
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace
}  // namespace sluice::differential

int main(int argc, char** argv) {
  return sluice::differential::run(argc, argv);
}
