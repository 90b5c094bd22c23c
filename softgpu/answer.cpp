// SPDX-License-Identifier: Apache-2.0
// What is let in.
#include "answer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "machine.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

// Calls of one entry point, counted from the first cuInit on.
struct CountedRule {
  explicit CountedRule(const FailureRule& wanted) : rule(wanted) {}
  FailureRule rule;
  std::atomic<std::uint64_t> calls{0};
};

using Rules = std::vector<std::unique_ptr<CountedRule>>;

Rules make_rules() {
  Rules rules;
  for (const FailureRule& rule : machine().knobs.failures) rules.push_back(std::make_unique<CountedRule>(rule));
  return rules;
}

const Rules& rules() {
  static const auto* const made = new Rules(make_rules());
  return *made;
}

// "cuMemAlloc" means every version of it.
bool names(std::string_view wanted, std::string_view name) {
  if (!name.starts_with(wanted)) return false;
  const std::string_view rest = name.substr(wanted.size());
  return rest.empty() || (rest.starts_with("_v") && rest.size() == 3);
}

// These make a context unusable for good, whichever call reports them first.
bool is_sticky(int code) {
  constexpr std::array sticky{214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719};
  return std::find(sticky.begin(), sticky.end(), code) != sticky.end();
}

}  // namespace

cuda::Result failure_on_request(const char* name) {
  for (const auto& counted : rules()) {
    if (!names(counted->rule.function, name)) continue;
    const std::uint64_t call = counted->calls.fetch_add(1) + 1;
    if (call != counted->rule.first && !(counted->rule.always && call > counted->rule.first)) continue;
    if (is_sticky(counted->rule.code)) {
      if (const auto context = current_context()) {
        if (const auto workspace = context->workspace()) {
          workspace->break_down(static_cast<cuda::Result>(counted->rule.code));
        }
      }
    }
    return static_cast<cuda::Result>(counted->rule.code);
  }
  return cuda::success;
}

cuda::Result early_admission(const char* name) noexcept {
  if (!machine_is_usable() || machine().knobs.failures.empty()) return cuda::success;
  try {
    return failure_on_request(name);
  } catch (...) {
    return cuda::error_out_of_memory;
  }
}

cuda::Result admission(const char* name) noexcept {
  if (!machine_is_usable()) return cuda::error_not_initialized;
  if (inside_host_function()) return cuda::error_not_permitted;
  return early_admission(name);
}

}  // namespace sluice::softgpu
