// Work that goes into streams again and again, the same each time: recorded once as a graph, launched with one call.
#pragma once

#include <concepts>

#include "gpu/driver.h"

namespace sluice::gpu {

// What the recorded work reads from memory may change from launch to launch; addresses, values and the number of blocks
// may not. Belongs to one context for good, and is never given back: at exit the driver may be gone before us.
class ReadyWork {
 public:
  bool is_ready() const noexcept { return graph_ != nullptr; }
  // It has been recorded, or could not be.
  bool was_tried() const noexcept { return tried_; }

  // Records what `put` puts into a stream, here `stream`, which nobody else uses meanwhile; nothing of it is done yet.
  // With the context current, in relaxed capture mode. Answers why it could not be recorded: then the work goes into
  // streams call by call. Once.
  template <std::invocable Put>
  int record(const Driver& driver, cuda::Stream stream, Put&& put) noexcept {
    tried_ = true;
    if (const int result = begin(driver, stream); result != cuda::success) return result;
    return end(driver, stream, put());
  }

  // Behind what stands in the stream. Launches of one recording run one after the other, wherever they are put.
  int launch(const Driver& driver, cuda::Stream stream) const noexcept { return driver.graph_launch(graph_, stream); }

 private:
  static int begin(const Driver& driver, cuda::Stream stream) noexcept;
  int end(const Driver& driver, cuda::Stream stream, int result) noexcept;

  cuda::GraphExec graph_ = nullptr;
  bool tried_ = false;
};

}  // namespace sluice::gpu
