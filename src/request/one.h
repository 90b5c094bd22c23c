// SPDX-License-Identifier: Apache-2.0
// An item by itself, from its arguments to its answer.
#pragma once

#include "process/process.h"
#include "request/account.h"
#include "request/item.h"
#include "request/run.h"

namespace sluice::request {

// Checks in the order of the contract, resolves the memory, decides, moves; the item has ended. What was refused before
// it was begun has no way.
Way run_one(process::Process& process, Item& item, const Options& options) noexcept;

}  // namespace sluice::request
