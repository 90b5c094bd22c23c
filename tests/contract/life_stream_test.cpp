// SPDX-License-Identifier: Apache-2.0
// Streams with work of ours standing in them: what may happen to the process, the driver and the memory meanwhile, and
// what comes of calls that the driver refuses.
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>

#include <cctype>
#include <cstdlib>
#include <deque>
#include <optional>
#include <ostream>
#include <string>

#include "contract/life/child.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/stream_gate.h"

namespace sluice::contract::life_stream_test {
namespace {

using namespace support;
using life::Ended;
using life::in_child;
using life::run_beside;

constexpr std::size_t kSize = 500001;

struct Asked {
  std::size_t size = kSize;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t moved = -77;

  int read(CUfileHandle_t handle, void* base, CUstream stream) {
    return code(cuFileReadAsync(handle, base, &size, &file_offset, &buffer_offset, &moved, stream));
  }
  int write(CUfileHandle_t handle, void* base, CUstream stream) {
    return code(cuFileWriteAsync(handle, base, &size, &file_offset, &buffer_offset, &moved, stream));
  }
};

class LifeStream : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its stream";
    handle_.emplace(fd_);
    gate_.emplace();
    stream_.emplace();
  }
  void TearDown() override {
    if (gate_) gate_->open();
    if (stream_) stream_->synchronize();
    handle_.reset();
    DeviceTest::TearDown();
  }
  CUstream stream() const { return stream_->get(); }
  CUfileHandle_t handle() const { return handle_->get(); }
  void let_go() const {
    gate_->open();
    stream_->synchronize();
  }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<Handle> handle_;
  std::optional<Gate> gate_;
  std::optional<Stream> stream_;
};

