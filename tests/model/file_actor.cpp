// SPDX-License-Identifier: Apache-2.0
#include "model/file_actor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "support/batch.h"
#include "support/planned.h"

namespace sluice::model {

using namespace support;

namespace {

constexpr std::size_t memory_bytes = std::size_t{3} << 20U;
constexpr std::size_t block = 4096;
constexpr unsigned char untouched = 0xa5;
constexpr const char* way_names[] = {"by a call", "in parts", "in a batch", "in a plan", "in a stream"};

}  // namespace

FileActor::FileActor(std::size_t number, const Doors& doors, std::size_t begin, Bytes content, std::size_t most,
                     Edge edge)
    : doors_(doors),
      begin_(begin),
      most_(most),
      edge_(edge),
      random_(mix(run_seed() + number)),
      content_(std::move(content)) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::managed, MemoryKind::pinned, MemoryKind::plain}) {
    if (!available(kind)) continue;
    for (const bool registered : {false, true}) {
      memories_.push_back(std::make_unique<Memory>(kind, memory_bytes));
      if (registered) registrations_.push_back(std::make_unique<Registration>(*memories_.back()));
    }
  }
  if (available(MemoryKind::device)) stream_.emplace();
}

FileActor::~FileActor() {
  if (stream_) stream_->synchronize();
}

bool FileActor::complain(std::string text) {
  complaint_ = std::move(text);
  return false;
}

std::string FileActor::told(const char* what, const Range& range, Way way, const Door& door,
                            const Memory& memory) const {
  std::ostringstream text;
  text << what << " of " << range.size << " at " << begin_ + range.at << " (" << range.at << " in a part of "
       << content_.size() << ") " << way_names[static_cast<std::size_t>(way)] << ", " << door.name << ", "
       << name_of(memory.kind()) << " memory, offset " << range.memory_at << ", step " << steps_;
  return text.str();
}

// Sizes of every order of magnitude; half of the edges lie on a block or a page. A third is in step with the file's
// blocks, as what drives write by themselves has to be.
FileActor::Range FileActor::draw(std::size_t limit) {
  Range range;
  range.size = 1 + random_.below(std::size_t{1} << (4 + random_.below(18)));
  range.at = random_.below(limit);
  if (random_.below(2) == 0) range.at -= std::min((begin_ + range.at) % block, range.at);
  if (random_.below(2) == 0) range.size = (range.size + 511) / 512 * 512;
  range.size = std::clamp<std::size_t>(range.size, 1, most_ - range.at);
  range.memory_at = random_.below(memory_bytes - range.size);
  if (random_.below(2) == 0) range.memory_at -= range.memory_at % block;
  if (random_.below(3) == 0) {
    range.memory_at = random_.below((memory_bytes - range.size) / block) * block + (begin_ + range.at) % block;
  }
  return range;
}

// Three parts of one vectored call, the middle one empty.
ssize_t FileActor::in_parts(CUfileOpcode_t opcode, CUfileHandle_t handle, const Range& range, const Memory& memory) {
  const std::size_t half = range.size / 2;
  const std::array<CUfileIOVec_t, 3> parts{{{memory.at(range.memory_at), half},
                                            {memory.at(range.memory_at), 0},
                                            {memory.at(range.memory_at + half), range.size - half}}};
  const auto at = static_cast<off_t>(begin_ + range.at);
  auto* const call = opcode == CUFILE_READ ? &cuFileReadv : &cuFileWritev;
  const ssize_t count = call(handle, parts.data(), parts.size(), at, 0);
  return count == -1 ? -errno : count;
}

ssize_t FileActor::in_a_batch(CUfileOpcode_t opcode, CUfileHandle_t handle, const Range& range, const Memory& memory) {
  constexpr std::size_t parts = 3;
  Batch batch(parts);
  const std::size_t each = (range.size + parts - 1) / parts;
  std::vector<std::size_t> wanted;
  for (std::size_t done = 0; done < range.size; done += each) {
    const std::size_t size = std::min(each, range.size - done);
    wanted.push_back(size);
    if (opcode == CUFILE_READ) {
      batch.read(handle, memory, size, begin_ + range.at + done, range.memory_at + done);
    } else {
      batch.write(handle, memory, size, begin_ + range.at + done, range.memory_at + done);
    }
  }
  // Nothing may lie behind an entry that came short.
  ssize_t total = 0;
  bool ended = false;
  const std::vector<ssize_t> results = batch.run();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i] < 0) return results[i];
    if (ended && results[i] > 0) return -EPROTO;
    total += results[i];
    ended = results[i] < static_cast<ssize_t>(wanted[i]);
  }
  return total;
}

// Parts that touch, and parts that do not, last ones first.
ssize_t FileActor::in_a_plan(CUfileOpcode_t opcode, CUfileHandle_t handle, const Range& range, const Memory& memory) {
  constexpr std::size_t parts = 5;
  const std::size_t each = (range.size + parts - 1) / parts;
  Planned plan(opcode, 0, static_cast<unsigned>(steps_ % 4));
  std::vector<std::size_t> wanted;
  for (std::size_t end = range.size; end > 0; end -= wanted.back()) {
    wanted.push_back((end - 1) % each + 1);
    const std::size_t begin = end - wanted.back();
    plan.add(handle, memory.at(range.memory_at + begin), wanted.back(), begin_ + range.at + begin);
  }
  const std::vector<sluice_item_result_t> results = plan.run();
  ssize_t total = 0;
  bool ended = false;
  for (std::size_t i = results.size(); i-- > 0;) {
    const ssize_t count = answer_of(results[i]);
    if (count < 0) return count;
    if (ended && count > 0) return -EPROTO;
    total += count;
    ended = count < static_cast<ssize_t>(wanted[i]);
  }
  return total;
}

