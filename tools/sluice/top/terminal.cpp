// SPDX-License-Identifier: Apache-2.0
#include "sluice/top/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace sluice::tools {
namespace {

volatile sig_atomic_t asked_to_end = 0;

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

// Signals come while poll() waits, and at no other time: a size that changes is seen at the next turn at the latest.
sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&set, signal);
  return set;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

Terminal::Terminal() {
  const sigset_t set = signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal, [](int) { asked_to_end = 1; });
  handle(SIGWINCH, [](int) {});
  ::tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_all("\x1b[?1049h\x1b[?25l");
}

Terminal::~Terminal() {
  write_all("\x1b[?25h\x1b[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

Size Terminal::size() const {
  winsize now{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) != 0 || now.ws_col == 0 || now.ws_row == 0) return {};
  return {now.ws_col, now.ws_row};
}

// One write: the eye sees no half of it. Every line is cleared behind its end, and the rest of the screen, too.
void Terminal::show(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[0m\x1b[K";
  write_all(text + "\x1b[J");
}

bool Terminal::is_asked_to_end() const {
  return asked_to_end != 0;
}

Key Terminal::wait(int milliseconds) {
  if (const Key key = take_key(pending_); key != Key::none) return key;
  sigset_t none;
  sigemptyset(&none);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const timespec time{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  if (::ppoll(&input, 1, milliseconds < 0 ? nullptr : &time, &none) <= 0) return Key::none;
  std::array<char, 64> bytes{};
  const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count <= 0) return Key::quit;  // the terminal is gone
  pending_.append(bytes.data(), static_cast<std::size_t>(count));
  return take_key(pending_);
}

Key take_key(std::string& bytes) {
  while (!bytes.empty()) {
    const bool arrow = bytes.size() >= 3 && bytes[0] == '\x1b' && (bytes[1] == '[' || bytes[1] == 'O');
    const char letter = arrow ? bytes[2] : bytes[0];
    bytes.erase(0, arrow ? 3 : 1);
    if (arrow && letter == 'A') return Key::up;
    if (arrow && letter == 'B') return Key::down;
    if (arrow) continue;
    switch (letter) {
      case 'q':
      case 'Q':
        return Key::quit;
      case 'p':
      case ' ':
        return Key::pause;
      case 'e':
        return Key::explain;
      case 'k':
        return Key::up;
      case 'j':
        return Key::down;
      default:
        break;
    }
  }
  return Key::none;
}

}  // namespace sluice::tools
