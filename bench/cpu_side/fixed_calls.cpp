// SPDX-License-Identifier: Apache-2.0
// A fixed number of one call, for a tool that counts instructions: fixed_calls NAME COUNT. bench/instructions.py
// takes the difference of two counts, so that what happens once drops out.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>

#include "cpu_side/subject.h"

namespace {

using sluice::bench::Memory;
using sluice::bench::Subject;

struct Named {
  const char* name;
  Memory memory;
  void (Subject::*method)();
};

constexpr Named calls[] = {
    {"read_host", Memory::host, &Subject::read},
    {"write_host", Memory::host, &Subject::write},
    {"read_device", Memory::device, &Subject::read},
    {"write_device", Memory::device, &Subject::write},
    {"batch_host", Memory::host, &Subject::read_batch},
    {"batch_device", Memory::device, &Subject::read_batch},
    {"register_file", Memory::host, &Subject::register_file},
    {"register_buffer", Memory::device, &Subject::register_buffer},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    for (const Named& call : calls) std::puts(call.name);
    return argc == 1 ? 0 : 2;
  }
  const std::string_view text = argv[2];
  unsigned count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  try {
    for (const Named& call : calls) {
      if (std::strcmp(call.name, argv[1]) != 0) continue;
      Subject subject(call.memory);
      for (unsigned i = 0; i < count; ++i) (subject.*call.method)();
      return 0;
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "fixed_calls: %s\n", failure.what());
    return 1;
  }
  std::fprintf(stderr, "fixed_calls: no call named %s\n", argv[1]);
  return 2;
}
