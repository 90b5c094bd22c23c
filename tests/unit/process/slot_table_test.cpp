// SPDX-License-Identifier: Apache-2.0
// Handles that are stale, forged or in use; and the promise that an object outlives its last user.
#include "process/slot_table.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

namespace sluice::process {
namespace {

struct Thing {
  explicit Thing(int value_, std::atomic<int>* destroyed_ = nullptr) : value(value_), destroyed(destroyed_) {}
  ~Thing() {
    alive = false;
    if (destroyed != nullptr) ++*destroyed;
  }
  int value;
  bool alive = true;
  std::atomic<int>* destroyed;
};

using Table = SlotTable<Thing, 0x77, 4>;

TEST(SlotTable, FindsWhatWasInserted) {
  Table table;
  void* const handle = table.insert(std::make_unique<Thing>(7));
  ASSERT_TRUE(table.pin(handle));
  EXPECT_EQ(table.pin(handle)->value, 7);
  EXPECT_EQ(table.standing(handle), HandleState::live);
}

// One that is told its handle when others can find it may be gone by then.
struct KnowsItsHandle {
  explicit KnowsItsHandle(SlotTable<KnowsItsHandle, 0x79, 4>& table_) : table(table_) {}
  void set_handle(void* given) {
    handle = given;
    was_found_before = static_cast<bool>(table.pin(given));
  }
  SlotTable<KnowsItsHandle, 0x79, 4>& table;
  void* handle = nullptr;
  bool was_found_before = true;
};

TEST(SlotTable, TellsAnObjectItsHandleBeforeItCanBeFound) {
  SlotTable<KnowsItsHandle, 0x79, 4> table;
  void* const handle = table.insert(std::make_unique<KnowsItsHandle>(table));
  const auto found = table.pin(handle);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->handle, handle);
  EXPECT_FALSE(found->was_found_before);
}

TEST(SlotTable, RecognisesForgedHandles) {
  Table table;
  table.insert(std::make_unique<Thing>(1));
  int local = 0;
  for (void* garbage : {static_cast<void*>(nullptr), static_cast<void*>(&local), reinterpret_cast<void*>(0x77),
                        reinterpret_cast<void*>(~std::uint64_t{0}), reinterpret_cast<void*>(0x77ffffffffffffffULL)}) {
    EXPECT_FALSE(table.pin(garbage));
    EXPECT_EQ(table.standing(garbage), HandleState::garbage);
    EXPECT_FALSE(table.retire(garbage));
  }
}

TEST(SlotTable, RecognisesForgedHandlesOfEveryIndex) {
  // Memory beside the table that would pass for chunks, were it looked at.
  struct Surrounded {
    Table table;
    std::array<std::uint64_t, 1 << 14> beside;
  };
  const auto surrounded = std::make_unique<Surrounded>();
  surrounded->beside.fill(~std::uint64_t{0} << 12);
  for (std::uint64_t index = 0; index < 1U << 20; index += 63) {
    void* const forged = reinterpret_cast<void*>(0x77ULL << 56 | 1ULL << 24 | index << 4 | 0x5);
    ASSERT_FALSE(surrounded->table.pin(forged)) << index;
    ASSERT_EQ(surrounded->table.standing(forged), HandleState::garbage) << index;
    ASSERT_FALSE(surrounded->table.retire(forged)) << index;
  }
}

TEST(SlotTable, TablesDoNotTakeEachOthersHandles) {
  Table table;
  SlotTable<Thing, 0x78, 4> other;
  table.insert(std::make_unique<Thing>(1));
  void* const foreign = other.insert(std::make_unique<Thing>(2));
  EXPECT_EQ(table.standing(foreign), HandleState::garbage);
}

TEST(SlotTable, ARetiredHandleStaysRetiredWhenItsSlotIsUsedAgain) {
  Table table;
  void* const old = table.insert(std::make_unique<Thing>(1));
  EXPECT_TRUE(table.retire(old));
  EXPECT_FALSE(table.retire(old));
  void* const next = table.insert(std::make_unique<Thing>(2));
  EXPECT_NE(old, next);
  EXPECT_FALSE(table.pin(old));
  EXPECT_EQ(table.standing(old), HandleState::retired);
  EXPECT_EQ(table.pin(next)->value, 2);
}

TEST(SlotTable, GrowsBeyondOneChunk) {
  Table table;
  std::vector<void*> handles;
  for (int i = 0; i < 1000; ++i) handles.push_back(table.insert(std::make_unique<Thing>(i)));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(table.pin(handles[static_cast<std::size_t>(i)])->value, i);
  EXPECT_EQ(table.handles().size(), 1000u);
}

TEST(SlotTable, RetiringWaitsForTheLastUser) {
  Table table;
  std::atomic<int> destroyed{0};
  void* const handle = table.insert(std::make_unique<Thing>(1, &destroyed));
  auto pin = table.pin(handle);
  std::atomic<bool> retired{false};
  std::thread other([&] {
    table.retire(handle);
    retired = true;
  });
  while (table.standing(handle) == HandleState::live) std::this_thread::yield();
  EXPECT_FALSE(table.pin(handle)) << "no new user gets in";
  EXPECT_FALSE(retired);
  EXPECT_TRUE(pin->alive);
  pin = {};
  other.join();
  EXPECT_EQ(destroyed, 1);
}

TEST(SlotTable, RetiringWaitsForTheLastUserAlsoWhereAnotherHasBegunIt) {
  Table table;
  void* const handle = table.insert(std::make_unique<Thing>(1));
  auto pin = table.pin(handle);
  ASSERT_TRUE(table.retire(handle, DrainMode::none));
  EXPECT_FALSE(table.retire(handle, DrainMode::none)) << "without patience at once";
  EXPECT_EQ(table.handles(), std::vector<void*>{handle}) << "it has yet to end";
  std::atomic<bool> left{false};
  std::atomic<bool> asked{false};
  std::thread other([&] {
    asked = true;
    EXPECT_FALSE(table.retire(handle));
    EXPECT_TRUE(left);
  });
  while (!asked) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  left = true;
  pin = {};
  other.join();
  EXPECT_FALSE(table.retire(handle)) << "and at once where it has ended";
  EXPECT_TRUE(table.handles().empty());
}

TEST(SlotTable, ObjectsOutliveTheirUsersUnderContention) {
  Table table;
  std::atomic<int> destroyed{0};
  std::atomic<void*> current{table.insert(std::make_unique<Thing>(0, &destroyed))};
  std::atomic<bool> stop{false};
  std::atomic<int> broken{0};
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&] {
      while (!stop) {
        if (const auto pin = table.pin(current); pin && !pin->alive) ++broken;
      }
    });
  }
  constexpr int rounds = 2000;
  for (int i = 1; i <= rounds; ++i) {
    void* const old = current.exchange(table.insert(std::make_unique<Thing>(i, &destroyed)));
    EXPECT_TRUE(table.retire(old));
  }
  stop = true;
  for (auto& user : users) user.join();
  EXPECT_EQ(broken, 0);
  EXPECT_EQ(destroyed, rounds);
}

