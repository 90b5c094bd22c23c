// SPDX-License-Identifier: Apache-2.0
// Windows onto device memory go with their registrations; a child of fork has none of its parent's, and leaves alone
// what came into their places.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "contract/life/child.h"
#include "support/windows.h"

namespace sluice::contract::life_window_test {
namespace {

using namespace support;

constexpr std::size_t kSize = 16 << 10;

class LifeWindow : public WindowTest {};

using Range = std::pair<std::uintptr_t, std::uintptr_t>;

// Where this process has the soft GPU's memory mapped.
std::set<Range> device_mappings() {
  std::set<Range> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const bool own = line.find("sluice-softgpu") != std::string::npos;
    if (!own && line.find("sluice-backing") == std::string::npos) continue;  // with_backing.sh names it so
    Range range;
    char dash = 0;
    std::istringstream(line) >> std::hex >> range.first >> dash >> range.second;
    found.insert(range);
  }
  return found;
}

TEST_F(LifeWindow, IsGoneWithItsRegistration) {
  if (!windows_are_there()) GTEST_SKIP() << no_windows;
  cuFileDriverOpen();
  Memory memory(MemoryKind::device, kSize);
  const Memory other(MemoryKind::device, kSize);
  const auto before = device_mappings();
  const auto open = [&](const Memory& onto) { return code(cuFileBufRegister(onto.address(), kSize, 0)); };
  ASSERT_EQ(open(memory), CU_FILE_SUCCESS);
  const auto with_one = device_mappings();
  EXPECT_EQ(with_one.size(), before.size() + 1);
  EXPECT_EQ(open(memory), CU_FILE_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(device_mappings(), with_one) << "refused";
  EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
  EXPECT_EQ(device_mappings(), before) << "deregistered";
  ASSERT_EQ(open(memory), CU_FILE_SUCCESS);
  ASSERT_EQ(open(other), CU_FILE_SUCCESS);
  memory.free();
  EXPECT_EQ(device_mappings().size(), before.size() + 1) << "freed";
  close_driver_fully();
  EXPECT_EQ(device_mappings(), before) << "closed";
}

TEST_F(LifeWindow, IsNotThereInAChildAndIsNotTakenDownThere) {
  if (!windows_are_there()) GTEST_SKIP() << no_windows;
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kSize);
  const auto before = device_mappings();
  const Registration registration(memory);
  const auto after = device_mappings();
  std::vector<Range> windows;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(windows));
  ASSERT_EQ(windows.size(), 1U);
  read_and_look(handle.get(), file.content(), memory, 0, 0, 4096, By::window);

  const std::string complaint = life::in_child([&]() -> std::string {
    const std::size_t length = windows[0].second - windows[0].first;
    void* const wanted = reinterpret_cast<void*>(windows[0].first);
    void* const own =
        mmap(wanted, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (own != wanted) return "the child has the window";
    std::memset(own, 0x33, length);
    if (read_file(handle.get(), memory.address(), 4096).count >= 0) return "the child read into device memory";
    if (code(cuFileBufDeregister(memory.address())) != CU_FILE_SUCCESS) return "deregistering in the child";
    if (code(cuFileDriverClose()) != CU_FILE_SUCCESS) return "closing in the child";
    const auto* const bytes = static_cast<const unsigned char*>(own);
    return std::all_of(bytes, bytes + length, [](unsigned char byte) { return byte == 0x33; }) ? "" : "other bytes";
  });
  EXPECT_EQ(complaint, "");
  read_and_look(handle.get(), file.content(), memory, 5, 6, 4096, By::window);
}

}  // namespace
}  // namespace sluice::contract::life_window_test
