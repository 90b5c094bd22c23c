// SPDX-License-Identifier: Apache-2.0
// Stretches through a ring: every way of completion, the edges of its depth, the end of the file, refusals, and a child
// of fork.
#include "io/direct_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"

namespace sluice::io {
namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;
using base::UniqueFd;

constexpr std::size_t block = 4096;
constexpr std::size_t mebibyte = std::size_t{1} << 20;

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

// Page-aligned, as O_DIRECT wants it.
class Pages {
 public:
  explicit Pages(std::size_t size) : bytes_(static_cast<std::byte*>(std::aligned_alloc(block, size))), size_(size) {
    fill(std::byte{0});
  }
  std::span<std::byte> all() const { return {bytes_.get(), size_}; }
  void fill(std::byte value) const { std::fill(all().begin(), all().end(), value); }
  void randomise(unsigned seed) const {
    std::minstd_rand random(seed);
    for (std::byte& byte : all()) byte = static_cast<std::byte>(random());
  }
  friend bool operator==(const Pages& one, const Pages& two) {
    return std::equal(one.all().begin(), one.all().end(), two.all().begin(), two.all().end());
  }

 private:
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_;
};

class DirectIo : public ::testing::TestWithParam<CompletionMode> {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "sluice-direct-XXXXXX";
    const UniqueFd made(::mkstemp(path_.data()));
    fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    if (!fd_) GTEST_SKIP() << "files here take no O_DIRECT";
  }
  void TearDown() override { ::unlink(path_.c_str()); }

  DirectResult move(Direction direction, std::span<std::byte> memory, std::uint64_t at = 0) const {
    return move_direct({fd_.get(), FileOffset{at}, memory, block}, direction, GetParam());
  }

  std::string path_;
  UniqueFd fd_;
};

TEST_P(DirectIo, BringsBackWhatItWrote) {
  // A block; fewer chunks than the ring is deep, and more, with a last one that is not whole.
  for (const std::size_t size : {block, 3 * mebibyte, (Uring::depth * 2 + 1) * mebibyte + block}) {
    const Pages out(size);
    out.randomise(static_cast<unsigned>(size));
    ASSERT_EQ(move(Direction::write, out.all(), block).outcome, Outcome::bytes(size));
    const Pages in(size);
    ASSERT_EQ(move(Direction::read, in.all(), block).outcome, Outcome::bytes(size));
    EXPECT_TRUE(out == in) << size;
  }
}

TEST_P(DirectIo, StopsAtTheEndOfTheFile) {
  const std::size_t end = 2 * mebibyte + 100;
  ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(end)), 0);
  const Pages memory(8 * mebibyte);
  EXPECT_EQ(move(Direction::read, memory.all()).outcome, Outcome::bytes(end));
  EXPECT_EQ(move(Direction::read, memory.all(), 4 * mebibyte).outcome, Outcome::bytes(0));
}

TEST_P(DirectIo, AnswersTheSystemsRefusal) {
  const Pages memory(2 * mebibyte);
  ASSERT_EQ(::ftruncate(fd_.get(), mebibyte), 0);
  // Some file systems take memory from any address on.
  const Outcome ragged = move(Direction::read, memory.all().subspan(1, block)).outcome;
  EXPECT_TRUE(ragged == Outcome::system_error(EINVAL) || ragged == Outcome::bytes(block)) << ragged.value();
  const std::span<std::byte> nowhere(reinterpret_cast<std::byte*>(0x10000), block);
  EXPECT_EQ(move(Direction::read, nowhere).outcome, Outcome::system_error(EFAULT));
  const UniqueFd closed;
  EXPECT_EQ(move_direct({closed.get(), {}, memory.all(), block}, Direction::read, GetParam()).outcome,
            Outcome::system_error(EBADF));
}

TEST_P(DirectIo, WorksInEveryThread) {
  const Pages out(4 * mebibyte);
  out.randomise(1);
  ASSERT_EQ(move(Direction::write, out.all()).outcome, Outcome::bytes(4 * mebibyte));
  const Pages one(4 * mebibyte);
  const Pages two(4 * mebibyte);
  std::thread first([&] { move(Direction::read, one.all()); });
  std::thread second([&] { move(Direction::read, two.all()); });
  first.join();
  second.join();
  EXPECT_TRUE(out == one);
  EXPECT_TRUE(out == two);
}