TEST(SlotTable, RetiredWithoutPatienceReturnsAtOnceAndTheLastUserDestroys) {
  Table table;
  std::atomic<int> destroyed{0};
  void* const handle = table.insert(std::make_unique<Thing>(1, &destroyed));
  {
    const auto user = table.pin(handle);
    EXPECT_TRUE(table.retire(handle, DrainMode::none));
    EXPECT_FALSE(table.pin(handle));
    EXPECT_EQ(destroyed, 0);
    EXPECT_TRUE(user->alive);
  }
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(table.standing(handle), HandleState::retired);
}

TEST(SlotTable, APinTakenAgainKeepsTheObjectWhenTheFirstIsGone) {
  Table table;
  std::atomic<int> destroyed{0};
  void* const handle = table.insert(std::make_unique<Thing>(7, &destroyed));
  Table::Pin first = table.pin(handle);
  table.retire(handle, DrainMode::none);
  Table::Pin second = first.again();  // though no new user gets in
  EXPECT_FALSE(table.pin(handle));
  first = {};
  ASSERT_TRUE(second);
  EXPECT_EQ(7, second->value);
  EXPECT_EQ(0, destroyed);
  second = {};
  EXPECT_EQ(1, destroyed);
  EXPECT_FALSE(second.again());
}

