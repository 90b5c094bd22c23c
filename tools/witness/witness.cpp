// SPDX-License-Identifier: Apache-2.0
// The witness: preloaded next to the library by `sluice run`, it reports which libcufile a process has mapped, once
// when the process starts and once, with the counters, when it leaves.
//
// It is a guest in every program: no C++ runtime, no thread, no descriptor kept open, errno left as it was, and
// silence when no tool listens.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../witness/protocol.h"
#include "sluice.h"

namespace {

constexpr std::size_t counter_room = static_cast<std::size_t>(SLUICE_PATH_COUNT) * SLUICE_REASON_COUNT;
constexpr std::size_t longest_name = 107;  // of an abstract socket

char listener[longest_name + 1];
// What the counters said when this process was forked: its parent reports that part.
sluice_path_counter_t inherited[counter_room];
std::size_t inherited_count = 0;

struct Message {
  char text[sluice::tools::witness_message_limit] = {};
  std::size_t length = 0;
};

void append(Message& message, const char* format, ...) __attribute__((format(printf, 2, 3)));

// A line that does not fit is left out as a whole.
void append(Message& message, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::size_t room = sizeof message.text - message.length;
  const int wanted = std::vsnprintf(message.text + message.length, room, format, arguments);
  va_end(arguments);
  if (wanted > 0 && static_cast<std::size_t>(wanted) < room) message.length += static_cast<std::size_t>(wanted);
}

// "libcufile.so.0", "libcufile-1a2b3c.so.0" (as wheels rename it), but not "libcufile_rdma.so.1".
bool is_libcufile(const char* path) {
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  constexpr std::size_t stem = sizeof "libcufile" - 1;
  return std::strncmp(name, "libcufile", stem) == 0 && (name[stem] == '.' || name[stem] == '-') &&
         std::strstr(name, ".so") != nullptr;
}

int note_object(dl_phdr_info* info, std::size_t, void* message) {
  if (info->dlpi_name != nullptr && is_libcufile(info->dlpi_name)) {
    append(*static_cast<Message*>(message), "map %s\n", info->dlpi_name);
  }
  return 0;
}

std::size_t read_counters(sluice_path_counter_t* counters) {
  using Read = CUfileError_t (*)(sluice_path_counter_t*, std::size_t, std::size_t*);
  const auto read = reinterpret_cast<Read>(dlsym(RTLD_DEFAULT, "sluice_path_counters"));
  std::size_t count = 0;
  if (read == nullptr || read(counters, counter_room, &count).err != CU_FILE_SUCCESS) return 0;
  return count < counter_room ? count : counter_room;
}

// What has been carried since this process was forked. A library that starts its counters anew there shows less than
// was inherited: then all of it is this process's own.
sluice_path_counter_t own_part(sluice_path_counter_t counter) {
  for (std::size_t i = 0; i < inherited_count; ++i) {
    const sluice_path_counter_t& before = inherited[i];
    if (before.path != counter.path || before.reason != counter.reason) continue;
    if (counter.reads < before.reads || counter.writes < before.writes) return counter;
    counter.reads -= before.reads;
    counter.read_bytes -= before.read_bytes;
    counter.writes -= before.writes;
    counter.written_bytes -= before.written_bytes;
  }
  return counter;
}

void note_use(Message& message) {
  const auto path_name = reinterpret_cast<const char* (*)(sluice_path_t)>(dlsym(RTLD_DEFAULT, "sluice_path_name"));
  const auto reason_name =
      reinterpret_cast<const char* (*)(sluice_reason_t)>(dlsym(RTLD_DEFAULT, "sluice_reason_name"));
  if (path_name == nullptr || reason_name == nullptr) return;
  static sluice_path_counter_t counters[counter_room];
  const std::size_t count = read_counters(counters);
  for (std::size_t i = 0; i < count; ++i) {
    const sluice_path_counter_t own = own_part(counters[i]);
    append(message, "use %s %s %llu %llu %llu %llu\n", path_name(own.path), reason_name(own.reason),
           static_cast<unsigned long long>(own.reads), static_cast<unsigned long long>(own.read_bytes),
           static_cast<unsigned long long>(own.writes), static_cast<unsigned long long>(own.written_bytes));
  }
}

void send_to_listener(const Message& message) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(listener);
  std::memcpy(address.sun_path + 1, listener, length);
  // A full queue is waited for, but not long: a stopped listener must not stop the program.
  const timeval patience{0, 100'000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  sendto(fd, message.text, message.length, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
  close(fd);
}

void after_fork_in_child() {
  inherited_count = read_counters(inherited);
}

__attribute__((constructor)) void say_hello() {
  const int saved = errno;
  const char* name = secure_getenv(sluice::tools::witness_variable);
  if (name != nullptr && std::strlen(name) <= longest_name) {
    std::strcpy(listener, name);
    static constinit Message hello;
    dl_iterate_phdr(note_object, &hello);
    send_to_listener(hello);
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
  }
  errno = saved;
}

__attribute__((destructor)) void say_goodbye() {
  if (listener[0] == '\0') return;
  static constinit Message goodbye;
  dl_iterate_phdr(note_object, &goodbye);
  note_use(goodbye);
  append(goodbye, "end\n");
  send_to_listener(goodbye);
}

}  // namespace
