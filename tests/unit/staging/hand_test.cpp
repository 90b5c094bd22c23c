#include "staging/hand.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::staging {
namespace {

TEST(Hands, ThatShareAllPlacesFollowTheChunksNumbers) {
  const Places places{.count = 4};
  Hand one(places, 0);
  Hand other(places, 3);
  EXPECT_EQ(4U, places.enough_for());
  EXPECT_EQ(one.place_for(6), other.place_for(6));
  EXPECT_EQ(std::nullopt, one.in_the_way_of(3));
  one.has_read(3);
  EXPECT_EQ(2U, one.in_the_way_of(6));
  EXPECT_EQ(std::nullopt, one.in_the_way()) << "that depends on the chunk";
}

TEST(Hands, WithPlacesOfTheirOwnNeverMeet) {
  constexpr std::uint32_t hands = 12;
  const Places places = Places::of_their_own(64, hands);
  ASSERT_EQ(5U, places.own);
  std::set<std::uint32_t> seen;
  for (std::uint32_t number = 0; number < hands; ++number) {
    Hand hand(places, number);
    for (std::uint32_t chunk = number; chunk < 5 * hands; chunk += hands) {
      EXPECT_TRUE(seen.insert(hand.place_for(chunk)).second) << "chunk " << chunk;
      hand.has_read(chunk);
    }
  }
  EXPECT_EQ(60U, seen.size());
  EXPECT_LT(*seen.rbegin(), 64U);
}

TEST(Hands, WithPlacesOfTheirOwnTakeThemInTurns) {
  const Places places = Places::of_their_own(9, 3);
  Hand hand(places, 1);
  const std::uint32_t first = hand.place_for(4);
  for (const std::uint32_t chunk : {4U, 7U, 11U}) {
    EXPECT_EQ(std::nullopt, hand.in_the_way_of(chunk));
    EXPECT_EQ(std::nullopt, hand.in_the_way());
    hand.has_read(chunk);
  }
  EXPECT_EQ(4U, hand.in_the_way()) << "whichever chunk comes next";
  EXPECT_EQ(first, hand.place_for(20));
  EXPECT_EQ(4U, hand.in_the_way_of(20));
  hand.has_read(20);
  EXPECT_EQ(7U, hand.in_the_way_of(21));
}

TEST(Hands, ShareWhereEachWouldHaveTooFewPlaces) {
  EXPECT_EQ(0U, Places::of_their_own(8, 3).own);
  EXPECT_NE(0U, Places::of_their_own(9, 3).own);
  EXPECT_EQ(8U, Places::of_their_own(8, 3).enough_for());
}

TEST(Hands, RememberNoMoreThanTheyCanHold) {
  const Places places = Places::of_their_own(256, 2);
  EXPECT_EQ(Hand::most_of_its_own, places.own);
  Hand hand(places, 1);
  for (std::uint32_t chunk = 0; chunk < 3 * Hand::most_of_its_own; ++chunk) {
    EXPECT_EQ(chunk < places.own ? std::nullopt : std::optional(chunk - places.own), hand.in_the_way_of(chunk));
    hand.has_read(chunk);
  }
}

}  // namespace
}  // namespace sluice::staging
