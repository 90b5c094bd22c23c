// SPDX-License-Identifier: Apache-2.0
// first_use: what the first transfers of a process answer when several threads make them at once. Every case is played
// by fresh processes, since a process has its first transfer once.
//
//   first_use [--processes N] [--parallel N] [--match TEXT] [--dir DIR] [--seed N]
//   first_use --one CASE SEED --dir DIR      plays one case in this process
//
// A case is DRIVER,OPENED,THREADS,KIND: the driver is loaded late (after the file is registered) or early; the file is
// opened buffered or direct; 2 to 32 threads begin at once; KIND says what each of them does. Exit status: 0 all well,
// 1 something was not, 77 there is no driver.
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

extern char** environ;

namespace sluice::first_use {
namespace {

using namespace support;

constexpr std::size_t span = 4U << 20U;  // of the file and of memory, for each thread
constexpr int no_driver = 77;

struct Case {
  bool late = false;
  bool direct = false;
  int threads = 2;
  std::string kind;
};

std::string name_of(const Case& c) {
  return std::string(c.late ? "late" : "early") + "," + (c.direct ? "direct" : "buffered") + "," +
         std::to_string(c.threads) + "," + c.kind;
}

std::optional<Case> case_of(const std::string& text) {
  std::stringstream in(text);
  Case c;
  std::string driver;
  std::string opened;
  std::string threads;
  if (!std::getline(in, driver, ',') || !std::getline(in, opened, ',') || !std::getline(in, threads, ',') ||
      !std::getline(in, c.kind)) {
    return std::nullopt;
  }
  c.late = driver == "late";
  c.direct = opened == "direct";
  c.threads = std::atoi(threads.c_str());
  return c;
}

const std::vector<std::string> kinds = {"ragged",   "one-block",  "read-4K",     "read-64K", "read-1M", "read-4M",
                                        "write-4K", "write-64K",  "write-1M",    "write-4M", "batch",   "stream",
                                        "host",     "registered", "just-copied", "vector",   "mixed"};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool late : {true, false}) {
    for (const bool direct : {true, false}) {
      for (const std::string& kind : kinds) {
        for (const int threads : {2, 3, 8, 32}) cases.push_back({late, direct, threads, kind});
      }
    }
  }
  return cases;
}

// What one thread has: a range of the file, memory of its own, and what it did not like.
struct Part {
  std::size_t file_offset = 0;
  CUfileHandle_t handle = nullptr;
  CudaAddress memory = 0;
  int fd = -1;
  Bytes content;  // of its range of the file
  std::string complaint;

  void* at(std::size_t offset) const { return reinterpret_cast<void*>(memory + offset); }
};

std::string told(const char* what, Transfer answer) {
  return std::string(what) + " answers " + std::to_string(answer.count) + " (error " + std::to_string(answer.error) +
         ")";
}

bool memory_holds(const Part& part, std::size_t memory_offset, std::size_t from, std::size_t length) {
  Bytes there(length);
  if (cuda()->to_host(there.data(), part.memory + memory_offset, length) != 0) return false;
  return std::memcmp(there.data(), part.content.data() + from, length) == 0;
}

void read_range(Part& part, std::size_t from, std::size_t length, std::size_t memory_offset) {
  const Transfer answer = read_file(part.handle, part.at(0), length, static_cast<off_t>(part.file_offset + from),
                                    static_cast<off_t>(memory_offset));
  if (answer != moved(length)) {
    part.complaint = told("a read", answer);
  } else if (!memory_holds(part, memory_offset, from, length)) {
    part.complaint = "a read brings other bytes";
  }
}

enum class Copy : bool { settled, just_made };

