// SPDX-License-Identifier: Apache-2.0
// Many copies by one call: both forms of cuMemcpyBatchAsync.
#include <array>

#include "fixture.h"
#include "waiting_streams.h"

namespace sluice::gpu_suite {
namespace {

constexpr cuda::CopyAttributes in_stream_order{cuda::source_in_stream_order, {0, 0}, {0, 0}, 0};
constexpr cuda::CopyAttributes during_call{cuda::source_during_call, {0, 0}, {0, 0}, 0};

class Batches : public Driver {
 protected:
  static constexpr std::size_t count = 8;
  static constexpr std::size_t piece = 1000;

  // Eight pieces of pinned memory, scattered over the device in reverse order.
  void SetUp() override {
    Driver::SetUp();
    host_ = std::make_unique<PinnedBuffer>(count * piece);
    device_ = std::make_unique<DeviceBuffer>(count * piece);
    const auto bytes = pattern(count * piece, 1);
    std::copy(bytes.begin(), bytes.end(), host_->data());
    ASSERT_EQ(cuda::success, cuMemsetD8_v2(device_->at(), 0, device_->size()));
    ASSERT_EQ(cuda::success, cuCtxSynchronize());
    for (std::size_t index = 0; index < count; ++index) {
      from_[index] = host_->at(index * piece);
      to_[index] = device_->at((count - 1 - index) * piece);
      sizes_[index] = piece;
    }
  }
  void TearDown() override {
    host_.reset();
    device_.reset();
    Driver::TearDown();
  }
  cuda::Result submit(cuda::Stream stream) {
    cuda::CopyAttributes attributes = in_stream_order;
    std::size_t first = 0;
    return cuMemcpyBatchAsync_v2(to_.data(), from_.data(), sizes_.data(), count, &attributes, &first, 1, stream);
  }
  std::vector<std::uint8_t> expected() const {
    std::vector<std::uint8_t> bytes(count * piece);
    for (std::size_t index = 0; index < count; ++index) {
      std::copy_n(host_->data() + index * piece, piece,
                  bytes.begin() + static_cast<std::ptrdiff_t>((count - 1 - index) * piece));
    }
    return bytes;
  }

  std::unique_ptr<PinnedBuffer> host_;
  std::unique_ptr<DeviceBuffer> device_;
  std::array<Ptr, count> to_{};
  std::array<Ptr, count> from_{};
  std::array<std::size_t, count> sizes_{};
};

TEST_F(Batches, CopyEveryPiece) {
  const Stream stream;
  ASSERT_EQ(cuda::success, submit(stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(expected(), device_->bytes());
}

TEST_F(Batches, ByTheFirstFormTellWhichCopyFailed) {
  const Stream stream;
  cuda::CopyAttributes attributes = in_stream_order;
  std::size_t first = 0;
  std::size_t failed = 0;
  ASSERT_EQ(cuda::success, cuMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), count, &attributes, &first, 1,
                                              &failed, stream.get()));
  EXPECT_EQ(~std::size_t{0}, failed) << "none";
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(expected(), device_->bytes());
}

TEST_F(Batches, ComeBehindTheWorkBeforeThemAndBeforeTheWorkBehindThem) {
  const Stream stream;
  const PinnedBuffer back(count * piece);
  {
    Gate gate(stream.get());
    ASSERT_EQ(cuda::success, submit(stream.get()));
    ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), device_->at(), back.size(), stream.get()));
    EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(stream.get()));
    host_->data()[0] = static_cast<std::uint8_t>(~host_->data()[0]);
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(expected(), std::vector<std::uint8_t>(back.data(), back.data() + back.size()));
}

TEST_F(Batches, TakeTheirListsAtTheCall) {
  const Stream stream;
  const auto wanted = expected();
  {
    Gate gate(stream.get());
    ASSERT_EQ(cuda::success, submit(stream.get()));
    to_.fill(0);
    from_.fill(0);
    sizes_.fill(0);
  }
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(wanted, device_->bytes());
}

