// SPDX-License-Identifier: Apache-2.0
// cufile_bench: a cuFile client that measures whichever libcufile.so.0 the loader finds, and compares every byte that
// it can. bench/compare.py alternates between two of them; docs/internals/bench.md says what the rows mean.
#include <fmt/format.h>
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>

#include "client/session.h"
#include "client/trouble.h"

namespace {

using sluice::bench::Settings;

// A pattern of the shell's, or several separated by commas; a name that is no row of the table may be a row all the
// same.
std::vector<std::string> matching_rows(const std::string& patterns) {
  std::vector<std::string> rows;
  std::istringstream list(patterns);
  for (std::string pattern; std::getline(list, pattern, ',');) {
    const std::size_t before = rows.size();
    for (const std::string& row : sluice::bench::table()) {
      if (::fnmatch(pattern.c_str(), row.c_str(), 0) == 0) rows.push_back(row);
    }
    if (rows.size() == before) rows.push_back(sluice::bench::parse_row(pattern).name);
  }
  return rows;
}

constexpr int status_of_usage = 2;

// What the parser says of text that is no length of time; "" when it is one.
std::string seconds(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && sluice::bench::can_be_measured(value)
             ? ""
             : "takes seconds above 0, as 0.7 or 10";
}

struct Wishes {
  Settings settings;
  std::string rows = "*";
  std::string size;
  std::string write_size = "1G";
  std::string first;
  bool direct = false;
  bool list = false;
  bool about = false;
  bool prepare = false;
  bool serve = false;
};

int run(Wishes& wishes) {
  Settings& settings = wishes.settings;
  if (wishes.list) {
    for (const std::string& row : sluice::bench::table()) std::puts(row.c_str());
    return 0;
  }
  if (wishes.about) {
    std::puts(sluice::bench::about().dump(2).c_str());
    return 0;
  }
  if (settings.path.empty()) throw sluice::bench::Trouble("--file is needed: where the rows read and write");
  settings.how = wishes.direct ? sluice::bench::Opened::direct : sluice::bench::Opened::buffered;
  settings.source_size = wishes.size.empty() ? 0 : sluice::bench::parse_size(wishes.size);
  settings.target_size = sluice::bench::parse_size(wishes.write_size);
  if (wishes.prepare) {
    sluice::bench::source_file(settings.path, settings.how, settings.source_size);
    sluice::bench::target_file(settings.path, settings.how, settings.target_size);
    return 0;
  }
  if (!wishes.first.empty()) return sluice::bench::first_request(settings, sluice::bench::parse_size(wishes.first));
  if (wishes.serve) return sluice::bench::serve(settings);
  settings.rows = matching_rows(wishes.rows);
  if (settings.rows.empty()) throw sluice::bench::Trouble("--rows names none: leave it out for all that --list shows");
  return sluice::bench::measure_rows(settings);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Wishes wishes;
    CLI::App app("cufile_bench: GiB/s, latency and processor time of a libcufile.so.0, a row at a time");
    app.add_option("--file", wishes.settings.path, "the file to read; rows that write use the one beside it, .written");
    app.add_option("--size", wishes.size, "its size, when it has to be made: 4G");
    app.add_option("--write-size", wishes.write_size, "the size of the one that is written")->capture_default_str();
    app.add_flag("--direct", wishes.direct, "open them with O_DIRECT");
    app.add_flag("--all-gpus", wishes.settings.all_gpus, "read into every GPU first, not only where a row wants it");
    app.add_option("--rows", wishes.rows, "which: patterns as of the shell, or names, separated by commas")
        ->capture_default_str();
    app.add_option("--seconds", wishes.settings.seconds, "how long a row is measured")
        ->check(seconds)
        ->capture_default_str();
    app.add_flag("--json", wishes.settings.json, "one JSON object a row");
    app.add_option("--state", wishes.settings.state, "a file that keeps results; rows found there are not run again");
    app.add_flag("--list", wishes.list, "the rows of the table");
    app.add_flag("--about", wishes.about, "library, driver and device, as JSON");
    app.add_flag("--prepare", wishes.prepare, "only make the files");
    app.add_flag("--serve", wishes.serve, "take commands from standard input: open, run, close, quit");
    app.add_option("--first", wishes.first, "only time the first request of this process, of this size");
    app.footer([] {
      return fmt::format(
          "A row is OPERATION[-write][-rand]-SIZE[-xCOUNT][-each][-unreg][-fixed][-matmul|-hog][-others]; --list shows "
          "some.\n"
          "OPERATION is read, write, batch, async or cycle; cycle opens and registers a file each time; without cuFile "
          "it is pread, pwrite, pcycle, copy-in, copy-out or bell.\n"
          "With 256 MiB, or the size that they name: link-h2d, link-d2h, link-kernel. And held and idle need none.\n"
          "-each reads or writes on every GPU at once; -others keeps all but the first GPU busy.\n"
          "Bytes are compared before each row and after it; there is no way to leave that out.\n"
          "The library in use, by LD_LIBRARY_PATH and the loader: {}",
          sluice::bench::library_path());
    });
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : status_of_usage;
    }
    return run(wishes);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "cufile_bench: %s\n", failure.what());
    return 1;
  }
}
