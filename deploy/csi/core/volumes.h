// SPDX-License-Identifier: Apache-2.0
// All backends of this driver, as one place to look for volumes. Backends come and never go. From any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/backend.h"

namespace sluice::csi {

class Volumes {
 public:
  void add(std::unique_ptr<Backend> backend) {
    const std::lock_guard lock(mutex_);
    backends_.push_back(std::move(backend));
  }
  std::vector<Backend*> backends() const {
    const std::lock_guard lock(mutex_);
    std::vector<Backend*> all;
    for (const auto& each : backends_) all.push_back(each.get());
    return all;
  }

  struct Found {
    Backend* backend = nullptr;
    Record record;
    explicit operator bool() const { return backend != nullptr; }
  };
  // By id, in any state.
  Found find(const std::string& id) const;
  // A finished volume or snapshot; else NOT_FOUND.
  Found need(const std::string& id, RecordKind kind) const;
  Found find_by_name(const std::string& name, RecordKind kind) const;

  struct Listed {
    Backend* backend = nullptr;
    Record record;
  };
  // Finished ones, by id.
  std::vector<Listed> list(RecordKind kind) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

// A page of a list. Tokens name the last entry of the page before, so that what is removed in between moves nothing. A
// token that is none of ours is refused as ABORTED.
struct Page {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string next;
};
Page page_of(const std::vector<Volumes::Listed>& all, int most, const std::string& token);

}  // namespace sluice::csi
