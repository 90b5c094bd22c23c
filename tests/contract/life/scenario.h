// SPDX-License-Identifier: Apache-2.0
// What the scenarios of life_program share. A scenario prints nothing when all is well, but for the lines that its test
// expects; what it does not like it says, and ends the process at once.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "contract/life/gated_file.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::life {

struct Scenario {
  const char* name;
  int (*run)();  // the status that main() returns, if it comes that far
};

std::span<const Scenario> ending_scenarios();
std::span<const Scenario> exec_scenarios();
std::span<const Scenario> limit_scenarios();
std::span<const Scenario> refused_scenarios();
std::span<const Scenario> reset_scenarios();
std::span<const Scenario> resident_scenarios();
std::span<const Scenario> stream_scenarios();
std::span<const Scenario> thread_scenarios();

// Prints a line, which the test compares. No buffer holds it back.
void say(const std::string& line);
// One letter, as the kernel has it; S: it sleeps, Z: it has ended.
char state_of_thread(pid_t thread);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

// Says what went wrong and ends the process.
[[noreturn]] void fail(const std::string& what);
// Nothing when `good`, not even memory is taken; else fails.
inline void require(bool good, const char* what) {
  if (!good) fail(what);
}
// The scenario cannot be played here.
[[noreturn]] void skip(const std::string& reason);

inline constexpr std::size_t scenario_bytes = 1'300'007;

// One of everything, opened and used; it is never given back. The files have no names any more.
class World {
 public:
  static World& open();

  CUfileHandle_t handle() const { return handle_; }
  CUfileHandle_t direct() const { return direct_; }
  const support::Memory& memory() const { return *memory_; }
  int fd() const { return fd_.get(); }

  // Reads and writes through both handles, in the usual memory or in plain memory.
  void use(support::MemoryKind kind) const;
  void use() const { use(support::usual_memory()); }
  // Gives everything back and closes the driver.
  void end();

 private:
  World();
  void use(CUfileHandle_t handle, support::MemoryKind kind) const;

  support::ScratchFile file_{scenario_bytes};
  support::Fd fd_{file_.open(O_RDWR)};
  support::Fd direct_fd_{file_.open(O_RDWR | O_DIRECT)};
  CUfileHandle_t handle_ = nullptr;
  CUfileHandle_t direct_ = nullptr;
  std::optional<support::Memory> memory_;
  CUfileBatchHandle_t batch_ = nullptr;
  std::optional<support::Stream> stream_;
};

}  // namespace sluice::life
