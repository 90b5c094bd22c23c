// SPDX-License-Identifier: Apache-2.0
// How a request is cut: the rows of the table in docs/reference/paths.md, and what must hold for every request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "paths/decided.h"
#include "route/route.h"

namespace sluice::route {
namespace {

using base::Direction;
using facts::MemoryKind;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t end_unknown = std::numeric_limits<std::uint64_t>::max();

struct Request {
  bool direct = true;
  bool plain = false;
  MemoryKind kind = MemoryKind::plain_host;
  std::uint32_t memory_alignment = 512;
  std::uint32_t offset_alignment = 4096;
  std::uint32_t cache_page = 4096;
  Shape shape;
  bool caller_operations = false;
  bool proven = false;  // the storage and the device are, and the path is asked for

  paths::Decided decision() const {
    facts::FileFacts file;
    file.direct = direct;
    file.file_system = facts::FileSystem::ext4;
    file.memory_alignment = memory_alignment;
    file.offset_alignment = offset_alignment;
    file.cache_page = cache_page;
    file.caller_reads = caller_operations;
    file.caller_writes = caller_operations;
    facts::BufferFacts buffer;
    buffer.kind = kind;
    buffer.device = kind == MemoryKind::device ? 0 : -1;
    Rules rules;
    rules.plain = plain;
    rules.use_pci_p2pdma = proven;
    facts::MachineFacts machine;
    machine.kernel_has_p2pdma = true;
    const auto reach = proven ? facts::TrialResult::proven : facts::TrialResult::untried;
    return paths::decided({file, buffer, machine, rules, reach}, shape);
  }

