// SPDX-License-Identifier: Apache-2.0
// Whole spans on real files, private descriptions, and copies that survive bad addresses.
#include "io/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "io/private_files.h"
#include "staging/bounce_buffer.h"
#include "transfer/host_copy.h"

namespace sluice::io {
namespace {

using base::FileOffset;
using base::Outcome;
using base::UniqueFd;

std::span<std::byte> bytes_of(std::vector<char>& text) {
  return std::as_writable_bytes(std::span<char>(text));
}

struct Scratch {
  Scratch() : path(testing::TempDir() + "sluice-engine-XXXXXX"), fd(::mkstemp(path.data())) {}
  ~Scratch() { ::unlink(path.c_str()); }
  std::string path;
  UniqueFd fd;
  PrivateFile private_file() const {
    struct stat status {};
    ::fstat(fd.get(), &status);
    return PrivateFile(fd.get(), status.st_dev, status.st_ino, 0);
  }
};

TEST(Spans, AreReadUpToTheEndOfTheFile) {
  const Scratch file;
  std::vector<char> out(5000, 'x');
  EXPECT_EQ(write_span(file.fd.get(), bytes_of(out), FileOffset{100}, 1), Outcome::bytes(5000));
  std::vector<char> in(10000, '.');
  EXPECT_EQ(read_span(file.fd.get(), bytes_of(in), FileOffset{200}, 1), Outcome::bytes(4900));
  EXPECT_EQ(std::count(in.begin(), in.end(), 'x'), 4900);
  EXPECT_EQ(read_span(file.fd.get(), bytes_of(in), FileOffset{5100}, 1), Outcome::bytes(0));
}

TEST(Spans, AnswerWithTheSystemsCause) {
  const Scratch file;
  const UniqueFd read_only(::open(file.path.c_str(), O_RDONLY));
  std::vector<char> text(10);
  EXPECT_EQ(write_span(read_only.get(), bytes_of(text), FileOffset{0}, 1), Outcome::system_error(EBADF));
  EXPECT_EQ(read_span(-1, bytes_of(text), FileOffset{0}, 1), Outcome::system_error(EBADF));
}

// Three spans, of 5, 3 and 4 bytes.
class SeveralSpans : public ::testing::Test {
 protected:
  SeveralSpans() : spans_{bytes_of(one_), bytes_of(two_), bytes_of(three_)} {}

