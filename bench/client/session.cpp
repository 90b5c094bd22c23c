// SPDX-License-Identifier: Apache-2.0
#include "client/session.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <system_error>

#include "client/check.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

void answer(const nlohmann::json& json) {
  std::puts(json.dump().c_str());
  std::fflush(stdout);
}

std::string line_of(const nlohmann::json& result) {
  const std::string row = result.at("row");
  if (result.contains("error")) return fmt::format("{:<18} {}", row, result["error"].get<std::string>());
  if (!result.contains("gib_per_s")) {
    return fmt::format("{:<18} {:9.3f} ms of processor time in {} s", row, result["cpu_seconds"].get<double>() * 1e3,
                       result["seconds"].get<double>());
  }
  std::string text = fmt::format("{:<18} {:9.3f} GiB/s   p50 {:10.1f} us   p99 {:10.1f} us   {:7.3f} CPU s/GiB", row,
                                 result["gib_per_s"].get<double>(), result["p50_us"].get<double>(),
                                 result["p99_us"].get<double>(), result["cpu_s_per_gib"].get<double>());
  if (result.contains("product_slowdown")) {
    text += fmt::format("   product slower by {:.1f} %", result["product_slowdown"].get<double>() * 100);
  }
  return text;
}

nlohmann::json measured(Bench& bench, const std::string& name, double seconds) {
  try {
    const Row row = parse_row(name);
    const std::unique_ptr<Job> job = make_job(bench, row);
    std::uint64_t compared = job->check();
    nlohmann::json result = to_json(job->run(seconds));
    compared += job->check_last();
    result["row"] = name;
    result["compared"] = compared;
    return result;
  } catch (const std::exception& failure) {
    return {{"row", name}, {"error", failure.what()}};
  }
}

std::map<std::string, nlohmann::json> results_in(const std::string& state) {
  std::map<std::string, nlohmann::json> results;
  std::ifstream file(state);
  for (std::string line; !state.empty() && std::getline(file, line);) {
    const nlohmann::json result = nlohmann::json::parse(line, nullptr, false);
    // The last line of an interrupted run may be half a one.
    if (result.is_object() && result.contains("row") && !result.contains("error")) results[result["row"]] = result;
  }
  return results;
}

double milliseconds(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
}

// As a program that works with all of them.
void read_into_all(Bench& bench) {
  const std::size_t size = std::min(bench.source().size(), std::uint64_t{64} << 20U);
  for (const Gpu* const gpu : bench.gpus()) {
    gpu->enter();
    const DeviceMemory memory(*gpu, size);
    want_all(cuFileRead(bench.source_handle(), memory.pointer(), size, 0, 0), size, "cuFileRead");
  }
  bench.gpu().enter();
}

}  // namespace

bool can_be_measured(double seconds) {
  return seconds > 0 && seconds <= 1e6;
}

nlohmann::json about() {
  utsname system{};
  ::uname(&system);
  nlohmann::json json = {{"library", library_path()}, {"kernel", system.release}};
  try {
    json["api"] = library_version();
  } catch (const Trouble& failure) {
    json["api"] = failure.what();
  }
  try {
    const Gpu gpu;
    json["device"] = gpu.name();
    json["driver"] = gpu.driver_version();
    json["soft"] = gpu.is_soft();
  } catch (const Trouble& failure) {
    json["device"] = failure.what();
  }
  return json;
}

int measure_rows(const Settings& settings) {
  std::ofstream state;
  if (!settings.state.empty()) {
    std::error_code ignored;
    if (std::filesystem::exists(settings.state, ignored) &&
        !std::filesystem::is_regular_file(settings.state, ignored)) {
      throw Trouble(settings.state + " is no regular file: name another one with --state");
    }
    state.open(settings.state, std::ios::app);
    if (!state) throw Trouble(settings.state + " cannot be written: name another file with --state, or leave it out");
  }
  const std::map<std::string, nlohmann::json> done = results_in(settings.state);
  Bench bench(settings.path, settings.how, settings.source_size, settings.target_size);
  if (settings.all_gpus) read_into_all(bench);
  bool all = true;
  for (const std::string& name : settings.rows) {
    const auto found = done.find(name);
    const nlohmann::json result = found == done.end() ? measured(bench, name, settings.seconds) : found->second;
    if (found == done.end() && !settings.state.empty()) {
      state << result.dump() << '\n' << std::flush;
      if (!state) throw Trouble(settings.state + " cannot be written any more: is its disk full?");
    }
    if (settings.json) {
      answer(result);
    } else {
      std::puts(line_of(result).c_str());
      std::fflush(stdout);
    }
    all = all && !result.contains("error");
  }
  return all ? 0 : 1;
}

int serve(const Settings& settings) {
  Bench bench(settings.path, settings.how, settings.source_size, settings.target_size);
  if (settings.all_gpus) read_into_all(bench);
  std::map<std::string, std::unique_ptr<Job>> jobs;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    std::string name;
    words >> command >> name;
    try {
      if (command == "quit") break;
      if (command == "open") {
        jobs[name] = make_job(bench, parse_row(name));
        answer({{"compared", jobs[name]->check()}});
      } else if (command == "run") {
        double seconds = settings.seconds;
        if (!(words >> std::ws).eof() && (!(words >> seconds) || !can_be_measured(seconds))) {
          throw Trouble(fmt::format("no length of time in seconds: {}", line));
        }
        nlohmann::json result = to_json(jobs.at(name)->run(seconds));
        // At once: another client may write the same file next.
        result["compared"] = jobs.at(name)->check_last();
        answer(result);
      } else if (command == "close") {
        answer({{"closed", jobs.erase(name)}});
      } else {
        throw Trouble(fmt::format("no such command: {}", line));
      }
    } catch (const std::exception& failure) {
      jobs.erase(name);
      answer({{"error", failure.what()}});
    }
  }
  return 0;
}

int first_request(const Settings& settings, std::size_t size) {
  const TestFile file(settings.path, settings.how, size);
  const Gpu gpu;
  const DeviceMemory memory(gpu, size);
  Row row;
  row.name = fmt::format("first-{}", size_text(size));
  nlohmann::json result = {{"row", row.name}};
  auto begun = std::chrono::steady_clock::now();
  const OpenDriver driver;
  result["open_ms"] = milliseconds(begun);
  begun = std::chrono::steady_clock::now();
  const RegisteredFile handle(file.descriptor());
  result["register_ms"] = milliseconds(begun);
  begun = std::chrono::steady_clock::now();
  const ssize_t moved = cuFileRead(handle.get(), memory.pointer(), size, 0, 0);
  result["first_ms"] = milliseconds(begun);
  want_all(moved, size, "cuFileRead");
  want_device_pattern(gpu, memory.address(), size, 0, row);
  result["compared"] = size;
  answer(result);
  return 0;
}

}  // namespace sluice::bench
