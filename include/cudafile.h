/* SPDX-License-Identifier: Apache-2.0
 *
 * cudafile.h: the cuFile API for programs that speak the CUDA runtime API and like its spelling. Each call cuFileX of
 * <cufile.h> is here as cudaFileX, each type likewise: the same thing under another name, inline, with nothing to link
 * but libcufile. What a call does, what it returns and who may call it is written in <cufile.h>. Enumerators and
 * macros (CU_FILE_SUCCESS, CUFILE_READ, ...) keep their names, so both spellings may be mixed in one program.
 *
 * Where a call takes a CUstream, a cudaStream_t is the same type. The `cu_err` of a result is a code of the CUDA driver
 * API (CUresult), not of the runtime API. C11 and C++17; <cuda_runtime.h> is not needed.
 */
#ifndef CUDAFILE_H
#define CUDAFILE_H

#include "cufile.h"

typedef CUfileOpError cudaFileOpError;
typedef CUfileError_t cudaFileError_t;
typedef CUfileDriverStatusFlags_t cudaFileDriverStatusFlags_t;
typedef CUfileDriverControlFlags_t cudaFileDriverControlFlags_t;
typedef CUfileFeatureFlags_t cudaFileFeatureFlags_t;
typedef CUfileDrvProps_t cudaFileDrvProps_t;
typedef CUfileP2PFlags_t cudaFileP2PFlags_t;
typedef CUfileHandle_t cudaFileHandle_t;
typedef CUfileFileHandleType cudaFileFileHandleType;
typedef cufileRDMAInfo_t cudaFileRDMAInfo_t;
typedef CUfileFSOps_t cudaFileFSOps_t;
typedef CUfileDescr_t cudaFileDescr_t;
typedef CUfileIOVec_t cudaFileIOVec_t;
typedef CUfileBatchHandle_t cudaFileBatchHandle_t;
typedef CUfileOpcode_t cudaFileOpcode_t;
typedef CUfileBatchMode_t cudaFileBatchMode_t;
typedef CUfileStatus_t cudaFileStatus_t;
typedef CUfileIOParams_t cudaFileIOParams_t;
typedef CUfileIOEvents_t cudaFileIOEvents_t;
typedef CUFileSizeTConfigParameter_t cudaFileSizeTConfigParameter_t;
typedef CUFileBoolConfigParameter_t cudaFileBoolConfigParameter_t;
typedef CUFileStringConfigParameter_t cudaFileStringConfigParameter_t;
typedef CUFileArrayConfigParameter_t cudaFileArrayConfigParameter_t;
typedef CUfileOpCounter_t cudaFileOpCounter_t;
typedef CUfilePerGpuStats_t cudaFilePerGpuStats_t;
typedef CUfileStatsLevel1_t cudaFileStatsLevel1_t;
typedef CUfileStatsLevel2_t cudaFileStatsLevel2_t;
typedef CUfileStatsLevel3_t cudaFileStatsLevel3_t;

/* The sentence for the cuFile code of a result, never NULL. */
static inline const char* cudaFileGetErrorString(cudaFileError_t status) {
  return cufileop_status_error(status.err);
}

/* ------------------------------------------------------------------------------------------------------ driver --- */

static inline cudaFileError_t cudaFileDriverOpen(void) {
  return cuFileDriverOpen();
}

static inline cudaFileError_t cudaFileDriverClose(void) {
  return cuFileDriverClose_v2();
}

static inline long cudaFileUseCount(void) {
  return cuFileUseCount();
}

static inline cudaFileError_t cudaFileGetVersion(int* version) {
  return cuFileGetVersion(version);
}

static inline cudaFileError_t cudaFileDriverGetProperties(cudaFileDrvProps_t* props) {
  return cuFileDriverGetProperties(props);
}

static inline cudaFileError_t cudaFileDriverSetPollMode(bool poll, size_t poll_threshold_size) {
  return cuFileDriverSetPollMode(poll, poll_threshold_size);
}

static inline cudaFileError_t cudaFileDriverSetMaxDirectIOSize(size_t max_direct_io_size) {
  return cuFileDriverSetMaxDirectIOSize(max_direct_io_size);
}

static inline cudaFileError_t cudaFileDriverSetMaxCacheSize(size_t max_cache_size) {
  return cuFileDriverSetMaxCacheSize(max_cache_size);
}

