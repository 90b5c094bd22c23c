// SPDX-License-Identifier: Apache-2.0
// One source of calls: its own random numbers, memory and streams. In a run with threads each has a thread to itself;
// in a sequential run they take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "cufile.h"
#include "fuzz/watch.h"
#include "fuzz/world.h"
#include "support/cuda_driver.h"
#include "support/memory.h"
#include "support/random.h"

namespace sluice::fuzz {

// The parts of a call, written one after the other.
template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

class Actor {
 public:
  static constexpr std::size_t kMemorySize = 512 * 1024;

  // `trace` writes every call to stdout.
  Actor(World& world, Watch& watch, std::size_t number, std::size_t round, bool trace);
  ~Actor();
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // One thing drawn at random: mostly one call, sometimes a few that belong together.
  void step();
  std::size_t calls() const { return calls_; }
  // Depends on every call and its answer: two sequential runs with one seed have the same.
  std::uint64_t digest() const { return digest_; }

  World& world() { return world_; }
  std::size_t number() const { return number_; }
  std::uint64_t draw(std::uint64_t bound) { return random_.below(bound); }
  bool one_in(std::uint64_t number) { return draw(number) == 0; }
  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return *(choices.begin() + draw(choices.size()));
  }
  template <typename Container>
  auto& any(Container& container) {
    return container[draw(container.size())];
  }

  // Makes a call. It stands in the watch while it runs; its answer enters the digest.
  template <typename Function>
  auto call(const char* name, std::string arguments, Function&& function) {
    begin(name, std::move(arguments));
    const auto answer = function();
    if constexpr (std::is_same_v<decltype(function()), CUfileError_t>) {
      end(static_cast<long long>(answer.err));
    } else {
      end(static_cast<long long>(answer));
    }
    return answer;
  }
  // For calls without an answer that counts.
  template <typename Function>
  void call_only(const char* name, std::string arguments, Function&& function) {
    begin(name, std::move(arguments));
    function();
    end(0);
  }

  // Complains unless the last call's answer is among those allowed.
  void expect(CUfileError_t answer, std::initializer_list<int> allowed);
  void require(bool holds, const std::string& sentence);

  // Memory of this actor alone, of a random kind.
  const support::Memory& memory() { return *any(memories_); }
  // One that a CUDA stream may write the arguments of a call into.
  void* staging() { return staging_.address(); }
  CUstream stream() const { return stream_ ? stream_->get() : CUstream{}; }
  CUfileStatsLevel3_t& statistics() { return *statistics_; }
  // What this actor's part of a sliced file holds, and where it begins.
  Bytes& slice(const Entrance& entrance) { return slices_[entrance.file]; }
  std::size_t slice_offset() const { return number_ * World::kSliceSize; }

  // Sizes and values that are worth trying.
  std::size_t any_size();
  std::uint64_t any_number();
  // An address that is no memory at all: of no mapping, whatever is read into it.
  void* garbage_address();

 private:
  void begin(const char* name, std::string arguments);
  void end(long long answer);

  World& world_;
  Watch& watch_;
  const std::size_t number_;
  const bool trace_;
  support::Random random_;
  std::vector<std::unique_ptr<support::Memory>> memories_;
  support::Memory staging_;
  std::map<const support::ScratchFile*, Bytes> slices_;
  std::unique_ptr<support::Stream> stream_;
  std::unique_ptr<CUfileStatsLevel3_t> statistics_ = std::make_unique<CUfileStatsLevel3_t>();
  std::size_t calls_ = 0;
  std::uint64_t digest_ = 0;
  std::string last_;  // the call with its arguments
};

}  // namespace sluice::fuzz
