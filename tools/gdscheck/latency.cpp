// SPDX-License-Identifier: Apache-2.0
// A server and a client on one card, one after the other for each pair. Both end with this function.
#include "gdscheck/latency.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "common/driver.h"
#include "common/error.h"
#include "common/output_file.h"
#include "common/text.h"
#include "gdscheck/sections.h"

namespace sluice::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* program = "ib_read_lat";
constexpr const char* installing = "Install perftest (Debian: apt-get install perftest).";

// A child whose output is read; killed with this where it still runs.
class Child {
 public:
  explicit Child(std::vector<std::string> words) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw ToolError("No pipe can be made.", "Close programs or files.");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int error = posix_spawnp(&pid_, program, &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
    if (error == 0) return;
    close(output_);
    throw ToolError(fmt::format("{} cannot be run: {}.", program, system_words(error)), installing);
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Reads to the end of the output; true when the child has ended well by then.
  bool ends_well_before(Clock::time_point end) {
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd source{output_, POLLIN, 0};
      const int ready = left > 0 ? poll(&source, 1, static_cast<int>(left)) : 0;
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return false;
      std::array<char, 4096> piece{};
      const ssize_t got = read(output_, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text_.append(piece.data(), static_cast<std::size_t>(got));
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  const std::string& text() const { return text_; }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
};

struct Times {
  double least = 0;
  double typical = 0;
  double average = 0;
};

// The row below "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] ...".
std::optional<Times> times_in(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    double bytes = 0;
    double count = 0;
    double most = 0;
    Times times;
    if (numbers >> bytes >> count >> times.least >> most >> times.typical >> times.average) return times;
  }
  return std::nullopt;
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" -\t") != std::string::npos) last = line;
  }
  return last;
}

struct Pair {
  int gpu = 0;
  std::string card;
  std::optional<Times> times;
  std::string why_not;
  std::string said;
};

std::vector<std::string> words_for(const Pair& pair, bool soft) {
  constexpr int first_port = 18515;  // perftest's own
  std::vector<std::string> words = {
      program, "-d", pair.card, "-n", "1000", "-p", std::to_string(first_port + getpid() % 1000)};
  if (!soft) words.push_back(fmt::format("--use_cuda={}", pair.gpu));
  if (!soft && platform().dma_buf) words.emplace_back("--use_cuda_dmabuf");
  return words;
}

// The client is tried anew until its server listens.
void measure(Pair& pair, bool soft, Clock::time_point end) {
  Child server(words_for(pair, soft));
  std::vector<std::string> words = words_for(pair, soft);
  words.emplace_back("localhost");
  while (Clock::now() < end) {
    Child client(words);
    const bool well = client.ends_well_before(end);
    pair.said = client.text();
    if (well) pair.times = times_in(pair.said);
    if (pair.times) return;
    // The last one may have been cut before it said anything: what one before it said counts on.
    if (std::string last = last_line(pair.said); !last.empty()) pair.why_not = std::move(last);
    poll(nullptr, 0, 100);
  }
  if (pair.why_not.empty()) pair.why_not = "it did not end in time (-d)";
}

void want_what_it_takes(const LatencyOptions& options, const std::vector<std::string>& cards) {
  const Driver& driver = choose_driver();
  if (driver.kind != DriverKind::real && !(options.soft && driver.kind == DriverKind::soft)) {
    throw ToolError(fmt::format("Latencies are measured between cards and GPUs: no GPU ({}).", driver.why_not_real),
                    "What is wrong: sluice doctor gpu. To read host memory in its place: --soft.");
  }
  if (cards.empty()) {
    throw ToolError("Latencies are measured from RDMA cards: /sys/class/infiniband has none.",
                    "What is wrong: sluice doctor rdma. For the PCI tree: -e sysfs; for distances: -t.");
  }
  if (driver.kind == DriverKind::real && !platform().dma_buf && !platform().peer_memory) {
    throw ToolError("Cards cannot reach GPU memory here: neither dma-buf nor nvidia_peermem.",
                    "What is missing: sluice doctor rdma.");
  }
}

void tell(const Pair& pair, int detail) {
  if (detail >= 2) fmt::print("{}", printable(pair.said));
  if (detail < 1) return;
  if (pair.times) {
    fmt::print(" GPU {} {} : typical {:.2f} us, average {:.2f} us, least {:.2f} us\n", pair.gpu, printable(pair.card),
               pair.times->typical, pair.times->average, pair.times->least);
  } else {
    fmt::print(" GPU {} {} : not measured: {}\n", pair.gpu, printable(pair.card), printable(pair.why_not));
  }
}

nlohmann::ordered_json described(const std::vector<Pair>& pairs, const LatencyOptions& options) {
  nlohmann::ordered_json json;
  json["format"] = 1;
  json["method"] = "latency";
  json["memory"] = options.soft && choose_driver().kind == DriverKind::soft ? "host" : "gpu";
  json["pairs"] = nlohmann::ordered_json::array();
  for (const Pair& pair : pairs) {
    nlohmann::ordered_json row = {{"gpu", pair.gpu}, {"card", pair.card}};
    if (pair.times) {
      row["microseconds"] = {
          {"typical", pair.times->typical}, {"average", pair.times->average}, {"least", pair.times->least}};
    } else {
      row["why_not"] = pair.why_not;
    }
    json["pairs"].push_back(std::move(row));
  }
  return json;
}

}  // namespace

void export_latency(const std::string& file, const LatencyOptions& options) {
  const std::vector<std::string>& cards = options.cards.empty() ? platform().rdma_devices : options.cards;
  want_what_it_takes(options, cards);
  OutputFile output(file, "The latencies", 1, "Name a file that can be written: -o FILE.");
  const bool soft = choose_driver().kind == DriverKind::soft;
  const auto end = Clock::now() + std::chrono::seconds(options.seconds);
  std::vector<Pair> pairs;
  const auto count = static_cast<std::size_t>(choose_driver().devices) * cards.size();
  for (int gpu = 0; gpu < choose_driver().devices; ++gpu) {
    for (const std::string& card : cards) {
      Pair pair{gpu, card, std::nullopt, "", ""};
      // Each gets its share of what is left, so that one that hangs leaves time for the others.
      const auto share = (end - Clock::now()) / static_cast<std::int64_t>(count - pairs.size());
      measure(pair, soft, Clock::now() + share);
      tell(pair, options.detail);
      if (!pair.times && !options.go_on) {
        throw ToolError(
            fmt::format("GPU {} and {} cannot be measured: {}.", gpu, printable(card), printable(pair.why_not)),
            "What is wrong: sluice doctor rdma. To go on with the others: -i.");
      }
      pairs.push_back(std::move(pair));
    }
  }
  output.write(described(pairs, options).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  fmt::print(" Latencies written to {}\n", printable(file));
}

}  // namespace sluice::tools