ssize_t FileActor::in_a_stream(CUfileOpcode_t opcode, CUfileHandle_t handle, const Range& range, const Memory& memory) {
  std::size_t size = range.size;
  off_t at = static_cast<off_t>(begin_ + range.at);
  off_t memory_at = static_cast<off_t>(range.memory_at);
  ssize_t moved = -EPROTO;
  auto* const entry = opcode == CUFILE_READ ? &cuFileReadAsync : &cuFileWriteAsync;
  const int answer = code(entry(handle, memory.address(), &size, &at, &memory_at, &moved, stream_->get()));
  if (answer != CU_FILE_SUCCESS) return -answer;
  stream_->synchronize();
  return moved;
}

ssize_t FileActor::transfer(Random& random, CUfileOpcode_t opcode, const Range& range, Way way, CUfileHandle_t handle,
                            const Memory& memory) {
  if (way == Way::vector) return in_parts(opcode, handle, range, memory);
  if (way == Way::batch) return in_a_batch(opcode, handle, range, memory);
  if (way == Way::plan) return in_a_plan(opcode, handle, range, memory);
  if (way == Way::stream) return in_a_stream(opcode, handle, range, memory);
  // By way of the base address or of one inside.
  const std::size_t inside = random.below(2) == 0 ? range.memory_at : 0;
  const auto at = static_cast<off_t>(begin_ + range.at);
  const auto offset = static_cast<off_t>(range.memory_at - inside);
  const Transfer answer = opcode == CUFILE_READ ? read_file(handle, memory.at(inside), range.size, at, offset)
                                                : write_file(handle, memory.at(inside), range.size, at, offset);
  return answer.error == 0 ? answer.count : -answer.error;
}

bool FileActor::read() {
  const Memory& memory = *memories_[random_.below(memories_.size())];
  const Door& door = draw_door();
  const auto way = static_cast<Way>(random_.below(stream_ ? 5 : 4));
  Range range = draw(std::max<std::size_t>(content_.size(), 1));
  if (edge_ == Edge::inner) range.size = std::min(range.size, content_.size() - range.at);
  if (range.size == 0) return true;
  memory.put(range.memory_at, Bytes(range.size, untouched));
  const ssize_t count = transfer(random_, CUFILE_READ, range, way, door.handle, memory);
  const std::size_t there = range.at < content_.size() ? std::min(range.size, content_.size() - range.at) : 0;
  if (count != static_cast<ssize_t>(there)) {
    return complain(told("read", range, way, door, memory) + " answered " + std::to_string(count) + " where " +
                    std::to_string(there) + " were");
  }
  Bytes expected(range.size, untouched);
  std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(range.at), there, expected.begin());
  const auto same = same_bytes(expected, memory.get(range.memory_at, range.size));
  return same ? true : complain(told("read", range, way, door, memory) + ": " + same.message());
}

bool FileActor::write() {
  const Memory& memory = *memories_[random_.below(memories_.size())];
  const Door& door = draw_door();
  const auto way = static_cast<Way>(random_.below(stream_ ? 5 : 4));
  Range range = draw(content_.size() + (edge_ == Edge::at_the_end ? 1 : 0));
  if (edge_ == Edge::inner) range.size = std::min(range.size, content_.size() - range.at);
  if (range.size == 0) return true;
  const Bytes bytes = random_bytes(range.size, random_.next());
  memory.put(range.memory_at, bytes);
  const ssize_t count = transfer(random_, CUFILE_WRITE, range, way, door.handle, memory);
  if (count != static_cast<ssize_t>(range.size)) {
    return complain(told("write", range, way, door, memory) + " answered " + std::to_string(count));
  }
  content_.resize(std::max(content_.size(), range.at + range.size));
  std::copy(bytes.begin(), bytes.end(), content_.begin() + static_cast<std::ptrdiff_t>(range.at));
  return true;
}

bool FileActor::change_size() {
  if (edge_ != Edge::at_the_end) return true;
  const std::size_t size = random_.below(most_);
  if (ftruncate(doors_.front().descriptor, static_cast<off_t>(begin_ + size)) != 0) return complain("ftruncate failed");
  content_.resize(size);
  return true;
}

bool FileActor::punch() {
  if (content_.empty()) return true;
  Range range = draw(content_.size());
  range.size = std::min(range.size, content_.size() - range.at);
  const int answer = fallocate(doors_.front().descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               static_cast<off_t>(begin_ + range.at), static_cast<off_t>(range.size));
  if (answer != 0) return errno == EOPNOTSUPP ? true : complain("fallocate failed");
  std::fill_n(content_.begin() + static_cast<std::ptrdiff_t>(range.at), range.size, 0);
  return true;
}

bool FileActor::step() {
  ++steps_;
  const std::uint64_t what = random_.below(24);
  if (what < 12) return read();
  if (what < 21) return write();
  if (what == 21) return punch();
  if (what == 22) return change_size();
  return fsync(draw_door().descriptor) == 0 || complain(std::string("fsync: ") + strerrorname_np(errno));
}

}  // namespace sluice::model
