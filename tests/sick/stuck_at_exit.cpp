// SPDX-License-Identifier: Apache-2.0
// `stuck_at_exit READ DIRECT`, two descriptors of files that do not answer: begins transfers of them, and ends when its
// standard input does. Behind all other exit handlers it writes a byte to its standard output: from then on the kernel
// alone keeps it, which lets no thread go that waits for a server of FUSE with a request that this one has taken.
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

int main(int argc, char** argv) {
  using namespace sluice::support;
  std::atexit([] {
    if (write(STDOUT_FILENO, "e", 1) != 1) std::_Exit(3);
  });
  if (argc != 3 || cuda() == nullptr) return 2;
  constexpr std::size_t size = std::size_t{1} << 20;
  static const auto& context = *new ContextScope(primary_context(0));
  static_cast<void>(context);
  // Nothing of this is taken apart: the process ends in the midst of it.
  static auto& reading = *new Handle(std::atoi(argv[1]));
  static auto& writing = *new Handle(std::atoi(argv[2]));
  static auto& memory = *new Memory(MemoryKind::device, 4 * size);
  // Ranges of the file that is read through the page cache lie apart: a read of pages that another one is fetching, or
  // has read ahead, waits for these without a request of its own, and the test counts requests.
  constexpr std::size_t apart = 6 * size;
  const auto begin = [](auto body) {
    std::thread([body] {
      const ContextScope current(primary_context(0));
      body();
    }).detach();
  };
  begin([] { read_file(reading.get(), memory.address(), size); });
  begin([] { read_file(reading.get(), memory.address(), 4096, apart, 0); });
  begin([] { write_file(writing.get(), memory.at(size), 9001, 4095); });
  begin([] {
    Batch batch(2);
    batch.read(reading.get(), memory, 5000, 2 * apart, 2 * size);
    batch.write(writing.get(), memory, 5001, 2 * size + 1, 2 * size);
    batch.run();
  });
  static const auto& stream = *new Stream;
  static std::size_t length = 70'000;
  static off_t at = 3 * apart + 4095;
  static off_t offset = 0;
  static ssize_t count = -77;
  cuFileReadAsync(reading.get(), memory.at(3 * size), &length, &at, &offset, &count, stream.get());
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  std::exit(0);
}