TEST_F(Batches, GoInEveryDirection) {
  const Stream stream;
  const auto pageable = pattern(piece, 2);
  std::vector<std::uint8_t> back(piece, 0);
  const DeviceBuffer other(piece);
  const PinnedBuffer pinned(piece);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(device_->at(), pageable.data(), piece));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  std::array<Ptr, 3> to{other.at(), pinned.at(), reinterpret_cast<Ptr>(back.data())};
  std::array<Ptr, 3> from{device_->at(), device_->at(), device_->at()};
  std::array<std::size_t, 3> sizes{piece, piece, piece};
  cuda::CopyAttributes attributes = in_stream_order;
  std::size_t first = 0;
  ASSERT_EQ(cuda::success,
            cuMemcpyBatchAsync_v2(to.data(), from.data(), sizes.data(), 3, &attributes, &first, 1, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(pageable, other.bytes());
  EXPECT_EQ(pageable, std::vector<std::uint8_t>(pinned.data(), pinned.data() + piece));
  EXPECT_EQ(pageable, back);
}

TEST_F(Batches, ThatReadDuringTheCallLeaveTheSourceToTheCaller) {
  const Stream stream;
  auto source = pattern(piece, 3);
  const auto wanted = source;
  std::array<Ptr, 1> to{device_->at()};
  std::array<Ptr, 1> from{reinterpret_cast<Ptr>(source.data())};
  std::array<std::size_t, 1> sizes{piece};
  cuda::CopyAttributes attributes = during_call;
  std::size_t first = 0;
  ASSERT_EQ(cuda::success,
            cuMemcpyBatchAsync_v2(to.data(), from.data(), sizes.data(), 1, &attributes, &first, 1, stream.get()));
  std::fill(source.begin(), source.end(), std::uint8_t{0});
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  const auto seen = device_->bytes();
  EXPECT_EQ(wanted, std::vector<std::uint8_t>(seen.begin(), seen.begin() + piece));
}

TEST_F(Batches, OfCopiesThatEachGoByAnEnginePassStreamsThatWait) {
  constexpr std::size_t large = 32768;
  const PinnedBuffer host(2 * large);
  const DeviceBuffer device(2 * large);
  const WaitingStreams waiting;
  const Stream engine;
  ASSERT_NO_FATAL_FAILURE(waiting.wait());
  std::array<Ptr, 2> there{device.at(), device.at(large)};
  std::array<Ptr, 2> here{host.at(), host.at(large)};
  cuda::CopyAttributes attributes = in_stream_order;
  std::size_t first = 0;
  for (const std::size_t size : {large, std::size_t{28672}}) {
    std::array<std::size_t, 2> sizes{large, size};
    EXPECT_EQ(cuda::success,
              cuMemcpyBatchAsync_v2(there.data(), here.data(), sizes.data(), 2, &attributes, &first, 1, engine.get()));
  }
  std::array<std::size_t, 2> short_ones{4, 4096};
  EXPECT_EQ(cuda::success, cuMemcpyBatchAsync_v2(here.data(), there.data(), short_ones.data(), 2, &attributes, &first,
                                                 1, engine.get()));
  waiting.expect_passed_by(engine.get());
}

TEST_F(Batches, MayHaveSeveralAttributes) {
  const Stream stream;
  std::array<cuda::CopyAttributes, 2> attributes{in_stream_order, during_call};
  std::array<std::size_t, 2> firsts{0, 5};
  ASSERT_EQ(cuda::success, cuMemcpyBatchAsync_v2(to_.data(), from_.data(), sizes_.data(), count, attributes.data(),
                                                 firsts.data(), 2, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(expected(), device_->bytes());
}

TEST_F(Batches, OfNothingAreInvalid) {
  const Stream stream;
  cuda::CopyAttributes attributes = in_stream_order;
  std::size_t first = 0;
  EXPECT_EQ(cuda::error_invalid_value,
            cuMemcpyBatchAsync_v2(to_.data(), from_.data(), sizes_.data(), 0, &attributes, &first, 1, stream.get()));
}

TEST_F(Batches, WithoutAttributesAreInvalid) {
  const Stream stream;
  EXPECT_EQ(cuda::error_invalid_value,
            cuMemcpyBatchAsync_v2(to_.data(), from_.data(), sizes_.data(), count, nullptr, nullptr, 0, stream.get()));
}

TEST_F(Batches, WhoseFirstCopyHasNoAttributeAreInvalid) {
  const Stream stream;
  cuda::CopyAttributes attributes = in_stream_order;
  std::size_t first = 1;
  EXPECT_EQ(cuda::error_invalid_value, cuMemcpyBatchAsync_v2(to_.data(), from_.data(), sizes_.data(), count,
                                                             &attributes, &first, 1, stream.get()));
}

TEST_F(Batches, AreNoNodesOfAGraph) {
  const Stream stream;
  ASSERT_EQ(cuda::success, cuStreamBeginCapture_v2(stream.get(), cuda::capture_thread_local));
  EXPECT_EQ(cuda::error_stream_capture_unsupported, submit(stream.get()));
  cuda::Graph graph = nullptr;
  EXPECT_EQ(cuda::success, cuStreamEndCapture(stream.get(), &graph)) << "the capture goes on";
  std::size_t nodes = 77;
  EXPECT_EQ(cuda::success, cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(0U, nodes);
  EXPECT_EQ(cuda::success, cuGraphDestroy(graph));
}

TEST_F(Batches, OnTheLegacyDefaultStreamAreRefused) {
  EXPECT_EQ(cuda::error_invalid_value, submit(nullptr));
}

}  // namespace
}  // namespace sluice::gpu_suite
