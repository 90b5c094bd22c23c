// SPDX-License-Identifier: Apache-2.0
// Handles that programs hold: the address of an object, valid for as long as the object is in the table.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace sluice::softgpu {

// A handle that was destroyed, or never was one, is recognised without being dereferenced. Any thread may call.
template <typename Object>
class HandleTable {
 public:
  void insert(std::shared_ptr<Object> object) {
    const std::unique_lock lock(mutex_);
    const void* const handle = object.get();
    objects_.insert_or_assign(handle, std::move(object));
  }
  std::shared_ptr<Object> find(const void* handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found != objects_.end() ? found->second : nullptr;
  }
  std::shared_ptr<Object> remove(const void* handle) {
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> removed = std::move(found->second);
    objects_.erase(found);
    return removed;
  }
  template <typename Predicate>
  void remove_if(Predicate unwanted) {
    const std::unique_lock lock(mutex_);
    std::erase_if(objects_, [&](const auto& entry) { return unwanted(*entry.second); });
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace sluice::softgpu