TEST_P(DirectIo, WorksInAChildOfForkAndAfterwardsInItsParent) {
  const Pages out(mebibyte);
  out.randomise(2);
  ASSERT_EQ(move(Direction::write, out.all()).outcome, Outcome::bytes(mebibyte));
  const pid_t child = ::fork();
  if (child == 0) {
    rings_after_fork(true);
    const Pages in(mebibyte);
    const bool right = move(Direction::read, in.all()).outcome == Outcome::bytes(mebibyte) && in == out;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const Pages in(mebibyte);
  ASSERT_EQ(move(Direction::read, in.all()).outcome, Outcome::bytes(mebibyte));
  EXPECT_TRUE(in == out);
}

TEST_P(DirectIo, SaysThatItPolledOnlyWhereItWasAskedTo) {
  const Pages memory(block);
  const DirectResult result = move(Direction::write, memory.all());
  EXPECT_EQ(result.outcome, Outcome::bytes(block));
  if (GetParam() == CompletionMode::interrupt) {
    EXPECT_FALSE(result.polled);
  }
}

std::string name_of(const ::testing::TestParamInfo<CompletionMode>& completion) {
  constexpr std::array names{"ByInterrupt", "Polled", "PolledByTheKernel"};
  return names[static_cast<std::size_t>(completion.param)];
}

INSTANTIATE_TEST_SUITE_P(Uring, DirectIo,
                         ::testing::Values(CompletionMode::interrupt, CompletionMode::polled,
                                           CompletionMode::polled_by_kernel),
                         name_of);

TEST(Uring, IsNotLentTwiceToOneThread) {
  const Uring::Use outer = Uring::of_this_thread(CompletionMode::interrupt);
  if (!outer) GTEST_SKIP() << "this kernel or sandbox has no io_uring";
  EXPECT_FALSE(Uring::of_this_thread(CompletionMode::interrupt));
}

int open_rings() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) {
    std::array<char, 64> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), target.data(), target.size() - 1) > 0 &&
        std::string(target.data()).find("io_uring") != std::string::npos) {
      ++count;
    }
  }
  return count;
}

// Of the queues of all rings, those without a descriptor among them.
int mapped_queues() {
  int count = 0;
  std::ifstream mappings("/proc/self/maps");
  for (std::string line; std::getline(mappings, line);) {
    if (line.find("anon_inode:[io_uring]") != std::string::npos) ++count;
  }
  return count;
}

TEST(Uring, EndsWithItsThread) {
  const int open_before = open_rings();
  const int mapped_before = mapped_queues();
  std::thread([mapped_before] {
    const Uring::Use ring = Uring::of_this_thread(CompletionMode::interrupt);
    if (!ring) GTEST_SKIP() << "this kernel or sandbox has no io_uring";
    EXPECT_GT(mapped_queues(), mapped_before);
  }).join();
  EXPECT_EQ(open_rings(), open_before);
  EXPECT_EQ(mapped_queues(), mapped_before);
}

bool kernel_keeps_rings_by_number() {
  utsname names{};
  ::uname(&names);
  int major = 0;
  int minor = 0;
  std::sscanf(names.release, "%d.%d", &major, &minor);
  return major > 6 || (major == 6 && minor >= 3);
}

TEST(Uring, LeavesNoDescriptorThatTheProgramCouldClose) {
  if (!kernel_keeps_rings_by_number()) GTEST_SKIP() << "kernels before 6.3 want a descriptor";
  std::thread([] {
    const int before = open_rings();
    const Uring::Use ring = Uring::of_this_thread(CompletionMode::interrupt);
    if (!ring) GTEST_SKIP() << "this kernel or sandbox has no io_uring";
    EXPECT_EQ(open_rings(), before);
  }).join();
}

TEST(Uring, OfManyThreadsInTurnAllWork) {
  for (int turn = 0; turn < 40; ++turn) {
    std::thread([] {
      const Uring::Use ring = Uring::of_this_thread(CompletionMode::interrupt);
      if (!ring) GTEST_SKIP() << "this kernel or sandbox has no io_uring";
      (*ring).add({.fd = -1, .tag = 7});
      std::array<UringCompletion, Uring::depth> answers;
      ASSERT_EQ((*ring).wait(answers), 1);
      EXPECT_EQ(answers[0].tag, 7U);
      EXPECT_EQ(answers[0].result, -EBADF);
    }).join();
  }
}

