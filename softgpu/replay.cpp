// SPDX-License-Identifier: Apache-2.0
// Chains, and the order of replays.
#include "replay.h"

#include <algorithm>

#include "stream_use.h"

namespace sluice::softgpu {

GraphExec::GraphExec(const Graph& graph) {
  std::vector<std::size_t> tails;  // the last node of each chain
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const GraphNode& given = graph.nodes[node];
    const auto tail = std::find_first_of(tails.begin(), tails.end(), given.after.begin(), given.after.end());
    Step step{given.body, static_cast<std::size_t>(tail - tails.begin()), {}};
    if (tail == tails.end()) {
      tails.push_back(node);
    } else {
      *tail = node;
    }
    std::copy_if(given.after.begin(), given.after.end(), std::back_inserter(step.after),
                 [&](std::size_t before) { return steps_[before].chain != step.chain; });
    steps_.push_back(std::move(step));
  }
  for (std::size_t chain = 1; chain < tails.size(); ++chain) {
    chains_.push_back(std::make_shared<Channel>());
    // Its thread is made now: a replay could not tell the program that there is none.
    chains_.back()->submit({{}, nullptr, std::make_shared<Completion>(), std::make_shared<Health>()});
  }
}

GraphExec::~GraphExec() {
  for (const auto& chain : chains_) chain->close();
}

void GraphExec::launch(const std::shared_ptr<GraphExec>& exec, const StreamUse& use) {
  auto replay = [exec, health = use.workspace->shared_health()] { exec->run(health); };
  if (use.captured()) {  // a node of another graph
    use.submit(std::move(replay));
    return;
  }
  const std::lock_guard lock(exec->mutex_);
  std::vector<std::shared_ptr<Completion>> after;
  if (exec->last_ != nullptr && !exec->last_->done()) after.push_back(exec->last_);
  exec->last_ = use.submit(std::move(replay), std::move(after));
}

void GraphExec::run(const std::shared_ptr<const Health>& health) const {
  if (!chains_.empty()) return run_in_chains(health);
  for (const Step& step : steps_) {
    if (!health->broken()) step.body();
  }
}

void GraphExec::run_in_chains(const std::shared_ptr<const Health>& health) const {
  std::vector<std::shared_ptr<Completion>> done(steps_.size());
  std::generate(done.begin(), done.end(), [] { return std::make_shared<Completion>(); });
  for (std::size_t index = 0; index < steps_.size(); ++index) {
    const Step& step = steps_[index];
    if (step.chain == 0) continue;
    std::vector<std::shared_ptr<Completion>> after;
    for (const std::size_t before : step.after) after.push_back(done[before]);
    chains_[step.chain - 1]->submit({std::move(after), [&step] { step.body(); }, done[index], health});
  }
  for (std::size_t index = 0; index < steps_.size(); ++index) {
    const Step& step = steps_[index];
    if (step.chain != 0) continue;
    for (const std::size_t before : step.after) done[before]->wait();
    if (!health->broken()) step.body();
    done[index]->mark();
  }
  for (const auto& one : done) one->wait();
}

}  // namespace sluice::softgpu
