// SPDX-License-Identifier: Apache-2.0
// A row: what is measured, spelled as its name. The grammar is
//   OPERATION[-write][-rand][-SIZE][-xCOUNT][-each][-unreg][-fixed][-matmul|-hog][-others]
// for example read-1M, read-rand-4K-x16, batch-64K-x64, async-write-1M-x8-fixed, pread-16M-x8, link-h2d, copy-out-4K,
// read-1G-each, read-1G-matmul-others, held, idle.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::bench {

enum class Operation {
  read,         // cuFileRead into device memory, a thread each
  write,        // cuFileWrite
  batch,        // one batch of reads, scattered over the file, or of writes
  async,        // cuFileReadAsync or cuFileWriteAsync, a stream each
  pread,        // plain pread into pinned host memory, a thread each
  pwrite,       // plain pwrite of pinned host memory
  link_in,      // copies of pinned memory to the device, two in flight
  link_out,     // and back
  link_kernel,  // pinned memory to the device, by a kernel
  copy_in,      // one copy of pinned memory to the device, until a word behind it is there; a thread each
  copy_out,     // and back
  bell,         // pinned memory to the device, by a kernel in each of some streams that awaits a thread's answer
  cycle,        // a file of a set opened, registered, read, deregistered and closed; a thread each
  pcycle,       // opened, read by pread into pinned memory, copied to the device, closed
  held,         // streams that the program holds, a read behind each: what the process costs until they go on
  idle,         // nothing, after some reads: what the process costs then
};

// What keeps the device's multiprocessors busy meanwhile.
enum class Product {
  none,
  finite,   // kernels of about two milliseconds, one after the other, as a matrix product is
  endless,  // one kernel that leaves no multiprocessor before the measurement ends
};

struct Row {
  std::string name;
  Operation operation = Operation::read;
  std::size_t size = 0;    // of one request
  unsigned count = 1;      // threads, entries of the batch, or streams
  bool writes = false;     // entries of a batch, and stream calls; else they read
  bool random = false;     // offsets; else each thread goes through a part of the file of its own
  bool registered = true;  // the buffers
  bool fixed = false;      // streams are registered, all their arguments known at the call
  bool each = false;       // on every GPU at once, that many threads for each; else on the first one
  Product product = Product::none;
  bool product_on_others = false;  // on every GPU but the first one; else on the first one
};

// Throws Trouble when the name is none.
Row parse_row(std::string_view name);

// "64K", "1M", "3G" or a plain number. Throws Trouble.
std::size_t parse_size(std::string_view text);
std::string size_text(std::size_t size);

// The rows of the published table, references first.
const std::vector<std::string>& table();

}  // namespace sluice::bench