TEST_F(LifeStream, AForkedChildUsesFilesWhileTheParentsWorkWaits) {
  const Memory memory(MemoryKind::device, kSize);
  memory.fill(6);
  Asked read;
  gate_->hold(stream());
  ASSERT_EQ(read.read(handle(), memory.address(), stream()), CU_FILE_SUCCESS);
  EXPECT_EQ(in_child([&]() -> std::string {
              const Memory plain(MemoryKind::plain, kSize);
              if (read_file(handle(), plain.address(), kSize) != moved(kSize)) return "reading failed";
              if (!same_bytes(file_.content(), plain.get())) return "wrong bytes";
              if (read.moved != -77) return "the parent's work has an end in the child";
              cuFileHandleDeregister(handle());
              if (code(cuFileDriverClose()) != CU_FILE_SUCCESS) return "the driver stays open";
              return "";
            }),
            "");
  EXPECT_EQ(read.moved, -77);
  let_go();
  EXPECT_EQ(read.moved, static_cast<ssize_t>(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST_F(LifeStream, AForkedChildHearsAtOnceWhatBecomesOfWorkInItsParentsStreams) {
  const Memory memory(MemoryKind::device, kSize);
  Asked parents;
  gate_->hold(stream());
  ASSERT_EQ(parents.read(handle(), memory.address(), stream()), CU_FILE_SUCCESS);
  EXPECT_EQ(in_child([&]() -> std::string {
              // There is no stream, so host memory is reached at once and a device's not at all.
              Asked mine;
              const int answer = mine.read(handle(), memory.address(), stream());
              if (answer == CU_FILE_SUCCESS && mine.moved >= 0) return "it reads into device memory";
              const Memory plain(MemoryKind::plain, kSize);
              Asked host;
              if (host.read(handle(), plain.address(), stream()) != CU_FILE_SUCCESS) return "";
              return host.moved == static_cast<ssize_t>(kSize) && same_bytes(file_.content(), plain.get())
                         ? ""
                         : "it says that it has read and has not";
            }),
            "");
  let_go();
  EXPECT_EQ(parents.moved, static_cast<ssize_t>(kSize));
}

TEST_F(LifeStream, AForkLeavesNothingBehindInTheParentThatHasStreamsServed) {
  const Memory memory(MemoryKind::device, kSize);
  for (int round = 0; round < 5; ++round) {
    memory.fill(6);
    std::deque<Asked> all(8);
    for (Asked& one : all) ASSERT_EQ(one.read(handle(), memory.address(), stream()), CU_FILE_SUCCESS);
    EXPECT_EQ(in_child([&]() -> std::string {
                const Memory plain(MemoryKind::plain, kSize);
                return read_file(handle(), plain.address(), kSize) == moved(kSize) ? "" : "reading failed";
              }),
              "");
    stream_->synchronize();
    for (const Asked& one : all) ASSERT_EQ(one.moved, static_cast<ssize_t>(kSize));
    ASSERT_TRUE(same_bytes(file_.content(), memory.get()));
  }
}

TEST_F(LifeStream, WorkOutlivesTheStreamThatItStandsIn) {
  CUstream dying{};
  ASSERT_EQ(cuda()->stream_create(&dying, 1), 0);
  const Memory memory(MemoryKind::device, kSize);
  std::deque<Memory> others;
  for (int i = 0; i < 3; ++i) others.emplace_back(MemoryKind::device, kSize);
  ASSERT_EQ(code(cuFileStreamRegister(dying, 15)), CU_FILE_SUCCESS);
  Asked read;
  Asked write;
  gate_->hold(dying);
  ASSERT_EQ(read.read(handle(), memory.address(), dying), CU_FILE_SUCCESS);
  ASSERT_EQ(write.write(handle(), memory.address(), dying), CU_FILE_SUCCESS);
  ASSERT_EQ(cuda()->stream_destroy(dying), 0);
  // The next streams, which may have its handle, are others.
  std::deque<Stream> next(others.size());
  std::deque<Asked> theirs(others.size());
  for (std::size_t i = 0; i < next.size(); ++i) {
    ASSERT_EQ(code(cuFileStreamRegister(next[i].get(), 15)), CU_FILE_SUCCESS) << "the old stream was taken for it";
    ASSERT_EQ(theirs[i].read(handle(), others[i].address(), next[i].get()), CU_FILE_SUCCESS);
  }
  gate_->open();
  for (std::size_t i = 0; i < next.size(); ++i) {
    next[i].synchronize();
    EXPECT_EQ(theirs[i].moved, static_cast<ssize_t>(kSize));
    EXPECT_TRUE(same_bytes(file_.content(), others[i].get()));
    EXPECT_EQ(code(cuFileStreamDeregister(next[i].get())), CU_FILE_SUCCESS);
  }
  ASSERT_EQ(cuda()->context_synchronize(), 0);
  EXPECT_EQ(read.moved, static_cast<ssize_t>(kSize));
  EXPECT_EQ(write.moved, static_cast<ssize_t>(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST_F(LifeStream, ABufferMayBeDeregisteredWhileWorkForItWaits) {
  const Memory memory(MemoryKind::device, kSize);
  memory.fill(6);
  ASSERT_EQ(code(cuFileBufRegister(memory.address(), kSize, 0)), CU_FILE_SUCCESS);
  Asked read;
  gate_->hold(stream());
  ASSERT_EQ(read.read(handle(), memory.address(), stream()), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
  EXPECT_TRUE(all_bytes(6, memory.get()));
  let_go();
  EXPECT_EQ(read.moved, static_cast<ssize_t>(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST_F(LifeStream, BuffersMayGoAfterTheirWorkAndOthersComeInTheirPlace) {
  for (int round = 0; round < 20; ++round) {
    const Memory memory(MemoryKind::device, kSize - static_cast<std::size_t>(round) * 4096);
    memory.fill(6);
    const bool registered = round % 2 == 0;
    if (registered) {
      ASSERT_EQ(code(cuFileBufRegister(memory.address(), memory.size(), 0)), CU_FILE_SUCCESS);
    }
    Asked read{memory.size() - 11, 5, 11};
    ASSERT_EQ(read.read(handle(), memory.address(), stream()), CU_FILE_SUCCESS);
    stream_->synchronize();
    if (registered) {
      ASSERT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
    }
    ASSERT_EQ(read.moved, static_cast<ssize_t>(std::min(read.size, kSize - 5)));
    const auto count = static_cast<std::size_t>(read.moved);
    ASSERT_TRUE(same_bytes({file_.content().data() + 5, count}, memory.get(11, count)));
  }
}

TEST_F(LifeStream, ClosingTheDriverFinishesWhatStreamsHaveGotTo) {
  const Memory memory(MemoryKind::device, kSize);
  memory.fill(6);
  std::deque<Asked> all(16);
  for (Asked& one : all) ASSERT_EQ(one.read(handle(), memory.address(), stream()), CU_FILE_SUCCESS);
  close_driver_fully();
  stream_->synchronize();
  for (const Asked& one : all) EXPECT_EQ(one.moved, static_cast<ssize_t>(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST_F(LifeStream, AClosedDriverThatIsOpenedAgainServesTheStreamBehindWhatStandsInIt) {
  const Memory memory(MemoryKind::device, kSize);
  memory.fill(6);
  Asked lost;
  Asked read;
  gate_->hold(stream());
  ASSERT_EQ(lost.read(handle(), memory.address(), stream()), CU_FILE_SUCCESS);
  close_driver_fully();
  const Handle again(fd_);
  ASSERT_EQ(read.read(again.get(), memory.address(), stream()), CU_FILE_SUCCESS);
  EXPECT_EQ(read.moved, -77);
  let_go();
  EXPECT_EQ(lost.moved, -CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(read.moved, static_cast<ssize_t>(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST(LifeStreamUnlinked, StaysWhenItIsClosedUnderWorkInAStream) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its stream";
  const Ended ended = run_beside("life_unlinked", {life::path_beside("../lib/libcufile.so.0"), "stream"});
  if (ended.skipped()) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.output, "done\n");
  EXPECT_EQ(ended.signal, 0);
  EXPECT_EQ(ended.status, 0);
}

// The n-th call of a driver's function, or all from the n-th on, answers an error; what becomes of the 48 calls of the
// scenario, where that depends on nothing else; and why there may be fewer than n calls, where there may.
struct Refusal {
  const char* rule;
  const char* outcome = nullptr;
  const char* why_it_may_not_come = nullptr;
};
constexpr const char* kHarmless = "0 refused, 0 failed\n";
constexpr const char* kOneRefused = "1 refused, 0 failed\n";
constexpr const char* kAllRefused = "48 refused, 0 failed\n";
constexpr const char* kNothingRefused = "nothing was refused\n";

void PrintTo(const Refusal& refusal, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << refusal.rule;
}

class LifeStreamRefused : public ::testing::TestWithParam<Refusal> {
 protected:
  static Ended play(const char* scenario) {
    return run_beside("life_program", {scenario}, {std::string("SLUICE_SOFTGPU_FAIL=") + GetParam().rule});
  }
  static void expect_to_say(const char* scenario, const char* words) {
    if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode nothing is put into a stream";
    const Ended ended = play(scenario);
    if (ended.skipped()) GTEST_SKIP() << ended.output;
    EXPECT_EQ(ended.signal, 0) << strsignal(ended.signal);
    EXPECT_EQ(ended.status, 0);
    const char* const why_not = GetParam().why_it_may_not_come;
    if (why_not != nullptr && ended.output == kNothingRefused) GTEST_SKIP() << why_not;
    EXPECT_EQ(ended.output, words);
  }
};

TEST_P(LifeStreamRefused, IsToldClearlyOrGoesAnotherWay) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode nothing is put into a stream";
  const Ended ended = play("streams_with_refused_calls");
  if (ended.skipped()) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.signal, 0) << strsignal(ended.signal);
  EXPECT_EQ(ended.status, 0) << ended.output;
  if (GetParam().outcome != nullptr) {
    EXPECT_EQ(ended.output, GetParam().outcome);
  }
}

std::string name_of_refusal(const ::testing::TestParamInfo<Refusal>& info) {
  std::string name;
  for (const char* letter = info.param.rule; *letter != '\0'; ++letter) {
    if (std::isalnum(static_cast<unsigned char>(*letter)) != 0) {
      name += *letter;
    } else {
      name += *letter == '+' ? "_on" : "_";
    }
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Once, LifeStreamRefused,
    ::testing::Values(Refusal{"cuStreamBatchMemOp:1", kOneRefused}, Refusal{"cuStreamBatchMemOp:5:2", kOneRefused},
                      Refusal{"cuStreamBatchMemOp:3:801", kHarmless}, Refusal{"cuLaunchKernel:1", kHarmless},
                      Refusal{"cuLaunchKernel:4", kHarmless}, Refusal{"cuMemHostRegister:1", kHarmless},
                      Refusal{"cuMemHostRegister:2:2", kHarmless}, Refusal{"cuMemcpyDtoHAsync:1"},
                      Refusal{"cuMemcpyDtoHAsync:4"}, Refusal{"cuMemAlloc:3:2", kHarmless},
                      Refusal{"cuStreamCreateWithPriority:1", kHarmless},
                      Refusal{"cuMemHostGetDevicePointer:1", kHarmless}, Refusal{"cuMemcpyHtoDAsync:1", kHarmless},
                      Refusal{"cuModuleLoadDataEx:1", kHarmless}, Refusal{"cuStreamIsCapturing:2", kOneRefused},
                      Refusal{"cuStreamGetCtx:4", kOneRefused}, Refusal{"cuPointerGetAttributes:9"},
                      Refusal{"cuMemGetAddressRange:9"}),
    name_of_refusal);
INSTANTIATE_TEST_SUITE_P(
    Always, LifeStreamRefused,
    ::testing::Values(Refusal{"cuStreamBatchMemOp:1+:801", kHarmless}, Refusal{"cuStreamBatchMemOp:1+", kAllRefused},
                      Refusal{"cuStreamBatchMemOp:1+:801,cuLaunchHostFunc:1+:801", kAllRefused},
                      Refusal{"cuStreamBatchMemOp:1+:801,cuLaunchHostFunc:4", kOneRefused},
                      Refusal{"cuLaunchKernel:1+", kHarmless}, Refusal{"cuLaunchKernel:9+", kHarmless},
                      Refusal{"cuMemHostRegister:1+:2", kHarmless}, Refusal{"cuMemHostRegister:2+:801", kHarmless},
                      Refusal{"cuMemcpyDtoHAsync:1+"}, Refusal{"cuModuleLoadDataEx:1+", kHarmless},
                      Refusal{"cuStreamCreateWithPriority:1+:2", kHarmless}, Refusal{"cuStreamQuery:1+", kHarmless}),
    name_of_refusal);

using LifeStreamUnserved = LifeStreamRefused;

// Without pinned memory, or a stream of our own, a call waits for its stream and moves the bytes itself, each time.
TEST_P(LifeStreamUnserved, CarriesOutAnyNumberOfCallsAllTheSame) {
  expect_to_say("a_stream_that_nothing_serves", "all transfers were carried out\n");
}

INSTANTIATE_TEST_SUITE_P(By, LifeStreamUnserved,
                         ::testing::Values(Refusal{"cuMemHostRegister:1+:2"},
                                           Refusal{"cuStreamCreateWithPriority:1+:2"}),
                         name_of_refusal);

using LifeStreamHeld = LifeStreamRefused;

// What the library asks while nothing happens in a stream tells nothing of it. (The calls that the refusals begin with
// come behind those that put the transfers into the streams.)
TEST_P(LifeStreamHeld, IsCarriedOutOnceItIsLetGoWhateverTheDriverRefusedMeanwhile) {
  expect_to_say("held_streams_with_refused_calls", "all transfers were carried out\n");
}

INSTANTIATE_TEST_SUITE_P(By, LifeStreamHeld,
                         ::testing::Values(Refusal{"cuStreamQuery:1+"}, Refusal{"cuPointerGetAttributes:12:304"},
                                           Refusal{"cuStreamBatchMemOp:1+:801,cuStreamQuery:1+"}),
                         name_of_refusal);

using LifeStreamWithoutKernel = LifeStreamRefused;

TEST_P(LifeStreamWithoutKernel, ReadsWhenItsStreamGetsThere) {
  expect_to_say("a_read_whose_kernel_is_refused", "it has waited\n");
}

INSTANTIATE_TEST_SUITE_P(By, LifeStreamWithoutKernel, ::testing::Values(Refusal{"cuLaunchKernel:1+"}), name_of_refusal);

using LifeStreamUngated = LifeStreamRefused;

TEST_P(LifeStreamUngated, HoldsItsStreamByItsKernelOrByAGateAfterAll) {
  expect_to_say("small_reads_of_a_cached_file", GetParam().outcome);
}

INSTANTIATE_TEST_SUITE_P(By, LifeStreamUngated,
                         ::testing::Values(Refusal{"cuStreamBatchMemOp:2+", "4 read, 0 refused\n"},
                                           Refusal{"cuLaunchKernel:2+", "4 read, 0 refused\n"},
                                           Refusal{"cuStreamWriteValue32:2", "3 read, 1 refused\n"},
                                           Refusal{"cuLaunchKernel:2+,cuStreamWaitValue32:1", "3 read, 1 refused\n"}),
                         name_of_refusal);

using LifeStreamLost = LifeStreamRefused;

// From then on everything in the context answers an error.
TEST_P(LifeStreamLost, IsToldToAllThatComesAndHoldsNothingUp) {
  expect_to_say("streams_of_a_context_that_is_lost", "the context is lost\n");
}

INSTANTIATE_TEST_SUITE_P(By, LifeStreamLost,
                         ::testing::Values(Refusal{"cuStreamBatchMemOp:4:700"}, Refusal{"cuLaunchKernel:5:700"},
                                           Refusal{"cuMemcpyDtoHAsync:2:700"},
                                           Refusal{"cuStreamBatchMemOp:1+:801,cuLaunchHostFunc:7:700"}),
                         name_of_refusal);

using LifeStreamInDoubt = LifeStreamRefused;

TEST_P(LifeStreamInDoubt, IsGivenUpAfterTwoSeconds) {
  expect_to_say("a_kernel_that_stands_still", "it was given up\n");
}

// (The first query is whether the stream is at rest, so that the kernel can be loaded.)
INSTANTIATE_TEST_SUITE_P(By, LifeStreamInDoubt,
                         ::testing::Values(Refusal{"sluice_stream_copy:1+,cuStreamQuery:2+:304"}), name_of_refusal);

using LifeCopiesLost = LifeStreamRefused;

TEST_P(LifeCopiesLost, AreToldSoAndNobodyWaitsForThem) {
  expect_to_say("small_copies_in_a_context_that_is_lost", "the context is lost\n");
}

INSTANTIATE_TEST_SUITE_P(By, LifeCopiesLost,
                         ::testing::Values(Refusal{"cuMemcpyHtoDAsync:200:700"}, Refusal{"cuMemcpyDtoHAsync:100:700"},
                                           Refusal{"cuStreamWriteValue32:300:700"}),
                         name_of_refusal);

using LifeLargeWritesLost = LifeStreamRefused;

TEST_P(LifeLargeWritesLost, HaveWrittenWhatTheyCount) {
  expect_to_say("large_writes_in_a_context_that_is_lost", "what is counted was written\n");
}

constexpr const char* kFewerCalls = "the writes came to their end with fewer calls: hands take no turns at them here";

// Of the 4 MiB written first: the first piece, one in the middle, the last. Then of the batch behind them. Where hands
// take no turns, the first are three pieces, and chance says what the batch takes: in all at least eight calls of
// cuStreamWriteValue32 and four of cuMemcpyDtoHAsync.
INSTANTIATE_TEST_SUITE_P(By, LifeLargeWritesLost,
                         ::testing::Values(Refusal{"cuMemcpyDtoHAsync:1:700"},
                                           Refusal{"cuMemcpyDtoHAsync:5:700", nullptr, kFewerCalls},
                                           Refusal{"cuStreamWriteValue32:4:700"}, Refusal{"cuStreamWriteValue32:8:700"},
                                           Refusal{"cuStreamWriteValue32:10:700", nullptr, kFewerCalls},
                                           Refusal{"cuStreamWriteValue32:11:700", nullptr, kFewerCalls}),
                         name_of_refusal);

}  // namespace
}  // namespace sluice::contract::life_stream_test
