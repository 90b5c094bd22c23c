// SPDX-License-Identifier: Apache-2.0
#include "lab/load/bystander.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "lab/probe/system.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/memory.h"
#include "support/random.h"

namespace sluice::lab {

namespace {

constexpr std::size_t kLength = 4096;

std::atomic<unsigned long> rounds = 0;

void require(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string("beside the load, ") + what);
}

void explain(CUfileHandle_t handle, const void* memory) {
  auto* const entry = support::entry<decltype(sluice_explain)>("sluice_explain");
  sluice_explanation_t explanation{};
  require(entry != nullptr && support::code(entry(handle, memory, 0, CUFILE_READ, 0, 0, &explanation)) == 0,
          "sluice_explain failed");
}

void fork_and_wait() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = -1;
  require(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork failed");
}

void go_round(int fd, const support::Bytes& content) {
  const support::Handle handle(fd);
  const support::Memory memory(support::usual_memory(), kLength);
  {
    const support::Registration registration(memory);
    require(support::read_file(handle.get(), memory.address(), kLength) == support::moved(kLength),
            "cuFileRead failed");
    require(memory.get() == content, "cuFileRead brought other bytes");
  }
  explain(handle.get(), memory.address());
  CUfileStatsLevel1_t statistics{};
  require(support::code(cuFileGetStatsL1(&statistics)) == 0, "cuFileGetStatsL1 failed");
  fork_and_wait();
}

}  // namespace

void stand_by(const std::string& progress, const std::atomic<bool>& stopping) {
  const File counter(progress, O_RDWR | O_CREAT | O_TRUNC);
  const support::Fd fd(memfd_create("beside-the-load", MFD_CLOEXEC));
  const support::Bytes content = support::random_bytes(kLength, 0x1ad);
  support::plain_write(fd.get(), 0, content);
  while (!stopping) {
    go_round(fd.get(), content);
    const std::string text = std::to_string(++rounds) + "\n";
    require(pwrite(counter.get(), text.data(), text.size(), 0) > 0, "the progress file is lost");
    // The load is what the processor is for.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::string statistics_against(unsigned long transfers, unsigned long rounds_made) {
  CUfileStatsLevel1_t found{};
  if (support::code(cuFileGetStatsL1(&found)) != 0) return "there are none";
  const unsigned long succeeded = found.read_ops.ok + found.write_ops.ok;
  const unsigned long failed = found.read_ops.err + found.write_ops.err;
  if (succeeded == transfers + rounds_made && failed == 0) return "as many, none failed";
  return std::to_string(succeeded) + " of " + std::to_string(transfers + rounds_made) + ", " + std::to_string(failed) +
         " failed";
}

unsigned long rounds_stood_by() {
  return rounds;
}

}  // namespace sluice::lab
