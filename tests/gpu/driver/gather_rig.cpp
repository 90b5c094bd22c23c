// SPDX-License-Identifier: Apache-2.0
// The host's side of the kernel's protocol, and its model.
#include "gather_rig.h"

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

// A reader of a failure wants a place, not megabytes.
template <typename Values>
std::string first_difference(const Values& expected, const Values& seen) {
  if (expected.size() != seen.size()) return "sizes differ";
  const auto [left, right] = std::mismatch(expected.begin(), expected.end(), seen.begin());
  if (left == expected.end()) return "";
  std::ostringstream text;
  text << "at " << left - expected.begin() << ": expected " << +*left << ", got " << +*right;
  return text.str();
}

// Any order will do, as long as a place is used again only when what lay there has been taken.
std::uint32_t place_of(const GatherCase& given, std::uint32_t chunk) {
  return given.places - 1 - chunk % given.places;
}

std::uint32_t into(const GatherCase& given, std::uint32_t chunk) {
  return chunk == 0 ? given.skip : 0;
}

}  // namespace

std::string described(const GatherCase& given) {
  std::ostringstream text;
  text << "chunks of " << given.chunk_bytes << " bytes, " << given.stride << " apart, skip " << given.skip << ", "
       << given.places << " places, distance " << given.distance << ", " << given.blocks << " x " << given.threads
       << " threads, lengths";
  for (const std::uint32_t length : given.lengths) text << ' ' << length;
  return text.str();
}

GatherCase seeded_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto upto = [&](std::uint32_t most) { return static_cast<std::uint32_t>(random() % (most + 1U)); };
  constexpr std::array<std::uint32_t, 7> chunk_sizes{16, 48, 512, 4096, 16384, 16400, 65536};
  GatherCase made;
  made.chunk_bytes = chunk_sizes[upto(chunk_sizes.size() - 1)];
  made.stride = made.chunk_bytes + 16 * upto(3);
  made.skip = upto(2) == 0 ? 0 : upto(made.chunk_bytes - 1);
  made.places = 1 + upto(11);
  made.distance = upto(15);
  const std::uint32_t chunks = 1 + upto(made.chunk_bytes > 4096 ? 20 : 40);
  made.blocks = 1 + upto(upto(1) == 0 ? 3 : 31);
  made.threads = 32 * (2 + upto(15));
  // Full chunks, of which the last may be short; or lengths as they come, as no file has them.
  const bool ragged = upto(3) == 0;
  const std::uint32_t ends = upto(2) == 0 ? upto(chunks) : chunks;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const std::uint32_t room = made.chunk_bytes - into(made, chunk);
    std::uint32_t length = chunk < ends ? room : 0;
    if (ragged || (chunk + 1 == ends && upto(1) == 0)) length = upto(room);
    made.lengths.push_back(length);
  }
  return made;
}

GatherRig::GatherRig(GatherKernel::Kind kind)
    : relays_(kind == GatherKernel::Kind::relays),
      kernel_(kind),
      staging_(staging_bytes),
      target_(target_bytes + 2 * guard),
      counters_(64) {
  std::memset(staging_.data(), 0, staging_.size());
  EXPECT_EQ(cuda::success, cuMemsetD8_v2(counters_.at(), 0, counters_.size()));
  EXPECT_EQ(cuda::success, cuCtxSynchronize());
  drained_.assign(std::size(words().completed), 0);
}

void GatherRig::begin(const GatherCase& given) {
  ++launch_id_;
  first_number_ = next_number_;
  next_number_ += given.chunks();
  put(words().tickets[0].value, std::uint64_t{0});  // may still say that a launch is revoked
}