TEST(SlotTable, APinThatStandsForSeveralIsGivenOutOneByOne) {
  std::atomic<int> destroyed{0};
  Table table;
  void* const handle = table.insert(std::make_unique<Thing>(7, &destroyed));
  Table::Pin first = table.pin(handle);
  Table::Pin several = first.again(3);
  table.retire(handle, DrainMode::none);
  first = {};
  std::array<Table::Pin, 3> given;
  for (Table::Pin& one : given) one = several.split();
  EXPECT_FALSE(several);
  EXPECT_FALSE(several.split());
  for (Table::Pin& one : given) {
    ASSERT_TRUE(one);
    EXPECT_EQ(7, one->value);
    EXPECT_EQ(0, destroyed);
    one = {};
  }
  EXPECT_EQ(1, destroyed);
}

TEST(SlotTable, WhatIsLeftOfAPinThatStandsForSeveralEndsWithIt) {
  std::atomic<int> destroyed{0};
  Table table;
  void* const handle = table.insert(std::make_unique<Thing>(7, &destroyed));
  {
    Table::Pin several = table.pin(handle).again(5);
    const Table::Pin one = several.split();
    EXPECT_FALSE(several.again(0));
  }
  EXPECT_TRUE(table.retire(handle));
  EXPECT_EQ(1, destroyed);
}

TEST(SlotTable, PinsThatWereJoinedEndTogether) {
  std::atomic<int> destroyed{0};
  std::atomic<int> others_destroyed{0};
  Table table;
  void* const handle = table.insert(std::make_unique<Thing>(7, &destroyed));
  void* const other = table.insert(std::make_unique<Thing>(8, &others_destroyed));
  Table::Pin joined;
  joined.join({});
  EXPECT_FALSE(joined);
  for (int i = 0; i < 3; ++i) joined.join(table.pin(handle));
  joined.join({});
  table.retire(handle, DrainMode::none);
  ASSERT_TRUE(joined);
  EXPECT_EQ(7, joined->value);
  EXPECT_EQ(0, destroyed);
  joined.join(table.pin(other));  // ends the three
  EXPECT_EQ(1, destroyed);
  EXPECT_EQ(8, joined->value);
  table.retire(other, DrainMode::none);
  EXPECT_EQ(0, others_destroyed);
  joined = {};
  EXPECT_EQ(1, others_destroyed);
}

TEST(SlotTable, AbandonedHandlesNameNothingAndTheirObjectsAreLeftAlone) {
  Table table;
  std::atomic<int> destroyed{0};
  auto* const thing = new Thing(1, &destroyed);
  void* const handle = table.insert(std::unique_ptr<Thing>(thing));
  table.abandon_all();
  EXPECT_FALSE(table.pin(handle));
  EXPECT_EQ(table.standing(handle), HandleState::retired);
  EXPECT_FALSE(table.retire(handle));
  EXPECT_TRUE(table.handles().empty());
  EXPECT_EQ(destroyed, 0);
  void* const next = table.insert(std::make_unique<Thing>(2));
  EXPECT_NE(next, handle);
  EXPECT_EQ(table.pin(next)->value, 2);
  delete thing;
}

// Its end takes until it is told to go on.
struct Slow {
  ~Slow() {
    *ending = true;
    ending->notify_all();
    go_on->wait(false);
  }
  std::atomic<bool>* ending;
  std::atomic<bool>* go_on;
};

TEST(SlotTable, AChildOfAForkDoesNotWaitForAThreadThatWasEndingAHandle) {
  SlotTable<Slow, 0x77, 4> table;
  std::atomic<bool> ending = false;
  std::atomic<bool> go_on = false;
  void* const handle = table.insert(std::unique_ptr<Slow>(new Slow{&ending, &go_on}));
  std::thread retiring([&] { EXPECT_TRUE(table.retire(handle)); });
  ending.wait(false);
  EXPECT_EQ(table.handles().size(), 1U);
  table.before_fork();
  table.after_fork(true);
  EXPECT_TRUE(table.handles().empty());
  EXPECT_FALSE(table.retire(handle, DrainMode::none));
  EXPECT_EQ(table.standing(handle), HandleState::retired);
  go_on = true;
  go_on.notify_all();
  retiring.join();
}

}  // namespace
}  // namespace sluice::process
