// SPDX-License-Identifier: Apache-2.0
// Small reads by the CPU's stores into device memory (sluice.small_reads: window), as tests ask for them and count
// them.
#pragma once

#include <cstdint>
#include <string>

#include "support/calls.h"

namespace sluice::support {

// Asked for whatever the run says, from the next time that the driver opens to the end of the scope.
class WindowsWanted {
 public:
  WindowsWanted();
  ~WindowsWanted();
  WindowsWanted(const WindowsWanted&) = delete;
  WindowsWanted& operator=(const WindowsWanted&) = delete;

 private:
  std::string before_;
};

// Whether registered device memory is sure to get them in this run: the soft GPU's, where the stand-in for GDRCopy lies
// beside it and nothing has been set that keeps them away.
bool windows_are_there();
inline constexpr const char* no_windows =
    "windows onto device memory are for a build with SLUICE_GDRCOPY and the soft GPU, with its libgdrapi.so.2, in a "
    "mode "
    "that may use them";

// How many reads went by them.
std::uint64_t reads_by_window();

// With device memory, and the driver opened while windows are wanted.
class WindowTest : public DeviceTest {
 protected:
  // Reads, and looks at all of the memory around what was read; and at the counter, which tells whether it went `by`
  // a window.
  enum class By : std::uint8_t { window, another };
  static void read_and_look(CUfileHandle_t handle, const Bytes& content, const Memory& memory, std::size_t from,
                            std::size_t to, std::size_t size, By by);

 private:
  const WindowsWanted wanted_;
};

}  // namespace sluice::support
