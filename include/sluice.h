/* SPDX-License-Identifier: Apache-2.0
 *
 * sluice.h: what Sluice offers beyond the cuFile API.
 *
 * A program that only uses <cufile.h> needs nothing from here. Include this to ask which way the bytes of a file
 * go and why, to read the counters that always run, and to learn the library's own version. Plain C, like cufile.h;
 * every call may be made from any thread at any time.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "cufile.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* How bytes travel between storage and the caller's memory. A closed set: new ways are added at the end. */
typedef enum sluice_path {
  SLUICE_PATH_POSIX = 0,     /* read and written by the CPU; device memory through pinned host memory */
  SLUICE_PATH_P2PDMA = 1,    /* the drive reads and writes device memory, by the kernel's PCI P2PDMA */
  SLUICE_PATH_NVFS = 2,      /* the same through nvidia-fs.ko */
  SLUICE_PATH_USERSPACE = 3, /* the file system's own operations, given with the handle */
  SLUICE_PATH_RDMA = 4,      /* the same, which have a server move the bytes by RDMA */
  SLUICE_PATH_COUNT = 5
} sluice_path_t;

/* Why that way was taken. A closed set, new ones at the end; each reason has a name, a sentence and a remedy
 * (docs/reference/paths.md). */
typedef enum sluice_reason {
  SLUICE_REASON_HOST_MEMORY = 0,             /* the buffer is host memory: there is no device to bypass the CPU for */
  SLUICE_REASON_PLAIN_MODE = 1,              /* SLUICE_MODE=plain asks for the simplest way */
  SLUICE_REASON_FORCED_BY_CONFIGURATION = 2, /* force_compat_mode asks for the CPU's way */
  SLUICE_REASON_MANAGED_MEMORY = 3,          /* managed memory moves between host and device: no fixed DMA address */
  SLUICE_REASON_SOFT_GPU = 4,                /* the soft GPU, with memory that is host memory in disguise */
  SLUICE_REASON_MEMORY_FILE_SYSTEM = 5,      /* tmpfs, ramfs, memfd: no storage device below */
  SLUICE_REASON_STACKED_FILE_SYSTEM = 6,     /* overlayfs and the like hand out another file system's files */
  SLUICE_REASON_FUSE_FILE_SYSTEM = 7,        /* a process serves this file system */
  SLUICE_REASON_NETWORK_FILE_SYSTEM = 8, /* the bytes arrive by a network file system that has no direct path here */
  SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM = 9, /* btrfs and others that copy or check the bytes themselves */
  SLUICE_REASON_UNSUPPORTED_DEVICE = 10,     /* no drive is below: memory, a process or a network block device */
  SLUICE_REASON_DIRECT_PATH_OFF = 11,        /* use_pci_p2pdma is off, and so is sluice.nvfs */
  SLUICE_REASON_KERNEL_WITHOUT_P2PDMA = 12,  /* the running kernel has no PCI P2PDMA */
  SLUICE_REASON_NO_DIRECT_PROVIDER = 13,     /* nothing here hands this device's memory to the kernel */
  SLUICE_REASON_CALLER_OPERATIONS = 14,      /* the handle came with read and write operations of its own */
  SLUICE_REASON_BUFFERED_DESCRIPTOR = 15,    /* the file was opened without O_DIRECT */
  SLUICE_REASON_PAGES_REFUSED = 16,          /* the device's queue takes no pages of device memory (EREMOTEIO) */
  SLUICE_REASON_UNREACHABLE_DEVICE = 17,     /* the kernel knows no way between drive and device (EINVAL) */
  SLUICE_REASON_PINNING_REFUSED = 18,        /* the kernel cannot pin this memory (EFAULT) */
  SLUICE_REASON_DATA_LOST = 19,              /* a trial reported success and its bytes were not there */
  SLUICE_REASON_NOT_PROVEN = 20,             /* no trial of this drive and device could be made so far */
  SLUICE_REASON_RAGGED_REQUEST = 21,         /* too little of the request is whole blocks in step with the memory */
  SLUICE_REASON_DIRECT = 22,                 /* a verified read has shown that drive and device reach each other */
  SLUICE_REASON_STOPPED_IN_FLIGHT = 23,      /* the drive's transfer stopped in mid-way; this is the rest of it */
  SLUICE_REASON_NVFS_NOT_LOADED = 24,        /* sluice.nvfs is on, and nvidia-fs.ko is not loaded */
  SLUICE_REASON_NVFS_TOO_OLD = 25,           /* nvidia-fs.ko before 2.12 */
  SLUICE_REASON_NVFS_NO_NODE = 26,           /* none of its nodes can be opened here */
  SLUICE_REASON_NVFS_NO_HOOKS = 27,          /* it does not list the driver below this file */
  SLUICE_REASON_NVFS_FOREIGN_HOOKS = 28,     /* another module than the one that drives this drive has the hooks */
  SLUICE_REASON_NVFS_UNREGISTERED = 29,      /* the memory is in no registered buffer: nvidia-fs.ko maps those only */
  SLUICE_REASON_NVFS_CALL_REFUSED = 30,      /* nvidia-fs.ko refused the trial read, or a transfer of whole blocks */
  SLUICE_REASON_NVFS_BYTES_ELSEWHERE = 31,   /* a read was reported as done, and its bytes were not in device memory */
  SLUICE_REASON_NVFS_WRITE_LOST = 32,        /* a write was reported as done, and other bytes were in the file */
  SLUICE_REASON_NVFS_WRITES_NOT_PROVEN = 33, /* no trial write could be made: there is no place for a file of ours */
  SLUICE_REASON_SERVED_BY_RDMA = 34,         /* the file system's server moves the bytes by RDMA */
  SLUICE_REASON_RDMA_NO_LIBRARY = 35,        /* RDMA is wanted, and this process has no libcufile_rdma.so.1 */
  SLUICE_REASON_RDMA_NOT_CONNECTED = 36,     /* no link to a server is connected on a port that may be used */
  SLUICE_REASON_RDMA_UNREGISTERED = 37,      /* the memory is in no registered buffer: adapters know those only */
  SLUICE_REASON_RDMA_NOT_TRIED = 38,         /* no adapter has been asked to register this memory so far */
  SLUICE_REASON_RDMA_NO_KEY = 39,            /* no adapter registers this memory */
  SLUICE_REASON_RDMA_REVOKED = 40,           /* an operation did not answer in time, and the buffer's key was revoked */
  SLUICE_REASON_RDMA_REFUSED = 41,           /* the file system does not do this by RDMA, or names no port in time */
  SLUICE_REASON_RDMA_WRITES_OFF = 42,        /* gds_rdma_write_support is off */
  SLUICE_REASON_COUNT = 43
} sluice_reason_t;

