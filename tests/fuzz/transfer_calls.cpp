// SPDX-License-Identifier: Apache-2.0
// cuFileRead, cuFileWrite and their vectored forms. What is known is checked: every byte that was read, every byte
// around it, and every byte that was written.
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <limits>
#include <span>

#include "fuzz/families.h"
#include "support/calls.h"

namespace sluice::fuzz {
namespace {

using support::Memory;

constexpr std::size_t kGuard = 64;

// Where a transfer lies in memory: the base that is passed, and the offset from it.
struct Spot {
  std::size_t base = 0;
  std::size_t offset = 0;
  std::size_t begin() const { return base + offset; }
};

Spot any_spot(Actor& actor, std::size_t size) {
  const std::size_t room = Actor::kMemorySize - size - 2 * kGuard;
  const std::size_t begin = actor.one_in(2) ? kGuard + actor.draw(room) : std::min<std::size_t>(4096, room);
  const std::size_t base = actor.one_of<std::size_t>({0, begin, begin / 2, std::min<std::size_t>(begin, 77)});
  return {base, begin - base};
}

// A refusal that is legitimate whenever others deregister and close.
bool is_refusal(int error, CUfileHandle_t handle) {
  return error == CU_FILE_HANDLE_NOT_REGISTERED || error == CU_FILE_INVALID_MAPPING_RANGE ||
         (error == EINVAL && handle == nullptr);
}

std::string spelled(const Entrance& entrance, const Memory& memory, std::size_t size, std::size_t offset, Spot spot) {
  return joined(entrance.name, ", ", support::name_of(memory.kind()), " + ", spot.base, " + ", spot.offset, ", size ",
                size, ", at ", offset);
}

// Where garbage is passed, the operations of a user-space file system must not get it: they would take it for memory.
enum class Operations : std::uint8_t { allowed, none };

Entrance& entrance_of(Actor& actor, Nature nature, Operations operations = Operations::allowed) {
  auto& all = actor.world().entrances();
  for (;;) {
    Entrance& drawn = actor.any(all);
    if (drawn.nature == nature && (operations == Operations::allowed || drawn.operations == nullptr)) return drawn;
  }
}

// The count, or the negated errno.
ssize_t counted_read(Actor& actor, const Entrance& entrance, CUfileHandle_t handle, const Memory& memory,
                     std::size_t size, std::size_t offset, Spot spot) {
  return actor.call("cuFileRead", spelled(entrance, memory, size, offset, spot), [&] {
    const support::Transfer answer = support::read_file(handle, memory.at(spot.base), size, static_cast<off_t>(offset),
                                                        static_cast<off_t>(spot.offset));
    return answer.count < 0 ? -static_cast<ssize_t>(answer.error) : answer.count;
  });
}

// Reads with a pattern around; `wanted` is what has to arrive.
void read_and_check(Actor& actor, const Entrance& entrance, std::size_t size, std::size_t offset,
                    std::span<const unsigned char> wanted) {
  const Memory& memory = actor.memory();
  const Spot spot = any_spot(actor, size);
  const Bytes pattern(size + 2 * kGuard, static_cast<unsigned char>(1 + actor.draw(255)));
  memory.put(spot.begin() - kGuard, pattern);
  const CUfileHandle_t handle = entrance.handle;
  const ssize_t count = counted_read(actor, entrance, handle, memory, size, offset, spot);
  const Bytes found = memory.get(spot.begin() - kGuard, pattern.size());
  const std::span<const unsigned char> all(found);
  if (count < 0) {
    actor.require(is_refusal(static_cast<int>(-count), handle), "no refusal that could be");
    actor.require(found == pattern, "memory was touched by a refused read");
    return;
  }
  actor.require(static_cast<std::size_t>(count) == wanted.size(), joined("not ", wanted.size(), " bytes"));
  if (static_cast<std::size_t>(count) != wanted.size()) return;
  actor.require(std::equal(wanted.begin(), wanted.end(), all.begin() + kGuard), "wrong bytes were read");
  const auto untouched = [&](std::span<const unsigned char> part) {
    return std::all_of(part.begin(), part.end(), [&](unsigned char byte) { return byte == pattern.front(); });
  };
  actor.require(untouched(all.first(kGuard)) && untouched(all.subspan(kGuard + wanted.size())),
                "memory around the bytes was touched");
}

std::size_t any_offset(Actor& actor, std::size_t file_size) {
  switch (actor.draw(6)) {
    case 0:
      return file_size - 1 - actor.draw(9000);
    case 1:
      return file_size + actor.draw(5000);
    case 2:
      return 4096 * actor.draw(file_size / 4096);
    default:
      return actor.draw(file_size);
  }
}

}  // namespace

void read_truth(Actor& actor) {
  const Entrance& entrance = entrance_of(actor, Nature::truth);
  const std::span<const unsigned char> content(*entrance.content);
  const std::size_t offset = any_offset(actor, content.size());
  const std::size_t size = actor.any_size();
  const std::size_t left = content.size() - std::min(content.size(), offset);
  read_and_check(actor, entrance, size, offset,
                 content.subspan(std::min(content.size(), offset), std::min(left, size)));
}

void read_fickle(Actor& actor) {
  const Entrance& entrance = entrance_of(actor, Nature::fickle);
  const Memory& memory = actor.memory();
  const std::size_t size = actor.any_size();
  const Spot spot = any_spot(actor, size);
  const ssize_t count = counted_read(actor, entrance, entrance.handle, memory, size, actor.draw(400000), spot);
  // While the number is closed and opened by others, the kernel may meet any kind of file behind it.
  actor.require(count <= static_cast<ssize_t>(size), "more was read than was asked for");
}

void write_slice(Actor& actor) {
  Entrance& entrance = entrance_of(actor, Nature::slices);
  Bytes& model = actor.slice(entrance);
  const std::size_t within = actor.draw(World::kSliceSize);
  const std::size_t size = std::min(actor.any_size(), World::kSliceSize - within);
  const std::size_t offset = actor.slice_offset() + within;
  const Memory& memory = actor.memory();
  const Spot spot = any_spot(actor, size);
  const Bytes fresh = support::random_bytes(size, actor.draw(UINT_MAX));
  memory.put(spot.begin(), fresh);
  const CUfileHandle_t handle = entrance.handle;
  const ssize_t count = actor.call("cuFileWrite", spelled(entrance, memory, size, offset, spot), [&] {
    const support::Transfer answer = support::write_file(handle, memory.at(spot.base), size, static_cast<off_t>(offset),
                                                         static_cast<off_t>(spot.offset));
    return answer.count < 0 ? -static_cast<ssize_t>(answer.error) : answer.count;
  });
  if (count < 0) {
    actor.require(is_refusal(static_cast<int>(-count), handle), "no refusal that could be");
  } else {
    actor.require(count == static_cast<ssize_t>(size), "a short write");
    std::copy(fresh.begin(), fresh.end(), model.begin() + static_cast<std::ptrdiff_t>(within));
  }
  const Bytes found = support::plain_read(actor.world().plain_fd(entrance), actor.slice_offset(), World::kSliceSize);
  actor.require(found == model, "the file does not hold what this actor wrote into its slice");
  model = found;
}

void read_slice(Actor& actor) {
  Entrance& entrance = entrance_of(actor, Nature::slices);
  const Bytes& model = actor.slice(entrance);
  const std::size_t within = actor.draw(World::kSliceSize);
  const std::size_t size = std::min(actor.any_size(), World::kSliceSize - within);
  if (!entrance.readable) {
    const Memory& memory = actor.memory();
    const Spot spot = any_spot(actor, size);
    const ssize_t count = counted_read(actor, entrance, entrance.handle, memory, size, actor.slice_offset(), spot);
    actor.require(count <= 0, "a file that is open for writing alone was read");
    return;
  }
  read_and_check(actor, entrance, size, actor.slice_offset() + within,
                 std::span<const unsigned char>(model).subspan(within, size));
}

void transfer_vector(Actor& actor) {
  const Entrance& entrance = entrance_of(actor, Nature::truth, Operations::none);
  const Memory& memory = actor.memory();
  std::array<CUfileIOVec_t, 5> parts{};
  const std::size_t count = actor.draw(parts.size() + 1);
  std::size_t total = 0;
  std::size_t at = kGuard;
  for (std::size_t i = 0; i < count; ++i) {
    parts[i] = {memory.at(at), actor.draw(20000)};
    total += parts[i].len;
    at += parts[i].len + actor.draw(3000);
  }
  if (count > 0 && actor.one_in(8)) parts[actor.draw(count)].base = nullptr;
  const bool garbage = count > 0 && actor.one_in(8);
  if (garbage) parts[actor.draw(count)].len = actor.one_of<std::size_t>({SIZE_MAX, std::size_t{1} << 63U});
  const CUfileIOVec_t* const vector = actor.one_in(10) ? nullptr : parts.data();
  const unsigned flags = actor.one_in(10) ? static_cast<unsigned>(actor.any_number()) : 0;
  const off_t offset = actor.one_in(10) ? -1 : static_cast<off_t>(actor.draw(entrance.content->size() + 1));
  const CUfileHandle_t handle = entrance.handle;
  const bool writes = actor.one_in(5);  // refused, since the file is open for reading alone
  const ssize_t answer =
      actor.call(writes ? "cuFileWritev" : "cuFileReadv",
                 joined(entrance.name, ", ", count, " parts, ", total, " bytes at ", offset, ", flags ", flags), [&] {
                   const ssize_t moved = writes ? cuFileWritev(handle, vector, count, offset, flags)
                                                : cuFileReadv(handle, vector, count, offset, flags);
                   return moved < 0 ? -static_cast<ssize_t>(errno) : moved;
                 });
  if (garbage || writes) {
    actor.require(answer <= 0, "a vector that cannot be was moved");
    return;
  }
  const std::size_t end = entrance.content->size() - static_cast<std::size_t>(std::max<off_t>(offset, 0));
  actor.require(answer <= static_cast<ssize_t>(std::min(total, end)), "more was moved than there is");
  // Others may have registered a range that a part leaves: then the parts before it have arrived.
  std::size_t left = static_cast<std::size_t>(std::max<ssize_t>(answer, 0));
  auto wanted = entrance.content->begin() + std::max<off_t>(offset, 0);
  for (std::size_t i = 0; i < count && left > 0; ++i) {
    const std::size_t length = std::min(left, parts[i].len);
    if (length == 0) continue;  // such a part may have no address
    const auto begin = static_cast<unsigned char*>(parts[i].base) - static_cast<unsigned char*>(memory.address());
    const Bytes found = memory.get(static_cast<std::size_t>(begin), length);
    actor.require(std::equal(found.begin(), found.end(), wanted), joined("part ", i, " has wrong bytes"));
    wanted += static_cast<std::ptrdiff_t>(length);
    left -= length;
  }
}

void transfer_wrongly(Actor& actor) {
  const Entrance& entrance = entrance_of(actor, Nature::truth, Operations::none);
  CUfileHandle_t handle = entrance.handle;
  const Memory& memory = actor.memory();
  void* base = memory.address();
  std::size_t size = 1 + actor.draw(5000);
  off_t offset = 0;
  off_t buffer_offset = 0;
  int expected = 0;  // where the arguments alone decide; 0: any failure
  std::string what;
  switch (actor.draw(8)) {
    case 0:
      handle = nullptr;
      expected = EINVAL;
      what = "a null handle";
      break;
    case 1:
      handle = reinterpret_cast<CUfileHandle_t>(actor.any_number() | 1U << 31U);
      what = "a garbage handle";
      break;
    case 2:
      handle = actor.world().dead_handle(actor.draw(64));
      what = "a dead handle";
      break;
    case 3:
      base = nullptr;
      what = "a null buffer";
      break;
    case 4:
      base = actor.garbage_address();
      what = "a garbage buffer";
      break;
    case 5:
      offset = std::numeric_limits<off_t>::min() + static_cast<off_t>(actor.any_number() / 2);
      what = "a negative offset";
      break;
    case 6:
      buffer_offset = std::numeric_limits<off_t>::min() + static_cast<off_t>(actor.draw(1U << 30U));
      what = "a buffer offset before all memory";
      break;
    default:
      size = actor.one_of<std::size_t>({std::size_t{1} << 63U, SIZE_MAX, SIZE_MAX - 1});
      what = "a size beyond all memory";
  }
  const bool writes = actor.one_in(2);
  const ssize_t count = actor.call(writes ? "cuFileWrite" : "cuFileRead", joined(what, ", ", entrance.name), [&] {
    const support::Transfer answer = writes ? support::write_file(handle, base, size, offset, buffer_offset)
                                            : support::read_file(handle, base, size, offset, buffer_offset);
    return answer.count < 0 ? -static_cast<ssize_t>(answer.error) : answer.count;
  });
  actor.require(count < 0, "it was moved");
  actor.require(expected == 0 || count == -expected, joined("not errno ", expected));
}

}  // namespace sluice::fuzz