cuda::Result GatherRig::launch(const GatherCase& given, Ptr target) {
  const auto on_device = [](const void* address) { return reinterpret_cast<Ptr>(address); };
  Ptr places_address = on_device(places(given));
  Ptr tickets = on_device(words().tickets);
  Ptr completed = on_device(words().completed);
  Ptr launch_words = on_device(&words());
  Ptr counters = counters_.at();
  std::array<std::uint32_t, 8> numbers{given.chunk_bytes, given.stride,  given.skip, given.chunks(),
                                       given.places,      first_number_, launch_id_, target_slots(given)};
  std::array<void*, 14> parameters{&places_address, &target,     &tickets,    &completed,  &launch_words,
                                   &counters,       &numbers[0], &numbers[1], &numbers[2], &numbers[3],
                                   &numbers[4],     &numbers[5], &numbers[6], &numbers[7]};
  return cuLaunchKernel(kernel_.function(), given.blocks, 1, 1, given.threads, 1, 1, 0, stream_.get(),
                        parameters.data(), nullptr);
}

// False: the kernel has ended without taking the chunk before.
bool GatherRig::wait_for_place(const GatherCase& given, std::uint32_t chunk) const {
  if (chunk < given.places) return true;
  const std::uint32_t before = first_number_ + chunk - given.places;
  std::uint32_t& completed = words().completed[(chunk - given.places) % gpu::ticket_slots];
  while (look(completed) != before) {
    if (cuStreamQuery(stream_.get()) != cuda::error_not_ready) return look(completed) == before;
  }
  return true;
}

// Fills the places, chunk after chunk, as they become free. The model does the same to `expected_`, which lies as the
// target does.
void GatherRig::publish(const GatherCase& given) {
  for (std::uint32_t chunk = 0; chunk < given.chunks(); ++chunk) {
    ASSERT_TRUE(wait_for_place(given, chunk)) << "chunk " << chunk << " of " << described(given);
    const std::uint32_t place = place_of(given, chunk);
    const std::uint32_t slot = chunk % gpu::ticket_slots;
    const std::uint32_t length = given.lengths[chunk];
    const std::uint32_t number = first_number_ + chunk;
    std::uint8_t* const to = places(given) + std::size_t{place} * given.stride;
    const auto bytes = pattern(given.stride, number);
    std::copy(bytes.begin(), bytes.end(), to);
    const std::uint64_t at = std::uint64_t{chunk % target_slots(given)} * given.chunk_bytes + into(given, chunk);
    std::copy_n(bytes.begin() + into(given, chunk), length, expected_.begin() + static_cast<std::ptrdiff_t>(at));
    if (given.chunks() > given.places) drained_[slot] = number;
    put(words().tickets[slot].value, gpu::ticket_of(number, length, place));
  }
  staging_then_.assign(staging_.data() + places_at, staging_.data() + staging_.size());
  tickets_ = tickets_now();
}

std::vector<std::uint64_t> GatherRig::tickets_now() const {
  std::vector<std::uint64_t> values;
  for (const gpu::Ticket& ticket : words().tickets) values.push_back(ticket.value);
  return values;
}

void GatherRig::expect_words(std::uint32_t commit, std::uint32_t done) const {
  EXPECT_EQ(launch_id_, look(words().begun));
  EXPECT_EQ(launch_id_ << 2U | commit, look(words().commit));
  EXPECT_EQ(done, look(words().done));
  EXPECT_EQ(launch_id_, look(words().left));
}

void GatherRig::expect_drained(const GatherCase& given) const {
  const std::vector<std::uint32_t> seen(std::begin(words().completed), std::end(words().completed));
  EXPECT_EQ("", first_difference(drained_, seen)) << "drained, " << described(given);
}

void GatherRig::expect_staging_untouched(const GatherCase& given) const {
  const std::vector<std::uint8_t> staging(staging_.data() + places_at, staging_.data() + staging_.size());
  EXPECT_EQ("", first_difference(staging_then_, staging)) << "places, " << described(given);
  EXPECT_EQ("", first_difference(tickets_, tickets_now())) << "tickets, " << described(given);
}

// Only the verdict may stay, which carries the serial number of its launch.
void GatherRig::expect_counters_at_rest() const {
  auto counters = counters_.bytes();
  std::fill_n(counters.begin() + 4, 4, std::uint8_t{0});
  EXPECT_EQ(std::vector<std::uint8_t>(counters.size(), 0), counters);
}