/* One answer of sluice_explain(). Strings are the library's own and live as long as the process. */
typedef struct sluice_explanation {
  sluice_path_t path;
  sluice_reason_t reason;
  const char* path_name;   /* "posix" */
  const char* reason_name; /* "memory_file_system" */
  const char* sentence;    /* why, in one sentence */
  const char* remedy;      /* what would change it, in one sentence */
  char detail[256];        /* the facts it rests on: file system, mount, block device and its driver; "..." where cut */
} sluice_explanation_t;

/* What one path has carried for one reason since the process started. */
typedef struct sluice_path_counter {
  sluice_path_t path;
  sluice_reason_t reason;
  uint64_t reads;
  uint64_t read_bytes;
  uint64_t writes;
  uint64_t written_bytes;
  uint64_t errors;
} sluice_path_counter_t;

/* Who has carried bytes between host memory and devices, in requests. */
typedef struct sluice_carrier_counts {
  uint64_t kernel;            /* fetched from staging memory by the gather kernel */
  uint64_t kernel_called_off; /* launches taken back because the device was too busy to begin them */
  uint64_t copy_engine;       /* through staging memory by the copy engine, reading or writing at the same time */
  uint64_t slab;              /* small ones, and parts: one copy after the other */
  uint64_t rings;             /* pieces of staging memory that there are by now, 4 MiB and two streams each */
  uint64_t scatter_kernel;    /* reads of batches, fetched from staging memory together, by the scatter kernel */
  uint64_t many_copies;       /* entries of batches, by the copy engine, many with one call of the driver */
  uint64_t resident_kernel;   /* small reads, fetched by a kernel that stays for the next (sluice.small_reads) */
  uint64_t small_together;    /* 0: small reads of several threads are no longer fetched with one launch */
  uint64_t stations;          /* pieces of staging memory for streams that there are by now, 1.3 MiB each */
  uint64_t cpu_window;        /* small reads into registered memory, by the CPU's own stores (sluice.small_reads) */
  uint64_t coherent;          /* file and device memory that the CPU shares, in place (sluice.coherent) */
} sluice_carrier_counts_t;

