/* SPDX-License-Identifier: Apache-2.0
 *
 * sluice_stats.h: what a process that runs on Sluice shows of its statistics to others.
 *
 * While the statistics have a level above 0, they are kept in a memfd of the name below, which the process has open and
 * mapped. Who may look at the process (its user, root) finds it in /proc/PID/fd, maps it for reading and adds the
 * shards up; the process takes no part in that and notices nothing. `sluice stats PID` and `gds_stats -p PID` do so.
 * The memfd is sealed: it keeps its size, so that a reader never reads behind its end, and no other process writes it.
 *
 * All words are counters of eight bytes that are each read and written as a whole; between two of them a transfer may
 * be counted. A reader checks `magic` (written last), then `version`, then `size`, and that the pid is the process's
 * own.
 *
 * Head and shards are those of version 4: `version` and `size` say so, and a reader of version 4 reads them as ever.
 * What came later lies behind them: `extent_version` and `extent_size` tell how far it goes. Later versions add at its
 * end, so that a reader takes what it knows of it. A process of version 4 has zeros there.
 */
#ifndef SLUICE_STATS_H
#define SLUICE_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "sluice.h"

#define SLUICE_STATS_NAME "sluice-stats"
#define SLUICE_STATS_MAGIC UINT64_C(0x5354415453434c53)
/* Of head and shards. Changes with the meaning of anything in them. */
#define SLUICE_STATS_BASE_VERSION 4u
#define SLUICE_STATS_BASE_SIZE offsetof(sluice_stats_region_t, flows)
/* Of all of it. Raised when something is added. */
#define SLUICE_STATS_VERSION 5u

enum {
  SLUICE_STATS_SHARD_COUNT = 8,   /* threads share them out among themselves */
  SLUICE_STATS_DEVICE_COUNT = 16, /* by ordinal; what lies behind counts in the totals alone */
  SLUICE_STATS_SIZE_COUNT = 32,   /* 0 for less than 4 KiB, 1 for 4 to 8 KiB, doubling */
  SLUICE_STATS_OPERATION_COUNT = 10,
  SLUICE_STATS_CARRIER_COUNT = 10, /* the last one has room since version 5 */
  SLUICE_STATS_PATH_COUNT = 4,     /* of a shard's ways; those that came later are in later_paths and later_ways, */
  SLUICE_STATS_REASON_COUNT = 24,  /* and so are these */
  SLUICE_STATS_LATER_REASON_COUNT = SLUICE_REASON_COUNT - 24,
  SLUICE_STATS_LATER_PATH_COUNT = SLUICE_PATH_COUNT - 4,
  SLUICE_STATS_LATENCY_SHARD_COUNT = 4,
  SLUICE_STATS_CLASS_COUNT = 8,     /* 0 for less than 4 KiB, 1 for 4 to 16 KiB, fourfold each, 7 from 16 MiB on */
  SLUICE_STATS_LATENCY_COUNT = 252, /* see sluice_stats_latency_begin() */
  SLUICE_STATS_LATENCY_FIRST = 9,   /* 2^9 ns: what is faster is in place 0 */
  SLUICE_STATS_LATENCY_STEPS = 10   /* equal ones to each doubling */
};

/* Calls that are counted as good or failed. */
enum sluice_stats_operation {
  SLUICE_STATS_HANDLE_REGISTER = 0,
  SLUICE_STATS_HANDLE_DEREGISTER = 1,
  SLUICE_STATS_BUFFER_REGISTER = 2,
  SLUICE_STATS_BUFFER_DEREGISTER = 3,
  SLUICE_STATS_BATCH_SUBMIT = 4,
  SLUICE_STATS_BATCH_COMPLETE = 5,
  SLUICE_STATS_BATCH_SETUP = 6,
  SLUICE_STATS_BATCH_CANCEL = 7,
  SLUICE_STATS_BATCH_DESTROY = 8,
  SLUICE_STATS_BATCH_ENQUEUED = 9
};

/* Who carried bytes between host memory and devices, in requests: see sluice_carrier_counts_t. */
enum sluice_stats_carrier {
  SLUICE_STATS_KERNEL = 0,
  SLUICE_STATS_KERNEL_CALLED_OFF = 1,
  SLUICE_STATS_COPY_ENGINE = 2,
  SLUICE_STATS_SCATTER_KERNEL = 3,
  SLUICE_STATS_MANY_COPIES = 4,
  SLUICE_STATS_SLAB = 5,
  SLUICE_STATS_RESIDENT_KERNEL = 6,
  SLUICE_STATS_SMALL_TOGETHER = 7,
  SLUICE_STATS_CPU_WINDOW = 8,
  SLUICE_STATS_COHERENT = 9
};

typedef struct sluice_stats_pair {
  uint64_t ok, err;
} sluice_stats_pair_t;

/* Reads, or writes. Times and sizes are those of good ones. */
typedef struct sluice_stats_direction {
  sluice_stats_pair_t operations;
  uint64_t bytes, nanoseconds, batch_bytes;
  uint64_t sizes[SLUICE_STATS_SIZE_COUNT];
} sluice_stats_direction_t;

/* cuFileReadv, or cuFileWritev: a call once, whatever it is made of; apart from the reads and writes above. */
typedef struct sluice_stats_vectored {
  sluice_stats_pair_t operations;
  uint64_t bytes, nanoseconds;
} sluice_stats_vectored_t;

/* The same, between storage and one device. */
typedef struct sluice_stats_device_direction {
  uint64_t bytes, nanoseconds, total, by_drive, unaligned, errors;
} sluice_stats_device_direction_t;

