// SPDX-License-Identifier: Apache-2.0
// One call at a time for a volume: a second one is answered ABORTED, and the caller comes again.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "core/refusal.h"

namespace sluice::csi {

class OperationLocks {
 public:
  class Guard {
   public:
    Guard(OperationLocks& locks, std::string id) : locks_(locks), id_(std::move(id)) {}
    ~Guard() {
      const std::lock_guard lock(locks_.mutex_);
      locks_.busy_.erase(id_);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    OperationLocks& locks_;
    std::string id_;
  };

  Guard take(const std::string& id) {
    const std::lock_guard lock(mutex_);
    if (!busy_.insert(id).second) {
      refuse(Code::aborted, "Another call for " + id + " is under way. Call again when it has ended.");
    }
    return {*this, id};
  }

 private:
  std::mutex mutex_;
  std::set<std::string> busy_;
};

}  // namespace sluice::csi
