// SPDX-License-Identifier: Apache-2.0
// The host's side of the scatter kernel's protocol, and its model.
#include "scatter_rig.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <sstream>

namespace sluice::gpu_suite {

namespace {

constexpr std::uint8_t untouched = 0xee;
constexpr std::uint32_t go = 1;
constexpr std::uint32_t off = 2;

template <typename Word>
Word look(Word& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

template <typename Word>
void put(Word& word, Word value) {
  std::atomic_ref(word).store(value, std::memory_order_seq_cst);
}

}  // namespace

std::string described(const ScatterCase& given) {
  std::ostringstream text;
  text << given.count() << " chunks, " << given.places << " places of " << given.stride << " bytes, " << given.blocks
       << " x " << given.threads << " threads, length @ target:";
  for (const ScatterChunk& chunk : given.chunks) text << ' ' << chunk.length << '@' << chunk.at;
  return text.str();
}

ScatterCase seeded_scatter(unsigned seed) {
  std::mt19937 random(seed);
  const auto upto = [&](std::uint32_t most) { return static_cast<std::uint32_t>(random() % (most + 1U)); };
  constexpr std::array<std::uint32_t, 6> strides{32, 64, 528, 4160, 16384, 16448};
  ScatterCase made;
  made.stride = strides[upto(strides.size() - 1)];
  made.places = 1 + upto(23);
  made.blocks = 1 + upto(upto(1) == 0 ? 3 : 31);
  made.threads = 32 * (2 + upto(15));
  const std::uint32_t longest = made.stride - 16;
  std::uint64_t at = upto(40);
  for (std::uint32_t count = 1 + upto(60); count > 0 && at + longest < ScatterRig::target_bytes; --count) {
    const std::uint32_t length = upto(3) == 0 ? upto(longest) : longest;
    made.chunks.push_back({at, length});
    at += length + (upto(1) == 0 ? 0 : upto(50));
  }
  std::shuffle(made.chunks.begin(), made.chunks.end(), random);
  return made;
}

ScatterRig::ScatterRig() : staging_(staging_bytes), target_(target_bytes), counters_(64) {
  std::memset(staging_.data(), 0, staging_.size());
  EXPECT_EQ(cuda::success, cuMemsetD8_v2(counters_.at(), 0, counters_.size()));
  EXPECT_EQ(cuda::success, cuCtxSynchronize());
  drained_.assign(std::size(words().completed), 0);
}

void ScatterRig::begin(const ScatterCase& given) {
  ASSERT_LE(given.places, std::size(words().tickets)) << described(given);
  ASSERT_LE(given.count(), std::size(words().targets)) << described(given);
  ASSERT_LE(places_at + std::uint64_t{given.stride} * given.places, staging_bytes) << described(given);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(target_.at(), untouched, target_.size()));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  expected_.assign(target_.size(), untouched);
  ++launch_id_;
  first_number_ = next_number_;
  next_number_ += given.count();
  for (std::uint32_t chunk = 0; chunk < given.count(); ++chunk) {
    words().targets[chunk] = target_.at(given.chunks[chunk].at);
  }
  put(words().tickets[0].value, std::uint64_t{0});  // may still say that a launch is revoked
}

cuda::Result ScatterRig::launch(const ScatterCase& given) {
  const auto on_device = [](const void* address) { return reinterpret_cast<Ptr>(address); };
  Ptr places = on_device(staging_.data() + places_at);
  Ptr targets = on_device(words().targets);
  Ptr tickets = on_device(words().tickets);
  Ptr completed = on_device(words().completed);
  Ptr launch_words = on_device(&words());
  Ptr counters = counters_.at();
  std::array<std::uint32_t, 5> numbers{given.stride, given.count(), given.places, first_number_, launch_id_};
  std::array<void*, 11> parameters{&places,     &targets,    &tickets,    &completed,  &launch_words, &counters,
                                   &numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4]};
  return cuLaunchKernel(kernel_.function(), given.blocks, 1, 1, given.threads, 1, 1, 0, stream_.get(),
                        parameters.data(), nullptr);
}

// False: the kernel has ended without taking the chunk before.
bool ScatterRig::wait_for_place(const ScatterCase& given, std::uint32_t chunk) const {
  if (chunk < given.places) return true;
  std::uint32_t& completed = words().completed[(chunk - given.places) % gpu::ticket_slots];
  const std::uint32_t before = first_number_ + chunk - given.places;
  while (look(completed) != before) {
    if (cuStreamQuery(stream_.get()) != cuda::error_not_ready) return look(completed) == before;
  }
  return true;
}

