// SPDX-License-Identifier: Apache-2.0
// Threads with a descriptor table of their own and a queue each, one for each file system or device that there
// is work on, since what one of these keeps waiting must not keep waiting what another has to do. A thread sleeps in a
// futex while there is nothing to do.
#include "io/private_files.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <new>
#include <utility>

#include "base/event_count.h"
#include "base/spin_backoff.h"
#include "io/file_io.h"

namespace sluice::io {

namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10;
// A file is closed by its thread, which may be busy with storage that does not answer: then later, without a waiter.
constexpr auto longest_close = std::chrono::seconds(1);

}  // namespace

enum class PrivateFile::Kind : std::uint8_t { read, write, close };

// Descriptor numbers in the thread's table. A description belongs to the process that opened it.
struct PrivateFile::Description {
  int reading = -1;
  int writing = -1;
  unsigned born = 0;
};

struct PrivateFile::Job {
  Kind kind = Kind::read;
  const char* path = nullptr;  // the caller's descriptor in /proc
  int extra_flags = 0;
  dev_t device = 0;
  ino_t inode = 0;
  Description* description = nullptr;
  std::span<std::byte> bytes{};
  base::FileOffset at{};
  base::Outcome outcome = base::Outcome::bytes(0);
  bool opened = true;  // false: the outcome says why the file could not be opened again
  Job* next = nullptr;
  std::atomic<bool> done{false};
  Closing* closing = nullptr;  // its caller may have given up waiting
};

// What is left of a file that goes: closed by its thread, perhaps after the waiter has given up.
struct PrivateFile::Closing {
  Job job{.kind = Kind::close};
  std::unique_ptr<Description> description;
  base::EventCount ended;
  std::atomic<int> keepers{2};  // the thread, and the waiter

  static void let_go(Closing* closing) noexcept {
    if (closing->keepers.fetch_sub(1) == 1) delete closing;
  }
};

// One storage's queue.
struct PrivateFile::IoQueue {
  std::mutex mutex;  // guards the queue, starting the thread, and making descriptions
  Job* first = nullptr;
  Job* last = nullptr;
  bool running = false;
  std::atomic<unsigned> posted{0};  // counts jobs handed in; the thread sleeps on it
  // Held while O_DIRECT is off a caller's description, for the length of the I/O.
  std::mutex direct_off;
};

// Storages get queues as they come; those that come when there is none left share the last one.
struct PrivateFile::IoQueues {
  static constexpr std::size_t most = 32;
  std::mutex mutex;  // guards which storage has which queue
  std::size_t taken = 0;
  std::array<dev_t, most> devices{};
  std::array<IoQueue, most> all;

  IoQueue& of(dev_t device) noexcept {
    const std::lock_guard lock(mutex);
    const auto end = devices.begin() + static_cast<std::ptrdiff_t>(taken);
    const auto found = std::find(devices.begin(), end, device);
    if (found != end) return all[static_cast<std::size_t>(found - devices.begin())];
    if (taken == most) return all.back();
    devices[taken] = device;
    return all[taken++];
  }
};

constinit PrivateFile::IoQueues PrivateFile::queues;

// What the thread of a queue does, and how it is asked.
struct PrivateFile::BufferedIoThread {
  static void serve(Job& job);
  static void* work(void* startup);
  static bool start(IoQueue& queue);
  static bool submit(IoQueue& queue, Job& job);
};

namespace {

std::atomic<unsigned> generation{0};

bool is_file(int fd, dev_t device, ino_t inode) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

// The caller's file opened once more; -errno when it cannot be.
int open_again(const char* path, int flags, dev_t device, ino_t inode) {
  const int fd = ::open(path, flags | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (is_file(fd, device, inode)) return fd;
  ::close(fd);
  return -EBADF;  // the number was closed and used again between the request and now
}

// Of this thread's own descriptors. Another process may wait for the program to close a pipe of these. Their numbers
// stay taken: what glibc says as it aborts must not go into a file of the program.
void let_go_of_the_standard_ones() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int standard : {0, 1, 2}) {
    if (standard != null) ::dup2(null, standard);
  }
  if (null > 2) ::close(null);
}