/* Who gave a setting its value, in rising order of authority; what was measured has the least. */
typedef enum sluice_origin {
  SLUICE_ORIGIN_BUILT_IN = 0,
  SLUICE_ORIGIN_FILE = 1,        /* cufile.json */
  SLUICE_ORIGIN_ENVIRONMENT = 2, /* a variable */
  SLUICE_ORIGIN_PARAMETER = 3,   /* cuFileSetParameter*, cuFileDriverSet* */
  SLUICE_ORIGIN_MEASURED = 4     /* the profile that sluice.profile names, where the user gave none */
} sluice_origin_t;

/* What comes of a setting in this version. */
typedef enum sluice_effect {
  SLUICE_EFFECT_OBEYED = 0,   /* it changes what the library does */
  SLUICE_EFFECT_REPORTED = 1, /* parameters and properties tell it; no transfer goes another way for it */
  SLUICE_EFFECT_ACCEPTED = 2  /* it is read and checked, and changes nothing */
} sluice_effect_t;

/* One key of the configuration (docs/reference/configuration.md). */
typedef struct sluice_setting {
  const char* key;      /* "properties.max_direct_io_size_kb" */
  const char* value;    /* what holds, as cufile.json spells it: "16384", "\"ERROR\"", "[4, 1024]" */
  const char* standard; /* what holds where nothing is configured, spelled alike */
  const char* meaning;  /* what the key is about, in one sentence */
  const char* here;     /* what it does in this version, in one sentence */
  sluice_origin_t origin;
  sluice_effect_t effect;
  int binds; /* 1: the user wishes this value; 0: the library may choose another one */
  int line;  /* of the file, when the value came from there; else 0 */
} sluice_setting_t;

typedef void (*sluice_setting_visitor_t)(const sluice_setting_t* setting, void* context);
typedef void (*sluice_note_visitor_t)(const char* note, void* context);

/* The version of Sluice, "0.1.0". cuFileGetVersion() tells the version of the cuFile API it answers for. */
const char* sluice_version(void);

/* Which way a transfer would go, without making it. Where a direct path is possible and has not been tried yet, this
 * tries it: by a verified read of some bytes of the file into memory of the library's own.
 *   fh      a registered handle
 *   buf     the memory, as cuFileRead would get it; NULL stands for memory of device `gpu`
 *   gpu     the device that NULL stands for; ignored when buf is given
 *   opcode  CUFILE_READ or CUFILE_WRITE
 *   size, file_offset  of the transfer; a size of 0 asks about large, aligned ones
 * Returns CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE (out is NULL, bad opcode), CU_FILE_HANDLE_NOT_REGISTERED, or
 * CU_FILE_DEVICE_NOT_FOUND (no such device). */
CUfileError_t sluice_explain(CUfileHandle_t fh, const void* buf, int gpu, CUfileOpcode_t opcode, size_t size,
                             off_t file_offset, sluice_explanation_t* out);