void ScatterRig::publish(const ScatterCase& given, std::uint32_t chunk) {
  ASSERT_TRUE(wait_for_place(given, chunk)) << "chunk " << chunk << " of " << described(given);
  const auto [at, length] = given.chunks[chunk];
  const std::uint32_t place = given.places - 1 - chunk % given.places;  // any order will do
  const std::uint32_t slot = chunk % gpu::ticket_slots;
  const std::uint32_t number = first_number_ + chunk;
  const auto bytes = pattern(given.stride, number);
  std::uint8_t* const to = staging_.data() + places_at + std::size_t{place} * given.stride;
  std::copy(bytes.begin(), bytes.end(), to);
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(target_.at(at) % 16), length,
              expected_.begin() + static_cast<std::ptrdiff_t>(at));
  if (given.count() > given.places) drained_[slot] = number;
  put(words().tickets[slot].value, gpu::ticket_of(number, length, place));
}

void ScatterRig::publish_all(const ScatterCase& given, Order order) {
  for (std::uint32_t first = 0; first < given.count(); first += given.places) {
    const std::uint32_t end = std::min(first + given.places, given.count());
    for (std::uint32_t chunk = first; chunk < end; ++chunk) {
      publish(given, order == Order::forward ? chunk : first + end - 1 - chunk);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void ScatterRig::expect_words(std::uint32_t commit) const {
  EXPECT_EQ(launch_id_, look(words().begun));
  EXPECT_EQ(launch_id_ << 2U | commit, look(words().commit));
  EXPECT_EQ(done_launch_id_, look(words().done));
  EXPECT_EQ(launch_id_, look(words().left));
  const std::vector<std::uint32_t> seen(std::begin(words().completed), std::end(words().completed));
  EXPECT_EQ(drained_, seen);
}

// Only the verdict may stay, which carries the serial number of its launch.
void ScatterRig::expect_counters_at_rest() const {
  auto counters = counters_.bytes();
  std::fill_n(counters.begin() + 4, 4, std::uint8_t{0});
  EXPECT_EQ(std::vector<std::uint8_t>(counters.size(), 0), counters);
}

void ScatterRig::carry(const ScatterCase& given, Order order) {
  ASSERT_NO_FATAL_FAILURE(begin(given));
  ASSERT_EQ(cuda::success, launch(given));
  publish_all(given, order);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream_.get()));
  const auto seen = target_.bytes();
  const auto [left, right] = std::mismatch(expected_.begin(), expected_.end(), seen.begin(), seen.end());
  EXPECT_TRUE(left == expected_.end() && right == seen.end())
      << "at " << left - expected_.begin() << " of the target, " << described(given);
  done_launch_id_ = launch_id_;
  expect_words(go);
  expect_counters_at_rest();
}

void ScatterRig::revoke_with_a_ticket(const ScatterCase& given) {
  ASSERT_NO_FATAL_FAILURE(begin(given));
  const std::vector<std::uint8_t> nothing = expected_;
  publish_all(given, Order::forward);
  ASSERT_EQ(cuda::success, launch(given));
  while (look(words().begun) != launch_id_ && cuStreamQuery(stream_.get()) == cuda::error_not_ready) {
  }
  put(words().tickets[0].value, std::uint64_t{gpu::revoked_ticket});
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream_.get()));
  const bool carried = look(words().commit) == (launch_id_ << 2U | go);
  if (carried) done_launch_id_ = launch_id_;
  expect_words(carried ? go : off);
  EXPECT_TRUE((carried ? expected_ : nothing) == target_.bytes()) << described(given);
}

void ScatterRig::revoke(const ScatterCase& given, Leave when) {
  ASSERT_NO_FATAL_FAILURE(begin(given));
  const std::uint64_t leave = std::uint64_t{gpu::revoked_ticket};
  if (when == Leave::before_it_begins) {
    Gate gate(stream_.get());
    ASSERT_EQ(cuda::success, launch(given));
    put(words().tickets[0].value, leave);
  } else {
    ASSERT_EQ(cuda::success, launch(given));
    while (look(words().begun) != launch_id_) ASSERT_EQ(cuda::error_not_ready, cuStreamQuery(stream_.get()));
    put(words().tickets[0].value, leave);
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream_.get()));
  EXPECT_TRUE(expected_ == target_.bytes()) << described(given);
  expect_words(off);
  EXPECT_EQ(leave, look(words().tickets[0].value));
  expect_counters_at_rest();
}

}  // namespace sluice::gpu_suite
