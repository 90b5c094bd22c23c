// SPDX-License-Identifier: Apache-2.0
// A program in which this path has moved nothing has tested nothing: it ends with an error.
#include "paths/memory_path.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "paths/through_host.h"

namespace sluice::paths {

namespace {

using base::FileOffset;
using base::Outcome;

std::atomic<unsigned long> moves{0};

[[gnu::destructor]] void expect_moves() {
  if (moves.load() > 0) return;
  std::fputs("the path of the test has moved nothing\n", stderr);
  ::_exit(70);
}

// What is attached to a file: its bytes, and room for it to grow.
class MappedFile final : public Attachment {
 public:
  static constexpr std::size_t room = std::size_t{1} << 30U;

  explicit MappedFile(void* bytes) noexcept : bytes_(static_cast<std::byte*>(bytes)) {}
  ~MappedFile() override { ::munmap(bytes_, room); }

  std::byte* at(std::uint64_t offset) const noexcept { return bytes_ + offset; }

 private:
  std::byte* const bytes_;
};

class MappedSide final : public FileSide {
 public:
  MappedSide(const Ends& ends, const MappedFile& mapped) noexcept : ends_(ends), mapped_(mapped) {}

  std::uint32_t block() const noexcept override { return 1; }
  bool takes_many_readers() const noexcept override { return true; }
  Outcome read(std::span<std::byte> into, FileOffset at) noexcept override {
    const std::uint64_t end = ends_.now.size();
    const std::uint64_t count = at.value < end ? std::min<std::uint64_t>(into.size(), end - at.value) : 0;
    std::memcpy(into.data(), mapped_.at(at.value), count);
    return Outcome::bytes(count);
  }
  Outcome write(std::span<const std::span<const std::byte>> from, FileOffset at) noexcept override {
    std::uint64_t done = 0;
    for (const std::span<const std::byte> bytes : from) {
      const std::uint64_t begin = at.value + done;
      if (begin + bytes.size() > MappedFile::room) return Outcome::system_error(EFBIG);
      facts::DescriptorCheck now(ends_.file.descriptor(), ends_.file.facts);
      const bool grows = begin + bytes.size() > now.size();
      if (grows && ::ftruncate(ends_.file.descriptor(), static_cast<off_t>(begin + bytes.size())) != 0) {
        return Outcome::system_error(errno);
      }
      std::memcpy(mapped_.at(begin), bytes.data(), bytes.size());
      done += bytes.size();
    }
    return Outcome::bytes(done);
  }

 private:
  const Ends& ends_;
  const MappedFile& mapped_;
};

}  // namespace

constinit const MemoryPath memory;

std::unique_ptr<Attachment> MemoryPath::of_file(const File& file, SessionAttachment* /*session*/) const {
  if (file.facts.kind != facts::FileKind::regular || file.operations != nullptr) return nullptr;
  const int rights = file.facts.access == facts::Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const bytes = ::mmap(nullptr, MappedFile::room, rights, MAP_SHARED, file.descriptor(), 0);
  return bytes != MAP_FAILED ? std::make_unique<MappedFile>(bytes) : nullptr;
}

std::optional<route::Reason> MemoryPath::refuses(const Facts& facts) const noexcept {
  return facts.file.storage.of(traits.id) != nullptr ? std::nullopt : std::optional<route::Reason>(unconcerned);
}

route::Cutting MemoryPath::cutting(const Facts& facts) const noexcept {
  return route::uncut(facts.memory.kind);
}

void MemoryPath::move(std::span<Item> items, Completion& /*completion*/) const noexcept {
  for (Item& item : items) {
    MappedSide side(*item.ends, static_cast<const MappedFile&>(*item.ends->file.storage.of(traits.id)));
    item.outcome = move_through_host(*item.ends, item.piece, side);
    moves.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace sluice::paths
