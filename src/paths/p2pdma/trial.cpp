// SPDX-License-Identifier: Apache-2.0
// Memory of the provider's, where the kernel can pin it, and O_DIRECT.
#include "paths/p2pdma/trial.h"

#include <algorithm>

#include "io/direct_io.h"
#include "paths/p2pdma/p2pdma.h"
#include "paths/trial.h"
#include "route/route.h"

namespace sluice::paths {

namespace {

// Given back, and its mapping released, whatever happens.
class DeviceBytes {
 public:
  DeviceBytes(gpu::Provider& provider, gpu::Scratch scratch, std::uint64_t into_page)
      : provider_(provider),
        into_page_(into_page),
        scratch_(scratch),
        mapping_(provider.map(scratch.memory, scratch.address, scratch.size)) {}
  ~DeviceBytes() {
    if (mapping_) provider_.release(mapping_);
    provider_.give_back(scratch_);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::uint64_t address() const noexcept { return scratch_.address + into_page_; }
  // Where the kernel can pin it; shorter than asked for when it does not lie together.
  std::span<std::byte> pinnable() const noexcept {
    if (mapping_.length <= into_page_) return {};
    return {mapping_.address + into_page_, mapping_.length - into_page_};
  }

 private:
  gpu::Provider& provider_;
  std::uint64_t into_page_;
  gpu::Scratch scratch_;
  gpu::P2pMapping mapping_;
};

class ByPinning final : public TrialWay {
 public:
  ByPinning(const Ends& ends, gpu::Provider& provider) : file_(ends.file), memory_(ends.memory), provider_(provider) {}

  const char* name() const noexcept override { return "p2pdma"; }
  std::uint64_t block() const noexcept override { return std::max(1u, file_.facts.offset_alignment); }

  std::optional<std::string> take_memory(std::uint64_t size) override {
    const std::optional<gpu::Scratch> scratch = provider_.take_scratch(memory_.device, gpu::scratch_bytes);
    if (!scratch) return "no device memory is free to try it with";
    // At the least alignment that transfers will use.
    const std::uint64_t alignment = std::max(route::trusted_memory_alignment, file_.facts.memory_alignment);
    device_.emplace(provider_, *scratch, alignment % 4096);
    if (device_->pinnable().size() < size) return "memory of the device cannot be mapped to try it with";
    return std::nullopt;
  }

  std::uint64_t address() const noexcept override { return device_->address(); }

  base::Outcome read(const facts::Extent& place) override {
    const io::IoRange stretch{file_.descriptor(), base::FileOffset{place.begin},
                              device_->pinnable().first(place.length), static_cast<std::uint32_t>(block())};
    return io::move_direct(stretch, base::Direction::read, io::CompletionMode::interrupt).outcome;
  }

  Finding refused(base::Outcome read) const override {
    const facts::TrialResult reach = reach_after(read);
    if (reach == facts::TrialResult::proven) {
      return {std::nullopt, "reading into device memory failed: " + error_text(read)};
    }
    return {reach, "the trial read answered " + error_text(read)};
  }

  facts::TrialResult lost() const noexcept override { return facts::TrialResult::data_lost; }

 private:
  const File& file_;
  const facts::BufferFacts& memory_;
  gpu::Provider& provider_;
  std::optional<DeviceBytes> device_;
};

}  // namespace

void make_trial(const Ends& ends, DirectPair& pair) noexcept {
  ByPinning way(ends, pair.provider());
  make_trial(ends, pair, way);
}

}  // namespace sluice::paths
