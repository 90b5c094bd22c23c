// SPDX-License-Identifier: Apache-2.0
// The pairs that files keep, and the moment of their trial: the first transfer or explanation that comes by.
#include "process/pair_trial.h"

#include "paths/direct_pair.h"
#include "paths/trial.h"

namespace sluice::process {

using facts::TrialResult;

paths::DirectPair* pair_of(File& file, const facts::BufferFacts& memory, base::Direction direction) noexcept {
  const Options& options = file.session->options;
  if (!options.rules.use_pci_p2pdma || memory.kind != facts::MemoryKind::device) return nullptr;
  facts::FileFacts const& facts = file.facts;
  const auto slot = static_cast<std::size_t>(memory.device);
  if (slot < file.pairs.size()) {
    if (paths::DirectPair* const known = file.pairs[slot].load(std::memory_order_acquire)) return known;
  }
  // The descriptor's O_DIRECT is no matter of the pair.
  const route::RouteChoice hopeful =
      route::judge(facts, memory, options.machine, options.rules, direction, TrialResult::proven);
  if (hopeful.path != SLUICE_PATH_P2PDMA && hopeful.reason != SLUICE_REASON_BUFFERED_DESCRIPTOR) return nullptr;
  paths::DirectPair* const found = file.session->pairs->find(facts, memory);
  if (slot < file.pairs.size()) file.pairs[slot].store(found, std::memory_order_release);
  return found;
}

Need need_of(const Options& options) noexcept {
  return route::compat_is_allowed(options.rules) ? Need::convenient : Need::absolute;
}

void try_pair(const paths::OpenFile& file, const facts::BufferFacts& memory, Need need) noexcept {
  if (file.pair == nullptr || !file.facts.direct) return;
  paths::DirectPair& pair = *file.pair;
  const TrialResult reach = pair.reach();
  if (reach == TrialResult::untried) {
    const bool mine = need == Need::convenient ? pair.claim_trial() : pair.claim_trial_at_once();
    if (mine) return paths::make_trial(file, memory);
  }
  if (need == Need::absolute) pair.wait_for_trial();
}

}  // namespace sluice::process
