// Success alone proves nothing: an IOMMU can lose the bytes of a transfer that everybody calls done, and a file system
// can serve O_DIRECT by a copy of the CPU's, or fill holes by it. So the bytes have to be stored on the device, and to
// be found in device memory afterwards.
#include "paths/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "engine/direct_io.h"
#include "engine/file_io.h"
#include "facts/extents.h"
#include "gpu/memory.h"
#include "observe/log.h"
#include "paths/direct_pair.h"
#include "paths/p2pdma.h"
#include "route/route.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;
using facts::Extent;
using facts::Reach;

// Somebody may write to the file while it is looked at: a difference counts when the file has stayed the same.
constexpr int most_attempts = 3;

constexpr std::uint64_t most_bytes = 65536;

struct Verdict {
  std::optional<Reach> reach;  // nothing: there was nothing to try on
  std::string words;
};

Verdict nothing(std::string words) {
  return {std::nullopt, std::move(words)};
}

// Page-aligned host memory.
class HostPages {
 public:
  explicit HostPages(std::size_t size)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(4096, size)), &std::free), size_(size) {
    if (!bytes_) throw std::bad_alloc();
  }
  std::span<std::byte> all() const noexcept { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> bytes_;
  std::size_t size_;
};

// Given back, and its window released, whatever happens.
class DeviceBytes {
 public:
  DeviceBytes(gpu::Provider& provider, gpu::Scratch scratch, std::uint64_t into_page)
      : provider_(provider),
        into_page_(into_page),
        scratch_(scratch),
        window_(provider.map(scratch.memory, scratch.address, scratch.size)) {}
  ~DeviceBytes() {
    if (window_) provider_.release(window_);
    provider_.give_back(scratch_);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::uint64_t address() const noexcept { return scratch_.address + into_page_; }
  // Where the kernel can pin it; shorter than asked for when it does not lie together.
  std::span<std::byte> pinnable() const noexcept {
    if (window_.length <= into_page_) return {};
    return {window_.address + into_page_, window_.length - into_page_};
  }

 private:
  gpu::Provider& provider_;
  std::uint64_t into_page_;
  gpu::Scratch scratch_;
  gpu::Window window_;
};

bool only_zeros(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

std::string error_text(Outcome outcome) {
  const char* const name = ::strerrorname_np(outcome.error());
  return name != nullptr ? name : fmt::format("error {}", outcome.error());
}

// Below a raw device that maps others, blocks that were never written may come back as zeros of the CPU's making.
bool zeros_prove_nothing(const facts::FileFacts& file) {
  return file.kind == facts::FileKind::block_device && file.block.driver != "nvme";
}

class Trial {
 public:
  Trial(const OpenFile& file, const facts::BufferFacts& memory) : file_(file), memory_(memory) {}

  Verdict make() {
    if (file_.facts.access == facts::Access::write_only) return nothing("this descriptor may not read");
    const std::uint64_t block = std::max(1u, file_.facts.offset_alignment);
    if (block > most_bytes) return nothing(fmt::format("its blocks of {} bytes are too large", block));
    const std::optional<Extent> place = find_place(block);
    if (!place) return nothing("no stored bytes in this file to try it with");

    const HostPages before(most_bytes);
    const Outcome expected = read_plainly_direct(*place, before);
    if (!expected.ok()) return nothing("the file cannot be read with O_DIRECT: " + error_text(expected));
    if (expected.count() == 0) return nothing("no bytes in this file to try it with");
    const std::span<std::byte> wanted = before.all().first(expected.count());
    // Reading has written back what was in the page cache only.
    const Extent read{place->begin, expected.count()};
    if (file_.facts.kind == facts::FileKind::regular && !facts::is_stored(file_.fd, read)) {
      return nothing("the bytes to try it with are not stored on the device yet");
    }
    if (zeros_prove_nothing(file_.facts) && only_zeros(wanted)) return nothing("only zeros to try it with");
    return into_device(*place, block, wanted);
  }

 private:
  // Whole blocks of stored bytes, as many as the scratch memory takes.
  std::optional<Extent> find_place(std::uint64_t block) const {
    if (file_.facts.kind == facts::FileKind::block_device) return Extent{0, most_bytes};
    for (std::uint64_t from = 0;;) {
      const std::optional<Extent> extent = facts::first_stored_extent(file_.fd, from);
      if (!extent || extent->begin >= file_.size) return std::nullopt;
      const std::uint64_t begin = (extent->begin + block - 1) / block * block;
      const std::uint64_t end = extent->begin + extent->length;
      // What lies behind the file's end within its last block is the block's, too.
      if (begin < end && begin < file_.size) {
        const std::uint64_t to_end = (file_.size - begin + block - 1) / block * block;
        const std::uint64_t length = std::min({end - begin, to_end, most_bytes});
        if (length >= block) return Extent{begin, length - length % block};
      }
      from = end;
    }
  }

  Outcome read_plainly_direct(const Extent& place, const HostPages& into) const {
    const auto block = static_cast<std::uint32_t>(std::max(1u, file_.facts.offset_alignment));
    return engine::read_span(file_.fd, into.all().first(place.length), FileOffset{place.begin}, block, file_.size);
  }

  Verdict into_device(const Extent& place, std::uint64_t block, std::span<std::byte> wanted) {
    gpu::Session session(memory_);
    if (session.status() != cuda::success) {
      return nothing("the device's context cannot be used: " + gpu::error_name(session.status()));
    }
    gpu::Provider& provider = file_.pair->provider();
    const std::optional<gpu::Scratch> scratch = provider.take_scratch(memory_.device, gpu::scratch_bytes);
    if (!scratch) return nothing("no device memory is free to try it with");
    // At the least alignment that transfers will use.
    const std::uint64_t alignment = std::max(route::trusted_memory_alignment, file_.facts.memory_alignment);
    const DeviceBytes device(provider, *scratch, alignment % 4096);
    if (device.pinnable().size() < place.length) return nothing("memory of the device cannot be mapped to try it with");

    const HostPages found(most_bytes);
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      if (!poison(session, device, wanted, found)) return nothing("the device's memory cannot be written to");
      const engine::Stretch stretch{file_.fd, FileOffset{place.begin}, device.pinnable().first(place.length),
                                    static_cast<std::uint32_t>(block)};
      const Outcome read = engine::move_direct(stretch, Direction::read, engine::Completion::interrupt).outcome;
      if (!read.ok()) return refused(read);
      if (session.copy_from_device(found.all().first(wanted.size()), device.address()) != cuda::success) {
        return nothing("the device's memory cannot be read back");
      }
      const bool same = read.count() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), found.all().begin());
      if (same) return {Reach::proven, fmt::format("{} bytes at {} were verified", wanted.size(), place.begin)};
      if (stays_the_same(place, wanted)) return lost(read, wanted, found);
    }
    return nothing("the file changes too quickly to try it with");
  }

  // The opposite of what is to arrive: each byte that has not arrived is seen.
  static bool poison(gpu::Session& session, const DeviceBytes& device, std::span<const std::byte> wanted,
                     const HostPages& pages) {
    std::transform(wanted.begin(), wanted.end(), pages.all().begin(), [](std::byte byte) { return ~byte; });
    return session.copy_to_device(device.address(), pages.all().first(wanted.size())) == cuda::success;
  }

  static Verdict refused(Outcome read) {
    const Reach reach = reach_after(read);
    if (reach == Reach::proven) return nothing("reading into device memory failed: " + error_text(read));
    return {reach, "the trial read answered " + error_text(read)};
  }

  // True when the file still holds what it held; else `wanted` is what it holds now.
  bool stays_the_same(const Extent& place, std::span<std::byte> wanted) const {
    const HostPages now(most_bytes);
    const Outcome read = read_plainly_direct(place, now);
    if (!read.ok() || read.count() < wanted.size()) return false;
    const bool same = std::equal(wanted.begin(), wanted.end(), now.all().begin());
    std::copy_n(now.all().begin(), wanted.size(), wanted.begin());
    return same;
  }

  static Verdict lost(Outcome read, std::span<const std::byte> wanted, const HostPages& found) {
    const auto arrived = static_cast<std::size_t>(
        std::mismatch(wanted.begin(), wanted.end(), found.all().begin()).first - wanted.begin());
    return {Reach::data_lost, fmt::format("the trial read reported {} bytes; {} arrived", read.count(), arrived)};
  }

  const OpenFile& file_;
  const facts::BufferFacts& memory_;
};

void tell(const DirectPair& pair, const Verdict& verdict) {
  const bool proven = verdict.reach == Reach::proven;
  observe::log(proven ? config::LogLevel::notice : config::LogLevel::warn, "p2pdma",
               fmt::format("device {} and {}: {} ({})", pair.device(), pair.storage(),
                           proven ? "the direct path is proven" : "not direct", verdict.words));
}

}  // namespace

void make_trial(const OpenFile& file, const facts::BufferFacts& memory) noexcept {
  DirectPair& pair = *file.pair;
  try {
    const Verdict verdict = Trial(file, memory).make();
    tell(pair, verdict);
    if (verdict.reach) {
      pair.settle(*verdict.reach, verdict.words);
    } else {
      pair.postpone(verdict.words);
    }
  } catch (...) {  // no memory for a trial
    pair.give_up();
  }
}

}  // namespace sluice::paths