void GatherRig::carry(const GatherCase& given) {
  ASSERT_LE(given.target_bytes(), target_bytes - 16) << described(given);
  ASSERT_LE(places_at + 16 + std::uint64_t{given.stride} * given.places, staging_bytes) << described(given);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(target_.at(), untouched, target_.size()));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  const std::uint64_t begins = guard + given.distance;
  expected_.assign(given.target_bytes(), untouched);
  begin(given);
  ASSERT_EQ(cuda::success, launch(given, target_.at(begins)));
  publish(given);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream_.get()));
  std::vector<std::uint8_t> whole(target_.size(), untouched);
  std::copy(expected_.begin(), expected_.end(), whole.begin() + static_cast<std::ptrdiff_t>(begins));
  EXPECT_EQ("", first_difference(whole, target_.bytes())) << "target from " << begins << ", " << described(given);
  done_launch_id_ = launch_id_;
  expect_words(go, done_launch_id_);
  expect_drained(given);
  expect_staging_untouched(given);
  expect_counters_at_rest();
}

void GatherRig::carry_to(const GatherCase& given, Ptr memory, std::uint64_t size) {
  ASSERT_EQ(size, given.target_bytes());
  expected_.assign(size, untouched);
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(memory, untouched, size));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  begin(given);
  ASSERT_EQ(cuda::success, launch(given, memory));
  publish(given);
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream_.get()));
  std::vector<std::uint8_t> seen(size);
  ASSERT_EQ(cuda::success, cuMemcpyDtoH_v2(seen.data(), memory, size));
  EXPECT_EQ("", first_difference(expected_, seen)) << described(given);
  done_launch_id_ = launch_id_;
  expect_words(go, done_launch_id_);
}

void GatherRig::revoke_with_a_ticket(std::uint32_t chunks) {
  GatherCase given;
  given.chunk_bytes = given.stride = given.threads = 64;
  given.places = 64;
  given.lengths.assign(chunks, 64);
  expected_.assign(given.target_bytes(), untouched);
  begin(given);
  ASSERT_EQ(cuda::success, cuMemsetD8Async(target_.at(), untouched, given.target_bytes(), stream_.get()));
  publish(given);
  ASSERT_EQ(cuda::success, launch(given, target_.at()));
  while (look(words().begun) != launch_id_ && cuStreamQuery(stream_.get()) == cuda::error_not_ready) {
  }
  put(words().tickets[0].value, std::uint64_t{gpu::revoked_ticket});
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream_.get()));
  const bool carried = look(words().commit) == (launch_id_ << 2U | go);
  if (carried) done_launch_id_ = launch_id_;
  expect_words(carried ? go : off, done_launch_id_);
  std::vector<std::uint8_t> seen(given.target_bytes());
  ASSERT_EQ(cuda::success, cuMemcpyDtoH_v2(seen.data(), target_.at(), seen.size()));
  const std::vector<std::uint8_t> nothing(seen.size(), untouched);
  EXPECT_EQ("", first_difference(carried ? expected_ : nothing, seen)) << described(given);
}

void GatherRig::revoke(const GatherCase& given, CallOff when) {
  ASSERT_EQ(cuda::success, cuMemsetD8_v2(target_.at(), untouched, target_.size()));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  begin(given);
  const std::uint64_t leave = std::uint64_t{gpu::revoked_ticket};
  if (when == CallOff::before_it_begins) {
    Gate gate(stream_.get());
    ASSERT_EQ(cuda::success, launch(given, target_.at(guard)));
    put(words().tickets[0].value, leave);
  } else {
    ASSERT_EQ(cuda::success, launch(given, target_.at(guard)));
    while (look(words().begun) != launch_id_) ASSERT_EQ(cuda::error_not_ready, cuStreamQuery(stream_.get()));
    put(words().tickets[0].value, leave);
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream_.get()));
  EXPECT_EQ("", first_difference(std::vector<std::uint8_t>(target_.size(), untouched), target_.bytes()));
  expect_words(off, done_launch_id_);
  expect_drained(given);
  EXPECT_EQ(leave, look(words().tickets[0].value));
  expect_counters_at_rest();
}

}  // namespace sluice::gpu_suite
