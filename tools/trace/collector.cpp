// SPDX-License-Identifier: Apache-2.0
#include "trace/collector.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <utility>

#include "common/another_process.h"
#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

std::string link_of(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

[[noreturn]] void fail(const char* what) {
  throw ToolError(fmt::format("{}: {}.", what, system_words(errno)), "Look at the limits of this process (ulimit -a).");
}

// The descriptor that a message brings, or -1. `process` is who sent it, as the kernel says.
int descriptor_in(int connection, pid_t& process) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return -1;
  if (getuid() != 0 && peer.uid != getuid()) return -1;
  process = peer.pid;
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) <= 0) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

}  // namespace

void Collector::add(pid_t process, int fd) {
  Rings rings = Rings::of_descriptor(fd);
  TracedProcess& traced = recording_.processes.emplace_back();
  traced.number = process;
  traced.name = rings.program();
  traced.library = rings.library();
  sources_.push_back({recording_.processes.size() - 1, std::move(rings)});
}

bool Collector::find(pid_t process) {
  const std::string folder = fmt::format("/proc/{}/fd", process);
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) {
    if (errno == ENOENT)
      throw ToolError(fmt::format("There is no process {}.", process), "`pgrep -a NAME` shows them.");
    throw ToolError(fmt::format("Process {} does not let you look: {}.", process, system_words(errno)), who_may_look());
  }
  int found = -1;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = folder + "/" + entry->d_name;
    if (link_of(name) != "/memfd:" SLUICE_TRACE_NAME " (deleted)") continue;
    found = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (found >= 0) break;
  }
  closedir(entries);
  if (found < 0) return false;
  if (Rings::is_being_made(found)) {
    close(found);
    return false;
  }
  add(process, found);
  return true;
}

void Collector::leave_out_the_past() {
  recording_.look_at_clocks();
  since_ = recording_.monotonic;
}

void Collector::read() {
  for (Source& source : sources_) {
    TracedProcess& process = recording_.processes[source.process];
    std::vector<std::size_t> before;
    for (const TracedThread& thread : process.threads) before.push_back(thread.events.size());
    source.rings.read(process, since_, room_);
    for (std::size_t i = 0; i < process.threads.size(); ++i) name_files(process, i, i < before.size() ? before[i] : 0);
  }
}

// A piece of what a descriptor that was registered just now is called.
void Collector::add_to_name(TracedProcess& process, const sluice_trace_event& event) {
  std::vector<TracedFile>& files = process.files[event.fd];
  if (event.detail == 0 || files.empty()) files.push_back({event.time, {}});
  std::array<char, 2 * sizeof event.a> piece{};
  std::memcpy(piece.data(), &event.a, sizeof event.a);
  std::memcpy(piece.data() + sizeof event.a, &event.b, sizeof event.b);
  files.back().name += printable({piece.data(), strnlen(piece.data(), piece.size())});
}

// Those that were registered before are asked of the process, while it has them.
void Collector::name_files(TracedProcess& process, std::size_t thread, std::size_t from) {
  const std::vector<sluice_trace_event>& events = process.threads[thread].events;
  for (std::size_t i = from; i < events.size(); ++i) {
    const sluice_trace_event& event = events[i];
    if (event.fd < 0) continue;
    if (event.kind == SLUICE_TRACE_FILE_NAME) {
      add_to_name(process, event);
      continue;
    }
    if (event.kind == SLUICE_TRACE_FILE_REGISTER || process.files.contains(event.fd)) continue;
    std::string name = printable(link_of(fmt::format("/proc/{}/fd/{}", process.number, event.fd)));
    if (!name.empty()) process.files[event.fd].push_back({event.time, std::move(name)});
  }
}

CollectorSocket::CollectorSocket() {
  fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  constexpr int most_waiting = 256;
  if (fd_ < 0 || bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0 ||
      listen(fd_, most_waiting) != 0) {
    fail("cannot make a local socket");
  }
  socklen_t length = sizeof address;
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) fail("cannot name a local socket");
  name_.assign(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
}

CollectorSocket::~CollectorSocket() {
  if (fd_ >= 0) close(fd_);
}

void CollectorSocket::drain(Collector& collector) {
  while (true) {
    const int connection = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0 && errno == EINTR) continue;
    if (connection < 0) break;
    connections_.push_back({connection, 0});
  }
  // What is sent follows its connection at once; one that sends nothing is let go after some looks.
  constexpr int most_looks = 1000;
  for (Connection& each : std::exchange(connections_, {})) {
    const int connection = each.fd;
    pid_t process = 0;
    errno = 0;
    const int fd = descriptor_in(connection, process);
    if (fd < 0 && errno == EAGAIN && ++each.looks < most_looks) {
      connections_.push_back(each);
      continue;
    }
    if (fd >= 0) {
      try {
        collector.add(process, fd);
      } catch (const ToolError&) {  // any process of this user can come here
      }
    }
    close(connection);
  }
}

}  // namespace sluice::tools
