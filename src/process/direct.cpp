// The pairs that files keep, and the moment of their trial: the first transfer or explanation that comes by.
#include "process/direct.h"

#include "paths/direct_pair.h"
#include "paths/trial.h"

namespace sluice::process {

using facts::Reach;

paths::DirectPair* pair_of(File& file, const facts::BufferFacts& memory, base::Direction direction) noexcept {
  const Terms& terms = file.life->terms;
  if (!terms.rules.use_pci_p2pdma || memory.kind != facts::MemoryKind::device) return nullptr;
  facts::FileFacts const& facts = file.facts;
  const auto slot = static_cast<std::size_t>(memory.device);
  if (slot < file.pairs.size()) {
    if (paths::DirectPair* const known = file.pairs[slot].load(std::memory_order_acquire)) return known;
  }
  // The descriptor's O_DIRECT is no matter of the pair.
  const route::Verdict hopeful = route::judge(facts, memory, terms.machine, terms.rules, direction, Reach::proven);
  if (hopeful.path != SLUICE_PATH_P2PDMA && hopeful.reason != SLUICE_REASON_BUFFERED_DESCRIPTOR) return nullptr;
  paths::DirectPair* const found = file.life->pairs->find(facts, memory);
  if (slot < file.pairs.size()) file.pairs[slot].store(found, std::memory_order_release);
  return found;
}

Need need_of(const Terms& terms) noexcept {
  return route::compat_is_allowed(terms.rules) ? Need::convenient : Need::absolute;
}

void try_pair(const paths::OpenFile& file, const facts::BufferFacts& memory, Need need) noexcept {
  if (file.pair == nullptr || !file.facts.direct) return;
  paths::DirectPair& pair = *file.pair;
  const Reach reach = pair.reach();
  if (reach == Reach::untried) {
    const bool mine = need == Need::convenient ? pair.claim_trial() : pair.claim_trial_at_once();
    if (mine) return paths::make_trial(file, memory);
  }
  if (need == Need::absolute) pair.wait_for_trial();
}

}  // namespace sluice::process
