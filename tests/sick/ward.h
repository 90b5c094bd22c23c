// SPDX-License-Identifier: Apache-2.0
// A sick file system, mounted for one test, with the server that answers for it in a process of its own.
#pragma once

#include <sys/types.h>

#include <string>

#include "sick/condition.h"
#include "support/scratch.h"

namespace sluice::sick {

class Ward {
 public:
  // Why none can be mounted here; empty where one can.
  static std::string why_not();

  Ward();  // throws when it cannot be mounted after all
  // Ends the server, whatever it keeps to itself: who waits for it then hears an error.
  ~Ward();
  Ward(const Ward&) = delete;
  Ward& operator=(const Ward&) = delete;

  support::Fd open(std::size_t file, int flags) const;
  Condition& condition() const { return *condition_; }
  // Returns when the server keeps so many requests to itself; false when that does not come.
  bool withholds(std::uint32_t count) const;
  void end_server();

 private:
  std::string folder_;
  Condition* condition_ = nullptr;
  pid_t server_ = -1;
};

}  // namespace sluice::sick
