// SPDX-License-Identifier: Apache-2.0
// A task in the stream, as a transfer is one: when the stream gets there, a stream worker waits in its place, and opens
// the stream's gate then.
#include "plan/stream_wait.h"

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/failure.h"
#include "gpu/cuda_api.h"
#include "gpu/stream_scope.h"
#include "stream/channel/settle_kernels.h"
#include "stream/channel/stream_channel.h"
#include "stream/channel/stream_copier.h"

namespace sluice::plan {

using base::Failure;

namespace {

class FrontTask final : public stream::StreamTask {
 public:
  FrontTask(std::shared_ptr<Front> front, std::size_t first) noexcept : front_(std::move(front)), first_(first) {}

  void run(stream::StreamCopier& /*copier*/) noexcept override { front_->wait_for(first_, std::nullopt); }
  bool is_quick() noexcept override { return front_->has_reached(first_); }
  void end() noexcept override { delete this; }

 private:
  const std::shared_ptr<Front> front_;
  const std::size_t first_;
};

[[noreturn]] void refuse(cuda::Result result) {
  throw Failure(CU_FILE_CUDA_DRIVER_ERROR, "the stream cannot be used: " + gpu::error_name(result),
                cuda::number_of(result));
}

[[noreturn]] void refuse_async(const char* why) {
  throw Failure(CU_FILE_ASYNC_NOT_SUPPORTED, std::string(why) + ": wait with sluice_plan_wait() instead");
}

// A gate is in pinned memory.
[[noreturn]] void refuse_gate(cuda::Result result) {
  if (result != cuda::error_out_of_memory) refuse_async("the device can have no gate for the stream");
  throw Failure(CU_FILE_NOMEM_ERROR, "there is no memory for a gate of the stream");
}

void require_no_capture(const gpu::CudaApi& driver, cuda::Stream stream) {
  int capturing = cuda::capture_none;
  const cuda::Result asked = driver.stream_is_capturing(stream, &capturing);
  const bool another =
      asked >= cuda::error_stream_capture_unsupported && asked <= cuda::error_stream_capture_wrong_thread;
  if (another || (asked == cuda::success && capturing != cuda::capture_none)) {
    refuse_async("the stream is being captured into a graph, and a plan is submitted once");
  }
  if (asked != cuda::success) refuse(asked);
}

}  // namespace

void wait_in_stream(const std::shared_ptr<Front>& front, std::size_t first, cuda::Stream stream) {
  const gpu::CudaApi* const driver = gpu::attach_driver();
  if (driver == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "there is no driver whose stream it could be");
  const gpu::StreamScope scope(stream, nullptr);
  if (scope.status() != cuda::success) refuse(scope.status());
  require_no_capture(*driver, stream);
  if (front->has_reached(first)) return;
  const stream::Attendance attendance = stream::attendance_of_streams();
  if (attendance == stream::Attendance::no_memory) throw std::bad_alloc();
  if (attendance != stream::Attendance::there) refuse_async("no thread can be started that would attend to the stream");
  // No thread begins to load them as long as this lives: the stream is to wait for a plan that may need the driver.
  std::optional<gpu::KernelLoadHold> without;
  if (!stream::settle_kernels(scope, stream, without)) {
    refuse_async("the driver is loading code, and waits for streams meanwhile");
  }
  auto task = std::make_unique<FrontTask>(front, first);
  const auto [channel, refusal] = stream::StreamChannel::take_or_tell(scope.context(), scope.context_id());
  if (channel == nullptr) refuse_gate(refusal);
  const cuda::Result result = channel->submit(stream, *task);
  if (result == cuda::success) static_cast<void>(task.release());  // the channel has it
  channel->give_back();                                            // once the task is through
  if (result != cuda::success) refuse(result);
}

}  // namespace sluice::plan
