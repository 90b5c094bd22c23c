// SPDX-License-Identifier: Apache-2.0
// How many writes are cut: every byte of every item is in one chunk, buffered items of a file follow one another, and
// what comes short ends its item, or all that are one transfer.
#include "transfer/gathered_write.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace sluice::transfer {
namespace {

constexpr std::uint64_t kibi = 1024;

// Far away from all others in the device's memory; without a place to be prefetched, so that none goes in turns.
WriteItem item_of(std::uint64_t file, std::uint64_t at, std::uint64_t length, std::uint32_t block = 1) {
  static cuda::DevicePtr from = 0x7000'0000'0000;
  from += std::uint64_t{1} << 32;
  WriteItem item;
  item.fd = static_cast<int>(100 + file);
  item.at = base::FileOffset{at};
  item.length = length;
  item.block = block;
  item.from = from;
  item.file = file;
  return item;
}

class Cut : public ::testing::Test {
 protected:
  void cut(std::vector<WriteItem> items, Bond bond = Bond::none) {
    items_ = std::move(items);
    writes_->cut(items_, bond);
  }

  // The chunks of a stream in their order.
  std::vector<std::uint32_t> chunks_of(const WriteStream& stream) const {
    std::vector<std::uint32_t> chunks;
    for (std::uint32_t chunk = stream.next.load(); chunk != no_chunk; chunk = writes_->behind(chunk)) {
      chunks.push_back(chunk);
    }
    return chunks;
  }

  void write_all_but(std::uint32_t short_one, std::uint64_t count, int error) {
    for (std::uint32_t chunk = 0; chunk < writes_->chunks(); ++chunk) {
      const bool may = writes_->may_write(chunk);
      const bool whole = may && chunk != short_one;
      writes_->has_written(chunk, whole ? (*writes_)[chunk].length : may ? count : 0, may && !whole ? error : 0);
    }
  }

  // Each stream's chunks, one behind the other, are all bytes of its items, in the items' order; no chunk is in two.
  void expect_every_byte_once() {
    std::map<cuda::DevicePtr, std::uint64_t> seen;  // from where an item begins: so many bytes
    std::set<std::uint32_t> taken;
    for (const WriteStream& stream : writes_->streams()) {
      for (const std::uint32_t number : chunks_of(stream)) {
        EXPECT_TRUE(taken.insert(number).second) << "chunk " << number << " is in two streams";
        const WriteChunk chunk = (*writes_)[number];
        EXPECT_GT(chunk.length, 0U);
        EXPECT_LE(writes_->place(number) + chunk.length, staging::staging_bytes);
        for (const WriteItem& item : items_) {
          if (chunk.from < item.from || chunk.from >= item.from + item.length) continue;
          EXPECT_EQ(chunk.from - item.from, seen[item.from]) << "a chunk is out of order";
          EXPECT_EQ(chunk.at.value, item.at.value + seen[item.from]);
          EXPECT_EQ(chunk.fd, item.fd);
          EXPECT_EQ(chunk.block, item.block);
          seen[item.from] += chunk.length;
        }
      }
    }
    EXPECT_EQ(taken.size(), writes_->chunks());
    for (const WriteItem& item : items_) EXPECT_EQ(seen[item.from], item.length);
  }

  std::vector<WriteItem> items_;
  std::unique_ptr<ManyWrites> writes_ = std::make_unique<ManyWrites>();  // large
};

TEST_F(Cut, HasEveryByteInOneChunk) {
  const std::vector<std::uint64_t> lengths{1, 4095, 4096, 4097, 65'536, 524'288, 524'289, 1'000'001, 4 << 20};
  for (const std::uint64_t length : lengths) {
    SCOPED_TRACE(length);
    cut({item_of(1, 0, length)});
    expect_every_byte_once();
  }
  std::vector<WriteItem> all;
  for (std::size_t i = 0; i < most_write_items; ++i) {
    all.push_back(item_of(i % 5, i << 23, lengths[i % lengths.size()], i % 3 == 0 ? 512 : 1));
  }
  cut(all);
  expect_every_byte_once();
}

TEST_F(Cut, BufferedItemsOfAFileShareAStreamInTheirOrder) {
  cut({item_of(1, 0, 4096), item_of(2, 0, 4096), item_of(1, 8192, 4096), item_of(2, 8192, 4096)});
  ASSERT_EQ(writes_->streams().size(), 2U);
  for (const WriteStream& stream : writes_->streams()) {
    const std::vector<std::uint32_t> chunks = chunks_of(stream);
    ASSERT_EQ(chunks.size(), 2U);
    EXPECT_EQ((*writes_)[chunks[0]].fd, (*writes_)[chunks[1]].fd);
    EXPECT_LT((*writes_)[chunks[0]].at.value, (*writes_)[chunks[1]].at.value);
  }
  expect_every_byte_once();
}

TEST_F(Cut, ItemsPastThePageCacheHaveAStreamEach) {
  cut({item_of(1, 0, 4096, 512), item_of(1, 8192, 4096, 512), item_of(1, 16384, 4096)});
  EXPECT_EQ(writes_->streams().size(), 3U);
  expect_every_byte_once();
}

TEST_F(Cut, TheFirstItemsOfAllStreamsComeFirst) {
  cut({item_of(1, 0, 4096), item_of(1, 8192, 4096), item_of(2, 0, 4096)});
  EXPECT_EQ((*writes_)[0].from, items_[0].from);
  EXPECT_EQ((*writes_)[1].from, items_[2].from);
  EXPECT_EQ((*writes_)[2].from, items_[1].from);
}

TEST_F(Cut, AChunkIsFreeWhenTheOneBeforeInItsPlaceIsWritten) {
  cut({item_of(1, 0, 4 << 20)});
  std::uint32_t places = 0;
  while (places < writes_->chunks() && writes_->is_free(places)) ++places;
  ASSERT_GT(places, 0U);
  ASSERT_LT(places, writes_->chunks()) << "all of it has places of its own";
  EXPECT_EQ(writes_->place(0), writes_->place(places));
  writes_->has_written(0, (*writes_)[0].length, 0);
  EXPECT_TRUE(writes_->is_free(places));
}

TEST_F(Cut, WhatComesShortEndsItsItemAlone) {
  cut({item_of(1, 0, 1024 * kibi), item_of(2, 0, 1024 * kibi)});
  write_all_but(0, 100, ENOSPC);
  writes_->leave_rest();
  EXPECT_EQ(items_[0].outcome.count(), 100U);
  EXPECT_EQ(items_[1].outcome.count(), 1024 * kibi);
}

TEST_F(Cut, WhatComesShortEndsAllThatAreOneTransfer) {
  cut({item_of(1, 0, 1024 * kibi), item_of(1, 1024 * kibi, 1024 * kibi)}, Bond::one_transfer);
  write_all_but(0, 100, ENOSPC);
  writes_->leave_rest();
  EXPECT_EQ(items_[0].outcome.count(), 100U);
  EXPECT_EQ(items_[1].outcome.count(), 0U);
}

TEST_F(Cut, RemembersNothingOfTheOneBefore) {
  cut({item_of(1, 0, 1024 * kibi), item_of(1, 1024 * kibi, 1024 * kibi)}, Bond::one_transfer);
  write_all_but(0, 0, EIO);
  cut({item_of(1, 0, 1024 * kibi), item_of(2, 0, 4096)});
  expect_every_byte_once();
  for (std::uint32_t chunk = 0; chunk < writes_->chunks(); ++chunk) EXPECT_TRUE(writes_->may_write(chunk));
}

}  // namespace
}  // namespace sluice::transfer
