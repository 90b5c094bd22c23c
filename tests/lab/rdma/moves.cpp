// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <vector>

#include "client/operations.h"
#include "lab/probe/rows.h"
#include "lab/probe/system.h"
#include "lab/rdma/content.h"
#include "lab/rdma/library.h"
#include "sluice.h"

namespace sluice::lab {

namespace {

using rdma_files::CufileFile;
using support::Bytes;

constexpr std::size_t part_size = std::size_t{64} << 20U;
constexpr std::uint64_t content_seed = 2;

// Of this process's memory, what is neither a file's nor shared: the soft GPU's is not in it.
std::uint64_t anonymous_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kib = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kib;
  }
  return kib;
}

struct Counted {
  std::uint64_t by_rdma = 0;
  std::uint64_t otherwise = 0;
  std::uint64_t copies = 0;
  std::uint64_t staging_bytes = 0;
  CufileFile::Calls calls;
  std::uint64_t anonymous = 0;

  static Counted now() {
    Counted all;
    std::vector<sluice_path_counter_t> counters(std::size_t{SLUICE_PATH_COUNT} * SLUICE_REASON_COUNT);
    std::size_t count = 0;
    sluice_path_counters(counters.data(), counters.size(), &count);
    counters.resize(std::min(count, counters.size()));
    for (const sluice_path_counter_t& one : counters) {
      (one.path == SLUICE_PATH_RDMA ? all.by_rdma : all.otherwise) += one.read_bytes + one.written_bytes;
    }
    sluice_carrier_counts_t carriers{};
    sluice_carrier_counters(&carriers);
    all.copies = carriers.kernel + carriers.copy_engine + carriers.slab + carriers.scatter_kernel +
                 carriers.many_copies + carriers.resident_kernel + carriers.cpu_window;
    all.staging_bytes = (carriers.rings << 22U) + carriers.stations * 1363149U;
    all.calls = CufileFile::calls();
    all.anonymous = anonymous_kib();
    return all;
  }
};

unsigned long long wide(std::uint64_t value) {
  return value;
}

class Moves {
 public:
  Moves(const Shown& shown, std::uint64_t size)
      : shown_(shown),
        size_(size),
        file_(shown.client, "library-moves",
              rdma_files::kOpenWrite | rdma_files::kOpenCreate | rdma_files::kOpenTruncate) {}

  void run(const std::string& port) {
    explained(port);
    for (const bool writes : {true, false}) {
      const Counted before = Counted::now();
      calls_ = 0;
      std::chrono::nanoseconds time{0};
      std::string why = all(writes, time);
      const Counted after = Counted::now();
      if (why.empty() && writes) why = stored();
      const std::string verb = writes ? "written" : "read";
      tell(std::to_string(size_ >> 20U) + " MiB, each byte compared, " + verb, why);
      cost(verb, before, after);
      const auto rate = static_cast<double>(size_ >> 20U) / std::chrono::duration<double>(time).count();
      std::printf("count %s, MiB/s %s by the library (soft RoCE, TCG) -- %llu\n", shown_.name.c_str(), verb.c_str(),
                  static_cast<unsigned long long>(rate));
    }
  }

 private:
  void tell(const std::string& what, const std::string& why_not) const { row(shown_.name + ": " + what, why_not); }

  void explained(const std::string& port) const {
    sluice_explanation_t told{};
    sluice_explain(file_.handle(), memory_.address(), 0, CUFILE_READ, part_size, 0, &told);
    const std::string detail = told.detail;
    const bool named = std::string(told.path_name) == "rdma" && detail.find(port) != std::string::npos &&
                       detail.find("key by dma-buf") != std::string::npos;
    tell("the explanation of these transfers has path, device, port and key",
         named ? "" : std::string(told.path_name) + ": " + told.sentence + " " + detail);
    std::printf("explained: %s; %s\n", told.path_name, told.detail);
  }

  // Once in one direction; the time of the calls alone.
  std::string all(bool writes, std::chrono::nanoseconds& time) {
    for (std::uint64_t offset = 0; offset < size_; offset += part_size) {
      const std::size_t length = std::min<std::uint64_t>(part_size, size_ - offset);
      const std::span<std::uint8_t> part(bytes_.data(), length);
      if (writes) {
        fill(part, offset, content_seed);
        memory_.put(0, part);
      } else {
        memory_.fill(0xee);
      }
      const auto begin = std::chrono::steady_clock::now();
      const support::Transfer done =
          writes ? support::write_file(file_.handle(), memory_.address(), length, static_cast<off_t>(offset))
                 : support::read_file(file_.handle(), memory_.address(), length, static_cast<off_t>(offset));
      time += std::chrono::steady_clock::now() - begin;
      ++calls_;
      std::string why = not_moved(done, length);
      if (why.empty() && !writes) why = differs_from(memory_.get(0, length), offset, content_seed);
      if (!why.empty()) return why;
    }
    return "";
  }

  // The server's file, by its file system.
  std::string stored() {
    const File plain(shown_.folder + "/library-moves", O_RDONLY);
    for (std::uint64_t offset = 0; offset < size_; offset += part_size) {
      const std::span<std::uint8_t> part(bytes_.data(), std::min<std::uint64_t>(part_size, size_ - offset));
      must_read(plain.get(), std::as_writable_bytes(part), static_cast<off_t>(offset));
      if (std::string why = differs_from(part, offset, content_seed); !why.empty())
        return "the server's file has " + why;
    }
    return "";
  }

  void cost(const std::string& verb, const Counted& before, const Counted& after) const {
    const std::uint64_t by_rdma = after.by_rdma - before.by_rdma;
    const std::uint64_t otherwise = after.otherwise - before.otherwise;
    const std::uint64_t with = after.calls.with_token - before.calls.with_token;
    const std::uint64_t without = after.calls.without - before.calls.without;
    const std::uint64_t copies = after.copies - before.copies;
    const std::uint64_t staging = after.staging_bytes - before.staging_bytes;
    std::printf(
        "%llu MiB %s: %llu calls of the program, %llu operations with a token and %llu without; %llu bytes on the path "
        "rdma, %llu on others; %llu copies by the library, %llu bytes of its staging memory; anonymous memory of the "
        "process %llu KiB before, %llu after\n",
        wide(size_ >> 20U), verb.c_str(), wide(calls_), wide(with), wide(without), wide(by_rdma), wide(otherwise),
        wide(copies), wide(staging), wide(before.anonymous), wide(after.anonymous));
    tell("all of it on the path rdma, " + verb,
         by_rdma == size_ && otherwise == 0 ? "" : std::to_string(by_rdma) + " bytes were, others were not");
    tell("an operation a call, each with a token, " + verb,
         with == calls_ && without == 0 ? "" : std::to_string(with) + " with, " + std::to_string(without) + " without");
    tell("nothing copied, nothing staged by the library, " + verb,
         copies == 0 && staging == 0 ? "" : std::to_string(copies) + " copies, " + std::to_string(staging) + " bytes");
  }

  const Shown& shown_;
  const std::uint64_t size_;
  const CufileFile file_;
  const support::Memory memory_{support::MemoryKind::device, part_size};
  const support::Registration registration_{memory_};
  Bytes bytes_ = Bytes(part_size, 1);
  std::uint64_t calls_ = 0;
};

}  // namespace

void moves(const Shown& shown, std::uint64_t mebibytes, const std::string& port) {
  Moves(shown, mebibytes << 20U).run(port);
}

}  // namespace sluice::lab
