// The clerk: one thread with its own descriptor table, one queue. It sleeps in a futex while there is nothing to do.
#include "engine/private_files.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <new>
#include <utility>

#include "engine/file_io.h"

namespace sluice::engine {

// Descriptor numbers in the clerk's table. A description belongs to the process that opened it.
struct PrivateFile::Description {
  int reading = -1;
  int writing = -1;
  unsigned born = 0;
};

namespace {

constexpr std::size_t stack_bytes = std::size_t{256} << 10;

enum class Kind : std::uint8_t { read, write, close };

struct Job {
  Kind kind = Kind::read;
  const char* path = nullptr;  // the caller's descriptor in /proc
  int extra_flags = 0;
  dev_t device = 0;
  ino_t inode = 0;
  int* reading = nullptr;
  int* writing = nullptr;
  std::span<std::byte> bytes;
  base::FileOffset at;
  base::Outcome outcome = base::Outcome::bytes(0);
  bool opened = true;  // false: the outcome says why the file could not be opened again
  Job* next = nullptr;
  std::atomic<bool> done{false};
};

struct Clerk {
  std::mutex mutex;  // guards the queue and starting the thread
  Job* first = nullptr;
  Job* last = nullptr;
  bool running = false;
  std::atomic<unsigned> rung{0};  // counts jobs handed in; the clerk sleeps on it
};

Clerk& clerk() {
  static auto* const instance = new Clerk;
  return *instance;
}

std::atomic<unsigned> generation{0};

// Whoever has O_DIRECT off a caller's description holds it, for the length of the I/O.
struct Turn {
  std::mutex mutex;
};
Turn direct_off;

bool is_file(int fd, dev_t device, ino_t inode) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

// The caller's file opened once more; -errno when it cannot be.
int open_again(const Job& job, int access) {
  const int fd = ::open(job.path, access | job.extra_flags | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (is_file(fd, job.device, job.inode)) return fd;
  ::close(fd);
  return -EBADF;  // the number was closed and used again between the request and now
}

void serve(Job& job) {
  if (job.kind == Kind::close) {
    for (int* fd : {job.reading, job.writing}) {
      if (*fd >= 0) ::close(*fd);
    }
    return;
  }
  int& fd = job.kind == Kind::read ? *job.reading : *job.writing;
  if (fd < 0) {
    const int opened = open_again(job, job.kind == Kind::read ? O_RDONLY : O_WRONLY);
    if (opened < 0) {
      job.outcome = base::Outcome::system_error(-opened);
      job.opened = false;
      return;
    }
    fd = opened;
  }
  job.outcome = job.kind == Kind::read ? read_span(fd, job.bytes, job.at, 1) : write_span(fd, job.bytes, job.at, 1);
}

// Of this thread's own descriptors. Somebody may wait for the program to close a pipe of these. Their numbers stay
// taken: what glibc says as it aborts must not go into somebody's file.
void let_go_of_the_standard_ones() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int standard : {0, 1, 2}) {
    if (standard != null) ::dup2(null, standard);
  }
  if (null > 2) ::close(null);
}

void* work(void* unshared) {
  // From here on this thread's descriptors are its own: what it closes takes no lock of the process with it, and it
  // keeps none of the process's files open.
  const bool alone = ::syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_UNSHARE) == 0;
  if (alone) let_go_of_the_standard_ones();
  static_cast<std::atomic<int>*>(unshared)->store(alone ? 1 : -1);
  static_cast<std::atomic<int>*>(unshared)->notify_one();
  if (!alone) return nullptr;
  Clerk& desk = clerk();
  for (;;) {
    const unsigned seen = desk.rung.load(std::memory_order_acquire);
    Job* job = nullptr;
    {
      const std::lock_guard lock(desk.mutex);
      job = std::exchange(desk.first, nullptr);
      desk.last = nullptr;
    }
    if (job == nullptr) {
      desk.rung.wait(seen, std::memory_order_acquire);
      continue;
    }
    while (job != nullptr) {
      Job* const next = job->next;
      serve(*job);
      // The job lives on its caller's stack and is gone once `done` is seen; notify_one() uses its address only.
      job->done.store(true, std::memory_order_release);
      job->done.notify_one();
      job = next;
    }
  }
}

