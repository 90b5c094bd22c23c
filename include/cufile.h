/* SPDX-License-Identifier: Apache-2.0
 *
 * cufile.h: the cuFile API, as Sluice's libcufile.so.0 answers it. Programs written for NVIDIA's cuFile compile
 * against this file unchanged, as C11 or C++17, with a CUDA toolkit (<cuda.h>) or without one.
 *
 * What holds for every call, unless its own comment says otherwise:
 *   threads   Any thread may call at any time, whether or not a CUDA context is current on it. The context that is
 *             current stays current. Calls about different files, buffers, streams or batches do not wait for
 *             each other.
 *   opening   A call that needs the driver opens it, so it may also return what cuFileDriverOpen returns.
 *   results   A CUfileError_t holds CU_FILE_SUCCESS or a cuFile code in `err`. `cu_err` has a meaning only with
 *             CU_FILE_CUDA_DRIVER_ERROR: it is then the CUDA driver's own code. Out parameters are written on success.
 *   transfers Calls that return ssize_t return the bytes moved, which may be fewer than asked at the end of the file
 *             or where a device fails midway, or -1 with the cause in errno: a system error number (below 5000) or a
 *             CUfileOpError (above). A count that is delivered through memory carries the cause itself, negated.
 *   sizes     "KiB" says that a number counts 1024 bytes; everything else counts bytes.
 *
 * Before including this file, a program may define
 *   CUFILE_NO_CUDA_H           to never include <cuda.h>: the two CUDA types needed are then declared here
 *   CUFILE_API_VERSION         to be compiled for another version than 1150 (1.15): 1190 has the longer statistics
 * of 1.19 CUFILE_NO_CLOSE_V2_RENAME  to keep cuFileDriverClose from being renamed to cuFileDriverClose_v2 (see there)
 */
/* The second macro guards NVIDIA's header: where a program meets both, the first stands for both. */
#if !defined(CUFILE_H) && !defined(__CUFILE_H_)
#define CUFILE_H
#define __CUFILE_H_

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

/* The layout that a program is compiled for. One of 1190 runs on a library that reports 1190:
 * CUFILE_VERSION_COMPAT=1190, or sluice.api_version; it asks cuFileGetVersion before it reads statistics, since the
 * version that is reported decides how much is written. Only the structures of the statistics differ; all else of 1.19
 * is here for both. */
#ifndef CUFILE_API_VERSION
#define CUFILE_API_VERSION 1150
#endif

#if !defined(CUFILE_NO_CUDA_H) && defined(__has_include)
#if __has_include(<cuda.h>)
#include <cuda.h>
#define CUFILE_HAS_CUDA_H 1
#endif
#endif
/* A <cuda.h> that the program included itself has declared them already; CUDA_VERSION tells. */
#if !defined(CUFILE_HAS_CUDA_H) && !defined(CUDA_VERSION)
typedef int CUresult;                 /* the CUDA driver's result code, 0 for success */
typedef struct CUstream_st* CUstream; /* a CUDA stream */
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ----------------------------------------------------------------------------------------------------- results --- */

#define CUFILEOP_BASE_ERR 5000 /* cuFile's codes lie above, system error numbers below */

