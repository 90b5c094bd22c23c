// SPDX-License-Identifier: Apache-2.0
// Does a tool watch? One word that every hook looks at: 0 while none does. Its quarters are 16 bits each, as a tool
// finds the counter ("semaphore") of a static probe: the kernel raises the first one for tools that attach to probes,
// and `sluice trace PID` sets the second one, which it finds by the note of the probe sluice_switch:recorder.
#pragma once

#include <atomic>
#include <cstdint>

extern "C" {
// Changed from outside of the process, too: only whole quarters at a time.
[[gnu::visibility("hidden")]] extern std::uint64_t sluice_probe_switch;
}

namespace sluice::observe {

class Watchers {
 public:
  static constexpr std::uint64_t usdt = 0xffff;              // tools that are attached to probes (usdt_probes.h)
  static constexpr std::uint64_t recorder = 0xffff'0000;     // events are recorded (recorder.h)
  static constexpr std::uint64_t ranges = 0xffff'0000'0000;  // a profiler wants NVTX ranges (ranges.h)
  static constexpr std::uint64_t one_recorder = 0x1'0000;    // set by the process itself
  static constexpr std::uint64_t one_for_ranges = 0x1'0000'0000;

  // One load.
  static Watchers now() noexcept {
    return Watchers(std::atomic_ref(sluice_probe_switch).load(std::memory_order_relaxed));
  }

  bool any() const noexcept { return word_ != 0; }
  bool want(std::uint64_t quarter) const noexcept { return (word_ & quarter) != 0; }

  static void add(std::uint64_t one) noexcept { std::atomic_ref(sluice_probe_switch).fetch_or(one); }
  static void remove(std::uint64_t quarter) noexcept { std::atomic_ref(sluice_probe_switch).fetch_and(~quarter); }

 private:
  explicit Watchers(std::uint64_t word) noexcept : word_(word) {}
  std::uint64_t word_;
};

}  // namespace sluice::observe
