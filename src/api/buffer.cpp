// SPDX-License-Identifier: Apache-2.0
// cuFileBufRegister, cuFileBufDeregister.
#include "api/funnel.h"
#include "observe/statistics.h"
#include "process/process.h"

using sluice::api::guarded;
using sluice::observe::Operation;
using sluice::process::Process;

extern "C" {

CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int flags) {
  const CUfileError_t answer = guarded(
      "cuFileBufRegister", [&] { Process::instance().registrations().register_buffer(bufPtr_base, length, flags); });
  sluice::observe::count(Operation::buffer_register, answer.err == CU_FILE_SUCCESS);
  return answer;
}

CUfileError_t cuFileBufDeregister(const void* bufPtr_base) {
  const CUfileError_t answer =
      guarded("cuFileBufDeregister", [&] { Process::instance().registrations().deregister_buffer(bufPtr_base); });
  sluice::observe::count(Operation::buffer_deregister, answer.err == CU_FILE_SUCCESS);
  return answer;
}

}  // extern "C"