/* cufileop_status_error() has a sentence for each. */
typedef enum CUfileOpError {
  CU_FILE_SUCCESS = 0,
  CU_FILE_DRIVER_NOT_INITIALIZED = CUFILEOP_BASE_ERR + 1,
  CU_FILE_DRIVER_INVALID_PROPS = CUFILEOP_BASE_ERR + 2,
  CU_FILE_DRIVER_UNSUPPORTED_LIMIT = CUFILEOP_BASE_ERR + 3,
  CU_FILE_DRIVER_VERSION_MISMATCH = CUFILEOP_BASE_ERR + 4,
  CU_FILE_DRIVER_VERSION_READ_ERROR = CUFILEOP_BASE_ERR + 5,
  CU_FILE_DRIVER_CLOSING = CUFILEOP_BASE_ERR + 6,
  CU_FILE_PLATFORM_NOT_SUPPORTED = CUFILEOP_BASE_ERR + 7,
  CU_FILE_IO_NOT_SUPPORTED = CUFILEOP_BASE_ERR + 8,
  CU_FILE_DEVICE_NOT_SUPPORTED = CUFILEOP_BASE_ERR + 9,
  CU_FILE_NVFS_DRIVER_ERROR = CUFILEOP_BASE_ERR + 10,
  CU_FILE_CUDA_DRIVER_ERROR = CUFILEOP_BASE_ERR + 11,
  CU_FILE_CUDA_POINTER_INVALID = CUFILEOP_BASE_ERR + 12,
  CU_FILE_CUDA_MEMORY_TYPE_INVALID = CUFILEOP_BASE_ERR + 13,
  CU_FILE_CUDA_POINTER_RANGE_ERROR = CUFILEOP_BASE_ERR + 14,
  CU_FILE_CUDA_CONTEXT_MISMATCH = CUFILEOP_BASE_ERR + 15,
  CU_FILE_INVALID_MAPPING_SIZE = CUFILEOP_BASE_ERR + 16,
  CU_FILE_INVALID_MAPPING_RANGE = CUFILEOP_BASE_ERR + 17,
  CU_FILE_INVALID_FILE_TYPE = CUFILEOP_BASE_ERR + 18,
  CU_FILE_INVALID_FILE_OPEN_FLAG = CUFILEOP_BASE_ERR + 19,
  CU_FILE_DIO_NOT_SET = CUFILEOP_BASE_ERR + 20,
  CU_FILE_INVALID_VALUE = CUFILEOP_BASE_ERR + 22,
  CU_FILE_MEMORY_ALREADY_REGISTERED = CUFILEOP_BASE_ERR + 23,
  CU_FILE_MEMORY_NOT_REGISTERED = CUFILEOP_BASE_ERR + 24,
  CU_FILE_PERMISSION_DENIED = CUFILEOP_BASE_ERR + 25,
  CU_FILE_DRIVER_ALREADY_OPEN = CUFILEOP_BASE_ERR + 26,
  CU_FILE_HANDLE_NOT_REGISTERED = CUFILEOP_BASE_ERR + 27,
  CU_FILE_HANDLE_ALREADY_REGISTERED = CUFILEOP_BASE_ERR + 28,
  CU_FILE_DEVICE_NOT_FOUND = CUFILEOP_BASE_ERR + 29,
  CU_FILE_INTERNAL_ERROR = CUFILEOP_BASE_ERR + 30,
  CU_FILE_GETNEWFD_FAILED = CUFILEOP_BASE_ERR + 31,
  CU_FILE_NVFS_SETUP_ERROR = CUFILEOP_BASE_ERR + 33,
  CU_FILE_IO_DISABLED = CUFILEOP_BASE_ERR + 34,
  CU_FILE_BATCH_SUBMIT_FAILED = CUFILEOP_BASE_ERR + 35,
  CU_FILE_GPU_MEMORY_PINNING_FAILED = CUFILEOP_BASE_ERR + 36,
  CU_FILE_BATCH_FULL = CUFILEOP_BASE_ERR + 37,
  CU_FILE_ASYNC_NOT_SUPPORTED = CUFILEOP_BASE_ERR + 38,
  CU_FILE_INTERNAL_BATCH_SETUP_ERROR = CUFILEOP_BASE_ERR + 39,
  CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR = CUFILEOP_BASE_ERR + 40,
  CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR = CUFILEOP_BASE_ERR + 41,
  CU_FILE_INTERNAL_BATCH_CANCEL_ERROR = CUFILEOP_BASE_ERR + 42,
  CU_FILE_NOMEM_ERROR = CUFILEOP_BASE_ERR + 43,
  CU_FILE_IO_ERROR = CUFILEOP_BASE_ERR + 44,
  CU_FILE_INTERNAL_BUF_REGISTER_ERROR = CUFILEOP_BASE_ERR + 45,
  CU_FILE_HASH_OPR_ERROR = CUFILEOP_BASE_ERR + 46,
  CU_FILE_INVALID_CONTEXT_ERROR = CUFILEOP_BASE_ERR + 47,
  CU_FILE_NVFS_INTERNAL_DRIVER_ERROR = CUFILEOP_BASE_ERR + 48,
  CU_FILE_BATCH_NOCOMPAT_ERROR = CUFILEOP_BASE_ERR + 49,
  CU_FILE_IO_MAX_ERROR = CUFILEOP_BASE_ERR + 50 /* one past the last code */
} CUfileOpError;

typedef struct CUfileError {
  CUfileOpError err;
  CUresult cu_err; /* the CUDA driver's code, when err is CU_FILE_CUDA_DRIVER_ERROR */
} CUfileError_t;

