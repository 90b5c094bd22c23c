// SPDX-License-Identifier: Apache-2.0
// Which way the bytes go and why: sluice_explain, the counters by path and reason, the names of both.
#include "sluice.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

// Another library than ours has none of these calls, so they are looked up by name.
struct Calls {
  decltype(sluice_version)* version = entry<decltype(sluice_version)>("sluice_version");
  decltype(sluice_explain)* explain = entry<decltype(sluice_explain)>("sluice_explain");
  decltype(sluice_path_counters)* counters = entry<decltype(sluice_path_counters)>("sluice_path_counters");
  decltype(sluice_path_name)* path_name = entry<decltype(sluice_path_name)>("sluice_path_name");
  decltype(sluice_reason_name)* reason_name = entry<decltype(sluice_reason_name)>("sluice_reason_name");
  decltype(sluice_reason_sentence)* sentence = entry<decltype(sluice_reason_sentence)>("sluice_reason_sentence");
  decltype(sluice_reason_remedy)* remedy = entry<decltype(sluice_reason_remedy)>("sluice_reason_remedy");
  decltype(sluice_last_error)* last_error = entry<decltype(sluice_last_error)>("sluice_last_error");
};

class Explain : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    if (calls_.explain == nullptr) GTEST_SKIP() << "this libcufile does not explain itself";
  }

  sluice_explanation_t explain(CUfileHandle_t handle, const void* memory) const {
    sluice_explanation_t explanation{};
    EXPECT_EQ(code(calls_.explain(handle, memory, 0, CUFILE_READ, 4096, 0, &explanation)), CU_FILE_SUCCESS);
    return explanation;
  }

  // The sum over all paths and reasons.
  sluice_path_counter_t total() const {
    std::size_t count = 0;
    EXPECT_EQ(code(calls_.counters(nullptr, 0, &count)), CU_FILE_SUCCESS);
    std::vector<sluice_path_counter_t> counters(count + 8);
    EXPECT_EQ(code(calls_.counters(counters.data(), counters.size(), &count)), CU_FILE_SUCCESS);
    counters.resize(count);
    sluice_path_counter_t sum{};
    for (const sluice_path_counter_t& counter : counters) {
      sum.reads += counter.reads;
      sum.read_bytes += counter.read_bytes;
      sum.writes += counter.writes;
      sum.written_bytes += counter.written_bytes;
      sum.errors += counter.errors;
    }
    return sum;
  }

  const Calls calls_{};
  const ScratchFile file_{65536};
};

TEST_F(Explain, TheLibraryHasAVersion) {
  EXPECT_STREQ(calls_.version(), "0.1.0");
}

TEST_F(Explain, EveryPathAndReasonHasItsTexts) {
  std::set<std::string> names;
  for (int path = 0; path < SLUICE_PATH_COUNT; ++path) {
    const char* name = calls_.path_name(static_cast<sluice_path_t>(path));
    ASSERT_NE(name, nullptr) << path;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  for (int i = 0; i < SLUICE_REASON_COUNT; ++i) {
    const auto reason = static_cast<sluice_reason_t>(i);
    ASSERT_NE(calls_.reason_name(reason), nullptr) << i;
    EXPECT_TRUE(names.insert(calls_.reason_name(reason)).second) << calls_.reason_name(reason);
    for (const char* text : {calls_.sentence(reason), calls_.remedy(reason)}) {
      ASSERT_NE(text, nullptr) << i;
      EXPECT_GT(std::strlen(text), 10U) << text;
    }
  }
  volatile int outside = SLUICE_REASON_COUNT;
  EXPECT_EQ(calls_.reason_name(static_cast<sluice_reason_t>(outside)), nullptr);
  outside = SLUICE_PATH_COUNT;
  EXPECT_EQ(calls_.path_name(static_cast<sluice_path_t>(outside)), nullptr);
}

TEST_F(Explain, HostMemoryNeedsNoDirectPath) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::plain, 4096);
  const sluice_explanation_t explanation = explain(handle.get(), memory.address());
  EXPECT_EQ(explanation.path, SLUICE_PATH_POSIX);
  EXPECT_EQ(explanation.reason, SLUICE_REASON_HOST_MEMORY);
}

TEST_F(Explain, PlainModeIsAReasonOfItsOwn) {
  const char* mode = std::getenv("SLUICE_MODE");
  const bool plain = mode != nullptr && std::strcmp(mode, "plain") == 0;
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 4096);
  EXPECT_EQ(explain(handle.get(), memory.address()).reason == SLUICE_REASON_PLAIN_MODE, plain);
}

