// SPDX-License-Identifier: Apache-2.0
// A libcufile, whichever it is: the entry points that the player calls, found by name. What a library lacks is null.
// Enumerations are passed as the integers that they are, since scripts hold values that no enumeration has.
#pragma once

#include <string>

#ifndef CUFILE_NO_CLOSE_V2_RENAME
#define CUFILE_NO_CLOSE_V2_RENAME
#endif
#include "cufile.h"

namespace sluice::differential {

using Error = CUfileError_t;

// member, symbol, result, parameters
#define SLUICE_CUFILE_ENTRIES(ENTRY)                                                                              \
  ENTRY(driver_open, "cuFileDriverOpen", Error, ())                                                               \
  ENTRY(driver_close, "cuFileDriverClose", Error, ())                                                             \
  ENTRY(driver_close_v2, "cuFileDriverClose_v2", Error, ())                                                       \
  ENTRY(use_count, "cuFileUseCount", long, ())                                                                    \
  ENTRY(version, "cuFileGetVersion", Error, (int*))                                                               \
  ENTRY(properties, "cuFileDriverGetProperties", Error, (void*))                                                  \
  ENTRY(set_poll_mode, "cuFileDriverSetPollMode", Error, (bool, std::size_t))                                     \
  ENTRY(set_max_direct, "cuFileDriverSetMaxDirectIOSize", Error, (std::size_t))                                   \
  ENTRY(set_max_cache, "cuFileDriverSetMaxCacheSize", Error, (std::size_t))                                       \
  ENTRY(set_max_pinned, "cuFileDriverSetMaxPinnedMemSize", Error, (std::size_t))                                  \
  ENTRY(bar_size, "cuFileGetBARSizeInKB", Error, (int, std::size_t*))                                             \
  ENTRY(get_p2p, "cuFileDriverGetP2PFlags", Error, (int, int*))                                                   \
  ENTRY(set_p2p, "cuFileDriverSetP2PFlags", Error, (int, int))                                                    \
  ENTRY(get_size, "cuFileGetParameterSizeT", Error, (int, std::size_t*))                                          \
  ENTRY(set_size, "cuFileSetParameterSizeT", Error, (int, std::size_t))                                           \
  ENTRY(get_bool, "cuFileGetParameterBool", Error, (int, bool*))                                                  \
  ENTRY(set_bool, "cuFileSetParameterBool", Error, (int, bool))                                                   \
  ENTRY(get_text, "cuFileGetParameterString", Error, (int, char*, int))                                           \
  ENTRY(set_text, "cuFileSetParameterString", Error, (int, const char*))                                          \
  ENTRY(min_max, "cuFileGetParameterMinMaxValue", Error, (int, std::size_t*, std::size_t*))                       \
  ENTRY(set_slabs, "cuFileSetParameterPosixPoolSlabArray", Error, (const std::size_t*, const std::size_t*, int))  \
  ENTRY(get_slabs, "cuFileGetParameterPosixPoolSlabArray", Error, (std::size_t*, std::size_t*, int))              \
  ENTRY(set_gpu_slabs, "cuFileSetParameterGpuBounceBufferSlabArray", Error,                                       \
        (const std::size_t*, const std::size_t*, int))                                                            \
  ENTRY(get_gpu_slabs, "cuFileGetParameterGpuBounceBufferSlabArray", Error, (std::size_t*, std::size_t*, int))    \
  ENTRY(handle_register, "cuFileHandleRegister", Error, (void**, CUfileDescr_t*))                                 \
  ENTRY(handle_deregister, "cuFileHandleDeregister", void, (void*))                                               \
  ENTRY(buffer_register, "cuFileBufRegister", Error, (const void*, std::size_t, int))                             \
  ENTRY(buffer_deregister, "cuFileBufDeregister", Error, (const void*))                                           \
  ENTRY(read, "cuFileRead", ssize_t, (void*, void*, std::size_t, off_t, off_t))                                   \
  ENTRY(write, "cuFileWrite", ssize_t, (void*, void*, std::size_t, off_t, off_t))                                 \
  ENTRY(readv, "cuFileReadv", ssize_t, (void*, const CUfileIOVec_t*, std::size_t, off_t, unsigned))               \
  ENTRY(writev, "cuFileWritev", ssize_t, (void*, const CUfileIOVec_t*, std::size_t, off_t, unsigned))             \
  ENTRY(batch_set_up, "cuFileBatchIOSetUp", Error, (void**, unsigned))                                            \
  ENTRY(batch_submit, "cuFileBatchIOSubmit", Error, (void*, unsigned, CUfileIOParams_t*, unsigned))               \
  ENTRY(batch_status, "cuFileBatchIOGetStatus", Error,                                                            \
        (void*, unsigned, unsigned*, CUfileIOEvents_t*, struct timespec*))                                        \
  ENTRY(batch_cancel, "cuFileBatchIOCancel", Error, (void*))                                                      \
  ENTRY(batch_destroy, "cuFileBatchIODestroy", void, (void*))                                                     \
  ENTRY(stream_register, "cuFileStreamRegister", Error, (CUstream, unsigned))                                     \
  ENTRY(stream_deregister, "cuFileStreamDeregister", Error, (CUstream))                                           \
  ENTRY(read_async, "cuFileReadAsync", Error, (void*, void*, std::size_t*, off_t*, off_t*, ssize_t*, CUstream))   \
  ENTRY(write_async, "cuFileWriteAsync", Error, (void*, void*, std::size_t*, off_t*, off_t*, ssize_t*, CUstream)) \
  ENTRY(get_level, "cuFileGetStatsLevel", Error, (int*))                                                          \
  ENTRY(set_level, "cuFileSetStatsLevel", Error, (int))                                                           \
  ENTRY(stats_start, "cuFileStatsStart", Error, ())                                                               \
  ENTRY(stats_stop, "cuFileStatsStop", Error, ())                                                                 \
  ENTRY(stats_reset, "cuFileStatsReset", Error, ())                                                               \
  ENTRY(stats_1, "cuFileGetStatsL1", Error, (void*))                                                              \
  ENTRY(stats_2, "cuFileGetStatsL2", Error, (void*))                                                              \
  ENTRY(stats_3, "cuFileGetStatsL3", Error, (void*))

struct Library {
#define SLUICE_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  SLUICE_CUFILE_ENTRIES(SLUICE_MEMBER)
#undef SLUICE_MEMBER
};

// Loads the library at `path` as it is. Ends the program where that fails.
Library load_library(const std::string& path);

}  // namespace sluice::differential
