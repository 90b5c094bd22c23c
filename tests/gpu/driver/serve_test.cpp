// SPDX-License-Identifier: Apache-2.0
// The kernel that serves mailboxes: every byte of what it carries, every byte beside it, and every word that it says.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>

#include "gpu/mailbox.h"
#include "loaded_kernel.h"

namespace sluice::gpu_suite {
namespace {

using std::chrono::milliseconds;

constexpr std::uint8_t untouched = 0xee;
constexpr std::uint32_t boxes_there = 40;
constexpr std::uint64_t guard = 256;
constexpr std::uint64_t room = gpu::mailbox_bytes + 2 * guard;  // of a box in the target

class Serve : public Driver {};

// What goes where: `distance` is the target's from a 16-byte boundary.
struct Request {
  std::uint8_t box = 0;
  std::uint32_t length = 4096;
  std::uint32_t distance = 0;
};

// A row of mailboxes, a target with guards for each, and the host's side of the protocol. Numbers and serials go on, as
// the library's do.
class ServeRig {
 public:
  ServeRig() : row_(std::size_t{gpu::mailbox_stride} * boxes_there), target_(room * boxes_there) {
    std::memset(row_.data(), 0, row_.size());
    forget();
  }

  // The target is as if it had never been written to.
  void forget() {
    EXPECT_EQ(cuda::success, cuMemsetD8_v2(target_.at(), untouched, target_.size()));
    EXPECT_EQ(cuda::success, cuCtxSynchronize());
    expected_.assign(target_.size(), untouched);
  }

  cuda::Result launch(std::span<const std::uint8_t> boxes, gpu::Stay stay) {
    ++launch_id_;
    Ptr base = row_.at();
    std::array<std::uint64_t, 2> indices{};
    for (std::size_t i = 0; i < boxes.size(); ++i) indices[i / 8] |= std::uint64_t{boxes[i]} << (i % 8 * 8);
    std::array<std::uint32_t, 5> numbers{gpu::mailbox_stride, gpu::mailbox_data, launch_id_,
                                         static_cast<std::uint32_t>(stay.idle.count()),
                                         static_cast<std::uint32_t>(stay.life.count())};
    std::array<void*, 8> parameters{&base,       &indices[0], &indices[1], &numbers[0],
                                    &numbers[1], &numbers[2], &numbers[3], &numbers[4]};
    return cuLaunchKernel(kernel_.function(), static_cast<unsigned>(boxes.size()), 1, 1, 512, 1, 1, 0, stream_.get(),
                          parameters.data(), nullptr);
  }
  cuda::Result launch(std::uint8_t box, gpu::Stay stay) { return launch({&box, 1}, stay); }

  // Bytes, and what the model makes of them.
  void fill(const Request& request) {
    const auto bytes = pattern(request.length, ++seed_);
    std::copy(bytes.begin(), bytes.end(), row_.data() + begin_of(request.box) + gpu::mailbox_data + request.distance);
    expect(request, bytes);
  }
  void show(const Request& request, std::uint32_t number) {
    put(words(request.box).request[1], std::uint64_t{number} << 32U | request.length);
    put(words(request.box).request[0], std::uint64_t{number & 0xffffU} << 48U | target_of(request));
  }
  std::uint32_t post(const Request& request) {
    fill(request);
    show(request, ++number_);
    return number_;
  }
  // Other bytes lie there, which were not asked for.
  void spoil(std::uint8_t box) {
    std::memset(row_.data() + begin_of(box) + gpu::mailbox_data, untouched + 1, gpu::mailbox_bytes);
  }
  void withdraw(std::uint8_t box) { put(words(box).request[0], std::uint64_t{0}); }

  // Until it is served, or the kernel has left: true when served.
  bool await(std::uint8_t box, std::uint32_t number) {
    for (;;) {
      const std::uint64_t answer = look(words(box).answer);
      if (static_cast<std::uint32_t>(answer) == number) return true;
      if (answer >> 32U == launch_id_) return false;
      if (cuStreamQuery(stream_.get()) == cuda::error_not_ready) continue;
      // It has ended: what it has said is there.
      return static_cast<std::uint32_t>(look(words(box).answer)) == number;
    }
  }
  void wait_until_begun(std::uint8_t box) {
    while (look(words(box).begun) != launch_id_) {
      if (cuStreamQuery(stream_.get()) == cuda::error_not_ready) continue;
      // It may have begun, idled, and ended between the two looks.
      ASSERT_EQ(launch_id_, look(words(box).begun));
    }
  }
  void finish() { ASSERT_EQ(cuda::success, cuStreamSynchronize(stream_.get())); }