/* One sentence for a cuFile code: constant text, never NULL; a value that is no code gives "unknown cuFile error". */
/* clang-format off */
static inline const char* cufileop_status_error(CUfileOpError status) {
  switch (status) {
    case CU_FILE_SUCCESS: return "success";
    case CU_FILE_DRIVER_NOT_INITIALIZED: return "the cuFile driver is not open";
    case CU_FILE_DRIVER_INVALID_PROPS: return "a driver property has an invalid value";
    case CU_FILE_DRIVER_UNSUPPORTED_LIMIT: return "the value lies outside the limits of this property";
    case CU_FILE_DRIVER_VERSION_MISMATCH: return "the kernel driver has a version that the library cannot use";
    case CU_FILE_DRIVER_VERSION_READ_ERROR: return "the version of the kernel driver could not be read";
    case CU_FILE_DRIVER_CLOSING: return "the cuFile driver is closing or was closed";
    case CU_FILE_PLATFORM_NOT_SUPPORTED: return "this platform is not supported";
    case CU_FILE_IO_NOT_SUPPORTED: return "I/O on this file is not supported";
    case CU_FILE_DEVICE_NOT_SUPPORTED: return "this GPU is not supported";
    case CU_FILE_NVFS_DRIVER_ERROR: return "the nvidia-fs kernel driver reported an error";
    case CU_FILE_CUDA_DRIVER_ERROR: return "a CUDA driver call failed";
    case CU_FILE_CUDA_POINTER_INVALID: return "the pointer is no valid device pointer";
    case CU_FILE_CUDA_MEMORY_TYPE_INVALID: return "this type of memory cannot be used here";
    case CU_FILE_CUDA_POINTER_RANGE_ERROR: return "the range reaches past the end of its allocation";
    case CU_FILE_CUDA_CONTEXT_MISMATCH: return "the memory belongs to another CUDA context";
    case CU_FILE_INVALID_MAPPING_SIZE: return "the access is larger than the mapped size";
    case CU_FILE_INVALID_MAPPING_RANGE: return "the access reaches past the registered range";
    case CU_FILE_INVALID_FILE_TYPE: return "the descriptor is neither a regular file nor a block device";
    case CU_FILE_INVALID_FILE_OPEN_FLAG: return "the file was opened with flags that do not allow this";
    case CU_FILE_DIO_NOT_SET: return "the file was opened without O_DIRECT";
    case CU_FILE_INVALID_VALUE: return "an argument has an invalid value";
    case CU_FILE_MEMORY_ALREADY_REGISTERED: return "the memory is registered already";
    case CU_FILE_MEMORY_NOT_REGISTERED: return "the memory is not registered";
    case CU_FILE_PERMISSION_DENIED: return "permission to use the driver or the file was denied";
    case CU_FILE_DRIVER_ALREADY_OPEN: return "this can only be done before the cuFile driver is open";
    case CU_FILE_HANDLE_NOT_REGISTERED: return "the file handle is not registered";
    case CU_FILE_HANDLE_ALREADY_REGISTERED: return "the file descriptor is registered already";
    case CU_FILE_DEVICE_NOT_FOUND: return "there is no such device";
    case CU_FILE_INTERNAL_ERROR: return "an internal error occurred";
    case CU_FILE_GETNEWFD_FAILED: return "the file could not be opened a second time";
    case CU_FILE_NVFS_SETUP_ERROR: return "the nvidia-fs kernel driver could not be set up";
    case CU_FILE_IO_DISABLED: return "the configuration disables cuFile for this file";
    case CU_FILE_BATCH_SUBMIT_FAILED: return "the batch could not be submitted";
    case CU_FILE_GPU_MEMORY_PINNING_FAILED: return "GPU memory could not be pinned";
    case CU_FILE_BATCH_FULL: return "the batch has no room for more entries";
    case CU_FILE_ASYNC_NOT_SUPPORTED: return "stream operations are not supported here";
    case CU_FILE_INTERNAL_BATCH_SETUP_ERROR: return "the batch could not be set up";
    case CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR: return "the entries of the batch were refused";
    case CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR: return "the status of the batch could not be read";
    case CU_FILE_INTERNAL_BATCH_CANCEL_ERROR: return "the batch could not be cancelled";
    case CU_FILE_NOMEM_ERROR: return "memory is exhausted";
    case CU_FILE_IO_ERROR: return "the transfer failed";
    case CU_FILE_INTERNAL_BUF_REGISTER_ERROR: return "the buffer could not be registered";
    case CU_FILE_HASH_OPR_ERROR: return "an internal table could not be changed";
    case CU_FILE_INVALID_CONTEXT_ERROR: return "the CUDA context is invalid or was destroyed";
    case CU_FILE_NVFS_INTERNAL_DRIVER_ERROR: return "the nvidia-fs kernel driver failed internally";
    case CU_FILE_BATCH_NOCOMPAT_ERROR: return "the batch needs compatibility mode, which is off";
    case CU_FILE_IO_MAX_ERROR: break;
  }
  return "unknown cuFile error";
}
/* clang-format on */

/* The cuFile code in a result or errno, which may carry it with either sign; CU_FILE_IO_MAX_ERROR if none is there. */
static inline CUfileOpError cufileop_code(long long result) {
  if (result < -CU_FILE_IO_MAX_ERROR || result > CU_FILE_IO_MAX_ERROR) return CU_FILE_IO_MAX_ERROR;
#ifdef __cplusplus
  return static_cast<CUfileOpError>(result < 0 ? -result : result);
#else
  return (CUfileOpError)(result < 0 ? -result : result);
#endif
}

/* Does it lie beyond the system's error numbers? */
static inline bool cufileop_is_code(long long result) {
  return result > CUFILEOP_BASE_ERR || result < -CUFILEOP_BASE_ERR;
}

/* The same as macros, as programs know them. */
#define IS_CUFILE_ERR(err) cufileop_is_code(err)
#define CUFILE_ERRSTR(err) cufileop_status_error(cufileop_code(err))
/* Of a CUfileError_t: did CUDA fail, and with which code? */
#define IS_CUDA_ERR(status) ((status).err == CU_FILE_CUDA_DRIVER_ERROR)
#define CU_FILE_CUDA_ERR(status) ((status).cu_err)

/* ------------------------------------------------------------------------------------------------------ driver --- */

/* File systems and block devices with a direct path: bit numbers in CUfileDrvProps_t.nvfs.dstatusflags. */
typedef enum CUfileDriverStatusFlags {
  CU_FILE_LUSTRE_SUPPORTED = 0,
  CU_FILE_WEKAFS_SUPPORTED = 1,
  CU_FILE_NFS_SUPPORTED = 2,
  CU_FILE_GPFS_SUPPORTED = 3,
  CU_FILE_NVME_SUPPORTED = 4,
  CU_FILE_NVMEOF_SUPPORTED = 5,
  CU_FILE_SCSI_SUPPORTED = 6,
  CU_FILE_SCALEFLUX_CSD_SUPPORTED = 7,
  CU_FILE_NVMESH_SUPPORTED = 8,
  CU_FILE_BEEGFS_SUPPORTED = 9, /* 10 is reserved */
  CU_FILE_NVME_P2P_SUPPORTED = 11,
  CU_FILE_SCATEFS_SUPPORTED = 12,
  CU_FILE_VIRTIOFS_SUPPORTED = 13,
  CU_FILE_MAX_TARGET_TYPES = 14 /* one past the last */
} CUfileDriverStatusFlags_t;

/* Bit numbers in CUfileDrvProps_t.nvfs.dcontrolflags. The last two are told where 1190 is reported. (That the fourth is
 * the number 4, not the mask, is read from its neighbours: no document says so.) */
