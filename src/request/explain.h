// SPDX-License-Identifier: Apache-2.0
// Telling people which way the bytes of a file go.
#pragma once

#include <string>
#include <vector>

#include "process/process.h"
#include "request/request.h"

namespace sluice::request {

// The choice for a transfer between this file and this memory, and the facts that it rests on. A direct path that
// has not been tried yet is tried. A shape of no bytes stands for large, aligned transfers.
struct Explanation {
  route::RouteChoice choice;
  std::string detail;
};
// What the caller knows besides: what operations are called with, and what is attached to the buffer
// that the memory lies in.
struct AskedWith {
  void* handle = nullptr;
  const paths::Attachments* registered = nullptr;
  bool knows_registration = false;
};
Explanation explain(process::File& file, const facts::BufferFacts& memory, const route::Shape& shape,
                    const AskedWith& known = {});

// Every reason that keeps the bytes from a more direct path, in the order in which their remedies uncover them, and the
// same facts. Memory of a device that is only supposed is on no device that could be tried.
struct Reasons {
  route::Path path;
  std::vector<route::Reason> reasons;
  std::string detail;
};
Reasons all_reasons(process::File& file, const facts::BufferFacts& memory, const route::Shape& shape,
                    const AskedWith& known = {});

// SLUICE_EXPLAIN=1: one line a handle on stderr, with its first transfer.
void explain_once(process::File& file, const Request& request, const facts::BufferFacts& memory,
                  const paths::Path& path, route::Reason reason) noexcept;
// The line of a handle that goes without ever having moved a byte.
void explain_unused(process::File& file) noexcept;

}  // namespace sluice::request
