// SPDX-License-Identifier: Apache-2.0
// The one call that fails. The program defines what the library asks of the C and C++ libraries (allocations.cpp,
// system_calls.cpp) and hands it the driver's functions (driver_calls.cpp); all of them ask here whether it is their
// turn.
//
// A call counts as the library's when the first frame outside the C and C++ libraries, from the call outwards, lies in
// libcufile. So what std::string or opendir() allocates for the library counts, on whatever thread, in a cuFile call or
// not; what the soft GPU, the program or the test allocates does not, even inside a cuFile call: that would test them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "failures/record.h"

namespace sluice::failures {

enum class Kind : std::uint8_t { none, allocation, system_call, driver_call };

// Before all else, once libcufile is mapped. The record is told of the call that fails, and where a process stands in
// the library that ends by a signal.
void prepare_point(Record& record);

// A site is the way through libcufile that leads to a call, as a number: the same in each run of the same build.
struct Failing {
  Kind kind = Kind::none;
  std::uint64_t site = 0;  // 0: none fails, they are counted
  std::size_t turn = 1;    // which of the calls at this site
  std::size_t run = 1;     // so many calls fail, wherever they are, from this one on
  int code = 0;            // what a driver call answers
};
void arm(const Failing& failing);
// The record is told of the sites that were passed, and how often.
void disarm();

// For the interposed functions. `caller` is their return address.
bool is_to_fail(Kind kind, const char* name, const void* caller) noexcept;
int driver_code() noexcept;
bool is_in_library(const void* address) noexcept;

}  // namespace sluice::failures
