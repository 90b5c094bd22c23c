// SPDX-License-Identifier: Apache-2.0
// Success alone proves nothing: an IOMMU can lose the bytes of a transfer that all layers call done, and a file system
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
#include <vector>

#include "facts/extents.h"
#include "facts/iommu.h"
#include "facts/stripes.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "io/file_io.h"
#include "observe/log.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;
using facts::Extent;
using facts::TrialResult;

// A program may write to the file while it is looked at: a difference counts when the file has stayed the same.
constexpr int most_attempts = 3;

constexpr std::uint64_t most_bytes = 65536;

Finding nothing(std::string words) {
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

bool only_zeros(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

// Below a raw device that maps others, blocks that were never written may come back as zeros of the CPU's making.
// Arrays pass every read on.
bool zeros_prove_nothing(const facts::FileFacts& file) {
  return file.kind == facts::FileKind::block_device && file.block.driver != "nvme" && file.block.driver != "md";
}

facts::Stripes stripes_below(const facts::FileFacts& file) {
  return file.block.driver == "md" ? facts::stripes_of(file.block.name, facts::Root{}) : facts::Stripes{};
}

class Trial {
 public:
  Trial(const Ends& ends, TrialWay& way)
      : file_(ends.file), now_(ends.now), memory_(ends.memory), way_(way), block_(way.block()) {}

  Finding make() {
    if (file_.facts.access == facts::Access::write_only) return nothing("this descriptor may not read");
    if (block_ > most_bytes) return nothing(fmt::format("its blocks of {} bytes are too large", block_));
    const facts::Stripes stripes = stripes_below(file_.facts);
    const std::vector<Extent> places = find_places(stripes);
    if (places.empty()) {
      return nothing(stripes.drives == 1
                         ? "no stored bytes in this file to try it with"
                         : fmt::format("no stored bytes in this file that lie on all {} drives", stripes.drives));
    }
    Finding finding = nothing("");
    for (const Extent& place : places) {
      finding = try_at(place);
      if (finding.reach != TrialResult::proven) break;
    }
    if (finding.reach == TrialResult::proven && places.size() > 1) finding = of_each_drive(places, stripes.chunk);
    if (finding.reach == TrialResult::proven && (places.size() == 1 || stripes.mirrored)) return of_all_drives(finding);
    return finding;
  }

 private:
  // Of a mirror, and of several paths, one that the kernel chose has served the trial: the others are alike only where
  // the IOMMU, which is what loses bytes, treats them alike.
  Finding of_all_drives(const Finding& finding) const {
    const std::vector<std::string> domains = facts::iommu_domains(file_.facts.block, facts::Root{});
    if (domains.size() < 2) return finding;
    return nothing("one of its drives or paths was tried, and others stand in another kind of IOMMU domain");
  }

  Finding of_each_drive(const std::vector<Extent>& places, std::uint64_t chunk) const {
    // A file system that had not placed all the bytes yet may have put them elsewhere.
    const std::uint64_t begin = places.front().begin;
    if (is_regular() && !facts::is_stored_together(file_.descriptor(), {begin, places.back().begin + block_ - begin})) {
      return nothing(fmt::format("the bytes that were read need not lie on all {} drives", places.size()));
    }
    return {TrialResult::proven, fmt::format("{} bytes of each of {} drives were verified",
                                             std::min(chunk, places.back().length), places.size())};
  }

  // Whole blocks of stored bytes, as many as the scratch memory takes: of a striped array, on each of its drives.
  std::vector<Extent> find_places(const facts::Stripes& stripes) const {
    const std::uint64_t stride = (stripes.chunk + block_ - 1) / block_ * block_;
    const std::uint64_t last = stride * (stripes.drives - 1);
    const std::optional<Extent> stretch = find_stretch(last + block_);
    std::vector<Extent> places;
    for (std::uint64_t begin = 0; stretch && begin <= last; begin += std::max(stride, block_)) {
      places.push_back({stretch->begin + begin, std::min(stretch->length - begin, most_bytes)});
    }
    return places;
  }

  // The first range of whole blocks, at least so long, that lies together on the device.
  std::optional<Extent> find_stretch(std::uint64_t least) const {
    if (file_.facts.kind == facts::FileKind::block_device) return Extent{0, least - block_ + most_bytes};
    for (std::uint64_t from = 0;;) {
      const std::optional<Extent> extent = facts::first_stored_extent(file_.descriptor(), from);
      if (!extent || extent->begin >= now_.size()) return std::nullopt;
      const std::uint64_t begin = (extent->begin + block_ - 1) / block_ * block_;
      const std::uint64_t end = extent->begin + extent->length;
      // What lies behind the file's end within its last block is the block's, too.
      if (begin < end && begin < now_.size()) {
        const std::uint64_t to_end = (now_.size() - begin + block_ - 1) / block_ * block_;
        const std::uint64_t length = std::min(end - begin, to_end);
        if (length >= least) return Extent{begin, length - length % block_};
      }
      from = end;
    }
  }

  Finding try_at(const Extent& place) {
    const HostPages before(most_bytes);
    const Outcome expected = read_plainly_direct(place, before);
    if (!expected.ok()) return nothing("the file cannot be read with O_DIRECT: " + error_text(expected));
    if (expected.count() == 0) return nothing("no bytes in this file to try it with");
    const std::span<std::byte> wanted = before.all().first(expected.count());
    // Reading has written back what was in the page cache only.
    if (!is_stored({place.begin, wanted.size()})) {
      return nothing("bytes to try it with are not stored on the device yet");
    }
    if (zeros_prove_nothing(file_.facts) && only_zeros(wanted)) return nothing("only zeros to try it with");
    return into_device(place, wanted);
  }

  bool is_regular() const { return file_.facts.kind == facts::FileKind::regular; }
  bool is_stored(const Extent& read) const { return !is_regular() || facts::is_stored(file_.descriptor(), read); }

  Outcome read_plainly_direct(const Extent& place, const HostPages& into) const {
    return io::read_span(file_.descriptor(), into.all().first(place.length), FileOffset{place.begin},
                         static_cast<std::uint32_t>(block_), now_.size());
  }

  Finding into_device(const Extent& place, std::span<std::byte> wanted) {
    gpu::Session session(memory_);
    if (session.status() != cuda::success) {
      return nothing("the device's context cannot be used: " + gpu::error_name(session.status()));
    }
    if (std::optional<std::string> refusal = way_.take_memory(place.length)) return nothing(std::move(*refusal));

    const HostPages found(most_bytes);
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      if (!poison(session, wanted, found)) return nothing("the device's memory cannot be written to");
      const Outcome read = way_.read(place);
      if (!read.ok()) return way_.refused(read);
      if (session.copy_from_device(found.all().first(wanted.size()), way_.address()) != cuda::success) {
        return nothing("the device's memory cannot be read back");
      }
      const bool same = read.count() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), found.all().begin());
      // A hole that was made meanwhile is filled by the CPU.
      if (same && !is_stored({place.begin, wanted.size()})) break;
      if (same) return {TrialResult::proven, fmt::format("{} bytes at {} were verified", wanted.size(), place.begin)};
      if (stays_the_same(place, wanted)) return lost(read, wanted, found);
    }
    return nothing("this file changes too quickly to try it with");
  }

  // The opposite of what is to arrive: each byte that has not arrived is seen.
  bool poison(gpu::Session& session, std::span<const std::byte> wanted, const HostPages& pages) const {
    std::transform(wanted.begin(), wanted.end(), pages.all().begin(), [](std::byte byte) { return ~byte; });
    return session.copy_to_device(way_.address(), pages.all().first(wanted.size())) == cuda::success;
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

  Finding lost(Outcome read, std::span<const std::byte> wanted, const HostPages& found) const {
    const auto arrived = static_cast<std::size_t>(
        std::mismatch(wanted.begin(), wanted.end(), found.all().begin()).first - wanted.begin());
    return {way_.lost(), fmt::format("the trial read reported {} bytes; {} arrived", read.count(), arrived)};
  }

  const File& file_;
  facts::DescriptorCheck& now_;
  const facts::BufferFacts& memory_;
  TrialWay& way_;
  const std::uint64_t block_;
};

}  // namespace

std::string error_text(Outcome outcome) {
  const char* const name = ::strerrorname_np(outcome.error());
  return name != nullptr ? name : fmt::format("error {}", outcome.error());
}

void tell_trial(const TriedPair& pair, const Finding& finding, const char* way, const char* proven,
                const char* not_proven) {
  const bool succeeded = finding.reach == TrialResult::proven;
  observe::log(succeeded ? config::LogLevel::notice : config::LogLevel::warn, way,
               fmt::format("device {} and {}: {} ({})", pair.device(), pair.storage(), succeeded ? proven : not_proven,
                           finding.words));
}

void make_trial(const Ends& ends, TriedPair& pair, TrialWay& way) noexcept {
  try {
    const Finding finding = Trial(ends, way).make();
    tell_trial(pair, finding, way.name(), "the direct path is proven", "not direct");
    if (finding.reach) {
      pair.settle(*finding.reach, finding.words);
    } else {
      pair.postpone(finding.words);
    }
  } catch (...) {  // no memory for a trial
    pair.give_up();
  }
}

}  // namespace sluice::paths
