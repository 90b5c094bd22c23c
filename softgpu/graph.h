// SPDX-License-Identifier: Apache-2.0
// Graphs: work that was captured from streams, to be replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/cuda_abi.h"

namespace sluice::softgpu {

struct GraphNode {
  std::function<void()> body;  // run once a replay
  std::vector<std::size_t> after;
};

// Nodes in the order of capture, in which every node comes behind those it depends on.
struct Graph {
  std::vector<GraphNode> nodes;
};

// A capture under way, shared by the streams that take part in it. Guarded by the lock of their Streams.
struct Capture {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  cuda::CaptureMode mode = cuda::capture_global;
  const void* origin = nullptr;  // the stream in which it began, and has to end
  std::thread::id thread;
  std::uint64_t id = 0;
  bool invalidated = false;
};

// What a point in a captured stream depends on.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> after;
};

}  // namespace sluice::softgpu
