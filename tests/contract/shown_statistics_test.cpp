// SPDX-License-Identifier: Apache-2.0
// What a process shows of its statistics to others (sluice_stats.h): when, whose, and what it costs the process. Each
// test is a child: a process shows its statistics from the first start of them on.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "contract/life/child.h"
#include "sluice_stats.h"
#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;
using life::in_child;

constexpr std::size_t kSize = 65536;

// Descriptors of memory with the name of the statistics.
std::vector<int> shown_descriptors() {
  std::vector<int> found;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    std::array<char, 256> target{};
    const ssize_t length =
        readlink((std::string("/proc/self/fd/") + entry->d_name).c_str(), target.data(), target.size());
    const std::string text(target.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    if (text == "/memfd:" SLUICE_STATS_NAME " (deleted)") found.push_back(std::atoi(entry->d_name));
  }
  closedir(folder);
  return found;
}

// What a look from outside finds; throws when there is nothing, or two of it.
sluice_stats_region look() {
  const std::vector<int> descriptors = shown_descriptors();
  if (descriptors.size() != 1) throw std::runtime_error(std::to_string(descriptors.size()) + " descriptors");
  void* const memory = mmap(nullptr, sizeof(sluice_stats_region), PROT_READ, MAP_SHARED, descriptors.front(), 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no mapping");
  sluice_stats_region copy;
  std::memcpy(&copy, memory, sizeof copy);
  munmap(memory, sizeof copy);
  if (copy.head.magic != SLUICE_STATS_MAGIC || copy.head.version != SLUICE_STATS_BASE_VERSION ||
      copy.head.extent_size != sizeof copy || copy.head.pid != static_cast<std::uint64_t>(getpid())) {
    throw std::runtime_error("another head");
  }
  return copy;
}

struct Seen {
  std::uint64_t reads = 0, errors = 0, bytes = 0, sized = 0, by_way = 0, registered = 0;
  bool operator==(const Seen&) const = default;
};

Seen sum(const sluice_stats_region& region) {
  Seen seen;
  for (const sluice_stats_shard& shard : region.shards) {
    const sluice_stats_direction& reads = shard.directions[0];
    seen.reads += reads.operations.ok;
    seen.errors += reads.operations.err;
    seen.bytes += reads.bytes;
    for (const std::uint64_t count : reads.sizes) seen.sized += count;
    seen.by_way += shard.ways[SLUICE_PATH_POSIX][SLUICE_REASON_HOST_MEMORY].reads;
    seen.registered += shard.operations[SLUICE_STATS_HANDLE_REGISTER].ok;
  }
  return seen;
}

std::string text_of(const Seen& seen) {
  return std::to_string(seen.reads) + " reads, " + std::to_string(seen.errors) + " errors, " +
         std::to_string(seen.bytes) + " bytes, " + std::to_string(seen.sized) + " sizes, " +
         std::to_string(seen.by_way) + " by their way, " + std::to_string(seen.registered) + " registrations";
}

// Empty when the statistics show this.
std::string expect(const Seen& expected) {
  const Seen seen = sum(look());
  return seen == expected ? "" : text_of(seen) + ", not " + text_of(expected) + "; ";
}

// What there is to complain of, one after the other: operands of + come in no order.
std::string all(std::initializer_list<std::string> complaints) {
  std::string text;
  for (const std::string& complaint : complaints) text += complaint;
  return text;
}

std::string open_at(int level) {
  if (code(cuFileSetStatsLevel(level)) != CU_FILE_SUCCESS) return "no level; ";
  return code(cuFileDriverOpen()) == CU_FILE_SUCCESS ? "" : "no driver; ";
}

class ShownStatistics : public CufileTest {
 protected:
  // `count` whole reads into host memory.
  static std::string read(CUfileHandle_t handle, int count) {
    const Memory memory(MemoryKind::plain, kSize);
    for (int i = 0; i < count; ++i) {
      if (read_file(handle, memory.address(), kSize) != moved(kSize)) return "a read failed; ";
    }
    return "";
  }
  // What `count` such reads by a process that has registered so many handles make.
  static Seen whole_reads(std::uint64_t count, std::uint64_t registered) {
    return {count, 0, count * kSize, count, count, registered};
  }

  // Opens at level 3 and reads once, where `obstacle` has been laid; nothing may be shown, all else has to work.
  std::string works_unseen(const std::function<std::string()>& obstacle) const {
    const Fd fd = file_.open(O_RDONLY);
    std::string complaints = all({obstacle(), open_at(3)});
    {
      const Handle handle(fd);
      complaints += read(handle.get(), 1);
    }
    CUfileStatsLevel1_t stats{};
    if (code(cuFileGetStatsL1(&stats)) != CU_FILE_SUCCESS || stats.read_ops.ok != 1) complaints += "not counted; ";
    return complaints + (shown_descriptors().empty() ? "" : "shown; ");
  }

  const ScratchFile file_{kSize};
};

TEST_F(ShownStatistics, AreNotThereAtLevel0) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(0);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              complaints += read(handle.get(), 1);
              return complaints + (shown_descriptors().empty() ? "" : "shown");
            }),
            "");
}

