// SPDX-License-Identifier: Apache-2.0
// Objects that the C API names by a handle. A handle is a slot's index and generation, packed into a pointer that is
// no address: stale handles and garbage are recognised without being dereferenced. Looking one up takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/processor.h"
#include "base/thread_number.h"

namespace sluice::process {

// Whether the end of a handle waits for those that use it.
enum class DrainMode : std::uint8_t { until_the_last_user_left, none };

// What a pointer says of itself.
enum class HandleState : std::uint8_t { garbage, retired, live };

// `Tag` is the handle's top byte: it makes the pointer non-canonical and tells tables apart. `Shards` is how many
// cache lines the count of users is spread over.
template <typename Object, std::uint8_t Tag, std::size_t Shards>
class SlotTable {
  // The life of a slot: free -> live -> dying (users are leaving) -> ending (one thread destroys) -> free of the next
  // generation. One word, so that phase and generation change together.
  enum Phase : std::uint64_t { phase_free = 0, phase_live = 1, phase_dying = 2, phase_ending = 3 };
  static constexpr std::uint64_t phase_mask = 3;
  static constexpr std::uint64_t word_of(std::uint32_t generation, Phase phase) noexcept {
    return std::uint64_t{generation} << 2 | phase;
  }

  static constexpr bool is_about_to_end(std::uint64_t word) noexcept {
    return (word & phase_mask) == phase_dying || (word & phase_mask) == phase_ending;
  }

  struct alignas(base::line_bytes) Count {
    std::atomic<std::uint64_t> users{0};
  };

  struct Slot {
    std::atomic<std::uint64_t> word{word_of(1, phase_free)};
    std::unique_ptr<Object> object;  // written while free; destroyed at the end of the dying phase
    std::array<Count, Shards> counts;
  };

 public:
  using Handle = void*;

  // The right to use an object. While one lives, the object does.
  class Pin {
   public:
    Pin() noexcept = default;
    Pin(Pin&& other) noexcept
        : slot_(std::exchange(other.slot_, nullptr)), shard_(other.shard_), users_(other.users_) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(slot_, other.slot_);
      std::swap(shard_, other.shard_);
      std::swap(users_, other.users_);
      return *this;
    }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    ~Pin() {
      if (slot_ != nullptr) leave(*slot_, slot_->counts[shard_], users_);
    }

    explicit operator bool() const noexcept { return slot_ != nullptr; }
    // One more for the same object: as long as this one lives, it cannot end. It may stand for several, for which
    // others are counted no more; none of none.
    Pin again(std::uint32_t users = 1) const noexcept {
      if (slot_ == nullptr || users == 0) return {};
      slot_->counts[shard_].users.fetch_add(users);
      return Pin(slot_, shard_, users);
    }
    // One of those that this one stands for; in the end itself.
    Pin split() noexcept {
      if (slot_ == nullptr || users_ == 1) return std::move(*this);
      --users_;
      return Pin(slot_, shard_, 1);
    }
    // Lets both end together, which costs no more than one; of another object, this one's first pin ends now.
    void join(Pin&& other) noexcept {
      if (other.slot_ == nullptr) return;
      if (other.slot_ == slot_ && other.shard_ == shard_) {
        users_ += other.users_;
        other.slot_ = nullptr;
      } else {
        Pin moved(std::move(other));
        *this = std::move(moved);
      }
    }
    Object& operator*() const noexcept { return *slot_->object; }
    Object* operator->() const noexcept { return slot_->object.get(); }

   private:
    friend class SlotTable;
    Pin(Slot* slot, std::uint32_t shard, std::uint32_t users) noexcept : slot_(slot), shard_(shard), users_(users) {}
    // Small: each entry of a batch has two.
    Slot* slot_ = nullptr;
    std::uint32_t shard_ = 0;  // of the slot's counts, that it is counted in
    std::uint32_t users_ = 0;  // that it stands for
  };

