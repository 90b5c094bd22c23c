// SPDX-License-Identifier: Apache-2.0
// The counter, the variable, and where the stand-in lies.
#include "support/windows.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "sluice.h"
#include "support/cuda_driver.h"

namespace sluice::support {
namespace {

constexpr const char* kVariable = "SLUICE_SMALL_READS";

std::string text_of(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool stand_in_is_there() {
  Dl_info info{};
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr || dladdr(dlsym(driver, "cuInit"), &info) == 0) return false;
  const std::string path = info.dli_fname;
  return access((path.substr(0, path.rfind('/') + 1) + "libgdrapi.so.2").c_str(), R_OK) == 0;
}

}  // namespace

WindowsWanted::WindowsWanted() : before_(text_of(kVariable)) {
  setenv(kVariable, "window", 1);
}

WindowsWanted::~WindowsWanted() {
  if (before_.empty()) unsetenv(kVariable);
  if (!before_.empty()) setenv(kVariable, before_.c_str(), 1);
}

bool windows_are_there() {
  const std::string failures = text_of("SLUICE_SOFTGPU_FAIL");
  const bool refused = failures.find("gdr_") != std::string::npos && !failures.starts_with("gdr_free_callback");
  // Files are mapped a second time, mappings of a PCI device are not.
  const bool lies_on_a_device = text_of("SLUICE_SOFTGPU_BACKING").find("/sys/") != std::string::npos;
  return SLUICE_WINDOWS_BUILT_IN != 0 && cuda() != nullptr && cuda()->soft &&
         find_entry("sluice_carrier_counters") != nullptr && !refused && !lies_on_a_device &&
         text_of("SLUICE_MODE") != "plain" && text_of("SLUICE_COPY") != "engine" && stand_in_is_there();
}

std::uint64_t reads_by_window() {
  sluice_carrier_counts_t counts{};
  if (auto* const ask = entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters")) ask(&counts);
  return counts.cpu_window;
}

void WindowTest::read_and_look(CUfileHandle_t handle, const Bytes& content, const Memory& memory, std::size_t from,
                               std::size_t to, std::size_t size, By by) {
  SCOPED_TRACE(testing::Message() << size << " bytes at " << from << " to " << to);
  constexpr unsigned char before = 0x5a;
  memory.fill(before);
  const std::uint64_t counted = reads_by_window();
  const std::size_t there = std::min(size, content.size() - std::min(content.size(), from));
  ASSERT_EQ(read_file(handle, memory.address(), size, static_cast<off_t>(from), static_cast<off_t>(to)), moved(there));
  EXPECT_EQ(reads_by_window() - counted, by == By::window && windows_are_there() ? 1U : 0U);
  Bytes expected(memory.size(), before);
  std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(std::min(from, content.size())), there,
              expected.begin() + static_cast<std::ptrdiff_t>(to));
  ASSERT_TRUE(same_bytes(expected, memory.get()));
}

}  // namespace sluice::support