static inline cudaFileError_t cudaFileDriverSetMaxPinnedMemSize(size_t max_pinned_size) {
  return cuFileDriverSetMaxPinnedMemSize(max_pinned_size);
}

static inline cudaFileError_t cudaFileGetBARSizeInKB(int gpuIndex, size_t* barSize) {
  return cuFileGetBARSizeInKB(gpuIndex, barSize);
}

static inline cudaFileError_t cudaFileDriverSetP2PFlags(cudaFileDriverStatusFlags_t status_flag,
                                                        cudaFileP2PFlags_t p2p_flags) {
  return cuFileDriverSetP2PFlags(status_flag, p2p_flags);
}

static inline cudaFileError_t cudaFileDriverGetP2PFlags(cudaFileDriverStatusFlags_t status_flag,
                                                        cudaFileP2PFlags_t* p2p_flags) {
  return cuFileDriverGetP2PFlags(status_flag, p2p_flags);
}

static inline cudaFileError_t cudaFileExportPCIeTopology(const char* filename) {
  return cuFileExportPCIeTopology(filename);
}

/* ------------------------------------------------------------------------------------------- files and buffers --- */

static inline cudaFileError_t cudaFileHandleRegister(cudaFileHandle_t* fh, cudaFileDescr_t* descr) {
  return cuFileHandleRegister(fh, descr);
}

static inline void cudaFileHandleDeregister(cudaFileHandle_t fh) {
  cuFileHandleDeregister(fh);
}

static inline cudaFileError_t cudaFileBufRegister(const void* bufPtr_base, size_t length, int flags) {
  return cuFileBufRegister(bufPtr_base, length, flags);
}

static inline cudaFileError_t cudaFileBufDeregister(const void* bufPtr_base) {
  return cuFileBufDeregister(bufPtr_base);
}

/* --------------------------------------------------------------------------------------------------- transfers --- */

static inline ssize_t cudaFileRead(cudaFileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset,
                                   off_t bufPtr_offset) {
  return cuFileRead(fh, bufPtr_base, size, file_offset, bufPtr_offset);
}

static inline ssize_t cudaFileWrite(cudaFileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset,
                                    off_t bufPtr_offset) {
  return cuFileWrite(fh, bufPtr_base, size, file_offset, bufPtr_offset);
}

static inline ssize_t cudaFileReadv(cudaFileHandle_t fh, const cudaFileIOVec_t* iov, size_t iovcnt, off_t file_offset,
                                    unsigned flags) {
  return cuFileReadv(fh, iov, iovcnt, file_offset, flags);
}

static inline ssize_t cudaFileWritev(cudaFileHandle_t fh, const cudaFileIOVec_t* iov, size_t iovcnt, off_t file_offset,
                                     unsigned flags) {
  return cuFileWritev(fh, iov, iovcnt, file_offset, flags);
}

/* ----------------------------------------------------------------------------------------------------- batches --- */

static inline cudaFileError_t cudaFileBatchIOSetUp(cudaFileBatchHandle_t* batch_idp, unsigned nr) {
  return cuFileBatchIOSetUp(batch_idp, nr);
}

static inline cudaFileError_t cudaFileBatchIOSubmit(cudaFileBatchHandle_t batch_idp, unsigned nr,
                                                    cudaFileIOParams_t* iocbp, unsigned int flags) {
  return cuFileBatchIOSubmit(batch_idp, nr, iocbp, flags);
}

static inline cudaFileError_t cudaFileBatchIOGetStatus(cudaFileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                                       cudaFileIOEvents_t* iocbp, struct timespec* timeout) {
  return cuFileBatchIOGetStatus(batch_idp, min_nr, nr, iocbp, timeout);
}

static inline cudaFileError_t cudaFileBatchIOCancel(cudaFileBatchHandle_t batch_idp) {
  return cuFileBatchIOCancel(batch_idp);
}

static inline void cudaFileBatchIODestroy(cudaFileBatchHandle_t batch_idp) {
  cuFileBatchIODestroy(batch_idp);
}

/* ----------------------------------------------------------------------------------------------------- streams --- */

static inline cudaFileError_t cudaFileReadAsync(cudaFileHandle_t fh, void* bufPtr_base, size_t* size_p,
                                                off_t* file_offset_p, off_t* bufPtr_offset_p, ssize_t* bytes_read_p,
                                                CUstream stream) {
  return cuFileReadAsync(fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_read_p, stream);
}

