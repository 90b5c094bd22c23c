// SPDX-License-Identifier: Apache-2.0
// Kernels of other GPUs carry a part of large reads (sluice.links_copy: kernel, relay): to the target's memory, where
// they reach it, or to memory of their own GPU's, out of which the target fetches it. Each read is compared byte by
// byte. The runs of these tests say by SLUICE_LINKS which GPUs may lend.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/lending_case.h"
#include "mapped_memory.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/stream_gate.h"

namespace sluice::contract::lending_kernel_test {
namespace {

using namespace support;

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
constexpr std::size_t kSize = 9 * kMebibyte;

// CUmemAccessDesc: read and written by device 1.
constexpr std::array<int, 3> kLetDeviceOneIn{1, 1, 3};

bool asks_for_engines() {
  return is_set_to("SLUICE_LINKS_COPY", "engine");
}
// Of memory of contexts.
bool is_kept_out() {
  return is_set_to("SLUICE_SOFTGPU_FAIL", "cuCtxEnablePeerAccess:1+:217");
}
// What is said of a neighbour whose kernels do not reach the target's memory.
bool relays() {
  return is_set_to("SLUICE_LINKS_COPY", "relay");
}
constexpr std::string_view kByKernel = "lends its link (by a kernel)";
constexpr std::string_view kByRelay = "lends its link (by a kernel, by way of its own memory)";
std::string_view out_of_reach() {
  return relays() ? kByRelay : "its kernels do not reach the target's memory";
}

class LendingKernels : public NeighbourCase {
 protected:
  void SetUp() override {
    NeighbourCase::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (is_unnamed()) GTEST_SKIP() << "wants SLUICE_LINKS to name GPUs: only the target is worked with here";
    file_.emplace(kSize + 4321);
    fd_.emplace(file_->open(O_RDONLY));
    handle_.emplace(*fd_);
  }

  // What GPU 1 has answered last.
  std::string words() const {
    std::string facts;
    const auto keep = [](const sluice_explanation_t* /*way*/, const char* told, void* into) {
      *static_cast<std::string*>(into) = told;
    };
    const Memory memory(MemoryKind::device, 4096);
    EXPECT_EQ(code(sluice_explain_all(handle_->get(), memory.address(), 4096, CUFILE_READ, 0, 0, keep, &facts)),
              CU_FILE_SUCCESS);
    const std::size_t begin = facts.find("GPU1: ");
    return begin == std::string::npos ? facts : facts.substr(begin, facts.find(", GPU2", begin) - begin);
  }
  bool says(std::string_view what) const { return words().find(what) != std::string::npos; }

  // Reads until the neighbour says so, or for long: its kernels are loaded in the background, and may not begin in
  // time.
  void read_until(std::string_view what, const std::function<void()>& read) const {
    read();
    again_until([&] { return says(what); }, read);
    EXPECT_TRUE(says(what)) << words();
  }

  void read_into(std::uint64_t address, std::size_t size, std::size_t at) const {
    auto* const memory = reinterpret_cast<void*>(address);
    ASSERT_EQ(cuda()->fill(address, 0xa5, size), 0);
    ASSERT_EQ(cuda()->context_synchronize(), 0);  // our streams do not wait for it
    ASSERT_EQ(read_file(handle_->get(), memory, size, static_cast<off_t>(at)), moved(size));
    Bytes found(size);
    ASSERT_EQ(cuda()->to_host(found.data(), address, size), 0);
    ASSERT_TRUE(same_bytes(std::span(file_->content()).subspan(at, size), found)) << size << " at " << at;
  }

  const ScratchFile& file() const { return *file_; }
  const Handle& handle() const { return *handle_; }

 private:
  std::optional<ScratchFile> file_;
  std::optional<Fd> fd_;
  std::optional<Handle> handle_;
};

TEST_F(LendingKernels, CarryReadsOfCachedFilesWithAllBytesAndNoneBeside) {
  const std::string_view expected = asks_for_engines()          ? "by its copy engine (a kernel was not asked for)"
                                    : is_kept_out() || relays() ? out_of_reach()
                                                                : kByKernel;
  constexpr std::size_t beside = 4096;
  const Memory memory(MemoryKind::device, kSize + 2 * beside);
  read_until(expected, [&] { read_into(reinterpret_cast<std::uint64_t>(memory.address()), kSize, 0); });
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, kMebibyte + 13}) {
    for (const std::size_t into : {beside, beside + 3, beside - 16}) {
      for (const std::size_t size : {kMebibyte, 3 * kMebibyte + 17, kSize}) {
        const std::size_t there = std::min(size, file().content().size() - at);
        memory.fill(0x5a);
        EXPECT_EQ(read_file(handle().get(), memory.address(), size, static_cast<off_t>(at), static_cast<off_t>(into)),
                  moved(there));
        const Bytes found = memory.get();
        const std::span all(found);
        EXPECT_TRUE(same_bytes(std::span(file().content()).subspan(at, there), all.subspan(into, there)))
            << size << " at " << at << " into " << into;
        EXPECT_TRUE(all_bytes(0x5a, all.first(into)));
        EXPECT_TRUE(all_bytes(0x5a, all.subspan(into + there)));
      }
    }
  }
}

