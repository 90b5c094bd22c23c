// SPDX-License-Identifier: Apache-2.0
// What the client does with rows: measure a list of them once, or serve a script that alternates between libraries.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/files.h"
#include "client/job.h"

namespace sluice::bench {

struct Settings {
  std::string path;
  Opened how = Opened::buffered;
  std::uint64_t source_size = 0;
  std::uint64_t target_size = 0;
  bool all_gpus = false;
  double seconds = 0.7;
  bool json = false;
  std::string state;  // a file of results: rows found there are not measured again
  std::vector<std::string> rows;
};

// Whether rows can be measured for so many seconds.
bool can_be_measured(double seconds);

// Library, driver, device and kernel, as they are here.
nlohmann::json about();

// Measures the rows and prints a line each. 0 when all were measured, 1 when some could not be.
int measure_rows(const Settings& settings);

// Reads commands from standard input and answers each by a line of JSON: open ROW (which compares some requests), run
// ROW SECONDS (which compares the last ones), close ROW, quit. A command that fails answers {"error": ...}, and the
// next one is read.
int serve(const Settings& settings);

// Times a process's first request: opening the driver, registering the file, the read itself. The file was prepared.
int first_request(const Settings& settings, std::size_t size);

}  // namespace sluice::bench