typedef enum CUfileDriverControlFlags {
  CU_FILE_USE_POLL_MODE = 0,         /* small transfers are polled for */
  CU_FILE_ALLOW_COMPAT_MODE = 1,     /* the CPU may move the bytes where no direct path exists */
  CU_FILE_VANILLA_POSIX_IO_MODE = 2, /* the CPU moves all bytes: properties.vanilla_posix_io_mode */
  CU_FILE_POSIX_IO_MODE = 2,         /* the same, as it was named first */
  CU_FILE_FALLBACK_IO_MODE = 4       /* the CPU repeats what a direct path refused: properties.gds_fallback_io */
} CUfileDriverControlFlags_t;

/* Bit numbers in CUfileDrvProps_t.fflags. */
typedef enum CUfileFeatureFlags {
  CU_FILE_DYN_ROUTING_SUPPORTED = 0,
  CU_FILE_BATCH_IO_SUPPORTED = 1,
  CU_FILE_STREAMS_SUPPORTED = 2,
  CU_FILE_PARALLEL_IO_SUPPORTED = 3,
  CU_FILE_P2P_SUPPORTED = 4
} CUfileFeatureFlags_t;

typedef struct CUfileDrvProps {
  struct {
    unsigned int major_version; /* of nvidia-fs.ko; 0.0 where it is not loaded */
    unsigned int minor_version;
    size_t poll_thresh_size;    /* KiB */
    size_t max_direct_io_size;  /* KiB */
    unsigned int dstatusflags;  /* bits numbered by CUfileDriverStatusFlags_t */
    unsigned int dcontrolflags; /* bits numbered by CUfileDriverControlFlags_t */
  } nvfs;
  unsigned int fflags;                     /* bits numbered by CUfileFeatureFlags_t */
  unsigned int max_device_cache_size;      /* KiB of bounce buffers for each GPU */
  unsigned int per_buffer_cache_size;      /* 0: buffers have no caches of their own */
  unsigned int max_device_pinned_mem_size; /* KiB of device memory that may be registered */
  unsigned int max_batch_io_size;          /* entries in a batch */
  unsigned int max_batch_io_timeout_msecs;
} CUfileDrvProps_t;

/* Opens the driver: reads the configuration and takes hold of the GPUs. Optional, and counted: each open asks for one
 * close. Succeeds on a machine without CUDA, for host memory alone.
 * Errors: CU_FILE_DRIVER_NOT_INITIALIZED (the configuration forbids compatibility mode and there is no direct path),
 * CU_FILE_NOMEM_ERROR. */
CUfileError_t cuFileDriverOpen(void);

/* Takes one open back. The last one waits for transfers in flight and releases all handles, buffers and streams;
 * a later call may open the driver again. The program's end does the same.
 * Errors: CU_FILE_DRIVER_NOT_INITIALIZED (not open). Both names do the same: programs compiled since CUDA 11.8 ask for
 * _v2 by way of the macro, older ones for the first. */
CUfileError_t cuFileDriverClose(void);
CUfileError_t cuFileDriverClose_v2(void);
#ifndef CUFILE_NO_CLOSE_V2_RENAME
#define cuFileDriverClose cuFileDriverClose_v2
#endif

/* How many opens, explicit or implicit, have not been closed. Never fails, never opens. */
long cuFileUseCount(void);

/* The version of the API that the library answers for: 1000 * major + 10 * minor, 1150 for 1.15. The configuration may
 * choose another one (CUFILE_VERSION_COMPAT, sluice.api_version). Never opens.
 * Errors: CU_FILE_INVALID_VALUE (version is NULL). */
CUfileError_t cuFileGetVersion(int* version);

/* The driver's properties: those in force when it is open, else those that the configuration gives. Never opens.
 * Errors: CU_FILE_INVALID_VALUE (props is NULL). */
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props);

/* Change one property, in KiB; the last two open the driver. A change holds for transfers that start later.
 *   PollMode          whether transfers up to the threshold, a multiple of 4 above 0, are polled for
 *   MaxDirectIOSize   the largest piece in which a transfer goes to a direct path: a multiple of 64, 64 to 16384
 *   MaxCacheSize      bounce buffers for each GPU, a multiple of 4
 *   MaxPinnedMemSize  device memory that may be registered, a multiple of 4
 * Errors: CU_FILE_DRIVER_UNSUPPORTED_LIMIT (not such a value); CU_FILE_INVALID_VALUE (the last two: too large). */
CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size);
CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size);
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size);
CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size);

/* The size in KiB of the window (BAR1) through which the GPU with that index shows its memory; 0 where it is unknown.
 * Errors: CU_FILE_INVALID_VALUE (no such index, barSize is NULL). */
CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t* barSize);

/* Ways between a device and GPU memory. The enumerators are bit numbers; the two calls below pass masks of the
 * CU_FILE_P2P_FLAG_ macros in this type. */
typedef enum CUfileP2PFlags {
  CUFILE_P2PDMA = 0,
  CUFILE_NVFS = 1,
  CUFILE_DMABUF = 2,
  CUFILE_C2C = 3,
  CUFILE_NVIDIA_PEERMEM = 4,
  CUFILE_P2P_MASK_RANGE = 0x1f /* no flag: it makes each mask a value of the type, as C++ demands */
} CUfileP2PFlags_t;