  std::vector<Segment> segments() const {
    const paths::Decided decided = decision();
    return {decided.segments().begin(), decided.segments().end()};
  }
};

// The line that reproduces a case.
std::string text_of(const Request& request) {
  std::ostringstream text;
  text << (request.shape.direction == Direction::read ? "read" : "write") << (request.direct ? " O_DIRECT" : "")
       << (request.plain ? " plain" : "") << (request.proven ? " proven" : "") << " kind "
       << static_cast<int>(request.kind) << " alignment " << request.memory_alignment << "/" << request.offset_alignment
       << " file_offset " << request.shape.file_offset << " address " << request.shape.address << " size "
       << request.shape.size << " file_end " << request.shape.file_end << " ->";
  for (const Segment& segment : request.segments()) {
    text << " [" << segment.begin << "+" << segment.length << " " << static_cast<int>(segment.carry) << "]";
  }
  return text.str();
}

constexpr Segment straight(std::uint64_t begin, std::uint64_t length) {
  return {begin, length, SegmentMode::straight};
}
constexpr Segment bounce(std::uint64_t begin, std::uint64_t length) {
  return {begin, length, SegmentMode::bounce};
}
constexpr Segment buffered(std::uint64_t begin, std::uint64_t length) {
  return {begin, length, SegmentMode::bounce_buffered};
}

constexpr Segment by_drive(std::uint64_t begin, std::uint64_t length) {
  return {begin, length, SegmentMode::direct};
}

Request request(Direction direction, std::uint64_t file_offset, std::uint64_t address, std::uint64_t size) {
  Request made;
  made.shape = {direction, file_offset, address, size, end_unknown};
  return made;
}

TEST(Segments, OfABufferedDescriptorAreOne) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    for (const bool plain : {false, true}) {
      Request made = request(direction, 3, 0x1001, 100'001);
      made.direct = false;
      made.plain = plain;
      EXPECT_THAT(made.segments(), ElementsAre(straight(0, 100'001)));
      made.kind = MemoryKind::pinned_host;
      EXPECT_THAT(made.segments(), ElementsAre(straight(0, 100'001)));
      made.kind = MemoryKind::managed;
      EXPECT_THAT(made.segments(), ElementsAre(bounce(0, 100'001)));
      made.kind = MemoryKind::device;
      EXPECT_THAT(made.segments(), ElementsAre(bounce(0, 100'001)));
    }
  }
}

TEST(Segments, OfNoBytesAreNone) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    EXPECT_THAT(request(direction, 4096, 0x1000, 0).segments(), IsEmpty());
  }
}

TEST(Segments, OfTheCallersOperationsAreOneWhateverTheDescriptor) {
  Request made = request(Direction::write, 3, 0x1001, 100'001);
  made.caller_operations = true;
  EXPECT_EQ(made.decision().path, SLUICE_PATH_USERSPACE);
  EXPECT_THAT(made.segments(), ElementsAre(straight(0, 100'001)));
  made.kind = MemoryKind::device;
  EXPECT_THAT(made.segments(), ElementsAre(bounce(0, 100'001)));
}

TEST(DirectReadToHostMemory, IsStraightWhenEverythingIsAligned) {
  EXPECT_THAT(request(Direction::read, 8 * kib, 0x10200, 4 * kib).segments(), ElementsAre(straight(0, 4 * kib)));
  EXPECT_THAT(request(Direction::read, 0, 0x10000, 5ull << 30).segments(), ElementsAre(straight(0, 5ull << 30)));
}

TEST(DirectReadToHostMemory, SendsItsEdgesThroughASlabWhenTheyAreCongruent) {
  EXPECT_THAT(request(Direction::read, 4096 - 100, 0x10000 - 100, 100 + 64 * kib + 7).segments(),
              ElementsAre(bounce(0, 100), straight(100, 64 * kib), bounce(100 + 64 * kib, 7)));
  EXPECT_THAT(request(Direction::read, 4096, 0x10000, 64 * kib + 7).segments(),
              ElementsAre(straight(0, 64 * kib), bounce(64 * kib, 7)));
  EXPECT_THAT(request(Direction::read, 4096 - 100, 0x10000 - 100, 100 + 64 * kib).segments(),
              ElementsAre(bounce(0, 100), straight(100, 64 * kib)));
}

TEST(DirectReadToHostMemory, BouncesWholeWhenTheBodyIsNotWorthACut) {
  const std::uint64_t size = 100 + 60 * kib + 7;
  EXPECT_THAT(request(Direction::read, 4096 - 100, 0x10000 - 100, size).segments(), ElementsAre(bounce(0, size)));
}

TEST(DirectReadToHostMemory, BouncesWholeWhenAddressAndOffsetAreRaggedDifferently) {
  EXPECT_THAT(request(Direction::read, 4096 - 100, 0x10000 - 101, 1 << 20).segments(), ElementsAre(bounce(0, 1 << 20)));
  EXPECT_THAT(request(Direction::read, 4096, 0x10001, 1 << 20).segments(), ElementsAre(bounce(0, 1 << 20)));
}

TEST(DirectReadToHostMemory, LeavesTheBlockThatTheFileEndsInToASlab) {
  Request made = request(Direction::read, 0, 0x10000, 1 << 20);
  made.shape.file_end = 200 * kib + 5;
  EXPECT_THAT(made.segments(), ElementsAre(straight(0, 200 * kib), bounce(200 * kib, (1 << 20) - 200 * kib)));
  made.shape.file_end = 1 << 20;
  EXPECT_THAT(made.segments(), ElementsAre(straight(0, 1 << 20)));
  made.shape.file_end = (1 << 20) - 1;
  EXPECT_THAT(made.segments(), ElementsAre(straight(0, (1 << 20) - 4096), bounce((1 << 20) - 4096, 4096)));
  made.shape.file_end = 8 * kib + 1;
  EXPECT_THAT(made.segments(), ElementsAre(bounce(0, 1 << 20)));
}

TEST(DirectReadToHostMemory, BouncesWholeAtAndBehindTheEndOfTheFile) {
  for (const std::uint64_t file_end : {0ull, 1ull, 4096ull, 1ull << 20, (1ull << 20) + 4095}) {
    Request made = request(Direction::read, 1 << 20, 0x10000, 1 << 20);
    made.shape.file_end = file_end;
    EXPECT_THAT(made.segments(), ElementsAre(bounce(0, 1 << 20))) << file_end;
  }
}

TEST(DirectReadToHostMemory, NeedsNoCutWhereAnyAlignmentWillDo) {
  Request made = request(Direction::read, 3, 0x10001, 777);
  made.memory_alignment = 1;
  made.offset_alignment = 1;
  made.shape.file_end = 100;
  EXPECT_THAT(made.segments(), ElementsAre(straight(0, 777)));
}

TEST(DirectRead, BouncesInOneSegmentToDeviceAndManagedMemoryAndInPlainMode) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::managed}) {
    Request made = request(Direction::read, 4096 - 100, 0x10000 - 100, 1 << 20);
    made.kind = kind;
    EXPECT_THAT(made.segments(), ElementsAre(bounce(0, 1 << 20)));
  }
  Request plain = request(Direction::read, 4096, 0x10000, 1 << 20);
  plain.plain = true;
  EXPECT_THAT(plain.segments(), ElementsAre(bounce(0, 1 << 20)));
}

Request proven(Direction direction, std::uint64_t file_offset, std::uint64_t address, std::uint64_t size) {
  Request made = request(direction, file_offset, address, size);
  made.kind = MemoryKind::device;
  made.proven = true;
  return made;
}

TEST(ProvenRead, IsTheDrivesWhenEverythingIsAligned) {
  const Request small = proven(Direction::read, 8 * kib, 0x10200, 4 * kib);
  EXPECT_EQ(small.decision().path, SLUICE_PATH_P2PDMA);
  EXPECT_THAT(small.segments(), ElementsAre(by_drive(0, 4 * kib)));
  EXPECT_THAT(proven(Direction::read, 0, 0x10000, 5ull << 30).segments(), ElementsAre(by_drive(0, 5ull << 30)));
}

TEST(ProvenRead, SendsItsEdgesThroughASlabWhenTheyAreCongruent) {
  EXPECT_THAT(proven(Direction::read, 4096 - 100, 0x10000 - 100, 100 + 64 * kib + 7).segments(),
              ElementsAre(bounce(0, 100), by_drive(100, 64 * kib), bounce(100 + 64 * kib, 7)));
}

TEST(ProvenRead, LeavesTheBlockThatTheFileEndsInToTheSlab) {
  Request made = proven(Direction::read, 0, 0x10000, 1 << 20);
  made.shape.file_end = 100'000;
  EXPECT_THAT(made.segments(), ElementsAre(by_drive(0, 98'304), bounce(98'304, (1 << 20) - 98'304)));
}

TEST(ProvenRead, IsTheCpusWhenTooLittleOfItIsWholeBlocksInStepWithTheMemory) {
  for (const Request& made :
       {proven(Direction::read, 0, 0x10001, 1 << 20), proven(Direction::read, 100, 0x10000, 1 << 20),
        proven(Direction::read, 10, 0x1000a, 100), proven(Direction::read, 4000, 0x10000 - 96, 60 * kib)}) {
    EXPECT_EQ(made.decision().path, SLUICE_PATH_POSIX) << text_of(made);
    EXPECT_EQ(made.decision().reason, SLUICE_REASON_RAGGED_REQUEST) << text_of(made);
    EXPECT_THAT(made.segments(), ElementsAre(bounce(0, made.shape.size)));
  }
}

TEST(ProvenRead, TrustsNoAddressThatIsLessAlignedThanWhatATrialTakes) {
  Request made = proven(Direction::read, 0, 0x10004, 1 << 20);
  made.memory_alignment = 4;
  EXPECT_EQ(made.decision().reason, SLUICE_REASON_RAGGED_REQUEST);
  made.shape.address = 0x10200;
  EXPECT_THAT(made.segments(), ElementsAre(by_drive(0, 1 << 20)));
}

TEST(ProvenWrite, SendsItsEdgesThroughThePageCache) {
  const std::uint64_t size = 100 + 8 * kib + 7;
  EXPECT_THAT(proven(Direction::write, 4096 - 100, 0x10000 - 100, size).segments(),
              ElementsAre(buffered(0, 100), by_drive(100, 8 * kib), buffered(100 + 8 * kib, 7)));
}

TEST(ProvenWrite, IsOfWholePagesAlsoWhereBlocksAreSmaller) {
  Request made = proven(Direction::write, 512, 0x10200, 3584 + 8 * kib + 512);
  made.offset_alignment = 512;
  EXPECT_THAT(made.segments(), ElementsAre(buffered(0, 3584), by_drive(3584, 8 * kib), buffered(3584 + 8 * kib, 512)));
}

TEST(ProvenWrite, IsTheCpusWhenTheAddressForbidsMore) {
  const Request made = proven(Direction::write, 0, 0x10001, 8 * kib);
  EXPECT_EQ(made.decision().reason, SLUICE_REASON_RAGGED_REQUEST);
  EXPECT_THAT(made.segments(), ElementsAre(bounce(0, 8 * kib)));
}

TEST(DirectWrite, SendsItsEdgesThroughThePageCache) {
  const std::uint64_t size = 100 + 8 * kib + 7;
  Request made = request(Direction::write, 4096 - 100, 0x10000 - 100, size);
  EXPECT_THAT(made.segments(), ElementsAre(buffered(0, 100), straight(100, 8 * kib), buffered(100 + 8 * kib, 7)));
  made.kind = MemoryKind::device;
  EXPECT_THAT(made.segments(), ElementsAre(buffered(0, 100), bounce(100, 8 * kib), buffered(100 + 8 * kib, 7)));
}

TEST(DirectWrite, BouncesTheBodyWhenTheAddressOrTheModeForbidsMore) {
  EXPECT_THAT(request(Direction::write, 0, 0x10001, 8 * kib).segments(), ElementsAre(bounce(0, 8 * kib)));
  Request plain = request(Direction::write, 0, 0x10000, 8 * kib + 9);
  plain.plain = true;
  EXPECT_THAT(plain.segments(), ElementsAre(bounce(0, 8 * kib), buffered(8 * kib, 9)));
}

TEST(DirectWrite, IsOneBufferedSegmentWithinABlockOrAcrossOneEdge) {
  EXPECT_THAT(request(Direction::write, 10, 0x10000, 100).segments(), ElementsAre(buffered(0, 100)));
  EXPECT_THAT(request(Direction::write, 0, 0x10000, 4095).segments(), ElementsAre(buffered(0, 4095)));
  EXPECT_THAT(request(Direction::write, 4000, 0x10000, 4096).segments(), ElementsAre(buffered(0, 4096)));
  EXPECT_THAT(request(Direction::write, 4000, 0x10000, 96).segments(), ElementsAre(buffered(0, 96)));
}

TEST(DirectWrite, HasNoEdgesWhenItsRangeIsAligned) {
  EXPECT_THAT(request(Direction::write, 4096, 0x10000, 4096).segments(), ElementsAre(straight(0, 4096)));
  EXPECT_THAT(request(Direction::write, 4096, 0x10000, 16 * kib).segments(), ElementsAre(straight(0, 16 * kib)));
}

TEST(DirectWrite, PassesThePageCacheByWholePagesAlsoWhereBlocksAreSmaller) {
  Request made = request(Direction::write, 512, 0x10200, 4096 - 512 + 8 * kib + 512);
  made.offset_alignment = 512;
  EXPECT_THAT(made.segments(),
              ElementsAre(buffered(0, 4096 - 512), straight(4096 - 512, 8 * kib), buffered(12 * kib - 512, 512)));
}

TEST(DirectWrite, PassesThePageCacheByWholePagesAlsoWhereThoseAreLarger) {
  Request made = request(Direction::write, 4 * kib, 0x11000, 60 * kib + 128 * kib + 4 * kib);
  made.cache_page = 64 * kib;
  EXPECT_THAT(made.segments(),
              ElementsAre(buffered(0, 60 * kib), straight(60 * kib, 128 * kib), buffered(188 * kib, 4 * kib)));
  made.shape.size = 8 * kib;
  EXPECT_THAT(made.segments(), ElementsAre(buffered(0, 8 * kib)));
  made.shape.direction = Direction::read;
  EXPECT_THAT(made.segments(), ElementsAre(straight(0, 8 * kib)));
}

TEST(DirectWrite, TakesNoNoticeOfTheEndOfTheFile) {
  Request made = request(Direction::write, 0, 0x10000, 1 << 20);
  made.shape.file_end = 5000;
  EXPECT_THAT(made.segments(), ElementsAre(straight(0, 1 << 20)));
}

TEST(Segments, DoNotOverflowAtTheEndOfTheOffsets) {
  const std::uint64_t last = std::numeric_limits<std::int64_t>::max();
  for (const Direction direction : {Direction::read, Direction::write}) {
    for (const std::uint64_t offset : {last, last - 1, last - 4095, last - 4096, last - (1 << 20)}) {
      for (const std::uint64_t size : {std::uint64_t{1}, page, last, std::numeric_limits<std::uint64_t>::max()}) {
        const Request made = request(direction, offset, std::numeric_limits<std::uint64_t>::max() - 4095, size);
        std::uint64_t covered = 0;
        for (const Segment& segment : made.segments()) {
          EXPECT_EQ(segment.begin, covered) << text_of(made);
          EXPECT_GT(segment.length, 0u) << text_of(made);
          covered += segment.length;
        }
        EXPECT_EQ(covered, size) << text_of(made);
      }
    }
  }
}

// What paths rely on for every request there can be.
void expect_sound(const Request& made) {
  const paths::Decided decision = made.decision();
  ASSERT_LE(decision.cut.count, decision.cut.storage.size());
  std::uint64_t covered = 0;
  SegmentMode before = SegmentMode::straight;
  for (std::size_t index = 0; index < decision.cut.count; ++index) {
    const Segment& segment = decision.cut.storage[index];
    ASSERT_EQ(segment.begin, covered) << text_of(made);
    ASSERT_GT(segment.length, 0u) << text_of(made);
    ASSERT_TRUE(index == 0 || segment.carry != before) << "two of a kind in a row: " << text_of(made);
    covered += segment.length;
    before = segment.carry;

    const bool host = facts::is_host(made.kind);
    if (segment.carry == SegmentMode::straight) {
      ASSERT_TRUE(host) << text_of(made);
    }
    if (segment.carry == SegmentMode::direct) {
      ASSERT_EQ(made.kind, MemoryKind::device) << text_of(made);
      ASSERT_TRUE(made.proven && made.direct) << text_of(made);
      ASSERT_EQ(decision.path, SLUICE_PATH_P2PDMA) << text_of(made);
    }
    if (!made.direct) {
      ASSERT_NE(segment.carry, SegmentMode::bounce_buffered) << text_of(made);
      continue;
    }
    const std::uint64_t file_offset = made.shape.file_offset + segment.begin;
    const bool whole_blocks = file_offset % made.offset_alignment == 0 && segment.length % made.offset_alignment == 0;
    if (segment.carry == SegmentMode::straight || segment.carry == SegmentMode::direct) {
      ASSERT_FALSE(made.plain) << text_of(made);
      ASSERT_TRUE(whole_blocks) << text_of(made);
      ASSERT_EQ((made.shape.address + segment.begin) % made.memory_alignment, 0u) << text_of(made);
      if (made.shape.direction == Direction::read && made.offset_alignment > 1) {
        ASSERT_LE(file_offset + segment.length, made.shape.file_end) << text_of(made);
      }
    } else if (segment.carry == SegmentMode::bounce && made.shape.direction == Direction::write) {
      ASSERT_TRUE(whole_blocks) << "a direct write of a partial block: " << text_of(made);
    } else if (segment.carry == SegmentMode::bounce_buffered) {
      ASSERT_EQ(made.shape.direction, Direction::write) << text_of(made);
      // Two edges that meet make less than two blocks (whole pages at least); one edge is less than one.
      const std::uint64_t block = std::max<std::uint64_t>(made.offset_alignment, page);
      ASSERT_LT(segment.length, (decision.cut.count == 1 ? 2 : 1) * block) << text_of(made);
    }
  }
  ASSERT_EQ(covered, made.shape.size) << text_of(made);
}

TEST(Segments, AreSoundForEveryRequestAroundTheEdges) {
  const std::array<std::uint64_t, 9> edges = {0, 1, 511, 512, 513, 4095, 4096, 4097, 8192};
  const std::array<std::uint64_t, 6> bodies = {0, 4096, 60 * kib, 64 * kib, 68 * kib, 1 << 20};
  for (const Direction direction : {Direction::read, Direction::write}) {
    for (const MemoryKind kind : {MemoryKind::plain_host, MemoryKind::device}) {
      for (const std::uint32_t memory_alignment : {1u, 4u, 512u, 4096u}) {
        for (const std::uint32_t offset_alignment : {1u, 512u, 4096u}) {
          for (const std::uint64_t offset : edges) {
            for (const std::uint64_t address : edges) {
              for (const std::uint64_t body : bodies) {
                for (const std::uint64_t edge : edges) {
                  Request made = request(direction, offset, (1 << 20) + address, body + edge);
                  made.kind = kind;
                  made.memory_alignment = memory_alignment;
                  made.offset_alignment = offset_alignment;
                  ASSERT_NO_FATAL_FAILURE(expect_sound(made));
                  made.proven = true;
                  ASSERT_NO_FATAL_FAILURE(expect_sound(made));
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(Segments, AreSoundForRandomRequests) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  // Mostly near something round, sometimes anything.
  const auto place = [&](int bits) {
    const std::uint64_t any = random() >> (64 - 1 - below(static_cast<std::uint64_t>(bits)));
    return below(3) == 0 ? any : any / page * page + (below(2) == 0 ? 0 : below(3 * page));
  };
  for (int round = 0; round < 200'000; ++round) {
    Request made = request(below(2) == 0 ? Direction::read : Direction::write, place(60), place(47), place(33));
    made.direct = below(4) != 0;
    made.plain = below(8) == 0;
    made.kind = static_cast<MemoryKind>(below(4));
    made.proven = below(2) == 0;
    made.memory_alignment = 1u << below(14);
    made.offset_alignment = 1u << below(17);
    if (below(2) == 0) made.shape.file_end = made.shape.file_offset + below(made.shape.size + 3 * page) - below(page);
    if (made.shape.file_end != end_unknown && made.shape.file_end > (std::uint64_t{1} << 62)) made.shape.file_end = 0;
    ASSERT_NO_FATAL_FAILURE(expect_sound(made));
  }
}

}  // namespace
}  // namespace sluice::route