TEST_F(ShownStatistics, HoldWhatTheProcessDid) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(3);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              complaints += all({read(handle.get(), 3), expect(whole_reads(3, 1))});
              const Memory memory(MemoryKind::plain, 100);
              if (read_file(handle.get(), nullptr, 100) != failed(EINVAL)) complaints += "null was read; ";
              if (read_file(handle.get(), memory.address(), 100) != moved(100)) complaints += "no short read; ";
              complaints += expect({4, 1, 3 * kSize + 100, 4, 4, 1});
              if (look().head.level != 3 || look().head.started_at == 0) complaints += "not running at level 3";
              return complaints;
            }),
            "");
}

TEST_F(ShownStatistics, AreThereFromTheStartOnAndZeroAfterAReset) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(0);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              complaints += read(handle.get(), 2);
              cuFileSetStatsLevel(1);
              cuFileStatsStart();
              complaints += all({expect({}), read(handle.get(), 1), expect(whole_reads(1, 0))});
              cuFileStatsStop();
              complaints += all({read(handle.get(), 1), expect(whole_reads(1, 0))});
              if (look().head.started_at != 0 || look().head.ran == 0) complaints += "still running; ";
              cuFileStatsReset();
              return complaints + expect({}) + (look().head.ran == 0 ? "" : "a time after a reset");
            }),
            "");
}

TEST_F(ShownStatistics, StayTheSameWhenTheDriverOpensAgain) {
  EXPECT_EQ(in_child([&] {
              std::string complaints;
              const Fd fd = file_.open(O_RDONLY);
              for (std::uint64_t life = 1; life <= 3; ++life) {
                complaints += open_at(2);
                {
                  const Handle handle(fd);
                  complaints += read(handle.get(), 1);
                }
                complaints += expect(whole_reads(life, life));
                cuFileDriverClose();
              }
              return complaints;
            }),
            "");
}

TEST_F(ShownStatistics, CountEveryTransferOfManyThreads) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(3);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              constexpr int thread_count = 12;
              constexpr int reads = 100;
              std::vector<std::thread> threads;
              for (int i = 0; i < thread_count; ++i) {
                threads.emplace_back([&handle] {
                  if (!read(handle.get(), reads).empty()) std::abort();
                });
              }
              // Looking goes on beside it.
              while (sum(look()).reads < thread_count * reads / 2) std::this_thread::yield();
              for (std::thread& thread : threads) thread.join();
              return complaints + expect(whole_reads(thread_count * reads, 1));
            }),
            "");
}