#ifdef __cplusplus
#define CU_FILE_P2P_FLAG(way) (static_cast<CUfileP2PFlags_t>(1 << (way)))
#else
#define CU_FILE_P2P_FLAG(way) ((CUfileP2PFlags_t)(1 << (way)))
#endif
#define CU_FILE_P2P_FLAG_PCI_P2PDMA CU_FILE_P2P_FLAG(CUFILE_P2PDMA)
#define CU_FILE_P2P_FLAG_NVFS CU_FILE_P2P_FLAG(CUFILE_NVFS)
#define CU_FILE_P2P_FLAG_DMABUF CU_FILE_P2P_FLAG(CUFILE_DMABUF)
#define CU_FILE_P2P_FLAG_C2C CU_FILE_P2P_FLAG(CUFILE_C2C)

/* Chooses, or tells, the ways for one kind of file system or device (not CU_FILE_MAX_TARGET_TYPES). An empty mask
 * changes nothing; the last close forgets the choice. Neither call opens the driver.
 * Errors: CU_FILE_INVALID_VALUE (no such kind, a way that cannot be chosen on this machine, p2p_flags is NULL). */
CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t p2p_flags);
CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t* p2p_flags);

/* Writes what the library knows of the PCIe topology to a file, as JSON after a comment line, replacing the file.
 * Errors: CU_FILE_INVALID_VALUE (filename is NULL or "", or the file cannot be written). */
CUfileError_t cuFileExportPCIeTopology(const char* filename);

/* ------------------------------------------------------------------------------------------------------- files --- */

typedef void* CUfileHandle_t;
typedef struct sockaddr sockaddr_t;

/* What CUfileDescr_t describes. */
typedef enum CUfileFileHandleType {
  CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1,
  CU_FILE_HANDLE_TYPE_OPAQUE_WIN32 = 2, /* always refused */
  CU_FILE_HANDLE_TYPE_USERSPACE_FS = 3  /* a descriptor with operations of its own */
} CUfileFileHandleType;

/* Memory described for RDMA, as the operations below get it; NULL, or desc_str NULL, where there is no description. */
typedef struct cufileRDMAInfo {
  int version;
  int desc_len;
  const char* desc_str;
} cufileRDMAInfo_t;

#define CU_FILE_RDMA_REGISTER 1         /* cuFileBufRegister: make the memory known to the network adapters, too */
#define CU_FILE_RDMA_RELAXED_ORDERING 2 /* let the adapters write it in any order */

/* A file system's own operations; any of them may be NULL. `handle` is the CUfileHandle_t. They are called from the
 * library's threads or the caller's, for several transfers at once. Offsets are loff_t, the same type as off_t here.
 *   fs_type                the name of the file system; NULL: ask the kernel
 *   getRDMADeviceList      the addresses of the adapters to use, and how many; NULL: any
 *   getRDMADevicePriority  the rank of one of them for this transfer; -1: none
 *   read, write            move bytes and return the count, or -1 with errno; NULL: as for any other file */
typedef struct CUfileFSOps {
  const char* (*fs_type)(void* handle);
  int (*getRDMADeviceList)(void* handle, sockaddr_t** hostaddrs);
  int (*getRDMADevicePriority)(void* handle, char* buf, size_t size, off_t offset, sockaddr_t* hostaddr);
  ssize_t (*read)(void* handle, char* buf, size_t size, off_t offset, cufileRDMAInfo_t* rdma_info);
  ssize_t (*write)(void* handle, const char* buf, size_t size, off_t offset, cufileRDMAInfo_t* rdma_info);
} CUfileFSOps_t;

typedef struct CUfileDescr_t {
  CUfileFileHandleType type;
  union {
    int fd;       /* OPAQUE_FD, USERSPACE_FS */
    void* handle; /* OPAQUE_WIN32 */
  } handle;
  const CUfileFSOps_t* fs_ops; /* with CU_FILE_HANDLE_TYPE_USERSPACE_FS; it must outlive the handle */
} CUfileDescr_t;

/* Registers an open file: a regular file or block device, opened with or without O_DIRECT. The descriptor stays the
 * caller's, who closes it after deregistering the handle.
 * Errors: CU_FILE_INVALID_VALUE (NULL, or the descriptor is not open), CU_FILE_INVALID_FILE_TYPE (a directory, pipe,
 * socket, character device), CU_FILE_INVALID_FILE_OPEN_FLAG (O_APPEND, O_NONBLOCK and other flags that contradict
 * positioned transfers), CU_FILE_HANDLE_ALREADY_REGISTERED (this descriptor is), CU_FILE_IO_NOT_SUPPORTED (the type, or
 * no way but the CPU's, where that is forbidden), CU_FILE_HANDLE_NOT_REGISTERED (a pseudo file system),
 * CU_FILE_IO_DISABLED (the configuration denies it), CU_FILE_NOMEM_ERROR. *fh is left as it was then. */
CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr);

/* Takes a registration back, after the transfers in flight on it. A handle that is none is ignored. */
void cuFileHandleDeregister(CUfileHandle_t fh);

/* ----------------------------------------------------------------------------------------------------- buffers --- */

/* Registers memory, device or host, so that transfers to it need less work. Optional. The base may lie inside an
 * allocation, and registrations may overlap where their bases differ. Of an address range that was reserved, parts may
 * be mapped later. flags: 0 or CU_FILE_RDMA_ flags; others mean nothing.
 * Errors: CU_FILE_INVALID_VALUE (NULL, length 0), CU_FILE_CUDA_POINTER_RANGE_ERROR (longer than the allocation, or the
 * reservation), CU_FILE_MEMORY_ALREADY_REGISTERED (a registration has this base), CU_FILE_GPU_MEMORY_PINNING_FAILED,
 * CU_FILE_NOMEM_ERROR, CU_FILE_CUDA_DRIVER_ERROR. */
CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int flags);

/* Takes a registration back, after the transfers in flight on it.
 * Errors: CU_FILE_INVALID_VALUE (NULL), CU_FILE_MEMORY_NOT_REGISTERED (no registration has this base),
 * CU_FILE_DRIVER_CLOSING (the driver is not open: a close took it back). */
CUfileError_t cuFileBufDeregister(const void* bufPtr_base);

/* --------------------------------------------------------------------------------------------------- transfers --- */

/* Move bytes between a file and memory, and return when they are in place. The memory begins at bufPtr_base +
 * bufPtr_offset, which may be negative; it may be device, managed or host memory, registered or not; sizes and offsets
 * need no alignment.
 * Bytes behind the returned count stay untouched. A write past the end extends the file; it is durable after fsync.
 * errno: EINVAL (fh is no handle, bufPtr_base is NULL), EBADF (the descriptor was closed), the file's own (ENOSPC),
 * CU_FILE_HANDLE_NOT_REGISTERED (deregistered), CU_FILE_INVALID_VALUE (a negative file offset, too large an end),
 * CU_FILE_INVALID_FILE_OPEN_FLAG (reading what was opened for writing), CU_FILE_INVALID_MAPPING_RANGE (past the range
 * that bufPtr_base was registered with; before it: CU_FILE_INTERNAL_ERROR), EPERM, and EIO for most writes (no memory
 * there, past its allocation, writing a file opened for reading only, a size that no count tells). */
ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset);

typedef struct CUfileIOVec {
  void* base;
  size_t len;
} CUfileIOVec_t;

/* The same with the memory in several parts, in their order, for one contiguous range of the file: one transfer. Device
 * and host memory may be mixed, parts may be empty, and there may be any number of them. Where parts overlap, a read
 * leaves in common memory what one of them got. The count ends with the first byte that is missing, which may lie in
 * any part. flags: 0. errno: as above; EINVAL also for iov NULL, flags, and lengths whose sum is no ssize_t. iovcnt 0
 * moves nothing. */
ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags);
ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags);

/* ----------------------------------------------------------------------------------------------------- batches --- */

typedef void* CUfileBatchHandle_t;

typedef enum CUfileOpcode { CUFILE_READ = 0, CUFILE_WRITE = 1 } CUfileOpcode_t;
typedef enum cufileBatchMode { CUFILE_BATCH = 1 } CUfileBatchMode_t;

typedef enum CUFILEStatus_enum {
  CUFILE_WAITING = 0x01,  /* not submitted yet */
  CUFILE_PENDING = 0x02,  /* in flight */
  CUFILE_INVALID = 0x04,  /* refused */
  CUFILE_CANCELED = 0x08, /* cancelled before it was done */
  CUFILE_COMPLETE = 0x10, /* done */
  CUFILE_TIMEOUT = 0x20,
  CUFILE_FAILED = 0x40
} CUfileStatus_t;

typedef struct CUfileIOParams {
  CUfileBatchMode_t mode; /* CUFILE_BATCH */
  union {
    struct {
      void* devPtr_base; /* device or host memory */
      off_t file_offset;
      off_t devPtr_offset;
      size_t size;
    } batch;
  } u;
  CUfileHandle_t fh;
  CUfileOpcode_t opcode;
  void* cookie; /* the caller's, handed back in the event */
} CUfileIOParams_t;

typedef struct CUfileIOEvents {
  void* cookie;
  CUfileStatus_t status;
  size_t ret; /* the count; read as ssize_t, a negative one is the cause */
} CUfileIOEvents_t;

/* Makes a batch with room for nr entries in flight, 1 up to the configured io_batchsize; where 1180 or more is reported
 * and no io_batchsize is configured, up to 65535.
 * Errors: CU_FILE_INVALID_VALUE (batch_idp is NULL, nr out of range), CU_FILE_NOMEM_ERROR. */
CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr);

/* Starts nr transfers, in no particular order; reads, writes, files and kinds of memory may be mixed. All are started
 * or, on an error, none. iocbp may be reused at once. An entry of no bytes is
 * dropped: it has no event. flags: 0; others mean nothing.
 * Errors: CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR (no such batch, nr 0 or more than there is room for, a bad entry). */
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr, CUfileIOParams_t* iocbp,
                                  unsigned int flags);

/* Waits until min_nr transfers have ended, all that are in flight have, or the timeout (NULL: none) has passed, and
 * delivers each end once. *nr: the room in iocbp, then the number of events written.
 * Errors: CU_FILE_INVALID_VALUE (NULL, *nr 0 or below min_nr), CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR (no such
 * batch). */
CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout);

/* Cancels what can still be cancelled. Entries that were not delivered before are delivered no more: what was on its
 * way goes on to its end, and a cuFileBatchIOGetStatus that waits for as many returns then. A batch that is none is
 * ignored: always CU_FILE_SUCCESS. */
CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp);

/* Cancels, waits until no transfer touches memory, and frees the batch. A batch that is none is ignored. */
void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp);

/* ----------------------------------------------------------------------------------------------------- streams --- */

