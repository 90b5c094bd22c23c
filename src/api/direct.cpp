// SPDX-License-Identifier: Apache-2.0
// cuFileDriver*P2PFlags, cuFileExportPCIeTopology: what the direct paths are told and what they see.
#include "api/funnel.h"
#include "base/foreign_enum.h"
#include "process/process.h"
#include "topology/export.h"
#include "topology/told.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::process::Process;

namespace {

std::size_t kind_of(const CUfileDriverStatusFlags_t& status_flag) {
  const int kind = sluice::base::number_of(status_flag);
  if (kind < 0 || kind >= CU_FILE_MAX_TARGET_TYPES) {
    throw Failure(CU_FILE_INVALID_VALUE, "no such kind of file system or device");
  }
  return static_cast<std::size_t>(kind);
}

}  // namespace

extern "C" {

CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t p2p_flags) {
  return guarded("cuFileDriverSetP2PFlags", [&] {
    const std::size_t kind = kind_of(status_flag);
    const auto mask = static_cast<unsigned>(sluice::base::number_of(p2p_flags));
    if (mask == 0) return;
    if (mask != CU_FILE_P2P_FLAG_PCI_P2PDMA) {
      throw Failure(CU_FILE_INVALID_VALUE,
                    "only PCI P2PDMA can be chosen on this platform; the other ways are reported");
    }
    Process::instance().set_p2p_mask(kind, mask);
  });
}

CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t* p2p_flags) {
  return guarded("cuFileDriverGetP2PFlags", [&] {
    const std::size_t kind = kind_of(status_flag);
    if (p2p_flags == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "the pointer for the flags is null");
    *p2p_flags = static_cast<CUfileP2PFlags_t>(Process::instance().p2p_mask(kind));
  });
}

CUfileError_t cuFileExportPCIeTopology(const char* filename) {
  return guarded("cuFileExportPCIeTopology", [&] {
    if (filename == nullptr || *filename == '\0') throw Failure(CU_FILE_INVALID_VALUE, "no file name is given");
    const auto machine =
        sluice::topology::read_machine(sluice::facts::Root{}, {.addresses = sluice::topology::own_addresses()});
    sluice::topology::write_file(filename, sluice::topology::to_json(machine));
  });
}

}  // extern "C"
