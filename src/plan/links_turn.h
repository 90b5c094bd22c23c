// SPDX-License-Identifier: Apache-2.0
// The turn of one part in the line of its device (links_line.h): waits for it, hands it on while its last bytes move,
// and at its end at the latest.
#pragma once

#include <cstdint>

#include "plan/links_line.h"
#include "plan/plan.h"
#include "transfer/hand_on.h"

namespace sluice::plan {

class LinksTurn {
 public:
  LinksTurn(PlanTable& plans, LinksLine& line, std::uint64_t number) noexcept
      : plans_(plans), line_(line), number_(number) {}
  LinksTurn(const LinksTurn&) = delete;
  LinksTurn& operator=(const LinksTurn&) = delete;
  ~LinksTurn() {
    plans_.ask_again(left_);
    plans_.ask_again(line_.leave(number_));
  }
  void wait() noexcept { plans_.ask_again(line_.wait(number_)); }

  // While its bytes move: others may come before it has ended.
  class Moving final : public transfer::HandOn {
   public:
    explicit Moving(LinksTurn& turn) noexcept : turn_(turn) {}
    void links_are_free() noexcept override {
      turn_.left_ = turn_.plans_.call_workers(turn_.line_.leave(turn_.number_));
    }

   private:
    LinksTurn& turn_;
  };

 private:
  PlanTable& plans_;
  LinksLine& line_;
  const std::uint64_t number_;
  LinksLine::Plans left_;  // that no worker came for
};

}  // namespace sluice::plan