TEST_F(Explain, TheTextsBelongToTheAnswer) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  const sluice_explanation_t explanation = explain(handle.get(), memory.address());
  EXPECT_STREQ(explanation.path_name, calls_.path_name(explanation.path));
  EXPECT_STREQ(explanation.reason_name, calls_.reason_name(explanation.reason));
  EXPECT_STREQ(explanation.sentence, calls_.sentence(explanation.reason));
  EXPECT_STREQ(explanation.remedy, calls_.remedy(explanation.reason));
  EXPECT_NE(memchr(explanation.detail, 0, sizeof explanation.detail), nullptr);
}

TEST_F(Explain, TheDetailNamesTheFileSystem) {
  const Memory memory(usual_memory(), 4096);
  for (const char* name : {"ext4", "xfs", "btrfs", "tmpfs"}) {
    const Place* place = find_place(name);
    if (place == nullptr) continue;
    const ScratchFile file(Bytes(4096), place->path);
    const Fd fd = file.open(O_RDWR);
    const Handle handle(fd);
    const sluice_explanation_t explanation = explain(handle.get(), memory.address());
    EXPECT_NE(std::string(explanation.detail).find(name), std::string::npos) << explanation.detail;
  }
}

TEST_F(Explain, TheSoftGpuIsReachedByTheCpu) {
  if (cuda() == nullptr || !cuda()->soft) GTEST_SKIP() << "no soft GPU here";
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, 4096);
  EXPECT_EQ(explain(handle.get(), memory.address()).path, SLUICE_PATH_POSIX);
  EXPECT_EQ(explain(handle.get(), nullptr).path, SLUICE_PATH_POSIX) << "memory of device 0 in general";
  EXPECT_EQ(explain(handle.get(), nullptr).reason, explain(handle.get(), memory.address()).reason);
}

TEST_F(Explain, AnAnswerMovesNothing) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  memory.fill(3);
  const sluice_path_counter_t before = total();
  explain(handle.get(), memory.address());
  EXPECT_TRUE(all_bytes(3, memory.get()));
  EXPECT_EQ(total().reads, before.reads);
}

TEST_F(Explain, BadQuestionsAreRefused) {
  const Fd fd = file_.open(O_RDWR);
  Handle handle(fd);
  sluice_explanation_t answer{};
  // As a C program may ask: an opcode that is no value of the enumeration.
  const auto with_any_opcode =
      entry<CUfileError_t(CUfileHandle_t, const void*, int, int, std::size_t, off_t, sluice_explanation_t*)>(
          "sluice_explain");
  EXPECT_EQ(code(calls_.explain(handle.get(), nullptr, 0, CUFILE_READ, 1, 0, nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(with_any_opcode(handle.get(), nullptr, 0, 9, 1, 0, &answer)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(calls_.explain(handle.get(), nullptr, 999, CUFILE_READ, 1, 0, &answer)), CU_FILE_DEVICE_NOT_FOUND);
  handle.deregister();
  EXPECT_EQ(code(calls_.explain(handle.get(), nullptr, 0, CUFILE_READ, 1, 0, &answer)), CU_FILE_HANDLE_NOT_REGISTERED);
}

TEST_F(Explain, EveryTransferIsCountedOnItsPath) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 65536);
  const sluice_path_counter_t before = total();
  ASSERT_EQ(read_file(handle.get(), memory.address(), 65536), moved(65536));
  ASSERT_EQ(read_file(handle.get(), memory.address(), 65536, 65535), moved(1));
  ASSERT_EQ(write_file(handle.get(), memory.address(), 5001, 3), moved(5001));
  const sluice_path_counter_t after = total();
  EXPECT_EQ(after.reads - before.reads, 2U);
  EXPECT_EQ(after.read_bytes - before.read_bytes, 65537U);
  EXPECT_EQ(after.writes - before.writes, 1U);
  EXPECT_EQ(after.written_bytes - before.written_bytes, 5001U);
  EXPECT_EQ(after.errors, before.errors);
}

TEST_F(Explain, TheCountersNeedAPlaceForTheirNumber) {
  std::size_t count = 0;
  EXPECT_EQ(code(calls_.counters(nullptr, 0, nullptr)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(calls_.counters(nullptr, 5, &count)), CU_FILE_INVALID_VALUE);
}

TEST_F(Explain, AFailedCallLeavesItsCauseInWords) {
  const Memory memory(usual_memory(), 4096);
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_fd(-1, &handle), CU_FILE_INVALID_VALUE);
  EXPECT_GT(std::strlen(calls_.last_error()), 10U) << calls_.last_error();
}

}  // namespace
}  // namespace sluice::contract