TEST_F(ShownStatistics, MayBeStartedWhileOthersReadAndLookAtThem) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(0);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              std::vector<std::thread> threads;
              for (int i = 0; i < 4; ++i) {
                threads.emplace_back([&handle] {
                  if (!read(handle.get(), 300).empty()) std::abort();
                });
              }
              cuFileSetStatsLevel(1);
              cuFileStatsStart();
              CUfileStatsLevel1_t stats{};
              cuFileGetStatsL1(&stats);
              for (std::thread& thread : threads) thread.join();
              cuFileGetStatsL1(&stats);
              const Seen seen = sum(look());
              if (seen.reads != stats.read_ops.ok || seen.bytes != stats.read_bytes) complaints += text_of(seen);
              return complaints;
            }),
            "");
}

// As the header of version 4 had it, for readers that were built with that one.
namespace version4 {
struct Pair {
  std::uint64_t ok, err;
};
struct Direction {
  Pair operations;
  std::uint64_t bytes, nanoseconds, batch_bytes, sizes[32];
};
struct Shard {
  Direction directions[2];
  struct {
    Pair operations;
    std::uint64_t bytes, nanoseconds;
  } vectored[2];
  Pair operations[10], batch_processed, batch_processed_by_drive;
  struct {
    std::uint64_t directions[2][6], registrations, deregistrations;
  } devices[16];
  std::uint64_t ways[4][24][5], carriers[9], room[5];
};
struct Region {
  std::uint64_t magic;
  std::uint32_t version, size;
  std::uint64_t pid;
  char library[32];
  std::uint64_t level, started_at, ran, last_batch_bytes[2];
  struct {
    std::uint64_t registered_bytes, uuid[2];
  } devices[16];
  std::uint64_t room[4];
  Shard shards[8];
};
}  // namespace version4

TEST_F(ShownStatistics, AreReadByReadersOfVersion4AsEver) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(3);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              complaints += read(handle.get(), 3);
              void* const memory =
                  mmap(nullptr, sizeof(version4::Region), PROT_READ, MAP_SHARED, shown_descriptors().at(0), 0);
              if (memory == MAP_FAILED) return std::string("no mapping");
              const auto& old = *static_cast<const version4::Region*>(memory);
              if (old.magic != SLUICE_STATS_MAGIC || old.version != 4 || old.size != sizeof old ||
                  old.pid != static_cast<std::uint64_t>(getpid()) || old.level != 3 || old.started_at == 0) {
                complaints += "another head; ";
              }
              std::uint64_t reads = 0, bytes = 0, sized = 0, by_way = 0, registered = 0;
              for (const version4::Shard& shard : old.shards) {
                reads += shard.directions[0].operations.ok;
                bytes += shard.directions[0].bytes;
                sized += shard.directions[0].sizes[5];
                by_way += shard.ways[0][0][0];
                registered += shard.operations[0].ok;
              }
              if (reads != 3 || bytes != 3 * kSize || sized != 3 || by_way != 3 || registered != 1) {
                complaints += "another sum; ";
              }
              return complaints;
            }),
            "");
}

TEST_F(ShownStatistics, TellLatenciesOfEachTransferAndWhatIsRegistered) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(1);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              complaints += read(handle.get(), 5);
              std::uint64_t timed = 0;
              for (const sluice_stats_latencies& shard : look().latencies) {
                for (const std::uint64_t count : shard.counts[0][SLUICE_PATH_POSIX][3]) timed += count;
              }
              if (timed != 5) complaints += std::to_string(timed) + " latencies; ";
              std::uint64_t under_way = 0;
              for (const sluice_stats_flow& flow : look().flows) under_way += flow.under_way[0];
              if (under_way != 0) complaints += "something is under way; ";
              const Memory memory(MemoryKind::plain, kSize);
              cuFileBufRegister(memory.address(), kSize, 0);
              if (look().head.registered_host_bytes != kSize) complaints += "not registered; ";
              cuFileBufDeregister(memory.address());
              return complaints + (look().head.registered_host_bytes == 0 ? "" : "still registered");
            }),
            "");
}