  // What write_rest() writes to where, and what it answers when the writer takes `most` bytes a call, in all so many
  // calls and then refuses.
  Outcome rest_behind(std::uint64_t taken, std::uint32_t block = 1, std::size_t most = 99, int calls = 99) {
    calls_.clear();
    return write_rest(spans_, FileOffset{1000}, block, taken, [&](auto bytes, FileOffset at) {
      if (calls-- == 0) return Outcome::system_error(EIO);
      calls_.push_back({at.value, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
      return Outcome::bytes(std::min(most, bytes.size()));
    });
  }

  using Calls = std::vector<std::pair<std::uint64_t, std::string>>;
  Calls calls_;
  std::vector<char> one_{'a', 'b', 'c', 'd', 'e'};
  std::vector<char> two_{'f', 'g', 'h'};
  std::vector<char> three_{'i', 'j', 'k', 'l'};
  std::array<std::span<const std::byte>, 3> spans_;
};

TEST_F(SeveralSpans, AreWrittenWithOneCall) {
  const Scratch file;
  EXPECT_EQ(write_together(file.fd.get(), spans_, FileOffset{2}), Outcome::bytes(12));
  std::vector<char> in(20, '.');
  EXPECT_EQ(read_span(file.fd.get(), bytes_of(in), FileOffset{2}, 1), Outcome::bytes(12));
  EXPECT_EQ(std::string(in.data(), 12), "abcdefghijkl");
}

TEST_F(SeveralSpans, AnswerWithTheSystemsCause) {
  const Scratch file;
  const UniqueFd read_only(::open(file.path.c_str(), O_RDONLY));
  EXPECT_EQ(write_together(read_only.get(), spans_, FileOffset{0}), Outcome::system_error(EBADF));
}

TEST_F(SeveralSpans, AreNotTakenWhereTheyHaveToBeWrittenAnotherWay) {
  const Scratch file;
  const UniqueFd direct(::open(file.path.c_str(), O_WRONLY | O_DIRECT));
  if (direct.get() < 0) GTEST_SKIP() << "no O_DIRECT on the file system of " << file.path;
  EXPECT_EQ(write_together(direct.get(), spans_, FileOffset{0}), Outcome::bytes(0));
}

TEST_F(SeveralSpans, GoOnBehindWhatIsTaken) {
  EXPECT_EQ(rest_behind(0), Outcome::bytes(12));
  EXPECT_EQ(calls_, (Calls{{1000, "abcde"}, {1005, "fgh"}, {1008, "ijkl"}}));
  EXPECT_EQ(rest_behind(6), Outcome::bytes(12));
  EXPECT_EQ(calls_, (Calls{{1006, "gh"}, {1008, "ijkl"}}));
  EXPECT_EQ(rest_behind(12), Outcome::bytes(12));
  EXPECT_EQ(calls_, Calls{});
}

TEST_F(SeveralSpans, GoOnWithTheWholeBlock) {
  EXPECT_EQ(rest_behind(11, 2), Outcome::bytes(12));
  EXPECT_EQ(calls_, (Calls{{1010, "kl"}}));
}

TEST_F(SeveralSpans, EndWhereOneComesShort) {
  EXPECT_EQ(rest_behind(5, 1, 2), Outcome::bytes(7));
  EXPECT_EQ(calls_, (Calls{{1005, "fgh"}}));
}

TEST_F(SeveralSpans, TellARefusalOnlyWhereNothingIsWritten) {
  EXPECT_EQ(rest_behind(0, 1, 99, 0), Outcome::system_error(EIO));
  EXPECT_EQ(rest_behind(0, 1, 99, 1), Outcome::bytes(5));
  EXPECT_EQ(rest_behind(7, 1, 99, 0), Outcome::bytes(7));
  EXPECT_EQ(rest_behind(11, 2, 1, 99), Outcome::bytes(11)) << "a block that is written again does not count twice";
}

TEST(PrivateFiles, ReadAndWriteTheCallersFile) {
  const Scratch file;
  PrivateFile private_file = file.private_file();
  std::vector<char> out(3, 'y');
  EXPECT_EQ(private_file.write(bytes_of(out), FileOffset{10}), Outcome::bytes(3));
  std::vector<char> in(20, '.');
  EXPECT_EQ(private_file.read(bytes_of(in), FileOffset{0}), Outcome::bytes(13));
  EXPECT_EQ(in[12], 'y');
}

TEST(PrivateFiles, ServeManyThreadsAtOnce) {
  const Scratch file;
  PrivateFile private_file = file.private_file();
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'a' + 8; ++c) {
    writers.emplace_back([&, c] {
      std::vector<char> mine(1, c);
      for (std::uint64_t i = 0; i < 100; ++i) {
        EXPECT_EQ(private_file.write(bytes_of(mine), FileOffset{i * 8 + static_cast<std::uint64_t>(c - 'a')}),
                  Outcome::bytes(1));
      }
    });
  }
  for (auto& writer : writers) writer.join();
  std::vector<char> in(800);
  EXPECT_EQ(private_file.read(bytes_of(in), FileOffset{0}), Outcome::bytes(800));
  for (std::size_t i = 0; i < 800; ++i) ASSERT_EQ(in[i], static_cast<char>('a' + i % 8));
}

TEST(PrivateFiles, KeepTheProcessesRecordLocks) {
  const Scratch file;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 100;
  ASSERT_EQ(::fcntl(file.fd.get(), F_SETLK, &lock), 0);
  {
    PrivateFile private_file = file.private_file();
    std::vector<char> out(3, 'y');
    ASSERT_EQ(private_file.write(bytes_of(out), FileOffset{10}), Outcome::bytes(3));
  }
  // Only another process sees our locks.
  const pid_t child = ::fork();
  if (child == 0) {
    const UniqueFd other(::open(file.path.c_str(), O_RDWR));
    struct flock seen = lock;
    ::fcntl(other.get(), F_GETLK, &seen);
    ::_exit(seen.l_type == F_WRLCK ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the lock is gone";
}

TEST(PrivateFiles, LeaveAnotherFileThatGotTheNumberAlone) {
  const Scratch file;
  const Scratch other;
  PrivateFile private_file = file.private_file();
  ASSERT_GE(::dup2(other.fd.get(), file.fd.get()), 0);
  std::vector<char> out(3, 'y');
  // It is not opened again, nor used with its flags changed.
  EXPECT_EQ(private_file.write(bytes_of(out), FileOffset{0}), Outcome::system_error(EBADF));
  EXPECT_EQ(private_file.read(bytes_of(out), FileOffset{0}), Outcome::system_error(EBADF));
  for (const Scratch* const each : {&file, &other}) {
    struct stat status {};
    ASSERT_EQ(::stat(each->path.c_str(), &status), 0);
    EXPECT_EQ(status.st_size, 0);
  }
}

TEST(HostCopies, AnswerBadAddressesInsteadOfCrashing) {
  void* const hole = ::mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  std::array<std::byte, 64> ours{};
  const auto address = reinterpret_cast<std::uint64_t>(hole);
  EXPECT_EQ(transfer::copy_to_caller(address, ours), Outcome::system_error(EFAULT));
  EXPECT_EQ(transfer::copy_from_caller(ours, address), Outcome::system_error(EFAULT));
  ::munmap(hole, 8192);
}

TEST(HostCopies, CopyBothWays) {
  std::vector<char> theirs(100000, 'a');
  std::vector<char> ours(100000, 'b');
  const auto address = reinterpret_cast<std::uint64_t>(theirs.data());
  EXPECT_EQ(transfer::copy_to_caller(address, bytes_of(ours)), Outcome::bytes(100000));
  EXPECT_EQ(theirs, ours);
  theirs.assign(theirs.size(), 'c');
  EXPECT_EQ(transfer::copy_from_caller(bytes_of(ours), address), Outcome::bytes(100000));
  EXPECT_EQ(theirs, ours);
}

TEST(Slabs, AreReusedByTheirThreadAndByThoseThatFollow) {
  const auto exist = [] { return staging::bounce_buffer_counts().buffers; };
  { const staging::BounceBuffer warm = staging::BounceBuffer::take(); }
  const std::size_t before = exist();
  for (int i = 0; i < 100; ++i) {
    const staging::BounceBuffer slab = staging::BounceBuffer::take();
    ASSERT_TRUE(slab);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab.bytes().data()) % 4096, 0u);
    EXPECT_EQ(slab.bytes().size(), staging::bounce_buffer_bytes);
  }
  EXPECT_EQ(exist(), before);
  for (int i = 0; i < 20; ++i)
    std::thread([] { const staging::BounceBuffer slab = staging::BounceBuffer::take(); }).join();
  EXPECT_LE(exist(), before + 1) << "threads that follow each other share";
}

TEST(Slabs, TwoAtOnceAreDifferent) {
  const staging::BounceBuffer first = staging::BounceBuffer::take();
  const staging::BounceBuffer second = staging::BounceBuffer::take();
  EXPECT_NE(first.bytes().data(), second.bytes().data());
}

}  // namespace
}  // namespace sluice::io