// A copy of up to 64 KiB out of pageable memory may still be under way when the driver's call returns.
void write_range(Part& part, std::size_t to, std::size_t length, std::size_t memory_offset, Copy copy = Copy::settled) {
  const Bytes bytes = random_bytes(length, part.file_offset + to);
  if (cuda()->to_device(part.memory + memory_offset, bytes.data(), length) != 0 ||
      (copy == Copy::settled && cuda()->context_synchronize() != 0)) {
    part.complaint = "the driver refuses a copy";
    return;
  }
  const Transfer answer = write_file(part.handle, part.at(0), length, static_cast<off_t>(part.file_offset + to),
                                     static_cast<off_t>(memory_offset));
  if (answer != moved(length)) {
    part.complaint = told("a write", answer);
  } else if (plain_read(part.fd, part.file_offset + to, length) != bytes) {
    part.complaint = "a write leaves other bytes";
  } else {
    std::copy(bytes.begin(), bytes.end(), part.content.begin() + static_cast<std::ptrdiff_t>(to));
  }
}

void run_batch(Part& part) {
  CUfileBatchHandle_t batch = nullptr;
  constexpr unsigned count = 8;
  if (code(cuFileBatchIOSetUp(&batch, count)) != CU_FILE_SUCCESS) {
    part.complaint = "a batch cannot be set up";
    return;
  }
  std::vector<CUfileIOParams_t> entries(count);
  for (unsigned i = 0; i < count; ++i) {
    CUfileIOParams_t& entry = entries[i];
    entry.mode = CUFILE_BATCH;
    entry.fh = part.handle;
    entry.opcode = CUFILE_READ;
    entry.u.batch.devPtr_base = part.at(0);
    entry.u.batch.devPtr_offset = static_cast<off_t>(i * 65536);
    entry.u.batch.file_offset = static_cast<off_t>(part.file_offset + i * 131072);
    entry.u.batch.size = 65536;
  }
  if (code(cuFileBatchIOSubmit(batch, count, entries.data(), 0)) != CU_FILE_SUCCESS) {
    part.complaint = "a batch cannot be submitted";
  }
  std::vector<CUfileIOEvents_t> events(count);
  unsigned told_of = 0;
  while (part.complaint.empty() && told_of < count) {
    unsigned now = count - told_of;
    if (code(cuFileBatchIOGetStatus(batch, now, &now, events.data(), nullptr)) != CU_FILE_SUCCESS || now == 0) {
      part.complaint = "a batch does not end";
    }
    for (unsigned i = 0; i < now && part.complaint.empty(); ++i) {
      if (events[i].ret != 65536) {
        part.complaint = "an entry answers " + std::to_string(static_cast<ssize_t>(events[i].ret));
      }
    }
    told_of += now;
  }
  cuFileBatchIODestroy(batch);
  for (unsigned i = 0; i < count && part.complaint.empty(); ++i) {
    if (!memory_holds(part, i * 65536, i * 131072, 65536)) part.complaint = "a batch brings other bytes";
  }
}

void run_stream(Part& part) {
  const Stream stream;
  std::size_t size = 65536;
  off_t file_offset = static_cast<off_t>(part.file_offset);
  off_t memory_offset = 4096;
  ssize_t count = -77;
  const CUfileError_t called =
      cuFileReadAsync(part.handle, part.at(0), &size, &file_offset, &memory_offset, &count, stream.get());
  stream.synchronize();
  if (code(called) != CU_FILE_SUCCESS || count != 65536) {
    part.complaint = "a stream's read answers " + std::to_string(code(called)) + ", count " + std::to_string(count);
  } else if (!memory_holds(part, 4096, 0, 65536)) {
    part.complaint = "a stream's read brings other bytes";
  }
}

