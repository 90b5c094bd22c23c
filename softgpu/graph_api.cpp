// SPDX-License-Identifier: Apache-2.0
// Entry points of stream capture and graphs.
#include <algorithm>

#include "answer.h"
#include "entry_points.h"
#include "machine.h"
#include "stream_use.h"

namespace sluice::softgpu {

namespace {

std::shared_ptr<Graph> graph_of(cuda::Graph handle) {
  auto graph = machine().graphs.find(handle);
  require(graph != nullptr);
  return graph;
}

cuda::Graph enter(std::shared_ptr<Graph> graph) {
  const auto handle = reinterpret_cast<cuda::Graph>(graph.get());
  machine().graphs.insert(std::move(graph));
  return handle;
}

}  // namespace

cuda::Result cuStreamBeginCapture_v2(cuda::Stream stream, int mode) {
  return answer(__func__, [&] {
    require(mode >= cuda::capture_global && mode <= cuda::capture_relaxed);
    const StreamUse use = use_stream(stream);
    use.workspace->streams().begin_capture(*use.stream, static_cast<cuda::CaptureMode>(mode));
  });
}

cuda::Result cuStreamEndCapture(cuda::Stream stream, cuda::Graph* graph) {
  return answer(__func__, [&] {
    require(graph != nullptr);
    *graph = nullptr;
    const StreamUse use = use_stream(stream);
    *graph = enter(use.workspace->streams().end_capture(*use.stream));
  });
}

cuda::Result cuStreamIsCapturing(cuda::Stream stream, int* status) {
  return answer(__func__, [&] {
    require(status != nullptr);
    const StreamUse use = use_stream(stream);
    *status = use.workspace->streams().capture_state(*use.stream).status;
  });
}

cuda::Result cuGraphCreate(cuda::Graph* graph, unsigned flags) {
  return answer(__func__, [&] {
    require(graph != nullptr && flags == 0);
    *graph = enter(std::make_shared<Graph>());
  });
}

cuda::Result cuGraphDestroy(cuda::Graph graph) {
  return answer(__func__, [&] { require(machine().graphs.remove(graph) != nullptr); });
}

cuda::Result cuGraphGetNodes(cuda::Graph graph, cuda::GraphNode* nodes, std::size_t* count) {
  return answer(__func__, [&] {
    require(count != nullptr);
    auto& all = graph_of(graph)->nodes;
    if (nodes == nullptr) {
      *count = all.size();
      return;
    }
    // As many as there is room for; null handles behind them.
    for (std::size_t index = 0; index < *count; ++index) {
      nodes[index] = index < all.size() ? reinterpret_cast<cuda::GraphNode>(&all[index]) : nullptr;
    }
    *count = std::min(*count, all.size());
  });
}

cuda::Result cuGraphInstantiateWithFlags(cuda::GraphExec* exec, cuda::Graph graph, unsigned long long flags) {
  return answer(__func__, [&] {
    require(exec != nullptr && flags == 0);
    auto made = std::make_shared<GraphExec>(*graph_of(graph));
    *exec = reinterpret_cast<cuda::GraphExec>(made.get());
    machine().graph_execs.insert(std::move(made));
  });
}

cuda::Result cuGraphExecDestroy(cuda::GraphExec exec) {
  return answer(__func__, [&] { require(machine().graph_execs.remove(exec) != nullptr); });
}

cuda::Result cuGraphLaunch(cuda::GraphExec exec, cuda::Stream stream) {
  return answer(__func__, [&] {
    const auto launched = machine().graph_execs.find(exec);
    require(launched != nullptr);
    const StreamUse use = use_stream(stream);
    if (machine().knobs.keeps_calls != 0) use.workspace->wait_while_brought_to_rest();
    GraphExec::launch(launched, use);
  });
}

}  // namespace sluice::softgpu