// Once it is on it stays on, and a program that switches it on itself is told so.
TEST_F(LendingKernels, SwitchPeerAccessOnWhereTheyAreToReachTheTargetAndNeverElse) {
  const bool is_theirs = !asks_for_engines() && !relays();
  const Memory memory(MemoryKind::device, kSize);
  read_until(is_theirs ? "lends its link (by a kernel)" : "lends its link",
             [&] { read_into(reinterpret_cast<std::uint64_t>(memory.address()), kSize, 0); });
  constexpr int already_on = 704;
  void* const target = primary_context(0);
  const ContextScope neighbour(primary_context(1));
  const int answer = cuda_function<int(void*, unsigned)>("cuCtxEnablePeerAccess")(target, 0);
  EXPECT_EQ(answer, is_theirs ? already_on : 0);
  if (answer == 0) {
    EXPECT_EQ(cuda_function<int(void*)>("cuCtxDisablePeerAccess")(target), 0);
  }
}

TEST_F(LendingKernels, LeaveMemoryOfPoolsAloneUntilTheyAreLetIn) {
  if (asks_for_engines()) GTEST_SKIP() << "SLUICE_LINKS_COPY=engine: no kernel of a neighbour carries anything";
  CudaAddress address = 0;
  ASSERT_EQ(cuda()->allocate_async(&address, kSize, nullptr), 0);
  ASSERT_EQ(cuda()->stream_synchronize(nullptr), 0);
  const auto read = [&] { read_into(address, kSize, 0); };
  read_until(out_of_reach(), read);
  void* pool = nullptr;
  ASSERT_EQ(cuda_function<int(void**, int)>("cuDeviceGetDefaultMemPool")(&pool, 0), 0);
  using SetAccess = int(void*, const int*, std::size_t);
  ASSERT_EQ(cuda_function<SetAccess>("cuMemPoolSetAccess")(pool, kLetDeviceOneIn.data(), 1), 0);
  read_until("lends its link (by a kernel)", read);
  ASSERT_EQ(cuda()->release_async(address, nullptr), 0);
  ASSERT_EQ(cuda()->stream_synchronize(nullptr), 0);
}

TEST_F(LendingKernels, LeaveMappingsAloneUntilTheyAreLetInEverywhere) {
  if (asks_for_engines()) GTEST_SKIP() << "SLUICE_LINKS_COPY=engine: no kernel of a neighbour carries anything";
  if (!MappedMemory::available()) GTEST_SKIP() << "the driver has no cuMemCreate and cuMemMap";
  const MappedMemory memory(4, 2 * kMebibyte);
  const auto address = reinterpret_cast<CudaAddress>(memory.address());
  const auto let_in = [](CudaAddress at, std::size_t size) {
    return cuda()->mem_set_access(at, size, kLetDeviceOneIn.data(), 1);
  };
  const auto read = [&] { read_into(address, memory.size(), 0); };
  ASSERT_EQ(let_in(address, 6 * kMebibyte), 0);
  read_until(out_of_reach(), read);
  ASSERT_EQ(let_in(address + 6 * kMebibyte, 2 * kMebibyte), 0);
  read_until("lends its link (by a kernel)", read);
}

TEST_F(LendingKernels, LeaveReadsPastTheCacheToCopyEngines) {
  const Fd direct = file().open(O_RDONLY | O_DIRECT);
  const Handle past_cache(direct);
  const Memory memory(MemoryKind::device, 8 * kMebibyte);
  EXPECT_EQ(read_file(past_cache.get(), memory.address(), memory.size()), moved(memory.size()));
  EXPECT_TRUE(same_bytes(std::span(file().content()).first(memory.size()), memory.get()));
  EXPECT_FALSE(says("(by a kernel)")) << words();
}

}  // namespace
}  // namespace sluice::contract::lending_kernel_test