  void expect_target() const {
    const auto seen = target_.bytes();
    const auto [left, right] = std::mismatch(expected_.begin(), expected_.end(), seen.begin());
    ASSERT_EQ(left, expected_.end()) << "at " << left - expected_.begin() << ": expected " << +*left << ", got "
                                     << +*right;
  }
  // The kernel has left, and the last that it served was this one.
  void expect_left(std::uint8_t box, std::uint32_t number) const {
    EXPECT_EQ(launch_id_, look(words(box).begun));
    EXPECT_EQ(std::uint64_t{launch_id_} << 32U | number, look(words(box).answer));
  }
  bool has_left(std::uint8_t box) const { return look(words(box).answer) >> 32U == launch_id_; }
  // As if the bytes had not been asked for.
  void expect_nothing_of(const Request& request) {
    expect(request, std::vector<std::uint8_t>(request.length, untouched));
  }

  // One request with a launch of its own.
  void serve(const Request& request) {
    const std::uint32_t number = post(request);
    ASSERT_EQ(cuda::success, launch(request.box, {}));
    finish();
    expect_left(request.box, number);
    expect_target();
  }

  cuda::Stream stream() const { return stream_.get(); }

 private:
  template <typename Word>
  static Word look(Word& word) {
    return std::atomic_ref(word).load(std::memory_order_acquire);
  }
  template <typename Word>
  static void put(Word& word, Word value) {
    std::atomic_ref(word).store(value, std::memory_order_seq_cst);
  }
  static std::size_t begin_of(std::uint8_t box) { return std::size_t{gpu::mailbox_stride} * box; }
  static std::uint64_t offset_of(const Request& request) { return room * request.box + guard + request.distance; }
  Ptr target_of(const Request& request) const { return target_.at(offset_of(request)); }
  gpu::MailboxWords& words(std::uint8_t box) const {
    return *reinterpret_cast<gpu::MailboxWords*>(row_.data() + begin_of(box));
  }
  void expect(const Request& request, const std::vector<std::uint8_t>& bytes) {
    std::copy(bytes.begin(), bytes.end(), expected_.begin() + static_cast<std::ptrdiff_t>(offset_of(request)));
  }

