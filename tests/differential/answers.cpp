// SPDX-License-Identifier: Apache-2.0
#include "differential/answers.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace sluice::differential {
namespace {

std::atomic<std::int64_t> deadline{0};
std::atomic<bool> ended{false};
int output = STDOUT_FILENO;

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The first to come ends the process; others that crash meanwhile wait for that.
void end_with(const char* answer) {
  if (ended.exchange(true)) {
    for (;;) pause();
  }
  answers().deliver(answer);
  _exit(0);
}

void crashed(int number) {
  char text[] = " signal 00\nend\n";
  text[8] = static_cast<char>('0' + number / 10);
  text[9] = static_cast<char>('0' + number % 10);
  end_with(text);
}

void watch() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const std::int64_t limit = deadline.load();
    if (limit == 0 || now_ms() <= limit || ended.exchange(true)) continue;
    answers().deliver(" hang\nend\n");
    // The process stays for a while: what its threads wait for can still be seen.
    std::this_thread::sleep_for(std::chrono::seconds(5));
    _exit(0);
  }
}

}  // namespace

void Answers::begin(const std::string& script) {
  length_ = 0;
  add("answers %s\n", script.c_str());
}

void Answers::add(const char* format, ...) {
  const std::size_t room = sizeof text_ - length_;
  std::va_list list;
  va_start(list, format);
  const int written = std::vsnprintf(text_ + length_, room, format, list);
  va_end(list);
  if (written > 0 && static_cast<std::size_t>(written) < room) length_ += static_cast<std::size_t>(written);
}

void Answers::deliver(const char* last) {
  const struct {
    const char* text;
    std::size_t length;
  } parts[] = {{text_, length_}, {last, std::strlen(last)}};
  for (const auto& part : parts) {
    for (std::size_t done = 0; done < part.length;) {
      const ssize_t some = write(output, part.text + done, part.length - done);
      if (some <= 0) _exit(3);
      done += static_cast<std::size_t>(some);
    }
  }
  length_ = 0;
}

Answers& answers() {
  static Answers all;
  return all;
}

void keep_output_to_ourselves() {
  output = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

void guard_against_crashes() {
  static char stack[1 << 16];
  const stack_t alternate{stack, 0, sizeof stack};
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = crashed;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    sigaction(number, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::atexit([] { end_with(" exit\nend\n"); });  // a library that ends the program
  std::thread(watch).detach();
}

void limit_time(unsigned milliseconds) {
  deadline = milliseconds == 0 ? 0 : now_ms() + milliseconds;
}

std::uint64_t digest(const void* bytes, std::size_t size) {
  const auto* from = static_cast<const unsigned char*>(bytes);
  std::uint64_t value = 0x9e3779b97f4a7c15U ^ size;
  for (; size >= 8; from += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, 8);
    value = (value ^ word) * 0xff51afd7ed558ccdU;
    value ^= value >> 32;
  }
  for (; size > 0; ++from, --size) value = (value ^ *from) * 0x100000001b3U;
  return value ^ value >> 29;
}

}  // namespace sluice::differential