  // No thread may hold a handle or a pin any more. (The process's own tables are never destroyed.)
  ~SlotTable() {
    for (auto& chunk : chunks_) delete[] chunk.load();
  }
  SlotTable() = default;
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  // Control plane. An object that keeps its own handle has it before any other thread can find it, and end it.
  Handle insert(std::unique_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) grow();
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = *slot_at(index);
    const auto generation = static_cast<std::uint32_t>(slot.word.load() >> 2);
    const Handle handle = pack(index, generation);
    if constexpr (requires { object->set_handle(handle); }) object->set_handle(handle);
    slot.object = std::move(object);
    // The store publishes the object to pin(), which loads the word.
    slot.word.store(word_of(generation, phase_live));
    return handle;
  }

  // The object, or an empty pin when the handle names none. Lock-free; any thread.
  Pin pin(Handle handle) noexcept {
    const auto place = unpack(handle);
    Slot* const slot = place ? slot_at(place->index) : nullptr;
    if (slot == nullptr) return {};
    // Count first, look second: retire() looks at the counts after it has changed the word, so either it sees this
    // user or this user sees the change. Both orders rest on sequential consistency.
    const auto shard = static_cast<std::uint32_t>(base::thread_number() % Shards);
    Count& count = slot->counts[shard];
    count.users.fetch_add(1);
    if (slot->word.load() == word_of(place->generation, phase_live)) return Pin(slot, shard, 1);
    leave(*slot, count, 1);
    return {};
  }

  HandleState standing(Handle handle) noexcept {
    const auto place = unpack(handle);
    Slot* const slot = place ? slot_at(place->index) : nullptr;
    if (slot == nullptr) return HandleState::garbage;
    const std::uint64_t word = slot->word.load();
    if (word == word_of(place->generation, phase_live)) return HandleState::live;
    return place->generation <= word >> 2 ? HandleState::retired : HandleState::garbage;
  }

  // Ends a handle: no new user gets in, and once the last user has left the object is destroyed. Returns after that,
  // also where another thread has begun to end it. False when the handle was not live. Not to be called with a pin of
  // the same handle held, unless without waiting: then it returns at once, and the slot is not used again.
  bool retire(Handle handle, DrainMode drain_mode = DrainMode::until_the_last_user_left) {
    const auto place = unpack(handle);
    Slot* const slot = place ? slot_at(place->index) : nullptr;
    if (slot == nullptr) return false;
    std::uint64_t expected = word_of(place->generation, phase_live);
    const bool was_live = slot->word.compare_exchange_strong(expected, word_of(place->generation, phase_dying));
    if (was_live) settle(*slot, place->generation);
    if (drain_mode == DrainMode::none) return was_live;
    const auto ends = [&](std::uint64_t word) { return word >> 2 == place->generation && is_about_to_end(word); };
    for (std::uint64_t word = slot->word.load(); ends(word); word = slot->word.load()) slot->word.wait(word);
    if (!was_live) return false;
    const std::lock_guard lock(mutex_);
    free_.push_back(place->index);
    return true;
  }

  // The handles that are live now, or about to end. Control plane.
  std::vector<Handle> handles() {
    const std::lock_guard lock(mutex_);
    std::vector<Handle> found;
    for (std::uint32_t index = 0; index < made_; ++index) {
      const std::uint64_t word = slot_at(index)->word.load();
      if ((word & phase_mask) != phase_free) found.push_back(pack(index, static_cast<std::uint32_t>(word >> 2)));
    }
    return found;
  }

  // In the child of a fork: no handle names anything any more. The objects are left as they are, since a thread that
  // the child does not have may have been inside them.
  void abandon_all() {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t index = 0; index < made_; ++index) {
      Slot& slot = *slot_at(index);
      const std::uint64_t word = slot.word.load();
      if ((word & phase_mask) == phase_free) continue;
      [[maybe_unused]] const Object* const left = slot.object.release();
      slot.word.store(word_of(static_cast<std::uint32_t>(word >> 2) + 1, phase_free));
      free_.push_back(index);
    }
  }

  // Around fork: no child inherits the mutex locked, and users that the child's other threads were do not exist there.
  // Nor do those that were ending a handle: it has ended, and its object and slot are left as they are.
  void before_fork() { mutex_.lock(); }
  void after_fork(bool in_child) {
    if (in_child) {
      for (std::uint32_t index = 0; index < made_; ++index) {
        Slot& slot = *slot_at(index);
        for (Count& count : slot.counts) count.users.store(0);
        const std::uint64_t word = slot.word.load();
        const auto generation = static_cast<std::uint32_t>(word >> 2);
        if (is_about_to_end(word)) slot.word.store(word_of(generation + 1, phase_free));
      }
    }
    mutex_.unlock();
  }

 private:
  struct Place {
    std::uint32_t index;
    std::uint32_t generation;
  };

  static constexpr std::uint32_t slots_per_chunk = 64;
  static constexpr std::uint32_t chunk_count = 1u << 12;  // a quarter of a million handles at once

  // tag(8) | generation(32) | index(20) | 0x5
  static Handle pack(std::uint32_t index, std::uint32_t generation) noexcept {
    return reinterpret_cast<Handle>(std::uint64_t{Tag} << 56 | std::uint64_t{generation} << 24 |
                                    std::uint64_t{index} << 4 | 0x5);
  }
  static std::optional<Place> unpack(Handle handle) noexcept {
    const auto bits = reinterpret_cast<std::uint64_t>(handle);
    if (bits >> 56 != Tag || (bits & 0xf) != 0x5) return std::nullopt;
    return Place{static_cast<std::uint32_t>(bits >> 4 & 0xfffff), static_cast<std::uint32_t>(bits >> 24)};
  }

  // Null where there is none: a pointer that only looks like a handle may say any index.
  Slot* slot_at(std::uint32_t index) noexcept {
    if (index >= slots_per_chunk * chunk_count) return nullptr;
    Slot* const chunk = chunks_[index / slots_per_chunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % slots_per_chunk;
  }

  void grow() {
    if (made_ == slots_per_chunk * chunk_count) throw std::bad_alloc();
    free_.reserve(std::size_t{made_} + slots_per_chunk);  // so that retire() never has to allocate
    auto chunk = std::make_unique<Slot[]>(slots_per_chunk);
    // Chunks are never freed: a stale handle may be looked up at any time.
    chunks_[made_ / slots_per_chunk].store(chunk.release(), std::memory_order_release);
    for (std::uint32_t i = slots_per_chunk; i > 0; --i) free_.push_back(made_ + i - 1);
    made_ += slots_per_chunk;
  }

  static void leave(Slot& slot, Count& count, std::uint32_t users) noexcept {
    count.users.fetch_sub(users);
    // By the word's own generation: a stale handle's passing visit may have hidden the last user's leave.
    const std::uint64_t word = slot.word.load();
    if ((word & phase_mask) == phase_dying) settle(slot, static_cast<std::uint32_t>(word >> 2));
  }

  // Ends the dying phase when no user is left. Every user that leaves a dying slot comes here, so the last one does.
  // Users only leave in this phase (those that come look at the word and leave at once), so counts that are all seen
  // to be zero, one after the other, were all zero in the end.
  static void settle(Slot& slot, std::uint32_t generation) noexcept {
    for (const Count& count : slot.counts) {
      if (count.users.load() != 0) return;
    }
    std::uint64_t dying = word_of(generation, phase_dying);
    // Two may get here at once: the exchange picks the one that destroys.
    if (!slot.word.compare_exchange_strong(dying, word_of(generation, phase_ending))) return;
    slot.object.reset();
    slot.word.store(word_of(generation + 1, phase_free));
    slot.word.notify_all();
  }

  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::uint32_t made_ = 0;
  std::array<std::atomic<Slot*>, chunk_count> chunks_{};
};

}  // namespace sluice::process
