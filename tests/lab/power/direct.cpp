// SPDX-License-Identifier: Apache-2.0
#include "lab/power/direct.h"

#include <fcntl.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/probe/system.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::lab {

bool is_direct() {
  return std::getenv("LAB_DIRECT") != nullptr;
}

void must_be_direct() {
  const support::ContextScope context(support::primary_context(0));
  const File opened(environment("LAB_DIRECT"), O_RDWR | O_DIRECT);
  const support::Handle handle(opened.get());
  sluice_explanation_t told{};
  const int answer = support::code(sluice_explain(handle.get(), nullptr, 0, CUFILE_WRITE, 0, 0, &told));
  if (answer != CU_FILE_SUCCESS) throw std::runtime_error("sluice_explain answered " + std::to_string(answer));
  if (told.path == SLUICE_PATH_P2PDMA) return;
  throw std::runtime_error(std::string("path ") + told.path_name + ": " + told.sentence);
}

std::uint64_t written_directly() {
  std::vector<sluice_path_counter_t> counters(std::size_t{SLUICE_PATH_COUNT} * SLUICE_REASON_COUNT);
  std::size_t count = 0;
  if (support::code(sluice_path_counters(counters.data(), counters.size(), &count)) != CU_FILE_SUCCESS) {
    throw std::runtime_error("sluice_path_counters failed");
  }
  counters.resize(count);
  std::uint64_t bytes = 0;
  for (const sluice_path_counter_t& counter : counters) {
    if (counter.path == SLUICE_PATH_P2PDMA) bytes += counter.written_bytes;
  }
  return bytes;
}

}  // namespace sluice::lab
