// SPDX-License-Identifier: Apache-2.0
// Graphs made ready to be replayed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "channel.h"
#include "graph.h"

namespace sluice::softgpu {

struct StreamUse;

// The nodes of a graph, put into chains: a node stands behind one that it depends on, in its chain, where no other
// does yet, and begins a chain otherwise. Chains run at the same time, each on a thread of its own; the first one on
// the thread of the stream. Never changed after it was made.
class GraphExec {
 public:
  // Throws Refusal (out of memory) where a thread cannot be had.
  explicit GraphExec(const Graph& graph);
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;
  ~GraphExec();

  // A replay in the stream: behind the work before it, and behind the replay before it, wherever that was. Two replays
  // of one graph never run at the same time.
  static void launch(const std::shared_ptr<GraphExec>& exec, const StreamUse& use);

 private:
  struct Step {
    std::function<void()> body;
    std::size_t chain;
    std::vector<std::size_t> after;  // in other chains
  };

  void run(const std::shared_ptr<const Health>& health) const;
  void run_in_chains(const std::shared_ptr<const Health>& health) const;

  std::vector<Step> steps_;                       // in an order in which each comes behind what it depends on
  std::vector<std::shared_ptr<Channel>> chains_;  // all but the first
  std::mutex mutex_;
  std::shared_ptr<Completion> last_;  // of the replay before
};

}  // namespace sluice::softgpu
