// Telling people which way the bytes of a file go.
#pragma once

#include <string>

#include "core/driver.h"
#include "request/request.h"

namespace sluice::core {

// The verdict for a transfer between this file and this memory, and the facts that it rests on. A direct path that
// nobody has tried yet is tried. A shape of no bytes stands for large, aligned transfers.
struct Explanation {
  route::Verdict verdict;
  std::string detail;
};
Explanation explain(File& file, const facts::BufferFacts& memory, const route::Shape& shape);

// SLUICE_EXPLAIN=1: one line a handle on stderr, with its first transfer.
void explain_once(File& file, const request::Request& request, const request::Result& result) noexcept;
// The line of a handle that goes without ever having moved a byte.
void explain_unused(File& file) noexcept;

}  // namespace sluice::core