void run_host(Part& part) {
  Bytes there(300'000);
  const Transfer answer =
      read_file(part.handle, there.data(), there.size(), static_cast<off_t>(part.file_offset + 512), 0);
  if (answer != moved(there.size())) {
    part.complaint = told("a read into host memory", answer);
  } else if (std::memcmp(there.data(), part.content.data() + 512, there.size()) != 0) {
    part.complaint = "a read into host memory brings other bytes";
  }
}

void run_vector(Part& part) {
  using Readv = ssize_t(CUfileHandle_t, const CUfileIOVec_t*, size_t, off_t, unsigned);
  auto* const readv = entry<Readv>("cuFileReadv");
  if (readv == nullptr) return;
  const std::vector<CUfileIOVec_t> parts = {{part.at(0), 4096}, {part.at(65536), 1000}, {part.at(131072), 65536}};
  const ssize_t answer = readv(part.handle, parts.data(), parts.size(), static_cast<off_t>(part.file_offset), 0);
  if (answer != 4096 + 1000 + 65536) {
    part.complaint = told("a vectored read", {answer, errno});
  } else if (!memory_holds(part, 0, 0, 4096) || !memory_holds(part, 65536, 4096, 1000) ||
             !memory_holds(part, 131072, 5096, 65536)) {
    part.complaint = "a vectored read brings other bytes";
  }
}

void run_behind_copies(Part& part) {
  for (const std::size_t length : {64U, 4096U, 65536U}) {
    if (part.complaint.empty()) write_range(part, length, length, 8192, Copy::just_made);
  }
}

void run_ragged(Part& part) {
  write_range(part, 50, 200, 8);
  if (part.complaint.empty()) write_range(part, 10, 100, 0);
  if (part.complaint.empty()) read_range(part, 1000, 100, 300);
}

// All threads in the first block of the file, in pieces that do not touch.
void run_in_one_block(int thread, Part& part) {
  const auto offset = static_cast<off_t>(thread * 100 + 10);
  const Transfer answer = thread % 3 == 2 ? read_file(part.handle, part.at(0), 60, offset, 0)
                                          : write_file(part.handle, part.at(0), 60, offset, 0);
  if (answer != moved(60)) part.complaint = told(thread % 3 == 2 ? "a read" : "a write", answer);
}

std::size_t size_of(const std::string& kind) {
  const std::size_t number = std::strtoul(kind.c_str() + kind.find('-') + 1, nullptr, 10);
  return kind.back() == 'M' ? number << 20U : number << 10U;
}

void play_kind(const std::string& kind, int thread, Part& part) {
  if (kind == "mixed") {
    // All but the last and those that share a block.
    const std::string& own = kinds[static_cast<std::size_t>(thread) % (kinds.size() - 1)];
    return play_kind(own == "one-block" ? "host" : own, thread, part);
  }
  if (kind == "ragged") return run_ragged(part);
  if (kind == "one-block") return run_in_one_block(thread, part);
  if (kind == "just-copied") return run_behind_copies(part);
  if (kind == "batch") return run_batch(part);
  if (kind == "stream") return run_stream(part);
  if (kind == "host") return run_host(part);
  if (kind == "vector") return run_vector(part);
  if (kind == "registered") {
    if (code(cuFileBufRegister(part.at(0), span, 0)) != CU_FILE_SUCCESS) {
      part.complaint = "memory cannot be registered";
      return;
    }
    read_range(part, 100, 70'000, 3);
    if (code(cuFileBufDeregister(part.at(0))) != CU_FILE_SUCCESS) part.complaint = "memory cannot be deregistered";
    return;
  }
  if (kind.starts_with("read-")) return read_range(part, 0, size_of(kind), 0);
  write_range(part, 0, size_of(kind), 0);
}

// Another process must find the lock that this one took: closing any descriptor of the file would drop it.
bool lock_is_kept(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(path.c_str(), O_RDWR);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_len = 1;
    _exit(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

int play(const Case& c, std::uint64_t seed, const std::string& directory) {
  if (!c.late && cuda() == nullptr) return no_driver;
  const auto threads = static_cast<std::size_t>(c.threads);
  const ScratchFile file(random_bytes(threads * span, seed), directory);
  const Fd fd = file.open(O_RDWR | (c.direct ? O_DIRECT : 0));
  const Fd plain = file.open(O_RDWR);
  const Handle handle(fd);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  if (fcntl(plain.get(), F_SETLK, &lock) != 0) std::printf("no record locks here\n");

  if (cuda() == nullptr) return no_driver;
  const ContextScope context(primary_context(0));
  std::vector<Part> parts(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    Part& part = parts[i];
    part.file_offset = i * span;
    part.handle = handle.get();
    part.fd = plain.get();
    part.content = Bytes(file.content().begin() + static_cast<std::ptrdiff_t>(i * span),
                         file.content().begin() + static_cast<std::ptrdiff_t>((i + 1) * span));
    if (cuda()->allocate(&part.memory, span) != 0) {
      std::printf("no device memory\n");
      return 1;
    }
  }
  std::atomic<int> ready{0};
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      cuda()->context_set(primary_context(0));
      ready.fetch_add(1);
      while (ready.load() < c.threads) std::this_thread::yield();
      play_kind(c.kind, static_cast<int>(i), parts[i]);
    });
  }
  for (std::thread& thread : running) thread.join();
  int status = 0;
  for (const Part& part : parts) {
    if (part.complaint.empty()) continue;
    std::printf("thread %zu: %s\n", static_cast<std::size_t>(&part - parts.data()), part.complaint.c_str());
    status = 1;
  }
  if (!lock_is_kept(file.path())) {
    std::printf("the record lock is gone\n");
    status = 1;
  }
  return status;
}

struct Options {
  long processes = 240;
  long parallel = 2;
  std::uint64_t seed = run_seed();
  std::string match;
  std::string directory = disk_directory();
};

struct Running {
  Case played;
  std::uint64_t seed;
};

// Every case in turn until so many processes have been started; what fails is told with the line that repeats it.
int play_all(const Options& options, const char* self) {
  std::vector<Case> cases;
  for (const Case& c : all_cases()) {
    if (name_of(c).find(options.match) != std::string::npos) cases.push_back(c);
  }
  if (cases.empty()) {
    std::printf("no case is called like that\n");
    return 1;
  }
  std::map<pid_t, Running> running;
  std::map<std::string, long> failures;
  long failed = 0;
  long skipped = 0;
  long started = 0;
  long ended = 0;
  while (ended < options.processes) {
    while (started < options.processes && static_cast<long>(running.size()) < options.parallel) {
      // A prime step visits all cases, and in few processes not only the first.
      const Case& c = cases[static_cast<std::size_t>(started) * 7919U % cases.size()];
      const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(started);
      const std::vector<std::string> words = {self,    "--one",          name_of(c), std::to_string(seed),
                                              "--dir", options.directory};
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      pid_t child = 0;
      if (posix_spawn(&child, self, nullptr, nullptr, arguments.data(), environ) != 0) return 1;
      running[child] = {c, seed};
      ++started;
    }
    int status = 0;
    const pid_t child = waitpid(-1, &status, 0);
    if (child <= 0) return 1;
    const Running one = running[child];
    running.erase(child);
    ++ended;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == no_driver) {
      ++skipped;
      continue;
    }
    ++failed;
    ++failures[name_of(one.played)];
    std::printf("FAILED (%s %d): %s --one %s %llu --dir %s\n", WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), self, name_of(one.played).c_str(),
                static_cast<unsigned long long>(one.seed), options.directory.c_str());
  }
  for (const auto& [name, count] : failures) std::printf("%s: %ld failed\n", name.c_str(), count);
  std::printf("%ld processes, %zu cases, %ld failed, %ld without a driver; seed %llu\n", ended, cases.size(), failed,
              skipped, static_cast<unsigned long long>(options.seed));
  if (skipped == ended) return no_driver;
  return failed == 0 ? 0 : 1;
}

int run(int count, char** words) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Options options;
  std::optional<Case> one;
  std::uint64_t seed = 0;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto next = [&] { return std::string(i + 1 < count ? words[++i] : ""); };
    if (word == "--processes")
      options.processes = std::atol(next().c_str());
    else if (word == "--parallel")
      options.parallel = std::atol(next().c_str());
    else if (word == "--match")
      options.match = next();
    else if (word == "--dir")
      options.directory = next();
    else if (word == "--seed")
      options.seed = std::strtoull(next().c_str(), nullptr, 10);
    else if (word == "--one") {
      one = case_of(next());
      seed = std::strtoull(next().c_str(), nullptr, 10);
    } else {
      std::printf("first_use knows no %s; its first lines tell what it takes\n", word.c_str());
      return 2;
    }
  }
  if (!one) return play_all(options, words[0]);
  alarm(120);  // only a hang gets there, and the signal ends it
  return play(*one, seed, options.directory);
}

}  // namespace
}  // namespace sluice::first_use

int main(int count, char** words) {
  return sluice::first_use::run(count, words);
}