/* cuFileStreamRegister: what is known already at the call, and so is read then and not when the stream arrives. */
#define CU_FILE_STREAM_FIXED_BUF_OFFSET 1
#define CU_FILE_STREAM_FIXED_FILE_OFFSET 2
#define CU_FILE_STREAM_FIXED_FILE_SIZE 4
#define CU_FILE_STREAM_PAGE_ALIGNED_INPUTS 8 /* and all of them are multiples of 4096 */

/* Transfers in the order of a stream (NULL: the default stream): the call returns at once, the bytes move when the
 * stream gets there. Arguments behind pointers are read then, save those registered as fixed; *size_p at the call is
 * the upper bound. All of them live until the stream has passed. The result arrives in *bytes_read_p or
 * *bytes_written_p: the count, or the negated cause, as above but for -CU_FILE_INVALID_MAPPING_SIZE (past the range
 * that was registered) and -1 (a negative file offset that is not fixed, a file opened for reading only).
 * Errors: CU_FILE_INVALID_VALUE (a NULL pointer, no such handle, a size beyond any count; the count is -EINVAL then),
 * CU_FILE_ASYNC_NOT_SUPPORTED (the
 * configuration has no threads for streams, or the stream is being captured where that cannot be done),
 * CU_FILE_CUDA_DRIVER_ERROR. Nothing was enqueued then. */
CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                              off_t* bufPtr_offset_p, ssize_t* bytes_read_p, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                               off_t* bufPtr_offset_p, ssize_t* bytes_written_p, CUstream stream);

/* Prepares a stream, optionally; deregister it before destroying it. flags: CU_FILE_STREAM_ flags; others
 * mean nothing.
 * Errors: CU_FILE_INVALID_VALUE (registered already, or, to deregister, not registered). */
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags);
CUfileError_t cuFileStreamDeregister(CUstream stream);

/* ----------------------------------------------------------------------------------------------- configuration --- */

typedef enum CUFileSizeTConfigParameter {
  CUFILE_PARAM_PROFILE_STATS = 0, /* the level of statistics, 0..3 */
  CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH = 1,
  CUFILE_PARAM_EXECUTION_MAX_IO_THREADS = 2,
  CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB = 3,
  CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM = 4,
  CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB = 5,
  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB = 6,
  CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB = 7,
  CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB = 8,
  CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE = 9,
  CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB = 10,
  CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS = 11
} CUFileSizeTConfigParameter_t;

typedef enum CUFileBoolConfigParameter {
  CUFILE_PARAM_PROPERTIES_USE_POLL_MODE = 0,
  CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE = 1,
  CUFILE_PARAM_FORCE_COMPAT_MODE = 2,
  CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE = 3,
  CUFILE_PARAM_EXECUTION_PARALLEL_IO = 4,
  CUFILE_PARAM_PROFILE_NVTX = 5, /* ranges for profilers that name their library in NVTX_INJECTION64_PATH */
  CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY = 6,
  CUFILE_PARAM_USE_PCIP2PDMA = 7,
  CUFILE_PARAM_PREFER_IO_URING = 8,
  CUFILE_PARAM_FORCE_ODIRECT_MODE = 9,
  CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION = 10,
  CUFILE_PARAM_STREAM_MEMOPS_BYPASS = 11,
  CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE = 12, /* this and the next: known where 1190 is reported */
  CUFILE_PARAM_GDS_FALLBACK_IO = 13
} CUFileBoolConfigParameter_t;

typedef enum CUFileStringConfigParameter {
  CUFILE_PARAM_LOGGING_LEVEL = 0,
  CUFILE_PARAM_ENV_LOGFILE_PATH = 1, /* readable when CUFILE_LOGFILE_PATH is in the environment */
  CUFILE_PARAM_LOG_DIR = 2,
  CUFILE_PARAM_RDMA_TRANSPORT = 3 /* DC_V1 or EXT_RC_V1; known where 1190 is reported */
} CUFileStringConfigParameter_t;

typedef enum CUFileArrayConfigParameter {
  CUFILE_PARAM_POSIX_POOL_SLAB_SIZE_KB = 0,
  CUFILE_PARAM_POSIX_POOL_SLAB_COUNT = 1,
  CUFILE_PARAM_GPU_BOUNCE_BUFFER_SLAB_SIZE_KB = 2,
  CUFILE_PARAM_GPU_BOUNCE_BUFFER_SLAB_COUNT = 3
} CUFileArrayConfigParameter_t;

/* Read the configuration: what is in force when the driver is open, else what the calls below have set so far. What has
 * not been set is told as NVIDIA's library does: hardly anything has a value before the first open, and after a close
 * the built-in values are there, not those of the file. sluice_configuration() tells what an open would find. None of
 * these opens the driver. len counts the room for the text and its end.
 * Errors: CU_FILE_INVALID_VALUE (no such parameter, NULL, too little room; limits of the level of statistics). */
CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t* value);
CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value);
CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char* desc_str, int len);
CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t* min_value, size_t* max_value);

/* Change the configuration for the next open; they win over the environment and the file, and the last one wins.
 * Any value is taken. One that cannot be used, as it is out of range, no logging level or no directory, does not hold
 * once the driver is open: the log says so.
 * Errors: CU_FILE_DRIVER_ALREADY_OPEN, CU_FILE_INVALID_VALUE (no such parameter; a text that is NULL or empty). */
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value);
CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value);
CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char* desc_str);

/* The slabs that bounce buffers come from: for each size in KiB, how many. len: the number of sizes; to get them, the
 * number that was set. The first two concern host memory, the others device memory.
 * Errors: CU_FILE_INVALID_VALUE (NULL, len), and to set them CU_FILE_DRIVER_ALREADY_OPEN. */
CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* size_values, const size_t* count_values, int len);
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values, int len);
CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* size_values, const size_t* count_values,
                                                         int len);
CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* size_values, size_t* count_values, int len);

/* -------------------------------------------------------------------------------------------------- statistics --- */

#define CUFILE_GPU_UUID_LEN 16

typedef struct CUfileOpCounter {
  uint64_t ok;
  uint64_t err;
} CUfileOpCounter_t;

/* Level 1: totals. "avg" and rates are over the time since the statistics were started or reset. */
typedef struct CUfileStatsLevel1 {
  CUfileOpCounter_t read_ops, write_ops;
  CUfileOpCounter_t hdl_register_ops, hdl_deregister_ops;
  CUfileOpCounter_t buf_register_ops, buf_deregister_ops;
  uint64_t read_bytes, write_bytes;
  uint64_t read_bw_bytes_per_sec, write_bw_bytes_per_sec;
  uint64_t read_lat_avg_us, write_lat_avg_us;
  uint64_t read_ops_per_sec, write_ops_per_sec;
  uint64_t read_lat_sum_us, write_lat_sum_us;

  CUfileOpCounter_t batch_submit_ops, batch_complete_ops, batch_setup_ops, batch_cancel_ops, batch_destroy_ops;
  CUfileOpCounter_t batch_enqueued_ops, batch_posix_enqueued_ops;
  CUfileOpCounter_t batch_processed_ops, batch_posix_processed_ops;
  CUfileOpCounter_t batch_nvfs_submit_ops, batch_p2p_submit_ops, batch_aio_submit_ops, batch_iouring_submit_ops;
  CUfileOpCounter_t batch_mixed_io_submit_ops, batch_total_submit_ops;
  uint64_t batch_read_bytes, batch_write_bytes;
  uint64_t batch_read_bw_bytes, batch_write_bw_bytes;
  uint64_t batch_submit_lat_avg_us, batch_completion_lat_avg_us;
  uint64_t batch_submit_ops_per_sec, batch_complete_ops_per_sec;
  uint64_t batch_submit_lat_sum_us, batch_completion_lat_sum_us;
  uint64_t last_batch_read_bytes, last_batch_write_bytes;
#if CUFILE_API_VERSION >= 1190
  /* cuFileReadv and cuFileWritev, which then count here and not among the reads and writes above. */
  CUfileOpCounter_t readv_ops, writev_ops;
  uint64_t readv_bytes, writev_bytes;
  uint64_t readv_bw_bytes_per_sec, writev_bw_bytes_per_sec;
  uint64_t readv_lat_avg_us, writev_lat_avg_us;
  uint64_t readv_ops_per_sec, writev_ops_per_sec;
  uint64_t readv_lat_sum_us, writev_lat_sum_us;
#endif
} CUfileStatsLevel1_t;

/* Level 2: also how many transfers had which size. Bin 0: below 4 KiB; bin n: from 2^(n+1) KiB to below twice that. */
typedef struct CUfileStatsLevel2 {
  CUfileStatsLevel1_t basic;
  uint64_t read_size_kb_hist[32];
  uint64_t write_size_kb_hist[32];
} CUfileStatsLevel2_t;

/* What one GPU took part in; n_ fields count. */
typedef struct CUfilePerGpuStats {
  char uuid[CUFILE_GPU_UUID_LEN];
  uint64_t read_bytes, read_bw_bytes_per_sec, read_utilization, read_duration_us;
  uint64_t n_total_reads, n_p2p_reads, n_nvfs_reads, n_posix_reads, n_unaligned_reads, n_dr_reads;
  uint64_t n_sparse_regions, n_inline_regions, n_reads_err;
  uint64_t writes_bytes, write_bw_bytes_per_sec, write_utilization, write_duration_us;
  uint64_t n_total_writes, n_p2p_writes, n_nvfs_writes, n_posix_writes, n_unaligned_writes, n_dr_writes;
  uint64_t n_writes_err;
  uint64_t n_mmap, n_mmap_ok, n_mmap_err, n_mmap_free; /* buffer registrations */
  uint64_t reg_bytes;
} CUfilePerGpuStats_t;

/* Level 3: also each GPU. */
typedef struct CUfileStatsLevel3 {
  CUfileStatsLevel2_t detailed;
  uint32_t num_gpus;
  CUfilePerGpuStats_t per_gpu_stats[16];
} CUfileStatsLevel3_t;

/* The level, 0 (none) to 3; it wins over the configuration. Errors: CU_FILE_INVALID_VALUE (another level, NULL). */
CUfileError_t cuFileSetStatsLevel(int level);
CUfileError_t cuFileGetStatsLevel(int* level);

/* Start, stop and zero the statistics. Starting what runs and stopping what does not succeed; stopping keeps counters.
 * Errors: CU_FILE_DRIVER_NOT_INITIALIZED (not open: these do not open it), CU_FILE_INTERNAL_ERROR (level 0). */
CUfileError_t cuFileStatsStart(void);
CUfileError_t cuFileStatsStop(void);
CUfileError_t cuFileStatsReset(void);

/* Copy the counters: as many bytes as the structures have in the version that is reported (level 1: 512, and 624 from
 * 1190 on). Errors: CU_FILE_DRIVER_NOT_INITIALIZED, CU_FILE_INVALID_VALUE (NULL, the level is lower, or the
 * statistics were stopped or zeroed and not started again). */
CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats);
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats);
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* CUFILE_H */