// With the clerk's mutex held. False when there can be no such thread (no memory, a kernel before 5.9, a seccomp
// filter).
bool start() {
  std::atomic<int> unshared{0};
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  // A size of our own: the usual one is the process's limit for stacks, which may be a few KiB or all there is.
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, stack_bytes);
  const bool made = ::pthread_create(&thread, &attributes, &work, &unshared) == 0;
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!made) return false;
  ::pthread_setname_np(thread, "sluice-files");
  ::pthread_detach(thread);
  unshared.wait(0);
  return unshared.load() == 1;
}

// The way without a second description: O_DIRECT is taken off the caller's for a moment. Other threads' transfers in
// that moment are buffered ones, which any alignment suits; one at a time, so that nobody puts the flag back too early.
base::Outcome without_direct(int fd, std::span<std::byte> bytes, base::FileOffset at, bool writing) {
  const std::lock_guard lock(direct_off.mutex);
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return base::Outcome::system_error(errno);
  if (::fcntl(fd, F_SETFL, flags & ~O_DIRECT) != 0) return base::Outcome::system_error(errno);
  const base::Outcome outcome = writing ? write_span(fd, bytes, at, 1) : read_span(fd, bytes, at, 1);
  ::fcntl(fd, F_SETFL, flags);
  return outcome;
}

bool hand_in(Job& job) {
  Clerk& desk = clerk();
  {
    const std::lock_guard lock(desk.mutex);
    if (!desk.running && !start()) return false;
    desk.running = true;
    (desk.last == nullptr ? desk.first : desk.last->next) = &job;
    desk.last = &job;
  }
  desk.rung.fetch_add(1, std::memory_order_release);
  desk.rung.notify_one();
  job.done.wait(false, std::memory_order_acquire);
  return true;
}

}  // namespace

PrivateFile::PrivateFile(int fd, dev_t device, ino_t inode, int extra_flags) noexcept
    : caller_fd_(fd), device_(device), inode_(inode), extra_flags_(extra_flags) {}

PrivateFile::~PrivateFile() {
  if (!description_ || description_->born != generation.load()) return;
  Job job;
  job.kind = Kind::close;
  job.reading = &description_->reading;
  job.writing = &description_->writing;
  hand_in(job);
}

base::Outcome PrivateFile::ask(std::span<std::byte> bytes, base::FileOffset at, bool writing) noexcept {
  try {
    {
      const std::lock_guard lock(clerk().mutex);
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
    job.reading = &description_->reading;
    job.writing = &description_->writing;
    job.bytes = bytes;
    job.at = at;
    if (hand_in(job) && job.opened) return job.outcome;
    if (!is_file(caller_fd_, device_, inode_)) return base::Outcome::system_error(EBADF);  // another file's flags
    return without_direct(caller_fd_, bytes, at, writing);
  } catch (...) {
    return base::Outcome::system_error(ENOMEM);
  }
}

base::Outcome PrivateFile::read(std::span<std::byte> into, base::FileOffset at) noexcept {
  return ask(into, at, false);
}

base::Outcome PrivateFile::write(std::span<const std::byte> from, base::FileOffset at) noexcept {
  // The clerk writes from these bytes and never into them.
  return ask({const_cast<std::byte*>(from.data()), from.size()}, at, true);
}

void private_files_before_fork() noexcept {
  clerk().mutex.lock();
}

void private_files_after_fork(bool in_child) noexcept {
  Clerk& desk = clerk();
  if (in_child) {
    desk.first = nullptr;
    desk.last = nullptr;
    desk.running = false;
    // Held for as long as somebody's I/O takes, it is not waited for: the child's is a new one.
    new (&direct_off) Turn;
    generation.fetch_add(1);
  }
  desk.mutex.unlock();
}

}  // namespace sluice::engine
