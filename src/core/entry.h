// An entry of a submission, with the right to use what it names.
#pragma once

#include <cstdint>

#include "core/records.h"
#include "core/transfer.h"
#include "cufile.h"
#include "facts/buffer.h"
#include "route/route.h"

namespace sluice::core {

// With whom an entry goes (core/together.h).
enum class Company : std::uint8_t {
  none,    // by itself, as a call of its own would
  cached,  // with others that the page cache has, as far as anybody knows
  disk,    // with others that wait for a disk
};

// What is known of an entry that goes with others.
struct Together {
  Company company = Company::none;
  std::uint64_t address = 0;
  std::uint64_t file_size = 0;  // at submission; ~0 where it means nothing
  facts::BufferFacts memory;
  route::Verdict way;
};

struct Entry {
  Call call;
  void* cookie = nullptr;
  unsigned number = 0;       // in its submission
  std::uint64_t queued = 0;  // in_flight.h
  FileTable::Pin file;
  BufferTable::Pin registration;
  Together together;
  std::uint64_t there = 0;  // bytes from its start that are in place, left by a company that did not carry all of it
};

// How an entry ended, as its event tells.
struct Ending {
  CUfileStatus_t status = CUFILE_COMPLETE;
  std::int64_t result = 0;
};

}  // namespace sluice::core
