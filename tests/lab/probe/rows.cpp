// SPDX-License-Identifier: Apache-2.0
#include "lab/probe/rows.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>

#include "lab/probe/device_memory.h"
#include "lab/probe/system.h"

namespace sluice::lab {

namespace {

struct Error {
  int number;
  std::string_view name;
};

constexpr std::array errors = {
    Error{EREMOTEIO, "EREMOTEIO"}, Error{EINVAL, "EINVAL"}, Error{EFAULT, "EFAULT"},
    Error{ENOMEM, "ENOMEM"},       Error{EIO, "EIO"},       Error{EOPNOTSUPP, "EOPNOTSUPP"},
};

int failed = 0;

// Numbers go on from program to program, in one file of the guest.
unsigned next_number() {
  const char* counter = "/run/lab-stretches";
  unsigned number = 0;
  std::ifstream(counter) >> number;
  std::ofstream(counter) << number + 1;
  return number;
}

// The first blocks of a drive are read by the kernel in search of partitions; marks begin behind them.
void mark(unsigned index) {
  constexpr off_t kBlock = 4096;
  constexpr off_t kFirst = 1024;
  const File file(environment("LAB_MARK"), O_RDONLY | O_DIRECT);
  const HostMemory memory(kBlock);
  must_read(file.get(), memory.bytes(0, kBlock), (kFirst + static_cast<off_t>(index)) * kBlock);
}

}  // namespace

void row(const std::string& name, const std::string& why_not) {
  if (why_not.empty()) {
    std::printf("pass %s\n", name.c_str());
  } else {
    std::printf("fail %s -- %s\n", name.c_str(), why_not.c_str());
    ++failed;
  }
}

void skip(const std::string& name, const std::string& why) {
  std::printf("skip %s -- %s\n", name.c_str(), why.c_str());
}

int failures() {
  return failed;
}

std::string spell(ssize_t result) {
  if (result >= 0) return std::to_string(result);
  for (const Error& error : errors) {
    if (error.number == -result) return std::string(error.name);
  }
  return std::to_string(result) + " (" + std::strerror(static_cast<int>(-result)) + ")";
}

int error_named(const std::string& name) {
  for (const Error& error : errors) {
    if (error.name == name) return -error.number;
  }
  return 0;
}

std::string differs(ssize_t got, ssize_t expected) {
  if (got == expected) return "";
  return "answered " + spell(got) + " where " + spell(expected) + " was expected";
}

Stretch::Stretch() : number_(next_number()) {
  mark(2 * number_);
}

void Stretch::end() {
  if (open_) mark(2 * number_ + 1);
  open_ = false;
}

void Stretch::promise(const std::string& name, const std::string& operation, std::uint64_t inside) {
  end();
  std::printf("dma %u %s -- %s %llu %s\n", number_, name.c_str(), operation.c_str(),
              static_cast<unsigned long long>(inside), environment("LAB_PROVIDER_NAME").c_str());
}

}  // namespace sluice::lab
