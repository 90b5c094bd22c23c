// SPDX-License-Identifier: Apache-2.0
// cuFileBatchIO*.
#include <atomic>

#include "api/funnel.h"
#include "batch/batch_calls.h"
#include "observe/log.h"
#include "observe/statistics.h"
#include "process/process.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::observe::Operation;
using sluice::process::Process;

namespace {

CUfileError_t counted(Operation operation, CUfileError_t answer) {
  sluice::observe::count(operation, answer.err == CU_FILE_SUCCESS);
  return answer;
}

}  // namespace

extern "C" {

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr) {
  return counted(Operation::batch_setup, guarded("cuFileBatchIOSetUp", [&] {
                   if (batch_idp == nullptr)
                     throw Failure(CU_FILE_INVALID_VALUE, "the pointer for the batch handle is null");
                   *batch_idp = sluice::batch::set_up_batch(Process::instance(), nr);
                 }));
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t* iocbp,
                                  unsigned int flags) {
  return counted(Operation::batch_submit, guarded("cuFileBatchIOSubmit", [&] {
                   if (iocbp == nullptr)
                     throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, "the entries are a null pointer");
                   if (flags != 0) {
                     static std::atomic<bool> told{false};
                     sluice::observe::log_once(told, "api", "cuFileBatchIOSubmit: no flags are defined; pass 0");
                   }
                   sluice::batch::submit_batch(Process::instance(), batch_idp, {iocbp, nr});
                 }));
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout) {
  return guarded("cuFileBatchIOGetStatus", [&] {
    if (nr == nullptr || iocbp == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "nr or events is a null pointer");
    const auto limit = timeout == nullptr ? std::nullopt : std::optional<timespec>(*timeout);
    const std::size_t room = *nr;
    *nr = static_cast<unsigned>(
        sluice::batch::collect_batch(Process::instance(), batch_idp, min_nr, {iocbp, room}, limit));
  });
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp) {
  bool was_busy = false;
  const CUfileError_t answer =
      guarded("cuFileBatchIOCancel", [&] { was_busy = sluice::batch::cancel_batch(Process::instance(), batch_idp); });
  // Where there is nothing to cancel, NVIDIA's library counts nothing.
  return was_busy ? counted(Operation::batch_cancel, answer) : answer;
}

void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp) {
  counted(Operation::batch_destroy,
          guarded("cuFileBatchIODestroy", [&] { sluice::batch::destroy_batch(Process::instance(), batch_idp); }));
}

}  // extern "C"
