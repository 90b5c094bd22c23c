// SPDX-License-Identifier: Apache-2.0
// lab_power: writes until the power is cut, and looks at what is left (tests/lab/power.py).
//
//   lab_power begin FOLDER WRITER...              makes the writers' files and folders, durably
//   lab_power write FOLDER DEVICE FILE WRITER...  these writers, in FOLDER; they acknowledge on DEVICE, and FILE
//   appears
//                                                 once each has done so some times; save_file, Python's, is passed over
//   lab_power check FOLDER WRITER=NUMBER...       "held WRITER" or "lost WRITER -- WHY" for each
//
// With LAB_DIRECT, a file on the same drive, what drives can write from device memory by themselves has to go that way.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lab/power/direct.h"
#include "lab/power/operations.h"
#include "lab/power/remains.h"
#include "lab/power/writers.h"

namespace sluice::lab {

namespace {

// Of each writer, before the power may be cut: odd and even copies, both files, both kinds of memory.
constexpr std::uint64_t kEnough = 5;

std::atomic<std::size_t> waited_for{0};
std::string enough_file;  // NOLINT(runtime/string): set before any thread is there

void count_down() {
  if (waited_for.fetch_sub(1) != 1) return;
  if (is_direct() && written_directly() == 0) throw std::runtime_error("no drive has written by itself");
  std::ofstream(enough_file) << "enough\n";
}

using Words = std::vector<std::string>;

std::vector<Writer> writers_among(std::span<const std::string> words) {
  std::vector<Writer> writers;
  for (const std::string& word : words) {
    const auto writer = writer_named(word);
    if (!writer) throw std::runtime_error("no writer: " + word);
    writers.push_back(*writer);
  }
  return writers;
}

void begin(const std::string& folder, const std::vector<Writer>& writers) {
  for (const Writer writer : writers) begin_writing(writer, folder);
}

[[noreturn]] void write(const std::string& folder, const std::string& device, const std::string& enough,
                        std::vector<Writer> writers) {
  const Acknowledgements told(device);
  if (is_direct()) must_be_direct();
  std::erase(writers, Writer::save_file);
  enough_file = enough;
  waited_for = writers.size();
  std::vector<std::thread> threads;
  threads.reserve(writers.size());
  for (const Writer writer : writers) {
    threads.emplace_back([&, writer] {
      try {
        keep_writing(writer, folder, told, {kEnough, count_down});
      } catch (const std::exception& error) {
        std::printf("fail %s writes -- %s\n", std::string(name_of(writer)).c_str(), error.what());
        std::fflush(stdout);
        _exit(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  throw std::logic_error("writers have come to an end");
}

void check(const std::string& folder, const std::string& told) {
  const std::size_t sign = told.find('=');
  const auto writer = writer_named(told.substr(0, sign));
  if (sign == std::string::npos || !writer) throw std::runtime_error("no WRITER=NUMBER: " + told);
  const std::string why = what_is_lost(*writer, folder, std::stoull(told.substr(sign + 1)));
  if (why.empty()) {
    std::printf("held %s\n", std::string(name_of(*writer)).c_str());
  } else {
    std::printf("lost %s -- %s\n", std::string(name_of(*writer)).c_str(), why.c_str());
  }
}

int main(const Words& words) {
  if (words.size() > 2 && words[0] == "begin") {
    begin(words[1], writers_among(std::span(words).subspan(2)));
    return 0;
  }
  if (words.size() > 4 && words[0] == "write") {
    write(words[1], words[2], words[3], writers_among(std::span(words).subspan(4)));
  }
  if (words.size() > 2 && words[0] == "check") {
    for (std::size_t i = 2; i < words.size(); ++i) check(words[1], words[i]);
    return 0;
  }
  std::fputs(
      "usage: lab_power begin FOLDER WRITER... | write FOLDER DEVICE FILE WRITER... | check FOLDER "
      "WRITER=NUMBER...\n",
      stderr);
  return 2;
}

}  // namespace

}  // namespace sluice::lab

int main(int count, char** words) {
  try {
    return sluice::lab::main({words + 1, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lab_power: %s\n", error.what());
    return 1;
  }
}