static inline cudaFileError_t cudaFileWriteAsync(cudaFileHandle_t fh, void* bufPtr_base, size_t* size_p,
                                                 off_t* file_offset_p, off_t* bufPtr_offset_p, ssize_t* bytes_written_p,
                                                 CUstream stream) {
  return cuFileWriteAsync(fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_written_p, stream);
}

static inline cudaFileError_t cudaFileStreamRegister(CUstream stream, unsigned flags) {
  return cuFileStreamRegister(stream, flags);
}

static inline cudaFileError_t cudaFileStreamDeregister(CUstream stream) {
  return cuFileStreamDeregister(stream);
}

/* ----------------------------------------------------------------------------------------------- configuration --- */

static inline cudaFileError_t cudaFileGetParameterSizeT(cudaFileSizeTConfigParameter_t param, size_t* value) {
  return cuFileGetParameterSizeT(param, value);
}

static inline cudaFileError_t cudaFileGetParameterBool(cudaFileBoolConfigParameter_t param, bool* value) {
  return cuFileGetParameterBool(param, value);
}

static inline cudaFileError_t cudaFileGetParameterString(cudaFileStringConfigParameter_t param, char* desc_str,
                                                         int len) {
  return cuFileGetParameterString(param, desc_str, len);
}

static inline cudaFileError_t cudaFileGetParameterMinMaxValue(cudaFileSizeTConfigParameter_t param, size_t* min_value,
                                                              size_t* max_value) {
  return cuFileGetParameterMinMaxValue(param, min_value, max_value);
}

static inline cudaFileError_t cudaFileSetParameterSizeT(cudaFileSizeTConfigParameter_t param, size_t value) {
  return cuFileSetParameterSizeT(param, value);
}

static inline cudaFileError_t cudaFileSetParameterBool(cudaFileBoolConfigParameter_t param, bool value) {
  return cuFileSetParameterBool(param, value);
}

static inline cudaFileError_t cudaFileSetParameterString(cudaFileStringConfigParameter_t param, const char* desc_str) {
  return cuFileSetParameterString(param, desc_str);
}

static inline cudaFileError_t cudaFileSetParameterPosixPoolSlabArray(const size_t* size_values,
                                                                     const size_t* count_values, int len) {
  return cuFileSetParameterPosixPoolSlabArray(size_values, count_values, len);
}

static inline cudaFileError_t cudaFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values,
                                                                     int len) {
  return cuFileGetParameterPosixPoolSlabArray(size_values, count_values, len);
}

static inline cudaFileError_t cudaFileSetParameterGpuBounceBufferSlabArray(const size_t* size_values,
                                                                           const size_t* count_values, int len) {
  return cuFileSetParameterGpuBounceBufferSlabArray(size_values, count_values, len);
}

static inline cudaFileError_t cudaFileGetParameterGpuBounceBufferSlabArray(size_t* size_values, size_t* count_values,
                                                                           int len) {
  return cuFileGetParameterGpuBounceBufferSlabArray(size_values, count_values, len);
}

/* -------------------------------------------------------------------------------------------------- statistics --- */

static inline cudaFileError_t cudaFileSetStatsLevel(int level) {
  return cuFileSetStatsLevel(level);
}

static inline cudaFileError_t cudaFileGetStatsLevel(int* level) {
  return cuFileGetStatsLevel(level);
}

static inline cudaFileError_t cudaFileStatsStart(void) {
  return cuFileStatsStart();
}

static inline cudaFileError_t cudaFileStatsStop(void) {
  return cuFileStatsStop();
}

static inline cudaFileError_t cudaFileStatsReset(void) {
  return cuFileStatsReset();
}

static inline cudaFileError_t cudaFileGetStatsL1(cudaFileStatsLevel1_t* stats) {
  return cuFileGetStatsL1(stats);
}

static inline cudaFileError_t cudaFileGetStatsL2(cudaFileStatsLevel2_t* stats) {
  return cuFileGetStatsL2(stats);
}

static inline cudaFileError_t cudaFileGetStatsL3(cudaFileStatsLevel3_t* stats) {
  return cuFileGetStatsL3(stats);
}

#endif /* CUDAFILE_H */
