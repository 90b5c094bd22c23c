// SPDX-License-Identifier: Apache-2.0
// Which registration an address belongs to, overlaps included, also while others register.
#include "process/buffer_index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

namespace sluice::process {
namespace {

void* tag(std::uintptr_t value) {
  return reinterpret_cast<void*>(value);
}

TEST(BufferIndex, FindsByBaseAndByInteriorAddress) {
  BufferIndex index;
  EXPECT_TRUE(index.insert({1000, 2000, tag(1)}));
  EXPECT_EQ(index.find(1000, 1500, 10)->handle, tag(1));
  EXPECT_EQ(index.find(1200, 1200, 10)->handle, tag(1));
  EXPECT_FALSE(index.find(2000, 2000, 1));
  EXPECT_FALSE(index.find(999, 999, 1));
}

TEST(BufferIndex, RefusesASecondRangeWithTheSameBase) {
  BufferIndex index;
  EXPECT_TRUE(index.insert({1000, 2000, tag(1)}));
  EXPECT_FALSE(index.insert({1000, 1500, tag(2)}));
  EXPECT_TRUE(index.insert({1001, 1500, tag(3)}));
}

TEST(BufferIndex, PrefersTheRangeThatStartsAtTheBase) {
  BufferIndex index;
  index.insert({1000, 9000, tag(1)});
  index.insert({2000, 3000, tag(2)});
  EXPECT_EQ(index.find(2000, 2000, 5000)->handle, tag(2)) << "the caller named that registration";
}

TEST(BufferIndex, PrefersARangeThatHoldsTheWholeTransfer) {
  BufferIndex index;
  index.insert({1000, 9000, tag(1)});
  index.insert({2000, 3000, tag(2)});
  index.insert({2100, 2200, tag(3)});
  EXPECT_EQ(index.find(2500, 2500, 100)->handle, tag(2));
  EXPECT_EQ(index.find(2500, 2500, 4000)->handle, tag(1));
  EXPECT_EQ(index.find(2500, 2500, 90000)->handle, tag(2)) << "none holds it: the one that holds its start";
}

TEST(BufferIndex, RemovesByBaseOnly) {
  BufferIndex index;
  index.insert({1000, 2000, tag(1)});
  EXPECT_FALSE(index.remove(1500));
  EXPECT_EQ(index.remove(1000)->handle, tag(1));
  EXPECT_FALSE(index.remove(1000));
  EXPECT_FALSE(index.find(1000, 1000, 1));
}

TEST(BufferIndex, AgreesWithALinearSearchOnRandomRanges) {
  std::mt19937_64 random(20261121);
  for (int round = 0; round < 50; ++round) {
    BufferIndex index;
    std::vector<RegisteredRange> all;
    for (std::uintptr_t i = 1; i <= 40; ++i) {
      const std::uint64_t base = random() % 1000;
      const RegisteredRange range{base, base + 1 + random() % 200, tag(i)};
      if (index.insert(range)) all.push_back(range);
    }
    for (int probe = 0; probe < 300; ++probe) {
      const std::uint64_t address = random() % 1200;
      const std::uint64_t size = 1 + random() % 100;
      bool holds_start = false;
      bool holds_all = false;
      bool is_base = false;
      for (const auto& range : all) {
        is_base = is_base || range.base == address;
        holds_start = holds_start || (range.base <= address && address < range.end);
        holds_all = holds_all || (range.base <= address && address + size <= range.end);
      }
      const auto found = index.find(address, address, size);
      ASSERT_EQ(found.has_value(), holds_start);
      if (!found) continue;
      ASSERT_TRUE(found->base <= address && address < found->end);
      if (is_base) {
        ASSERT_EQ(found->base, address);
      } else if (holds_all) {
        ASSERT_LE(address + size, found->end);
      }
    }
  }
}

TEST(BufferIndex, ReadersSeeWholeArraysWhileWritersReplaceThem) {
  BufferIndex index;
  index.insert({1000, 2000, tag(1)});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto found = index.find(1000, 1500, 10);
        if (!found || found->handle != tag(1)) ++wrong;
      }
    });
  }
  for (std::uint64_t i = 0; i < 3000; ++i) {
    index.insert({10000 + i % 7 * 100, 10050 + i % 7 * 100, tag(2)});
    index.remove(10000 + (i + 3) % 7 * 100);
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sluice::process
