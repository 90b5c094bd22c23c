// Who goes with whom, and who waits for whom.
#include "batch/row.h"

#include <algorithm>
#include <new>

#include "batch/together.h"

namespace sluice::batch {

bool Row::provide(std::unique_ptr<Team>& team) noexcept {
  if (!team) team.reset(new (std::nothrow) Team);
  return team != nullptr;
}

// Null when as many are under way as there may be, or there is no memory for one more.
Team* Row::idle_team() noexcept {
  for (std::unique_ptr<Team>& team : teams_) {
    if (provide(team) && !team->busy) return team.get();
  }
  return nullptr;
}

bool Row::nobody_is_under_way() const noexcept {
  return std::none_of(teams_.begin(), teams_.end(),
                      [](const std::unique_ptr<Team>& team) { return team && team->busy; });
}

bool Row::waits_for_a_team(const Entry& entry) const noexcept {
  const auto alike = std::count_if(teams_.begin(), teams_.end(), [&](const std::unique_ptr<Team>& team) {
    return team && team->busy && go_together(team->first, entry.together);
  });
  return alike >= entry.together.abreast;
}

unsigned Row::ready() noexcept {
  if (!changed_) return ready_;
  changed_ = false;
  ready_ = 0;
  if (waiting_.count() == 0 || idle_team() == nullptr) return 0;
  if (nobody_is_under_way()) return ready_ = waiting_.count();
  for (unsigned i = 0; i < waiting_.count(); ++i) {
    if (!waits_for_a_team(entries_[waiting_.at(i)])) ++ready_;
  }
  return ready_;
}

Team* Row::claim() noexcept {
  if (ready() == 0) return nullptr;
  Team* const team = idle_team();
  changed_ = true;
  team->count = 0;
  for (unsigned left = waiting_.count(); left > 0; --left) {
    const std::uint16_t slot = waiting_.pop();
    const Entry& entry = entries_[slot];
    const bool joins =
        team->count == 0 ? !waits_for_a_team(entry) : team->count < most_ && go_together(team->first, entry.together);
    if (!joins) {
      waiting_.push(slot);
      continue;
    }
    if (team->count == 0) team->first = entry.together;
    team->slots[team->count++] = slot;
  }
  team->busy = true;
  return team;
}

}  // namespace sluice::batch
