// SPDX-License-Identifier: Apache-2.0
// An item that waits for its turn, with the right to use what it names.
#pragma once

#include "process/records.h"
#include "request/item.h"

namespace sluice::request {

struct Queued {
  Item item;
  Known known;  // what the item points to where it may go with others
  process::FileTable::Pin file;
  process::BufferTable::Pin registration;

  paths::GroupClass group_class() const noexcept {
    return item.known != nullptr ? item.known->grouping.group_class : paths::GroupClass::none;
  }
};

}  // namespace sluice::request
