// SPDX-License-Identifier: Apache-2.0
#include "failures/world.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace sluice::failures {

using namespace support;

namespace {

constexpr unsigned char kSoil = 0xa5;
constexpr std::size_t kBeside = 64;

CudaAddress device_address(const Memory& memory, std::size_t at) {
  return reinterpret_cast<CudaAddress>(memory.at(at));
}

Range with_beside(const Range& range) {
  const std::size_t begin = range.memory_at - std::min(range.memory_at, kBeside);
  const std::size_t end = std::min(range.memory_at + range.size + kBeside, kMemorySize);
  return {end - begin, range.file_at, begin};
}

bool all_are(unsigned char value, std::span<const unsigned char> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [value](unsigned char byte) { return byte == value; });
}

}  // namespace

World::World(Record& record, const std::string& directory, std::uint64_t seed)
    : record_(record),
      random_(seed),
      file_(random_bytes(kFileSize, seed), directory),
      buffered_(file_.open(O_RDWR)),
      direct_(file_.open(O_RDWR | O_DIRECT)),
      model_(file_.content()),
      scratch_(kMemorySize),
      written_(kMemorySize) {
  constexpr std::array kinds{MemoryKind::device, MemoryKind::device, MemoryKind::pinned, MemoryKind::plain,
                             MemoryKind::managed};
  for (std::size_t i = 0; i < memories; ++i) memories_[i] = std::make_unique<Memory>(kinds[i], kMemorySize);
  void* const mapped = mmap(nullptr, kFileSize, PROT_READ, MAP_SHARED, buffered_.get(), 0);
  if (mapped == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  mapped_ = static_cast<const unsigned char*>(mapped);
}

World::~World() {
  munmap(const_cast<unsigned char*>(mapped_), kFileSize);
}

bool World::take(const Memory& memory, std::size_t at, std::size_t size) const {
  if (memory.kind() != MemoryKind::device) {
    std::memcpy(scratch_.data() + at, memory.at(at), size);
    return true;
  }
  if (cuda()->to_host(scratch_.data() + at, device_address(memory, at), size) == 0) return true;
  could_not_look_ = true;
  return false;
}

bool World::put(const Memory& memory, std::size_t at, std::size_t size) const {
  if (memory.kind() != MemoryKind::device) {
    std::memcpy(memory.at(at), scratch_.data() + at, size);
    return true;
  }
  if (cuda()->to_device(device_address(memory, at), scratch_.data() + at, size) == 0 &&
      cuda()->context_synchronize() == 0) {
    return true;
  }
  could_not_look_ = true;
  return false;
}

void World::allow_a_minute() {
  alarm(60);
}

void World::soil(const Memory& memory, const Range& range) const {
  allow_a_minute();
  const Range wide = with_beside(range);
  std::memset(scratch_.data() + wide.memory_at, kSoil, wide.size);
  put(memory, wide.memory_at, wide.size);
}

void World::complain(const char* what, const Range& range, ssize_t count, const char* why) const {
  record_.tell("bad %s of %zu at %zu, memory at %zu, answers %zd: %s", what, range.size, range.file_at, range.memory_at,
               count, why);
  complained_ = true;
}

Verdict World::judge_read(const char* what, const Memory& memory, const Range& range, ssize_t count) {
  if (count < 0) {
    record_.tell("refused %s: %zd", what, -count);
    return Verdict::refused;
  }
  const std::size_t there = range.file_at < kFileSize ? std::min(range.size, kFileSize - range.file_at) : 0;
  const auto read = static_cast<std::size_t>(count);
  const bool is_short = read < there && reads_may_be_short_;
  if (read != there && !is_short) {
    complain(what, range, count, "a count that is not the file's");
    return Verdict::bad;
  }
  const Range wide = with_beside(range);
  if (!take(memory, wide.memory_at, wide.size)) return Verdict::done;
  const std::span<const unsigned char> found(scratch_);
  if (std::memcmp(scratch_.data() + range.memory_at, model_.data() + range.file_at, read) != 0) {
    complain(what, range, count, "other bytes than the file's");
    return Verdict::bad;
  }
  const std::size_t end = range.memory_at + (is_short ? range.size : read);
  const bool clean = all_are(kSoil, found.subspan(wide.memory_at, range.memory_at - wide.memory_at)) &&
                     all_are(kSoil, found.subspan(end, wide.memory_at + wide.size - end));
  if (!clean) {
    complain(what, range, count, "bytes beside those that were asked for are changed");
    return Verdict::bad;
  }
  return is_short ? Verdict::short_but_true : Verdict::done;
}

void World::fill(const Memory& memory, const Range& range) {
  allow_a_minute();
  for (std::size_t i = 0; i < range.size; i += sizeof(std::uint64_t)) {
    const std::uint64_t value = random_.next();
    std::memcpy(scratch_.data() + range.memory_at + i, &value, std::min(sizeof value, range.size - i));
  }
  std::memcpy(written_.data() + range.memory_at, scratch_.data() + range.memory_at, range.size);
  put(memory, range.memory_at, range.size);
}

bool World::file_is_as_modelled_outside(const Range& range) const {
  const std::size_t end = range.file_at + range.size;
  return std::memcmp(mapped_, model_.data(), range.file_at) == 0 &&
         std::memcmp(mapped_ + end, model_.data() + end, kFileSize - end) == 0;
}

void World::expect(const Range& range, ssize_t count) {
  const std::size_t written = std::min(static_cast<std::size_t>(std::max<ssize_t>(count, 0)), range.size);
  std::memcpy(model_.data() + range.file_at, written_.data() + range.memory_at, written);
  std::memcpy(model_.data() + range.file_at + written, mapped_ + range.file_at + written, range.size - written);
}

Verdict World::judge_write(const char* what, const Range& range, ssize_t count) {
  if (count > static_cast<ssize_t>(range.size)) {
    complain(what, range, count, "more than was asked for");
    return Verdict::bad;
  }
  expect(range, count);
  const auto written = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  if (std::memcmp(mapped_ + range.file_at, model_.data() + range.file_at, written) != 0) {
    complain(what, range, count, "the file does not hold what was written");
    return Verdict::bad;
  }
  if (!file_is_as_modelled_outside(range)) {
    complain(what, range, count, "the file is changed beside the range");
    return Verdict::bad;
  }
  if (count < 0) {
    record_.tell("refused %s: %zd", what, -count);
    return Verdict::refused;
  }
  if (written < range.size) {
    record_.tell("short %s: %zd of %zu", what, count, range.size);
    return Verdict::short_but_true;
  }
  return Verdict::done;
}

}  // namespace sluice::failures