// The way without a second description: O_DIRECT is taken off the caller's for a moment. Other threads' transfers in
// that moment are buffered ones, which any alignment suits; one at a time, so that no thread puts the flag back too
// early.
base::Outcome without_direct(std::mutex& turn, int fd, std::span<std::byte> bytes, base::FileOffset at, bool writing) {
  const std::lock_guard lock(turn);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return base::Outcome::system_error(errno);
  if (::fcntl(fd, F_SETFL, flags & ~O_DIRECT) != 0) return base::Outcome::system_error(errno);
  const base::Outcome outcome = writing ? write_span(fd, bytes, at, 1) : read_span(fd, bytes, at, 1);
  ::fcntl(fd, F_SETFL, flags);
  return outcome;
}

}  // namespace

void PrivateFile::BufferedIoThread::serve(Job& job) {
  if (job.kind == Kind::close) {
    for (const int fd : {job.description->reading, job.description->writing}) {
      if (fd >= 0) ::close(fd);
    }
    return;
  }
  const bool reads = job.kind == Kind::read;
  int& fd = reads ? job.description->reading : job.description->writing;
  if (fd < 0) {
    const int opened = open_again(job.path, (reads ? O_RDONLY : O_WRONLY) | job.extra_flags, job.device, job.inode);
    if (opened < 0) {
      job.outcome = base::Outcome::system_error(-opened);
      job.opened = false;
      return;
    }
    fd = opened;
  }
  job.outcome = reads ? read_span(fd, job.bytes, job.at, 1) : write_span(fd, job.bytes, job.at, 1);
}

// What a thread is told as it begins; gone when it has answered.
struct PrivateFile::Startup {
  IoQueue& queue;
  std::atomic<int> unshared{0};
};

void* PrivateFile::BufferedIoThread::work(void* startup) {
  // From here on this thread's descriptors are its own: what it closes takes no lock of the process with it, and it
  // keeps none of the process's files open.
  const bool alone = ::syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_UNSHARE) == 0;
  if (alone) let_go_of_the_standard_ones();
  auto& told = *static_cast<Startup*>(startup);
  IoQueue& queue = told.queue;
  told.unshared.store(alone ? 1 : -1);
  told.unshared.notify_one();
  if (!alone) return nullptr;
  for (;;) {
    const unsigned seen = queue.posted.load(std::memory_order_acquire);
    Job* job = nullptr;
    {
      const std::lock_guard lock(queue.mutex);
      job = std::exchange(queue.first, nullptr);
      queue.last = nullptr;
    }
    if (job == nullptr) {
      queue.posted.wait(seen, std::memory_order_acquire);
      continue;
    }
    while (job != nullptr) {
      Job* const next = job->next;
      serve(*job);
      if (Closing* const closing = job->closing) {
        closing->ended.advance();
        Closing::let_go(closing);
        job = next;
        continue;
      }
      // The job lives on its caller's stack and is gone once `done` is seen; notify_one() uses its address only.
      job->done.store(true, std::memory_order_release);
      job->done.notify_one();
      job = next;
    }
  }
}

// With the queue's mutex held. False when there can be no such thread (no memory, a kernel before 5.9, a seccomp
// filter).
bool PrivateFile::BufferedIoThread::start(IoQueue& queue) {
  Startup startup{.queue = queue};
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  // A size of our own: the usual one is the process's limit for stacks, which may be a few KiB or all there is.
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, stack_bytes);
  const bool made = ::pthread_create(&thread, &attributes, &work, &startup) == 0;
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!made) return false;
  ::pthread_setname_np(thread, "sluice-files");
  ::pthread_detach(thread);
  startup.unshared.wait(0);
  return startup.unshared.load() == 1;
}

