// SPDX-License-Identifier: Apache-2.0
// TCP with a time-out for everything.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace rdma_files {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

inline Deadline after(std::chrono::milliseconds time) {
  return Clock::now() + time;
}
inline constexpr Deadline kNever = Deadline::max();

class Fd {
 public:
  explicit Fd(int fd = -1) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// An IPv4 address and a port, as "192.0.2.1:7471".
struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};
Endpoint endpoint_of(const std::string& text);  // throws std::invalid_argument

// The waits of this file end by a deadline, by poll's events, or because another thread has shut the socket down. Each
// failure is a std::system_error.
void wait_for(int fd, short events, Deadline deadline);

class Socket {
 public:
  explicit Socket(Fd fd);

  static Socket connected_to(const Endpoint& to, std::chrono::milliseconds time);

  void send_all(std::span<const std::uint8_t> bytes, Deadline deadline) const;
  void receive_all(std::span<std::uint8_t> bytes, Deadline deadline) const;
  void wait_readable(Deadline deadline) const;
  void shut_down() const noexcept;  // what waits in another thread comes back
  std::string local_address() const;

 private:
  Fd fd_;
};

class Listener {
 public:
  explicit Listener(const Endpoint& at);
  int fd() const noexcept { return fd_.get(); }
  std::uint16_t port() const;
  Socket accepted() const;

 private:
  Fd fd_;
};

}  // namespace rdma_files
