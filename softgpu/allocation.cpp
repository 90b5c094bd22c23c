// SPDX-License-Identifier: Apache-2.0
// The table of allocations.
#include "allocation.h"

#include <iterator>
#include <mutex>
#include <utility>

#include "machine.h"

namespace sluice::softgpu {

void AllocationTable::insert(std::shared_ptr<Allocation> allocation) {
  const std::unique_lock lock(mutex_);
  allocation->buffer_id = next_buffer_id_++;
  const std::uint64_t start = allocation->start;
  by_start_.insert_or_assign(start, std::move(allocation));
}

// Of two with the same address the later one: a pool gives the same memory again.
void AllocationTable::keep(std::shared_ptr<Allocation> allocation) {
  const std::unique_lock lock(mutex_);
  const std::uint64_t start = allocation->start;
  by_start_.insert_or_assign(start, std::move(allocation));
}

std::shared_ptr<Allocation> AllocationTable::find(std::uint64_t address) const {
  const std::shared_lock lock(mutex_);
  auto above = by_start_.upper_bound(address);
  if (above == by_start_.begin()) return nullptr;
  const auto& candidate = std::prev(above)->second;
  return address < candidate->end() ? candidate : nullptr;
}

bool AllocationTable::overlaps(std::uint64_t start, std::uint64_t size) const {
  const std::shared_lock lock(mutex_);
  auto at_or_above = by_start_.lower_bound(start);
  if (at_or_above != by_start_.end() && at_or_above->first - start < size) return true;
  return at_or_above != by_start_.begin() && std::prev(at_or_above)->second->end() > start;
}

std::shared_ptr<Allocation> AllocationTable::remove(std::uint64_t start,
                                                    const std::function<bool(const Allocation&)>& accepts) {
  const std::unique_lock lock(mutex_);
  const auto found = by_start_.find(start);
  if (found == by_start_.end() || !accepts(*found->second)) return nullptr;
  std::shared_ptr<Allocation> removed = std::move(found->second);
  by_start_.erase(found);
  return removed;
}

std::vector<std::shared_ptr<Allocation>> AllocationTable::covering(std::uint64_t start, std::uint64_t size) const {
  std::vector<std::shared_ptr<Allocation>> found;
  const std::shared_lock lock(mutex_);
  std::uint64_t at = start;
  for (auto entry = by_start_.find(start); entry != by_start_.end() && entry->first == at && at - start < size;
       ++entry) {
    at = entry->second->end();
    found.push_back(entry->second);
  }
  return at - start == size ? found : std::vector<std::shared_ptr<Allocation>>();
}

std::vector<std::shared_ptr<Allocation>> AllocationTable::remove_all_of(std::uint64_t workspace) {
  std::vector<std::shared_ptr<Allocation>> removed;
  const std::unique_lock lock(mutex_);
  for (auto entry = by_start_.begin(); entry != by_start_.end();) {
    if (entry->second->workspace == workspace) {
      removed.push_back(std::move(entry->second));
      entry = by_start_.erase(entry);
    } else {
      ++entry;
    }
  }
  return removed;
}

Leaving::Leaving(std::shared_ptr<Allocation> freed) : freed_(std::move(freed)) {
  machine().leaving.keep(freed_);
}

Leaving::~Leaving() {
  machine().leaving.remove(freed_->start, [this](const Allocation& kept) { return &kept == freed_.get(); });
}

// Among the leaving first: a kernel that is at it just now finds it in one table or the other.
std::shared_ptr<Leaving> take_leave(std::uint64_t start, const std::function<bool(const Allocation&)>& accepts) {
  AllocationTable& known = machine().allocations;
  const std::shared_ptr<Allocation> found = known.find(start);
  if (found == nullptr || found->start != start || !accepts(*found)) return nullptr;
  auto leaving = std::make_shared<Leaving>(found);
  const auto taken = known.remove(start, [&](const Allocation& each) { return &each == found.get(); });
  return taken != nullptr ? leaving : nullptr;
}

}  // namespace sluice::softgpu