// True: the thread has the job.
bool PrivateFile::BufferedIoThread::submit(IoQueue& queue, Job& job) {
  {
    const std::lock_guard lock(queue.mutex);
    if (!queue.running && !start(queue)) return false;
    queue.running = true;
    (queue.last == nullptr ? queue.first : queue.last->next) = &job;
    queue.last = &job;
  }
  queue.posted.fetch_add(1, std::memory_order_seq_cst);  // before notify_one() looks whether a thread sleeps
  queue.posted.notify_one();
  return true;
}

PrivateFile::PrivateFile(int fd, dev_t device, ino_t inode, int extra_flags) noexcept
    : caller_fd_(fd), device_(device), inode_(inode), extra_flags_(extra_flags), queue_(queues.of(device)) {}

PrivateFile::~PrivateFile() {
  if (!description_ || description_->born != generation.load()) return;
  auto* const closing = new (std::nothrow) Closing;
  if (closing == nullptr) {
    Job job{.kind = Kind::close, .description = description_.get()};
    if (BufferedIoThread::submit(queue_, job)) job.done.wait(false, std::memory_order_acquire);
    return;
  }
  closing->description = std::move(description_);
  closing->job.description = closing->description.get();
  closing->job.closing = closing;
  const std::uint32_t seen = closing->ended.now();
  if (!BufferedIoThread::submit(queue_, closing->job)) {
    delete closing;
    return;
  }
  closing->ended.wait_beyond(seen, base::deadline_in(longest_close));
  Closing::let_go(closing);
}

base::Outcome PrivateFile::ask(std::span<std::byte> bytes, base::FileOffset at, bool writing) noexcept {
  try {
    {
      const std::lock_guard lock(queue_.mutex);
      if (!description_ || description_->born != generation.load()) {
        description_ = std::make_unique<Description>();
        description_->born = generation.load();
      }
    }
    Job job;
    job.kind = writing ? Kind::write : Kind::read;
    // By the calling thread's own entry: the leading thread, which /proc/self/fd shows, may have ended.
    std::array<char, 64> path{};
    std::snprintf(path.data(), path.size(), "/proc/self/task/%ld/fd/%d", ::syscall(SYS_gettid), caller_fd_);
    job.path = path.data();
    job.extra_flags = extra_flags_;
    job.device = device_;
    job.inode = inode_;
    job.description = description_.get();
    job.bytes = bytes;
    job.at = at;
    if (BufferedIoThread::submit(queue_, job)) {
      job.done.wait(false, std::memory_order_acquire);
      if (job.opened) return job.outcome;
    }
    if (!is_file(caller_fd_, device_, inode_)) return base::Outcome::system_error(EBADF);  // another file's flags
    return without_direct(queue_.direct_off, caller_fd_, bytes, at, writing);
  } catch (...) {
    return base::Outcome::system_error(ENOMEM);
  }
}

base::Outcome PrivateFile::read(std::span<std::byte> into, base::FileOffset at) noexcept {
  return ask(into, at, false);
}

base::Outcome PrivateFile::write(std::span<const std::byte> from, base::FileOffset at) noexcept {
  // The thread writes from these bytes and never into them.
  return ask({const_cast<std::byte*>(from.data()), from.size()}, at, true);
}

void PrivateFile::before_fork() noexcept {
  queues.mutex.lock();
  for (IoQueue& queue : queues.all) queue.mutex.lock();
}

void PrivateFile::after_fork(bool in_child) noexcept {
  if (in_child) generation.fetch_add(1);
  for (IoQueue& queue : queues.all) {
    if (in_child) {
      queue.first = nullptr;
      queue.last = nullptr;
      queue.running = false;
      // Held for as long as a thread's I/O takes, it is not waited for: the child's is a new one.
      new (&queue.direct_off) std::mutex;
    }
    queue.mutex.unlock();
  }
  queues.mutex.unlock();
}

}  // namespace sluice::io
