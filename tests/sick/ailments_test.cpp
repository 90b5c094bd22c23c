// SPDX-License-Identifier: Apache-2.0
// Whatever ails the storage, a transfer ends with the right bytes or an error, and the next one of a healthy file is as
// good as ever.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <span>
#include <string>
#include <tuple>

#include "sick/ward.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::sick {
namespace {

using namespace support;

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Case {
  const char* name;
  Ailment ailment;
};
constexpr Case kCases[] = {{"Late", Ailment::late},
                           {"Brief", Ailment::brief},
                           {"Refusing", Ailment::refusing},
                           {"Lying", Ailment::lying},
                           {"Dying", Ailment::dying}};

using Parameters = std::tuple<Case, int>;

class Ailments : public DeviceTest, public ::testing::WithParamInterface<Parameters> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    const std::string why_not = Ward::why_not();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }

  static Ailment ailment() { return std::get<0>(GetParam()).ailment; }
  static int flags() { return std::get<1>(GetParam()); }
  // Answers that are true, if late or in pieces. The page cache takes a short one for the end of the file.
  static bool can_be_right() {
    return ailment() == Ailment::late || (ailment() == Ailment::brief && (flags() & O_DIRECT) != 0);
  }

  static void expect_right(const Memory& memory, std::size_t begin, ssize_t count, std::size_t at) {
    if (count <= 0) return;
    const Bytes found = memory.get(begin, static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], byte_at(at + i)) << "byte " << i << " of " << count;
  }
  static void expect_answer(ssize_t answer, std::size_t size) {
    if (ailment() == Ailment::late) {
      EXPECT_EQ(answer, static_cast<ssize_t>(size));
    } else {
      EXPECT_LE(answer, static_cast<ssize_t>(size));
    }
  }

  void expect_health() const {
    const Fd fd = healthy_.open(O_RDWR | O_DIRECT);
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, kMiB);
    EXPECT_EQ(read_file(handle.get(), memory.address(), kMiB), moved(kMiB));
    EXPECT_TRUE(same_bytes(healthy_.content(), memory.get()));
    EXPECT_EQ(write_file(handle.get(), memory.at(4095), 70'001, 4095), moved(70'001));
    EXPECT_TRUE(same_bytes(healthy_.content(), content_of(healthy_.path())));
  }

  const ScratchFile healthy_{kMiB};
};

TEST_P(Ailments, OfReadsEndWithTheRightBytesOrAnError) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::plain, MemoryKind::managed}) {
    for (const std::size_t size : {std::size_t{5'003}, std::size_t{90'001}, 3 * kMiB + 5}) {
      SCOPED_TRACE(::testing::Message() << size << " bytes of " << name_of(kind) << " memory");
      Ward ward;
      const Fd fd = ward.open(0, O_RDWR | flags());
      const Handle handle(fd);
      const Memory memory(kind, 4 * kMiB);
      ward.condition().reading[0] = ailment();
      constexpr std::size_t at = 12'345;
      const Transfer answer = read_file(handle.get(), memory.address(), size, at, 7);
      expect_answer(answer.error == 0 ? answer.count : -answer.error, size);
      // What a server invents is what it says.
      if (can_be_right()) expect_right(memory, 7, answer.count, at);
      Batch batch(2);
      batch.read(handle.get(), memory, size / 2, at, 0);
      batch.read(handle.get(), memory, size / 2, at + 2 * kMiB, 2 * kMiB);
      for (const ssize_t result : batch.run()) expect_answer(result, size / 2);
    }
  }
  expect_health();
}

TEST_P(Ailments, OfWritesEndWithACountOrAnError) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::plain}) {
    for (const std::size_t size : {std::size_t{5'003}, std::size_t{90'001}, 3 * kMiB + 5}) {
      SCOPED_TRACE(::testing::Message() << size << " bytes of " << name_of(kind) << " memory");
      Ward ward;
      const Fd fd = ward.open(0, O_RDWR | flags());
      const Handle handle(fd);
      const Memory memory(kind, 4 * kMiB);
      const Bytes bytes = random_bytes(size, 0x51c);
      memory.put(0, bytes);
      ward.condition().writing[0] = ailment();
      constexpr std::size_t at = 12'345;
      const Transfer answer = write_file(handle.get(), memory.address(), size, at, 0);
      expect_answer(answer.error == 0 ? answer.count : -answer.error, size);
      const Stream stream;
      std::size_t length = size;
      off_t place = 8 * kMiB + 1;
      off_t offset = 0;
      ssize_t count = -77;
      if (kind == MemoryKind::device) {
        EXPECT_EQ(
            code(cuFileWriteAsync(handle.get(), memory.address(), &length, &place, &offset, &count, stream.get())),
            CU_FILE_SUCCESS);
        stream.synchronize();
        expect_answer(count, size);
      }
      ward.condition().writing[0] = Ailment::none;
      if (!can_be_right() || answer.count <= 0) continue;
      // By a buffered descriptor: it reads whatever range.
      const Fd plain = ward.open(0, O_RDONLY);
      const auto written = static_cast<std::size_t>(answer.count);
      EXPECT_TRUE(same_bytes(std::span(bytes).first(written), plain_read(plain.get(), at, written)));
    }
  }
  expect_health();
}

std::string name_of_case(const ::testing::TestParamInfo<Parameters>& info) {
  return std::string(std::get<0>(info.param).name) + (std::get<1>(info.param) != 0 ? "_direct" : "_buffered");
}

INSTANTIATE_TEST_SUITE_P(Each, Ailments,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values(0, O_DIRECT)), name_of_case);

}  // namespace
}  // namespace sluice::sick
