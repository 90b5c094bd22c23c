// SPDX-License-Identifier: Apache-2.0
// The one exception of the client: a sentence for a reader of the answer.
#pragma once

#include <stdexcept>

namespace sluice::bench {

struct Trouble : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace sluice::bench