/* Every reason that keeps a transfer from a more direct way, in the order in which their remedies uncover them: the
 * first is the one that sluice_explain() tells. Calls visit once for each; `facts` is the explanation's detail, not
 * cut. With a `gpu` of SLUICE_GPU_SUPPOSED and no buf it answers for memory of a GPU that is not there: what the file
 * and this machine would do if one were. Returns as sluice_explain(); visit is NULL: CU_FILE_INVALID_VALUE. */
#define SLUICE_GPU_SUPPOSED (-1)
typedef void (*sluice_explanation_visitor_t)(const sluice_explanation_t* explanation, const char* facts, void* context);
CUfileError_t sluice_explain_all(CUfileHandle_t fh, const void* buf, int gpu, CUfileOpcode_t opcode, size_t size,
                                 off_t file_offset, sluice_explanation_visitor_t visit, void* context);

/* What is known of the direct path between the memory of one device and one file system or block device. */
typedef struct sluice_direct_pair {
  int gpu;
  uint8_t gpu_uuid[16];
  const char* storage;    /* "nvme0n1", or the mount point of a file system */
  sluice_reason_t reason; /* SLUICE_REASON_DIRECT, or why not */
  const char* sentence;   /* what the trial saw, or why there was none; "" before it */
  uint64_t transfers;     /* pieces of requests that the drive moved by itself */
  uint64_t polled;        /* how many of them ended by polling, without an interrupt */
  uint64_t rerouted;      /* pieces that were begun here and ended on the posix path */
  sluice_path_t path;     /* the direct path that this is about; reads and writes of nvfs are tried by themselves */
} sluice_direct_pair_t;

typedef void (*sluice_direct_pair_visitor_t)(const sluice_direct_pair_t* pair, void* context);

/* The pairs of device and storage that transfers or explanations have come by since the driver opened, oldest first;
 * none while it is closed. What a pair points to is gone when visit returns. Returns CU_FILE_SUCCESS or
 * CU_FILE_INVALID_VALUE (visit is NULL). */
CUfileError_t sluice_direct_pairs(sluice_direct_pair_visitor_t visit, void* context);

/* The counters by path and reason. A request that changed its way after it had begun counts on both. Writes at most
 * `room` entries that are not all zero, and the number of such entries to *count. Returns CU_FILE_SUCCESS or
 * CU_FILE_INVALID_VALUE (count is NULL, or counters is NULL with room). */
CUfileError_t sluice_path_counters(sluice_path_counter_t* counters, size_t room, size_t* count);

/* The counters by carrier. Returns CU_FILE_SUCCESS or CU_FILE_INVALID_VALUE (counters is NULL). */
CUfileError_t sluice_carrier_counters(sluice_carrier_counts_t* counters);

/* Does nothing any more: reads in a stream begin when the stream gets there. Kept for programs that call it. Returns
 * CU_FILE_SUCCESS or CU_FILE_INVALID_VALUE (the stream is not registered). */
CUfileError_t sluice_stream_read_early(CUstream stream, int allowed);

/* How many entries of a batch have ended without an event, since cuFileBatchIOCancel() came before their events were
 * collected; -1 where there is no such batch. An entry that was on its way goes on to its end, and counts from then on:
 * so its memory is free for other uses once this tells of all that have no event. cuFileBatchIOGetStatus() with a
 * min_nr of as many as were submitted waits for that, too. With SLUICE_BATCH_ALL_EVENTS=1 every entry has its event,
 * and this stays 0. */
long sluice_batch_cancelled(CUfileBatchHandle_t batch);

/* A plan: many ranges of many files, each with a place in memory of its own, as one object. It is made, submitted, and
 * waited for as a whole, by a prefix, by an item or by a CUDA stream; then it is destroyed. Any number of ranges, of
 * any size. The library reads files in the order in which ranges name them, and each file from its start; neighbours in
 * file and memory go as one transfer, large ranges in pieces. (docs/guide/plans.md) */
