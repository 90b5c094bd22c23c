// Recording is capturing: a stream takes calls and remembers them.
#include "gpu/ready_work.h"

namespace sluice::gpu {

int ReadyWork::begin(const Driver& driver, cuda::Stream stream) noexcept {
  const bool can = driver.stream_begin_capture != nullptr && driver.stream_end_capture != nullptr &&
                   driver.graph_instantiate != nullptr && driver.graph_launch != nullptr &&
                   driver.graph_destroy != nullptr;
  return can ? driver.stream_begin_capture(stream, cuda::capture_relaxed) : cuda::error_not_supported;
}

int ReadyWork::end(const Driver& driver, cuda::Stream stream, int result) noexcept {
  cuda::Graph recorded = nullptr;
  const int ended = driver.stream_end_capture(stream, &recorded);
  if (result == cuda::success) result = ended;
  if (result == cuda::success) result = driver.graph_instantiate(&graph_, recorded, 0);
  if (result != cuda::success) graph_ = nullptr;
  if (recorded != nullptr) driver.graph_destroy(recorded);
  return result;
}

}  // namespace sluice::gpu
