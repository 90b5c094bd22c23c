// SPDX-License-Identifier: Apache-2.0
// The door that the cases of a run go through: SLUICE_TEST_DOOR=batch (an entry each), plan (a range each) or stream (a
// turn each); a call otherwise.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "contract/matrix_case.h"
#include "support/calls.h"

namespace sluice::contract {

support::Transfer transfer(Direction direction, CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset,
                           off_t buffer_offset);

}  // namespace sluice::contract
