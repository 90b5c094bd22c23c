// SPDX-License-Identifier: Apache-2.0
#include "sluice/top/top.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "common/error.h"
#include "sluice/top/draw.h"
#include "sluice/top/rows.h"
#include "sluice/top/terminal.h"

namespace sluice::tools {
namespace {

using Clock = std::chrono::steady_clock;

Colour wanted_colour() {
  const char* const no = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return (no != nullptr && *no != '\0') || dumb || isatty(STDOUT_FILENO) == 0 ? Colour::none : Colour::some;
}

// Of what is no terminal: the width that the user has chosen, or 80.
Screen plain_screen() {
  const char* const columns = std::getenv("COLUMNS");
  const long width = columns == nullptr ? 80 : std::strtol(columns, nullptr, 10);
  return {static_cast<std::size_t>(std::clamp(width <= 0 ? 80L : width, 40L, 400L)), 0, Colour::none};
}

void print_rows(const TopOptions& options, const std::vector<TopRow>& rows, double seconds) {
  if (options.output == Output::json) {
    const int indent = options.once ? 2 : -1;
    fmt::print("{}\n", top_json(rows, seconds).dump(indent, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    View view;
    view.seconds = seconds;
    for (const std::string& line : draw(rows, view, plain_screen())) {
      const std::size_t end = line.find_last_not_of(' ');
      fmt::print("{}\n", line.substr(0, end == line.npos ? 0 : end + 1));
    }
    if (!options.once) fmt::print("\n");
  }
  std::fflush(stdout);
}

int print_tables(const TopOptions& options) {
  TopRows rows;
  rows.look();
  const unsigned long long count = options.once ? 1 : options.count;
  for (unsigned long long i = 0; count == 0 || i < count; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
    const std::vector<TopRow> found = rows.look();
    print_rows(options, found, rows.seconds());
  }
  return 0;
}

class Live {
 public:
  explicit Live(const TopOptions& options) : interval_(options.interval), colour_(wanted_colour()) {}

  int run() {
    refresh();
    while (!terminal_.is_asked_to_end()) {
      paint();
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_ - Clock::now());
      const Key key = terminal_.wait(view_.paused ? -1 : static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (key == Key::quit) break;
      act(key);
      if (!view_.paused && Clock::now() >= next_) refresh();
    }
    return 0;
  }

 private:
  void refresh() {
    const bool had = view_.chosen < rows_.size();
    const pid_t chosen = had ? rows_[view_.chosen].pid : 0;
    rows_ = looks_.look();
    view_.seconds = looks_.seconds();
    if (first_) view_.seconds = 0;
    first_ = false;
    next_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_));
    // The choice stays with its process, wherever it stands now.
    const auto same = std::ranges::find_if(rows_, [chosen](const TopRow& row) { return row.pid == chosen; });
    view_.chosen = had && same != rows_.end() ? static_cast<std::size_t>(same - rows_.begin()) : 0;
  }

  void act(Key key) {
    switch (key) {
      case Key::pause:
        view_.paused = !view_.paused;
        break;
      case Key::explain:
        view_.explains = !view_.explains;
        break;
      case Key::up:
        view_.chosen -= view_.chosen > 0 ? 1 : 0;
        break;
      case Key::down:
        if (view_.chosen + 1 < rows_.size()) ++view_.chosen;
        break;
      default:
        break;
    }
  }

  void paint() {
    const Size size = terminal_.size();
    view_.has_choice = true;
    terminal_.show(draw(rows_, view_, {size.columns, size.lines, colour_}));
  }

  double interval_;
  Colour colour_;
  TopRows looks_;
  std::vector<TopRow> rows_;
  View view_;
  bool first_ = true;
  Clock::time_point next_{};
  Terminal terminal_;
};

}  // namespace

const char* const top_about = "Watch what processes do through cuFile, live";
const char* const top_lesson =
    "A line for each process that shows statistics (SLUICE_STATS=1 in its environment, or the like) and that you may\n"
    "look at: GiB/s in and out, how long half and 99 % of its transfers took at most, the way of most bytes and why,\n"
    "its GPU, the share of that GPU's PCI link, and the last minute. Rates are those since the line before.\n"
    "\n"
    "Keys: q quit, p pause, e explain what keeps the chosen process from a more direct way, up and down (or k and j)\n"
    "choose. Where stdout is no terminal: a table each interval, without colours. NO_COLOR=1 takes them from the\n"
    "terminal, too.\n"
    "\n"
    "Examples:\n"
    "  sluice top\n"
    "  sluice top --interval 0.5\n"
    "  sluice top --once                        one table\n"
    "  sluice top --once --json | jq '.processes[] | .program, .read_bytes_per_second'";

int top_command(const TopOptions& options) {
  if (!(options.interval >= 0.05 && options.interval <= 3600)) {
    throw ToolError("--interval wants seconds, from 0.05 to 3600.", "Write for example --interval 1.", 2);
  }
  const bool live = !options.once && options.output == Output::text && options.count == 0 &&
                    isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  return live ? Live(options).run() : print_tables(options);
}

}  // namespace sluice::tools
