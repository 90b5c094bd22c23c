// SPDX-License-Identifier: Apache-2.0
// What a tool writes for people and programs. A stderr that takes nothing ends no work, and no status: notes are lost
// there. A stdout that takes nothing is a failure: that was the answer.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace sluice::tools {

void tell_text(const std::string& text) noexcept;

// On stderr.
template <typename... Arguments>
void tell(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  tell_text(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Takes the place of standard descriptors that the caller has closed, so that no file comes there and is printed into.
// Programs that are started find them closed.
void hold_standard_descriptors() noexcept;

// The exit status of a tool at its end: `status`, or 1 where that says success and stdout did not take all.
int finish(const char* tool, int status) noexcept;

}  // namespace sluice::tools
