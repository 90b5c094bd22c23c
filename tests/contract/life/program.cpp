// SPDX-License-Identifier: Apache-2.0
// life_program NAME: plays one scenario that needs a process of its own. Exit status 0: as expected; 77: cannot be
// played here; anything else: the output says what went wrong.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "contract/life/scenario.h"

namespace sluice::life {

using namespace support;

void say(const std::string& line) {
  const std::string whole = line + "\n";
  if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0) _exit(3);
}

void fail(const std::string& what) {
  say("failed: " + what);
  _exit(1);
}

char state_of_thread(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t end_of_name = line.rfind(") ");
  return end_of_name == std::string::npos ? '?' : line[end_of_name + 2];
}

void skip(const std::string& reason) {
  say(reason);
  _exit(77);
}

World& World::open() {
  static auto* const world = new World;
  return *world;
}

World::World() {
  file_.unlink();
  require(register_fd(fd_.get(), &handle_) == CU_FILE_SUCCESS, "registering a buffered file");
  require(register_fd(direct_fd_.get(), &direct_) == CU_FILE_SUCCESS, "registering a direct file");
  memory_.emplace(usual_memory(), scenario_bytes);
  require(code(cuFileBufRegister(memory_->address(), memory_->size(), 0)) == CU_FILE_SUCCESS, "registering a buffer");
  require(code(cuFileBatchIOSetUp(&batch_, 4)) == CU_FILE_SUCCESS, "setting a batch up");
  if (cuda() != nullptr) {
    stream_.emplace();
    require(code(cuFileStreamRegister(stream_->get(), 0)) == CU_FILE_SUCCESS, "registering a stream");
  }
  use();
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.fh = handle_;
  entry.opcode = CUFILE_READ;
  entry.u.batch.devPtr_base = memory_->address();
  entry.u.batch.size = scenario_bytes;
  require(code(cuFileBatchIOSubmit(batch_, 1, &entry, 0)) == CU_FILE_SUCCESS, "submitting a batch");
}

void World::use(CUfileHandle_t handle, MemoryKind kind) const {
  const Memory memory(kind, scenario_bytes);
  require(read_file(handle, memory.address(), scenario_bytes) == moved(scenario_bytes), "reading");
  require(same_bytes(plain_read(fd_.get(), 0, scenario_bytes), memory.get()), "what was read");
  const Bytes written = random_bytes(5001, 1);
  memory.put(3, written);
  require(write_file(handle, memory.address(), written.size(), 4097, 3) == moved(written.size()), "writing");
  require(same_bytes(plain_read(fd_.get(), 4097, written.size()), written), "what was written");
}

void World::use(MemoryKind kind) const {
  use(handle_, kind);
  use(direct_, kind);
}

void World::end() {
  cuFileHandleDeregister(handle_);
  cuFileHandleDeregister(direct_);
  require(code(cuFileBufDeregister(memory_->address())) == CU_FILE_SUCCESS, "deregistering a buffer");
  cuFileBatchIODestroy(batch_);
  require(code(cuFileDriverClose()) == CU_FILE_SUCCESS, "closing the driver");
  require(cuFileUseCount() == 0, "the use count");
}

}  // namespace sluice::life

int main(int argc, char** argv) {
  using namespace sluice::life;
  // Should its parent be gone: what hangs, ends.
  constexpr unsigned most_seconds = 300;
  alarm(most_seconds);
  for (const auto scenarios : {ending_scenarios(), exec_scenarios(), limit_scenarios(), refused_scenarios(),
                               reset_scenarios(), resident_scenarios(), stream_scenarios(), thread_scenarios()}) {
    for (const Scenario& scenario : scenarios) {
      if (argc > 1 && std::strcmp(scenario.name, argv[1]) == 0) return scenario.run();
    }
  }
  std::puts("there is no such scenario");
  return 2;
}