typedef struct sluice_stats_device {
  sluice_stats_device_direction_t directions[2]; /* reads, writes */
  uint64_t registrations, deregistrations;       /* of buffers in its memory */
} sluice_stats_device_t;

/* As sluice_path_counter_t, since the statistics were started. */
typedef struct sluice_stats_way {
  uint64_t reads, read_bytes, writes, written_bytes, errors;
} sluice_stats_way_t;

typedef struct sluice_stats_shard {
  sluice_stats_direction_t directions[2];
  sluice_stats_vectored_t vectored[2];
  sluice_stats_pair_t operations[SLUICE_STATS_OPERATION_COUNT];
  sluice_stats_pair_t batch_processed, batch_processed_by_drive;
  sluice_stats_device_t devices[SLUICE_STATS_DEVICE_COUNT];
  sluice_stats_way_t ways[SLUICE_STATS_PATH_COUNT][SLUICE_STATS_REASON_COUNT];
  uint64_t carriers[SLUICE_STATS_CARRIER_COUNT];
  uint64_t room[4]; /* a shard is a multiple of 64 bytes */
} sluice_stats_shard_t;

/* What is no sum. */
typedef struct sluice_stats_head {
  uint64_t magic;
  uint32_t version, size;
  uint64_t pid;        /* as the process itself sees it */
  char library[32];    /* the version of Sluice, ended by a zero */
  uint64_t level;      /* 0 to 3 */
  uint64_t started_at; /* of CLOCK_MONOTONIC, in nanoseconds; 0 while they do not run */
  uint64_t ran;        /* nanoseconds that they have run before, since the last reset */
  uint64_t last_batch_bytes[2];
  struct {
    uint64_t registered_bytes;
    uint64_t uuid[2]; /* its 16 bytes */
  } devices[SLUICE_STATS_DEVICE_COUNT];
  uint32_t extent_version, extent_size; /* of all of the region; zeros in version 4 */
  uint64_t resets;                      /* how often the counters were set to zero: by the program */
  uint64_t registered_host_bytes;
  uint64_t room[1];
} sluice_stats_head_t;

/* Transfers under way, reads and writes: their number in the upper 24 bits, what they ask for in the lower 40. The
 * words of all shards are added up as they are; a sum with its highest bit set means none. */
typedef struct sluice_stats_flow {
  uint64_t under_way[2];
  uint64_t room[6];
} sluice_stats_flow_t;

/* How long good transfers took: by direction, path, class of size, and time. A vectored call counts once. */
typedef struct sluice_stats_latencies {
  uint64_t counts[2][SLUICE_PATH_COUNT][SLUICE_STATS_CLASS_COUNT][SLUICE_STATS_LATENCY_COUNT];
} sluice_stats_latencies_t;

/* The number of a device's place on the PCI bus: domain << 16 | bus << 8 | slot << 3 | function, with this bit set. */
#define SLUICE_STATS_PCI_KNOWN (UINT64_C(1) << 63)

typedef struct sluice_stats_region {
  sluice_stats_head_t head;
  sluice_stats_shard_t shards[SLUICE_STATS_SHARD_COUNT];
  /* From here on: since version 5. */
  sluice_stats_flow_t flows[SLUICE_STATS_SHARD_COUNT];
  uint64_t pci[SLUICE_STATS_DEVICE_COUNT];
  sluice_stats_latencies_t latencies[SLUICE_STATS_LATENCY_SHARD_COUNT];
  sluice_stats_way_t later_ways[SLUICE_PATH_COUNT][SLUICE_STATS_LATER_REASON_COUNT]; /* of all shards */
  sluice_stats_way_t later_paths[SLUICE_STATS_LATER_PATH_COUNT][SLUICE_STATS_REASON_COUNT];
} sluice_stats_region_t;

/* Where a way is counted: in a shard's ways, or behind the shards for all of them. 0: in ways. */
enum { SLUICE_STATS_IN_SHARDS = 0, SLUICE_STATS_IN_LATER_WAYS = 1, SLUICE_STATS_IN_LATER_PATHS = 2 };
static inline int sluice_stats_place_of(int path, int reason) {
  if (reason >= SLUICE_STATS_REASON_COUNT) return SLUICE_STATS_IN_LATER_WAYS;
  return path < SLUICE_STATS_PATH_COUNT ? SLUICE_STATS_IN_SHARDS : SLUICE_STATS_IN_LATER_PATHS;
}

/* The shortest time, in nanoseconds, that a place of the latencies counts; each ends where the next one begins. Place 0
 * begins at 0, place 1 at 512 ns; from there each doubling has ten equal steps, so that none is wider than 10.2 % of
 * its begin. The last place holds all from 17 s on. */
static inline uint64_t sluice_stats_latency_begin(unsigned place) {
  uint64_t octave;
  if (place == 0) return 0;
  octave = UINT64_C(1) << (SLUICE_STATS_LATENCY_FIRST + (place - 1) / SLUICE_STATS_LATENCY_STEPS);
  return octave + (octave * ((place - 1) % SLUICE_STATS_LATENCY_STEPS) + SLUICE_STATS_LATENCY_STEPS - 1) /
                      SLUICE_STATS_LATENCY_STEPS;
}

/* The smallest size, in bytes, of a class of sizes. */
static inline uint64_t sluice_stats_class_begin(unsigned size_class) {
  return size_class == 0 ? 0 : UINT64_C(1024) << (2 * size_class);
}

#endif