  const LoadedKernel kernel_{ptx::serve, "sluice_serve"};
  PinnedBuffer row_;
  DeviceBuffer target_;
  Stream stream_;
  std::uint32_t launch_id_ = 0;
  std::uint32_t number_ = 0;
  unsigned seed_ = 0;
  std::vector<std::uint8_t> expected_;
};

TEST_F(Serve, TakesRequestsOfEveryLength) {
  ServeRig rig;
  for (std::uint32_t length = 0; length <= 80; ++length) {
    rig.serve({.box = 1, .length = length, .distance = length % 16});
    if (HasFatalFailure()) return;
  }
  for (const std::uint32_t length :
       {511U, 4095U, 4096U, 4097U, 8191U, 12345U, 16384U, 32767U, 40000U, 65535U, 65536U}) {
    rig.serve({.box = 2, .length = length});
    if (HasFatalFailure()) return;
  }
}

TEST_F(Serve, TakesTargetsAtEveryDistanceFromABoundaryOf16Bytes) {
  ServeRig rig;
  for (std::uint32_t distance = 0; distance < 16; ++distance) {
    for (const std::uint32_t length : {1U, 15U, 16U, 17U, 31U, 4096U, 65536U}) {
      rig.serve({.box = 3, .length = length, .distance = distance});
      if (HasFatalFailure()) return;
      rig.forget();
    }
  }
}

TEST_F(Serve, TakesWhatLiesInManyBoxesWithOneLaunch) {
  ServeRig rig;
  const std::array<std::uint8_t, 16> boxes{39, 0, 17, 3, 8, 9, 21, 2, 31, 5, 11, 38, 1, 30, 12, 4};
  for (const std::size_t count : {std::size_t{16}, std::size_t{9}, std::size_t{8}, std::size_t{2}}) {
    std::array<std::uint32_t, 16> numbers{};
    for (std::size_t i = 0; i < count; ++i) {
      const auto distance = static_cast<std::uint32_t>(5 * i % 16);
      numbers[i] = rig.post({boxes[i], static_cast<std::uint32_t>(1000 * i + 77), distance});
    }
    ASSERT_EQ(cuda::success, rig.launch(std::span(boxes).first(count), {}));
    rig.finish();
    for (std::size_t i = 0; i < count; ++i) rig.expect_left(boxes[i], numbers[i]);
    rig.expect_target();
  }
}

TEST_F(Serve, LeavesWhereThereIsNoRequest) {
  ServeRig rig;
  ASSERT_EQ(cuda::success, rig.launch(7, {}));
  rig.finish();
  rig.expect_left(7, 0);
  rig.expect_target();
}

TEST_F(Serve, TakesHalfARequestForNone) {
  ServeRig rig;
  const Request request{.box = 4};
  rig.post(request);
  rig.withdraw(4);
  rig.expect_nothing_of(request);
  ASSERT_EQ(cuda::success, rig.launch(4, {}));
  rig.finish();
  rig.expect_left(4, 0);
  rig.expect_target();
}

// On a machine that keeps the host from asking, the kernel leaves in between, and is launched again.
TEST_F(Serve, ThatStaysTakesOneRequestAfterTheOther) {
  ServeRig rig;
  const gpu::Stay stay{.idle = milliseconds(50), .life = milliseconds(2000)};
  ASSERT_EQ(cuda::success, rig.launch(6, stay));
  for (std::uint32_t i = 0; i < 300; ++i) {
    const std::uint32_t number = rig.post({.box = 6, .length = i * 53 % 16385, .distance = i % 16});
    while (!rig.await(6, number)) ASSERT_EQ(cuda::success, rig.launch(6, stay));
    if (i % 50 == 0) rig.expect_target();
    if (HasFatalFailure()) return;
  }
  rig.finish();
  EXPECT_TRUE(rig.has_left(6));
  rig.expect_target();
}

TEST_F(Serve, ThatStaysServesItsBoxesEachForItself) {
  ServeRig rig;
  const gpu::Stay stay{.idle = milliseconds(50), .life = milliseconds(2000)};
  const std::array<std::uint8_t, 3> boxes{0, 20, 13};
  ASSERT_EQ(cuda::success, rig.launch(boxes, stay));
  for (std::uint32_t i = 0; i < 60; ++i) {
    const std::uint8_t box = boxes[i * i % 3];
    const std::uint32_t number = rig.post({.box = box, .length = 100 + i, .distance = i % 16});
    if (!rig.await(box, number)) {
      rig.finish();
      // A launch takes what it finds for new.
      for (const std::uint8_t other : boxes) {
        if (other != box) rig.withdraw(other);
      }
      ASSERT_EQ(cuda::success, rig.launch(boxes, stay));
      ASSERT_TRUE(rig.await(box, number));
    }
  }
  rig.finish();
  rig.expect_target();
}

TEST_F(Serve, CarriesANumberOnce) {
  ServeRig rig;
  const gpu::Stay stay{.idle = milliseconds(100), .life = milliseconds(2000)};
  const Request first{.box = 9, .length = 4000};
  ASSERT_EQ(cuda::success, rig.launch(9, stay));
  const std::uint32_t number = rig.post(first);
  if (!rig.await(9, number)) GTEST_SKIP() << "this machine kept the host from asking for too long";
  rig.withdraw(9);
  rig.spoil(9);
  rig.show(first, number);
  rig.finish();
  rig.expect_left(9, number);
  rig.expect_target();
}

TEST_F(Serve, LeavesInTheEndWhateverThereIsToDo) {
  ServeRig rig;
  ASSERT_EQ(cuda::success, rig.launch(10, {.idle = milliseconds(1000), .life = milliseconds(20)}));
  while (!rig.has_left(10)) rig.await(10, rig.post({.box = 10, .length = 64}));
  rig.finish();
}

TEST_F(Serve, ThatIsCalledOffBeforeItBeginsTouchesNothing) {
  ServeRig rig;
  const Request request{.box = 11};
  {
    Gate gate(rig.stream());
    rig.post(request);
    ASSERT_EQ(cuda::success, rig.launch(11, {}));
    rig.withdraw(11);
    rig.expect_nothing_of(request);
  }
  rig.finish();
  rig.expect_left(11, 0);
  rig.expect_target();
  rig.serve(request);
}

TEST_F(Serve, ThatHasBegunServesARequestThatIsTakenAwayAndPutBack) {
  ServeRig rig;
  for (std::uint32_t i = 0; i < 20; ++i) {
    const Request request{.box = 12, .length = 500 + i};
    rig.withdraw(12);  // the one before
    ASSERT_EQ(cuda::success, rig.launch(12, {.idle = milliseconds(20), .life = milliseconds(2000)}));
    rig.wait_until_begun(12);
    if (HasFatalFailure()) return;
    const std::uint32_t number = rig.post(request);
    rig.withdraw(12);
    rig.show(request, number);
    if (!rig.await(12, number)) {
      ASSERT_EQ(cuda::success, rig.launch(12, {}));
      ASSERT_TRUE(rig.await(12, number));
    }
    rig.finish();
    rig.expect_target();
  }
}

TEST_F(Serve, HasTheParametersThatTheLibraryGivesIt) {
  const LoadedKernel kernel(ptx::serve, "sluice_serve");
  std::size_t offset = 0;
  std::size_t size = 0;
  for (std::size_t index = 0; index < 8; ++index) {
    ASSERT_EQ(cuda::success, cuFuncGetParamInfo(kernel.function(), index, &offset, &size)) << index;
    EXPECT_EQ(index < 3 ? 8U : 4U, size) << index;
    EXPECT_EQ(index < 3 ? 8 * index : 24 + 4 * (index - 3), offset) << index;
  }
  EXPECT_EQ(cuda::error_invalid_value, cuFuncGetParamInfo(kernel.function(), 8, &offset, &size));
}

}  // namespace
}  // namespace sluice::gpu_suite
