// SPDX-License-Identifier: Apache-2.0
// How the lab's programs tell what they found: a line a row, for tests/lab/rows.py to read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace sluice::lab {

// "pass NAME", or "fail NAME -- WHY" when there is a reason. Counts the failures.
void row(const std::string& name, const std::string& why_not);
void skip(const std::string& name, const std::string& why);

// Rows that failed so far.
int failures();

// "EREMOTEIO" for -EREMOTEIO, "65536" for 65536.
std::string spell(ssize_t result);

// The errno of that name, negative; 0 for a name that is none of those the lab uses.
int error_named(const std::string& name);

// Whether a call's answer is the expected one; else the sentence that says so.
std::string differs(ssize_t got, ssize_t expected);

// A stretch of time that the host recognises in QEMU's trace of the drives' commands. Begin and end are 4 KiB reads of
// a drive that is used for nothing else (LAB_MARK names it), from places that follow from the stretch's number.
class Stretch {
 public:
  Stretch();
  // Ends it, and promises about its transfers: in commands of this operation, `inside` bytes lay in the memory of the
  // provider (LAB_PROVIDER_NAME). The host finds out whether that is true.
  void promise(const std::string& name, const std::string& operation, std::uint64_t inside);
  // Ends it without a promise.
  void end();

 private:
  unsigned number_;
  bool open_ = true;
};

}  // namespace sluice::lab