// Two ends of it.
struct Pipe {
  Pipe() {
    int both[2] = {-1, -1};
    if (::pipe2(both, O_CLOEXEC) == 0) from = UniqueFd(both[0]), into = UniqueFd(both[1]);
  }
  void put(std::string_view text) const {
    ASSERT_EQ(::write(into.get(), text.data(), text.size()), ssize_t(text.size()));
  }
  UniqueFd from;
  UniqueFd into;
};

TEST(Uring, FillsSeveralPiecesWithOneRequest) {
  const Uring::Use ring = Uring::of_this_thread(CompletionMode::interrupt);
  if (!ring) GTEST_SKIP() << "this kernel or sandbox has no io_uring";
  const Pipe pipe;
  pipe.put("abcdefg");
  std::array<char, 3> first{};
  std::array<char, 8> second{};
  const std::array<iovec, 2> pieces{iovec{first.data(), first.size()}, iovec{second.data(), second.size()}};
  (*ring).add({.fd = pipe.from.get(), .vectors = pieces, .tag = 5});
  std::array<UringCompletion, Uring::depth> answers;
  ASSERT_EQ((*ring).wait(answers), 1);
  EXPECT_EQ(answers[0].tag, 5U);
  EXPECT_EQ(answers[0].result, 7);
  EXPECT_EQ(std::string_view(first.data(), 3), "abc");
  EXPECT_EQ(std::string_view(second.data(), 4), "defg");
}

// Looks for so long at a thread that it seems to sleep.
void wait_until_asleep(pid_t thread) {
  constexpr int most_looks = 20000;
  constexpr int asleep_enough = 200;
  for (int look = 0, asleep = 0; look < most_looks && asleep < asleep_enough; ++look) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(status, line);
    const std::size_t end_of_name = line.rfind(") ");
    const bool sleeps = end_of_name != std::string::npos && line.compare(end_of_name + 2, 1, "S") == 0;
    asleep = sleeps ? asleep + 1 : 0;
    std::this_thread::yield();
  }
}

TEST(Uring, AwaitsAsManyAnswersAsAreAskedFor) {
  const Uring::Use ring = Uring::of_this_thread(CompletionMode::interrupt);
  if (!ring) GTEST_SKIP() << "this kernel or sandbox has no io_uring";
  const std::array<Pipe, 2> pipes;
  std::array<std::array<std::byte, 8>, 2> bytes{};
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    (*ring).add({.fd = pipes[i].from.get(), .address = bytes[i].data(), .length = 8, .tag = i});
  }
  pipes[0].put("one");
  std::thread later([&pipes, waiter = ::gettid()] {
    wait_until_asleep(waiter);
    pipes[1].put("two");
  });
  std::array<UringCompletion, Uring::depth> answers;
  EXPECT_EQ((*ring).wait(answers, 2), 2);
  later.join();
}

TEST(Uring, GivesWhatThereIsAfterAWhile) {
  const Uring::Use ring = Uring::of_this_thread(CompletionMode::interrupt);
  if (!ring) GTEST_SKIP() << "this kernel or sandbox has no io_uring";
  const std::array<Pipe, 2> pipes;
  std::array<std::array<std::byte, 8>, 2> bytes{};
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    (*ring).add({.fd = pipes[i].from.get(), .address = bytes[i].data(), .length = 8, .tag = i});
  }
  std::array<UringCompletion, Uring::depth> answers;
  EXPECT_EQ((*ring).wait_a_while(answers, 1, std::chrono::microseconds(10)), 0);
  EXPECT_EQ((*ring).wait_a_while(answers, 1, std::chrono::microseconds(10)), 0) << "with nothing new to submit";
  pipes[1].put("two");
  EXPECT_EQ((*ring).wait_a_while(answers, 2, std::chrono::microseconds(10)), 1);
  EXPECT_EQ(answers[0].tag, 1U);
  EXPECT_EQ(answers[0].result, 3);
  pipes[0].put("one");
  EXPECT_EQ((*ring).wait(answers), 1);
  EXPECT_EQ(answers[0].tag, 0U);
}

}  // namespace
}  // namespace sluice::io
