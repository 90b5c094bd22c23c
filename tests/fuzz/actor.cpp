// SPDX-License-Identifier: Apache-2.0
// Drawing, calling and judging: what the families of calls share.
#include "fuzz/actor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "fuzz/families.h"

namespace sluice::fuzz {
namespace {

using support::MemoryKind;

// Reserved once, never readable or writable, never given to another mapping.
void* reserved() {
  static void* const address =
      mmap(nullptr, std::size_t{1} << 20U, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address;
}

MemoryKind kind_for_staging() {
  return support::available(MemoryKind::pinned) ? MemoryKind::pinned : MemoryKind::plain;
}

}  // namespace

Actor::Actor(World& world, Watch& watch, std::size_t number, std::size_t round, bool trace)
    : world_(world),
      watch_(watch),
      number_(number),
      trace_(trace),
      random_(support::mix(support::run_seed()) ^ support::mix(1000 * round + number + 1)),
      staging_(kind_for_staging(), 4096) {
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed, MemoryKind::device}) {
    if (!support::available(kind)) continue;
    memories_.push_back(std::make_unique<support::Memory>(kind, kMemorySize));
    memories_.back()->fill(0);
    world.areas().push_back(memories_.back().get());
  }
  if (support::cuda() != nullptr) stream_ = std::make_unique<support::Stream>();
  for (const Entrance& entrance : world.entrances()) {
    if (entrance.nature == Nature::slices) slices_[entrance.file].assign(World::kSliceSize, 0);
  }
}

Actor::~Actor() = default;

void Actor::step() {
  const Call& chosen = draw_call(*this);
  chosen.make(*this);
}

void Actor::begin(const char* name, std::string arguments) {
  last_ = joined(name, "(", arguments, ")");
  watch_.enter(number_, last_);
  ++calls_;
  digest_ = support::mix(digest_ ^ support::hash_of(name));
}

void Actor::end(long long answer) {
  watch_.leave(number_);
  digest_ = support::mix(digest_ ^ static_cast<std::uint64_t>(answer));
  if (trace_) std::printf("actor %zu: %s = %lld\n", number_, last_.c_str(), answer);
}

void Actor::expect(CUfileError_t answer, std::initializer_list<int> allowed) {
  const int code = static_cast<int>(answer.err);
  const bool known = std::find(allowed.begin(), allowed.end(), code) != allowed.end();
  require(known, joined("answered ", code, " (", cufileop_status_error(answer.err), ")"));
  require(code == CU_FILE_CUDA_DRIVER_ERROR || static_cast<int>(answer.cu_err) == 0,
          joined("cu_err is ", static_cast<int>(answer.cu_err), " beside ", code));
}

void Actor::require(bool holds, const std::string& sentence) {
  if (!holds) world_.complain(joined("actor ", number_, ", call ", calls_, ": ", last_, ": ", sentence));
}

std::size_t Actor::any_size() {
  switch (draw(8)) {
    case 0:
      return draw(2);
    case 1:
      return 4096 * (1 + draw(16));
    case 2:
      return 4096 * (1 + draw(16)) + draw(3) - 1;
    case 3:
      return 1 + draw(200000);
    default:
      return 1 + draw(20000);
  }
}

std::uint64_t Actor::any_number() {
  switch (draw(6)) {
    case 0:
      return draw(3);
    case 1:
      return 4 * draw(64);
    case 2:
      return 64 * draw(300);
    case 3:
      return std::uint64_t{1} << draw(64);
    case 4:
      return std::numeric_limits<std::uint64_t>::max() - draw(3);
    default:
      return draw(std::numeric_limits<std::uint64_t>::max());
  }
}

void* Actor::garbage_address() {
  const std::uintptr_t address = one_of<std::uintptr_t>({
      reinterpret_cast<std::uintptr_t>(reserved()) + draw(1U << 20U),
      1 + draw(4095),                    // the first page is never mapped
      0x8000000000000000U + draw(4096),  // no address of a process
      UINTPTR_MAX - draw(4096),
  });
  return reinterpret_cast<void*>(address);
}

}  // namespace sluice::fuzz
