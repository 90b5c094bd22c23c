// SPDX-License-Identifier: Apache-2.0
// Vectored calls whose file fails or comes short somewhere in the middle: the count is a prefix in the order of the
// parts, what lies in front of it is exact, and nothing behind it was touched.
#include <gtest/gtest.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fault/interpose.h"
#include "support/calls.h"
#include "support/memory.h"
#include "support/random.h"
#include "support/scratch.h"

namespace sluice::fault::vector_faults_test {
namespace {

using namespace support;

constexpr std::size_t kParts = 48;
constexpr std::size_t kTotal = kParts * 8192;
constexpr std::size_t kFileSize = kTotal + 8192;

// Parts of one size in one allocation, an untouched page between two of them.
struct Parts {
  explicit Parts(MemoryKind kind) : memory(kind, kParts * 12288) {
    memory.fill(0xee);
    for (std::size_t i = 0; i < kParts; ++i) vector.push_back({memory.at(i * 12288), 8192});
  }
  Bytes joined() const {
    const Bytes all = memory.get();
    Bytes parts;
    for (std::size_t i = 0; i < kParts; ++i) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * 12288);
      parts.insert(parts.end(), begin, begin + 8192);
      EXPECT_TRUE(all_bytes(0xee, {&*begin + 8192, 4096})) << "behind part " << i;
    }
    return parts;
  }
  void put(const Bytes& bytes) const {
    for (std::size_t i = 0; i < kParts; ++i) memory.put(i * 12288, {bytes.data() + i * 8192, 8192});
  }
  Memory memory;
  std::vector<CUfileIOVec_t> vector;
};

class VectorFaults : public CufileTest {
 protected:
  static Transfer answer(ssize_t count) { return {count, count < 0 ? errno : 0}; }
  static std::vector<MemoryKind> kinds() {
    std::vector<MemoryKind> all{MemoryKind::plain};
    if (available(MemoryKind::device)) all.push_back(MemoryKind::device);
    return all;
  }
  static std::string name(MemoryKind kind, int flags, std::size_t passes) {
    return std::string(name_of(kind)) + ((flags & O_DIRECT) != 0 ? ", O_DIRECT" : ", buffered") + ", " +
           std::to_string(passes) + " calls pass";
  }
};

std::vector<Step> after(std::size_t passes, Step last) {
  std::vector<Step> steps(passes, pass());
  steps.push_back(last);
  return steps;
}

TEST_F(VectorFaults, AReadEndsInFrontOfTheErrorAndTouchesNothingBehind) {
  for (const MemoryKind kind : kinds()) {
    for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) {
      for (const std::size_t passes : {0U, 1U, 5U, 20U}) {
        SCOPED_TRACE(name(kind, flags, passes));
        const ScratchFile file(kFileSize);
        const Fd fd = file.open(flags);
        const Handle handle(fd);
        const Parts parts(kind);
        const Plan plan(fd.get(), Direction::read, after(passes, fail(EIO)));
        const Transfer got = answer(cuFileReadv(handle.get(), parts.vector.data(), kParts, 4096, 0));
        const std::size_t count = got.count < 0 ? 0 : static_cast<std::size_t>(got.count);
        if (got.count <= 0) {
          EXPECT_EQ(got, failed(EIO));
        }
        ASSERT_LE(count, kTotal);
        const Bytes found = parts.joined();
        EXPECT_TRUE(same_bytes({file.content().data() + 4096, count}, {found.data(), count}));
        EXPECT_TRUE(all_bytes(0xee, std::span(found).subspan(count))) << count;
      }
    }
  }
}

// EIO that does not stay is not the storage's (collisions_test.cpp).
TEST_F(VectorFaults, AReadThatMeetsEioOnceIsWhole) {
  for (const MemoryKind kind : kinds()) {
    for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) {
      for (const std::size_t passes : {0U, 1U, 2U, 5U}) {
        SCOPED_TRACE(name(kind, flags, passes));
        const ScratchFile file(kFileSize);
        const Fd fd = file.open(flags);
        const Handle handle(fd);
        const Parts parts(kind);
        std::vector<Step> steps = after(passes, fail(EIO));
        steps.push_back(pass());
        const Plan plan(fd.get(), Direction::read, steps);
        EXPECT_EQ(answer(cuFileReadv(handle.get(), parts.vector.data(), kParts, 4096, 0)), moved(kTotal));
        EXPECT_TRUE(same_bytes({file.content().data() + 4096, kTotal}, parts.joined()));
      }
    }
  }
}

TEST_F(VectorFaults, AReadOfShortAnswersIsWhole) {
  for (const MemoryKind kind : kinds()) {
    for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) {
      SCOPED_TRACE(name(kind, flags, 0));
      const ScratchFile file(kFileSize);
      const Fd fd = file.open(flags);
      const Handle handle(fd);
      const Parts parts(kind);
      const Plan plan(fd.get(), Direction::read, {shorten(5000)});
      EXPECT_EQ(answer(cuFileReadv(handle.get(), parts.vector.data(), kParts, 4096, 0)), moved(kTotal));
      EXPECT_TRUE(same_bytes({file.content().data() + 4096, kTotal}, parts.joined()));
    }
  }
}

TEST_F(VectorFaults, AWriteOfShortAnswersIsWhole) {
  for (const MemoryKind kind : kinds()) {
    for (const int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
      SCOPED_TRACE(name(kind, flags, 0));
      const ScratchFile file(kFileSize);
      const Fd fd = file.open(flags);
      const Handle handle(fd);
      const Parts parts(kind);
      const Bytes bytes = random_bytes(kTotal, 3);
      parts.put(bytes);
      {
        const Plan plan(fd.get(), Direction::write, {shorten(5000)});
        EXPECT_EQ(answer(cuFileWritev(handle.get(), parts.vector.data(), kParts, 4096, 0)), moved(kTotal));
      }
      Bytes expected = file.content();
      std::copy(bytes.begin(), bytes.end(), expected.begin() + 4096);
      EXPECT_TRUE(same_bytes(expected, content_of(file.path())));
    }
  }
}

TEST_F(VectorFaults, ABufferedWriteEndsInFrontOfTheErrorAndWritesNothingBehind) {
  for (const MemoryKind kind : kinds()) {
    for (const std::size_t passes : {0U, 1U, 2U}) {
      SCOPED_TRACE(name(kind, O_RDWR, passes));
      const ScratchFile file(kFileSize);
      const Fd fd = file.open(O_RDWR);
      const Handle handle(fd);
      const Parts parts(kind);
      const Bytes bytes = random_bytes(kTotal, 5);
      parts.put(bytes);
      Transfer got;
      {
        // Some of it, then no room: what is asked for behind that would find some again.
        std::vector<Step> steps(passes, shorten(20000));
        steps.push_back(fail(ENOSPC));
        steps.push_back(pass());
        const Plan plan(fd.get(), Direction::write, steps);
        got = answer(cuFileWritev(handle.get(), parts.vector.data(), kParts, 4096, 0));
      }
      if (got.count <= 0) {
        EXPECT_EQ(got, failed(ENOSPC));
      }
      const std::size_t count = got.count < 0 ? 0 : static_cast<std::size_t>(got.count);
      ASSERT_LT(count, kTotal);
      Bytes expected = file.content();
      std::copy_n(bytes.begin(), count, expected.begin() + 4096);
      EXPECT_TRUE(same_bytes(expected, content_of(file.path())));
    }
  }
}

}  // namespace
}  // namespace sluice::fault::vector_faults_test