TEST_F(ShownStatistics, CannotBeChangedFromOutside) {
  EXPECT_EQ(in_child([] {
              std::string complaints = open_at(1);
              const int fd = shown_descriptors().at(0);
              const Fd again(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
              const char byte = 1;
              if (pwrite(again.get(), &byte, 1, 0) >= 0 || errno != EPERM) complaints += "written; ";
              if (ftruncate(again.get(), 0) == 0 || ftruncate(again.get(), 1 << 20) == 0) complaints += "resized; ";
              if (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0) != MAP_FAILED) {
                complaints += "mapped for writing; ";
              }
              if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) complaints += "kept over exec";
              return complaints;
            }),
            "");
}

TEST_F(ShownStatistics, LeaveTheLowDescriptorsToTheProgram) {
  EXPECT_EQ(in_child([] {
              close(STDIN_FILENO);
              std::string complaints = open_at(1);
              if (shown_descriptors().at(0) < 10) complaints += "a low number; ";
              const Fd lowest(open("/dev/null", O_RDONLY | O_CLOEXEC));
              return complaints + (lowest.get() == STDIN_FILENO ? "" : "0 is taken");
            }),
            "");
}

TEST_F(ShownStatistics, OfAForkedChildAreItsOwn) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(3);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              complaints += read(handle.get(), 3);
              complaints += in_child([&] {
                std::string wrong = all({expect({}), read(handle.get(), 2), expect(whole_reads(2, 0))});
                CUfileStatsLevel1_t stats{};
                cuFileGetStatsL1(&stats);
                if (stats.read_ops.ok != 2) wrong += std::to_string(stats.read_ops.ok) + " by the API; ";
                if (look().head.level != 3) wrong += "another level; ";
                return wrong;
              });
              return complaints + expect(whole_reads(3, 1));
            }),
            "");
}

TEST_F(ShownStatistics, OfAForkedChildLeaveItsDescriptorsAlone) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(3);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              // Closed by a program that closes all it does not know, and used again.
              const int number = shown_descriptors().at(0);
              if (dup2(fd.get(), number) != number) return std::string("no descriptor");
              return complaints + in_child([&] {
                       struct stat here {};
                       struct stat there {};
                       fstat(fd.get(), &here);
                       if (fstat(number, &there) != 0 || here.st_ino != there.st_ino) return std::string("closed");
                       return all({read(handle.get(), 1), expect(whole_reads(1, 0))});
                     });
            }),
            "");
}

TEST_F(ShownStatistics, OfAForkedChildWithoutRoomAreCountedNowhereElse) {
  EXPECT_EQ(in_child([&] {
              std::string complaints = open_at(3);
              const Fd fd = file_.open(O_RDONLY);
              const Handle handle(fd);
              rlimit before{};
              getrlimit(RLIMIT_FSIZE, &before);
              rlimit none = before;
              none.rlim_cur = 4096;
              setrlimit(RLIMIT_FSIZE, &none);
              complaints += in_child([&] {
                std::string wrong = read(handle.get(), 2);
                CUfileStatsLevel1_t stats{};
                cuFileGetStatsL1(&stats);
                if (stats.read_ops.ok != 2) wrong += std::to_string(stats.read_ops.ok) + " by the API; ";
                return wrong + (shown_descriptors().empty() ? "" : "shown");
              });
              setrlimit(RLIMIT_FSIZE, &before);
              return complaints + expect(whole_reads(0, 1));
            }),
            "");
}

TEST_F(ShownStatistics, ArePrivateWhereFilesMayNotGrow) {
  EXPECT_EQ(in_child([&] {
              return works_unseen([] {
                const rlimit small{4096, 4096};
                return std::string(setrlimit(RLIMIT_FSIZE, &small) == 0 ? "" : "no limit; ");
              });
            }),
            "");
}

TEST_F(ShownStatistics, ArePrivateInASandboxWithoutMemfds) {
  EXPECT_EQ(in_child([&] {
              return works_unseen([] {
                std::array filter = {sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
                                     sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                     sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
                const sock_fprog program{filter.size(), filter.data()};
                const bool done = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                                  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
                return std::string(done ? "" : "no filter; ");
              });
            }),
            "");
}

}  // namespace
}  // namespace sluice::contract
