// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::gpu {
namespace {

const std::size_t page = base::page_size();
constexpr std::size_t bulk = std::size_t{4} << 20;
const StagingShape in_three_parts{.ahead = 3 * page, .bulk = bulk, .behind = page};
const StagingShape without_bulk{.ahead = 5 * page};

// A folder as /sys/kernel/mm/hugepages, of a kernel that has these, in KiB.
class HugePages {
 public:
  explicit HugePages(const std::vector<std::string>& sizes) : folder_(testing::TempDir() + "huge-pages-XXXXXX") {
    if (::mkdtemp(folder_.data()) == nullptr) folder_.clear();
    for (const std::string& size : sizes) std::filesystem::create_directory(folder_ + "/hugepages-" + size + "kB");
  }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  ~HugePages() { std::filesystem::remove_all(folder_); }
  std::size_t within(std::size_t bytes) const { return huge_page_within(bytes, folder_.c_str()); }

 private:
  std::string folder_;
};

class Mapped {
 public:
  explicit Mapped(const StagingShape& shape) : shape_(shape), memory_(map_staging(shape)) {}
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (memory_ != nullptr) unmap_staging(memory_, shape_);
  }
  std::byte* get() const { return memory_; }

 private:
  const StagingShape shape_;
  std::byte* const memory_;
};

// Pages that nothing is mapped at make it fail with ENOMEM.
bool is_mapped(const std::byte* at) {
  unsigned char there = 0;
  return ::mincore(const_cast<std::byte*>(at), page, &there) == 0;
}

// What /proc/self/smaps says of the mapping that begins there.
std::string flags_of(const std::byte* at) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(at) << '-';
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    here = here || line.rfind(begin.str(), 0) == 0;
    if (here && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return "";
}

TEST(StagingMemory, HasItsBulkOnTheBoundaryOfAHugePage) {
  const std::size_t huge = huge_page_within(bulk);
  if (huge == 0) GTEST_SKIP() << "this kernel has no huge pages of 4 MiB or less";
  for (int i = 0; i < 4; ++i) {
    const Mapped memory(in_three_parts);
    ASSERT_NE(memory.get(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get() + in_three_parts.ahead) % huge, 0U);
  }
}

TEST(StagingMemory, TakesTheLargestHugePagesThatFitInIt) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const HugePages of_x86({"2048", "1048576"});
  EXPECT_EQ(of_x86.within(4 * mib), 2 * mib);
  EXPECT_EQ(of_x86.within(3 * mib), 2 * mib);
  EXPECT_EQ(of_x86.within(mib), 0U);
  const HugePages of_arm_with_4k_pages({"64", "2048", "32768", "1048576"});
  EXPECT_EQ(of_arm_with_4k_pages.within(8 * mib), 2 * mib);
  EXPECT_EQ(of_arm_with_4k_pages.within(32 * mib), 32 * mib);
  const HugePages of_arm_with_64k_pages({"2048", "524288", "16777216"});
  EXPECT_EQ(of_arm_with_64k_pages.within(8 * mib), 2 * mib);
  EXPECT_EQ(HugePages({}).within(8 * mib), 0U);
}

TEST(StagingMemory, HasPartsOfWholePagesHoweverLargeTheyAre) {
  const StagingShape odd{.ahead = 24576, .bulk = bulk, .behind = 1};
  const StagingShape made = odd.in_pages(65536);
  EXPECT_EQ(made.ahead, 65536U);
  EXPECT_EQ(made.bulk, bulk);
  EXPECT_EQ(made.behind, 65536U);
  EXPECT_EQ(odd.in_pages(4096).ahead, odd.ahead);
}

TEST(StagingMemory, AsksForHugePagesForItsBulkAlone) {
  if (::access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0)
    GTEST_SKIP() << "this kernel has no huge pages to give";
  const Mapped memory(in_three_parts);
  ASSERT_NE(memory.get(), nullptr);
  const std::string flags = flags_of(memory.get() + in_three_parts.ahead);
  if (flags.empty()) GTEST_SKIP() << "/proc/self/smaps tells no flags here";
  EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
  EXPECT_EQ(flags_of(memory.get()).find(" hg "), std::string::npos);
}

TEST(StagingMemory, IsWritableFromEndToEnd) {
  for (const StagingShape& shape : {in_three_parts, without_bulk}) {
    const Mapped memory(shape);
    ASSERT_NE(memory.get(), nullptr);
    std::memset(memory.get(), 0x5a, shape.size());
    EXPECT_EQ(std::count(memory.get(), memory.get() + shape.size(), std::byte{0x5a}),
              static_cast<std::ptrdiff_t>(shape.size()));
  }
}

// Something else may have come to lie there, as the stack of a sanitizer's own thread. The kernel looks: no signal.
bool holds_a_page_of(std::byte value, const std::byte* at) {
  std::vector<std::byte> found(page);
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return false;
  const bool whole = ::syscall(SYS_write, pipe[1], at, page) == static_cast<long>(page) &&
                     ::read(pipe[0], found.data(), page) == static_cast<ssize_t>(page);
  ::close(pipe[0]);
  ::close(pipe[1]);
  return whole && std::all_of(found.begin(), found.end(), [=](std::byte byte) { return byte == value; });
}

// What is marked so is not there in children. An emulator may keep the mark to itself.
bool marks_hold() {
  void* const marked = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (marked == MAP_FAILED) return false;
  std::memset(marked, 2, page);
  ::madvise(marked, page, MADV_DONTFORK);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds_a_page_of(std::byte{2}, static_cast<std::byte*>(marked)) ? 1 : 0);
  int status = 0;
  const bool ended = child > 0 && ::waitpid(child, &status, 0) == child;
  ::munmap(marked, page);
  return ended && status == 0;
}

TEST(StagingMemory, IsNotThereInAChild) {
  if (!marks_hold()) GTEST_SKIP() << "memory that is not for children is theirs all the same in this emulator";
  const Mapped memory(in_three_parts);
  ASSERT_NE(memory.get(), nullptr);
  std::memset(memory.get(), 1, in_three_parts.size());
  const std::array parts{memory.get(), memory.get() + in_three_parts.ahead,
                         memory.get() + in_three_parts.ahead + in_three_parts.bulk};
  const auto is_there = [](const std::byte* part) { return holds_a_page_of(std::byte{1}, part); };
  ASSERT_TRUE(std::all_of(parts.begin(), parts.end(), is_there));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(std::none_of(parts.begin(), parts.end(), is_there) ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(StagingMemory, IsGoneWhenItIsGivenBack) {
  std::byte* const memory = map_staging(in_three_parts);
  ASSERT_NE(memory, nullptr);
  unmap_staging(memory, in_three_parts);
  EXPECT_FALSE(is_mapped(memory));
  EXPECT_FALSE(is_mapped(memory + in_three_parts.ahead));
  EXPECT_FALSE(is_mapped(memory + in_three_parts.size() - page));
}

TEST(StagingMemory, IsNoneWhereThereIsNoRoom) {
  EXPECT_EQ(map_staging({.ahead = ~std::size_t{0} / 4 / page * page}), nullptr);
}

}  // namespace
}  // namespace sluice::gpu
