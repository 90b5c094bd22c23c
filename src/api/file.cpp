// SPDX-License-Identifier: Apache-2.0
// cuFileHandleRegister, cuFileHandleDeregister.
#include "api/funnel.h"
#include "base/foreign_enum.h"
#include "observe/statistics.h"
#include "process/process.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::observe::Operation;
using sluice::process::Process;

extern "C" {

CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr) {
  const CUfileError_t answer = guarded("cuFileHandleRegister", [&] {
    Process::instance().session_or_open();  // also where the arguments are wrong, as programs may have come to rely on
    if (fh == nullptr || descr == nullptr)
      throw Failure(CU_FILE_INVALID_VALUE, "handle or descriptor is a null pointer");
    const int type = sluice::base::number_of(descr->type);
    const bool own_operations = type == CU_FILE_HANDLE_TYPE_USERSPACE_FS && descr->fs_ops != nullptr;
    if (type != CU_FILE_HANDLE_TYPE_OPAQUE_FD && !own_operations) {
      throw Failure(CU_FILE_IO_NOT_SUPPORTED,
                    "only files given by a descriptor can be registered: CU_FILE_HANDLE_TYPE_OPAQUE_FD, or "
                    "CU_FILE_HANDLE_TYPE_USERSPACE_FS with fs_ops");
    }
    *fh = Process::instance().registrations().register_file(descr->handle.fd, own_operations ? descr->fs_ops : nullptr);
  });
  sluice::observe::count(Operation::handle_register, answer.err == CU_FILE_SUCCESS);
  return answer;
}

void cuFileHandleDeregister(CUfileHandle_t fh) {
  const CUfileError_t answer = guarded("cuFileHandleDeregister", [&] { Process::instance().deregister_file(fh); });
  sluice::observe::count(Operation::handle_deregister, answer.err == CU_FILE_SUCCESS);
}

}  // extern "C"