typedef struct sluice_plan* sluice_plan_t;

/* One item of a plan. */
typedef struct sluice_range {
  CUfileHandle_t file;
  off_t file_offset;
  void* memory; /* device memory of any device, or host memory */
  size_t size;
} sluice_range_t;

/* Streams may wait for the plan: its bytes go by streams that no waiting one holds up. */
#define SLUICE_PLAN_FOR_STREAMS 1U

typedef struct sluice_plan_options {
  size_t size;           /* of this structure, as the program knows it */
  CUfileOpcode_t opcode; /* of all ranges: CUFILE_READ or CUFILE_WRITE */
  unsigned flags;        /* SLUICE_PLAN_FOR_STREAMS, or 0 */
  unsigned at_a_time;    /* transfers under way at a time, at most; 0: as many as the library finds right */
} sluice_plan_options_t;

typedef enum sluice_plan_state {
  SLUICE_PLAN_MADE = 0,
  SLUICE_PLAN_RUNNING = 1,
  SLUICE_PLAN_ENDED = 2 /* every item has ended: nothing of the plan touches memory or files any more */
} sluice_plan_state_t;

typedef struct sluice_plan_counts {
  size_t size; /* of this structure, as the program knows it; set by the caller */
  sluice_plan_state_t state;
  size_t items;
  size_t items_ended;    /* whatever came of them */
  size_t items_in_front; /* so many of the first items have all ended */
  size_t items_failed;
  size_t items_cancelled;
  uint64_t bytes; /* of all ranges */
  uint64_t bytes_in_place;
} sluice_plan_counts_t;

typedef enum sluice_item_state {
  SLUICE_ITEM_WAITING = 0, /* or under way */
  SLUICE_ITEM_DONE = 1,    /* a read may have come short: the file ends there */
  SLUICE_ITEM_FAILED = 2,
  SLUICE_ITEM_CANCELLED = 3
} sluice_item_state_t;

/* What came of one item. */
typedef struct sluice_item_result {
  sluice_item_state_t state;
  int error;          /* of one that failed: an errno, or a CUfileOpError from 5001 on */
  uint64_t bytes;     /* in place, from the item's start on */
  sluice_path_t path; /* that its last bytes took, and why */
  sluice_reason_t reason;
} sluice_item_result_t;

/* Makes a plan. Nothing is moved; the ranges are copied, and may be reused. `options` NULL: reads. Opens the driver
 * where it is closed. Returns CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE (no ranges, null pointers, negative offsets,
 * ranges that end beyond all files, unknown options), CU_FILE_HANDLE_NOT_REGISTERED, or CU_FILE_INVALID_FILE_OPEN_FLAG
 * (a file was not opened for this direction); sluice_last_error() tells which range. */
CUfileError_t sluice_plan_create(const sluice_range_t* ranges, size_t count, const sluice_plan_options_t* options,
                                 sluice_plan_t* plan);

/* Begins a plan, and returns without waiting for storage or a device. From here until an item has ended, its memory is
 * the plan's; until a file's last item has ended, cuFileHandleDeregister() of it waits, and cuFileBufDeregister()
 * alike. A plan is submitted once. Returns CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE (no such plan, submitted or cancelled
 * before), or CU_FILE_HANDLE_NOT_REGISTERED. */
CUfileError_t sluice_plan_submit(sluice_plan_t plan);

/* Waits until the first `first` items have ended. `timeout` says for how long (NULL: for ever). Returns how many of
 * these have ended, one after the other from the first: `first`, unless the time was over before; -1 where there is no
 * such plan, it was not submitted, or has fewer items. What came of them, sluice_plan_results() tells. */
long sluice_plan_wait(sluice_plan_t plan, size_t first, const struct timespec* timeout);

/* Waits for one item, by its number: 1 when it has ended, 0 when the time was over before, -1 as above. */
int sluice_plan_wait_item(sluice_plan_t plan, size_t item, const struct timespec* timeout);

