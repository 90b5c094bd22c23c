// SPDX-License-Identifier: Apache-2.0
// The closed enumerations of paths and reasons, with their names, sentences and remedies.
#pragma once

#include "route/decision.h"

namespace sluice::route {

struct ReasonText {
  const char* name;
  const char* sentence;
  const char* remedy;
};

// nullptr for a value outside the enumeration.
const char* path_name(Path path) noexcept;
const ReasonText* reason_text(Reason reason) noexcept;

}  // namespace sluice::route
