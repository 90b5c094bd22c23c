// SPDX-License-Identifier: Apache-2.0
#include "staging/slot_cursor.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::staging {
namespace {

TEST(Hands, ThatShareAllPlacesFollowTheChunksNumbers) {
  const SlotLayout layout{.count = 4};
  SlotCursor one(layout, 0);
  SlotCursor other(layout, 3);
  EXPECT_EQ(4U, layout.enough_for());
  EXPECT_EQ(one.slot_for(6), other.slot_for(6));
  EXPECT_EQ(std::nullopt, one.in_the_way_of(3));
  one.has_read(3);
  EXPECT_EQ(2U, one.in_the_way_of(6));
  EXPECT_EQ(std::nullopt, one.in_the_way()) << "that depends on the chunk";
}

TEST(Hands, WithPlacesOfTheirOwnNeverMeet) {
  constexpr std::uint32_t helpers = 12;
  const SlotLayout layout = SlotLayout::of_their_own(64, helpers);
  ASSERT_EQ(5U, layout.own);
  std::set<std::uint32_t> seen;
  for (std::uint32_t number = 0; number < helpers; ++number) {
    SlotCursor cursor(layout, number);
    for (std::uint32_t chunk = number; chunk < 5 * helpers; chunk += helpers) {
      EXPECT_TRUE(seen.insert(cursor.slot_for(chunk)).second) << "chunk " << chunk;
      cursor.has_read(chunk);
    }
  }
  EXPECT_EQ(60U, seen.size());
  EXPECT_LT(*seen.rbegin(), 64U);
}

TEST(Hands, WithPlacesOfTheirOwnTakeThemInTurns) {
  const SlotLayout layout = SlotLayout::of_their_own(9, 3);
  SlotCursor cursor(layout, 1);
  const std::uint32_t first = cursor.slot_for(4);
  for (const std::uint32_t chunk : {4U, 7U, 11U}) {
    EXPECT_EQ(std::nullopt, cursor.in_the_way_of(chunk));
    EXPECT_EQ(std::nullopt, cursor.in_the_way());
    cursor.has_read(chunk);
  }
  EXPECT_EQ(4U, cursor.in_the_way()) << "whichever chunk comes next";
  EXPECT_EQ(first, cursor.slot_for(20));
  EXPECT_EQ(4U, cursor.in_the_way_of(20));
  cursor.has_read(20);
  EXPECT_EQ(7U, cursor.in_the_way_of(21));
}

TEST(Hands, ShareWhereEachWouldHaveTooFewPlaces) {
  EXPECT_EQ(0U, SlotLayout::of_their_own(8, 3).own);
  EXPECT_NE(0U, SlotLayout::of_their_own(9, 3).own);
  EXPECT_EQ(8U, SlotLayout::of_their_own(8, 3).enough_for());
}

TEST(Hands, RememberNoMoreThanTheyCanHold) {
  const SlotLayout layout = SlotLayout::of_their_own(256, 2);
  EXPECT_EQ(SlotCursor::most_of_its_own, layout.own);
  SlotCursor cursor(layout, 1);
  for (std::uint32_t chunk = 0; chunk < 3 * SlotCursor::most_of_its_own; ++chunk) {
    EXPECT_EQ(chunk < layout.own ? std::nullopt : std::optional(chunk - layout.own), cursor.in_the_way_of(chunk));
    cursor.has_read(chunk);
  }
}

}  // namespace
}  // namespace sluice::staging