/* What is put into the stream from now on waits until the first `first` items have ended; the caller does not. The plan
 * needs SLUICE_PLAN_FOR_STREAMS. Items that failed or were cancelled have ended, too: look at the results. Returns
 * CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE (as above), CU_FILE_ASYNC_NOT_SUPPORTED (the stream is being captured, no
 * thread can be started, or the driver takes seconds to load code and waits for streams meanwhile),
 * CU_FILE_NOMEM_ERROR, or CU_FILE_CUDA_DRIVER_ERROR. */
CUfileError_t sluice_plan_wait_in_stream(sluice_plan_t plan, size_t first, CUstream stream);

/* A descriptor for poll(), epoll and the like: readable when items have ended since it was read last. Reading 8 bytes
 * tells how many. It does not block, belongs to the plan, and goes with it. -1 where there is no such plan, or no
 * descriptor to be had. */
int sluice_plan_eventfd(sluice_plan_t plan);

/* Ends all items that have not been begun as cancelled. What has begun goes on to its end, and its memory is the plan's
 * until then: sluice_plan_wait() for all items tells when none is touched any more. A plan that was not submitted has
 * ended. Returns CU_FILE_SUCCESS or CU_FILE_INVALID_VALUE (no such plan). */
CUfileError_t sluice_plan_cancel(sluice_plan_t plan);

/* Tells how far a plan is. `counts->size` is set by the caller. Returns CU_FILE_SUCCESS or CU_FILE_INVALID_VALUE. */
CUfileError_t sluice_plan_progress(sluice_plan_t plan, sluice_plan_counts_t* counts);

/* What has come so far of `count` items from number `first` on. Returns CU_FILE_SUCCESS or CU_FILE_INVALID_VALUE (no
 * such plan, fewer items, results is NULL). */
CUfileError_t sluice_plan_results(sluice_plan_t plan, size_t first, size_t count, sluice_item_result_t* results);

/* sluice_explain() for one item of the plan, at any time; and CU_FILE_INVALID_VALUE where there is no such item. */
CUfileError_t sluice_plan_explain(sluice_plan_t plan, size_t item, sluice_explanation_t* out);

/* Cancels, waits for what has begun, and ends the plan: afterwards nothing touches the memory of any item, streams that
 * wait for it go on, and its descriptor is closed. cuFileDriverClose() does the same to all plans. Returns
 * CU_FILE_SUCCESS or CU_FILE_INVALID_VALUE (no such plan). */
CUfileError_t sluice_plan_destroy(sluice_plan_t plan);

/* The configuration that the driver runs with, or would if it opened now: calls visit once for each key, always in the
 * same order. What the setting points to is gone when visit returns. Returns CU_FILE_SUCCESS or CU_FILE_INVALID_VALUE
 * (visit is NULL). */
CUfileError_t sluice_configuration(sluice_setting_visitor_t visit, void* context);

/* What there is to say about that configuration: values that cannot be used, names that are not known, keys that
 * change nothing. One call of visit for each, worst first; the same rules as above. */
CUfileError_t sluice_configuration_notes(sluice_note_visitor_t visit, void* context);

/* The name of the configuration file that was read, with its end; "" when there is none. Returns CU_FILE_SUCCESS or
 * CU_FILE_INVALID_VALUE (path is NULL, or room too small). */
CUfileError_t sluice_configuration_file(char* path, size_t room);

/* Names and texts by value; NULL for a value outside its enumeration. */
const char* sluice_path_name(sluice_path_t path);
const char* sluice_reason_name(sluice_reason_t reason);
const char* sluice_reason_sentence(sluice_reason_t reason);
const char* sluice_reason_remedy(sluice_reason_t reason);

/* The cause of this thread's last failed call, in one sentence; "" when none failed. Valid until the thread's next
 * call into the library. */
const char* sluice_last_error(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_H */
