/* SPDX-License-Identifier: Apache-2.0
 *
 * sluice_trace.h: what a process that runs on Sluice shows of its transfers while they are traced.
 *
 * While a process is traced (`sluice trace`), each of its threads that has to do with transfers writes events into a
 * ring of its own. All rings lie in one memfd of the name below, which the process has open and mapped. Who may look at
 * the process (its user, root) finds it in /proc/PID/fd and reads along; nothing ever waits for a reader: a full ring
 * goes on at its beginning, and a reader that was too slow counts what it has missed. The memfd is sealed: it keeps its
 * size, and only the process can write it.
 *
 * It holds times, sizes, offsets, numbers of descriptors and threads, and names of files that are registered while it
 * is on; no bytes of files.
 *
 * Reading a ring: event number n lies in events[n % SLUICE_TRACE_RING_EVENTS], and is whole when its `serial` is
 * (uint32_t)(n + 1) before it was copied and after. `next` is the number of the next event to be written; events below
 * it that are not whole yet are being written, or have been written over.
 */
#ifndef SLUICE_TRACE_H
#define SLUICE_TRACE_H

#include <stdint.h>

#include "sluice.h"

#define SLUICE_TRACE_NAME "sluice-trace"
#define SLUICE_TRACE_MAGIC UINT64_C(0x4543415254434c53)
/* Changes with the meaning of anything below. */
#define SLUICE_TRACE_VERSION 1u

enum {
  SLUICE_TRACE_RING_COUNT = 128,    /* threads at a time; those beyond are counted in `threads_without_ring` */
  SLUICE_TRACE_RING_EVENTS = 16384, /* of one thread */
  SLUICE_TRACE_THREAD_NAME_SIZE = 16
};

/* What an event is about. `a` and `b` are said for the beginning, the end or the moment, as the event has it. */
enum sluice_trace_kind {
  SLUICE_TRACE_THREAD = 1,     /* moment: this ring is a thread's from here on. `fd` its number, `a` and `b` its name */
  SLUICE_TRACE_REQUEST = 2,    /* begin: detail sluice_trace_call; a offset in the file, b size. end: detail path << 8 |
                                  reason; a result (a count, or -errno as cuFileRead has it), b device + 1, 0 for host */
  SLUICE_TRACE_DECIDE = 3,     /* moment: detail path << 8 | reason */
  SLUICE_TRACE_FALLBACK = 4,   /* moment: what the drive gave up. detail path << 8 | reason; a bytes before */
  SLUICE_TRACE_FILE_READ = 5,  /* begin: a offset, b size. end: a result */
  SLUICE_TRACE_FILE_WRITE = 6, /* the same */
  SLUICE_TRACE_STORAGE_WAIT = 7,   /* begin: a requests given to the kernel's ring. end: a answers, or -errno */
  SLUICE_TRACE_LAUNCH = 8,         /* a kernel is launched. begin: b bytes, 0 where not known. end: a result */
  SLUICE_TRACE_COPY = 9,           /* a copy is given to the copy engine, or made. begin: b bytes. end: a result */
  SLUICE_TRACE_DEVICE_WAIT = 10,   /* begin, end: the thread waits for the device's last word */
  SLUICE_TRACE_FIRST_BYTE = 11,    /* moment: the first bytes of a request are the device's to fetch, or on their way */
  SLUICE_TRACE_LAST_BYTE = 12,     /* moment: the last byte is in place */
  SLUICE_TRACE_HELP = 13,          /* begin, end: a worker helps with the request that `request` names */
  SLUICE_TRACE_BATCH_SUBMIT = 14,  /* moment: a the batch, b entries */
  SLUICE_TRACE_BATCH_GROUP = 15,   /* begin: entries that go together; a bytes, b entries. end */
  SLUICE_TRACE_STREAM_CALL = 16,   /* moment: a transfer was put into a stream. a where its count goes, b size */
  SLUICE_TRACE_FILE_REGISTER = 17, /* moment: a descriptor was registered; a 1 for O_DIRECT */
  SLUICE_TRACE_ENTRY = 18,     /* moment: an entry of a group has ended. detail path << 8 | reason; a result, b size */
  SLUICE_TRACE_FILE_NAME = 20, /* moment, after FILE_REGISTER: 16 bytes of the file's name in `a` and `b`; detail counts
                                  them from 0, and the last ones end in a 0 */
  SLUICE_TRACE_STREAM_DONE = 19 /* moment: it has come to its end. a the same, b result */
};

enum sluice_trace_phase { SLUICE_TRACE_BEGIN = 1, SLUICE_TRACE_END = 2, SLUICE_TRACE_MOMENT = 3 };

/* Of a request, in `detail`: the direction (1 for a write), and where it comes from. */
enum sluice_trace_call {
  SLUICE_TRACE_WRITE = 1,
  SLUICE_TRACE_FROM_BATCH = 2,
  SLUICE_TRACE_FROM_STREAM = 4,
  SLUICE_TRACE_VECTORED = 8
};

typedef struct {
  uint64_t time;    /* nanoseconds of CLOCK_MONOTONIC */
  uint32_t serial;  /* written last; 0 while the event is being written */
  uint32_t request; /* the request that it belongs to; 0: none. Numbers are unique in a process for a long time */
  uint8_t kind;
  uint8_t phase;
  uint16_t detail;
  int32_t fd; /* the program's descriptor, or -1 */
  uint64_t a;
  uint64_t b;
} sluice_trace_event;

typedef struct {
  uint64_t next;   /* number of the next event */
  uint64_t thread; /* whose it is now; 0: no thread's. Another thread may get it, after an event of that kind */
  char name[SLUICE_TRACE_THREAD_NAME_SIZE];
  uint64_t reserved[4];
} sluice_trace_ring_head;

typedef struct {
  uint64_t magic; /* written last */
  uint64_t version;
  uint64_t size; /* of the memfd */
  uint64_t pid;
  uint64_t threads_without_ring; /* threads, each counted once, whose events are lost */
  char library[24];              /* version of the library */
  char program[32];              /* what runs, without its folder */
  sluice_trace_ring_head rings[SLUICE_TRACE_RING_COUNT];
} sluice_trace_head;

/* Behind the head, at the next multiple of this, come the events of ring 0, then those of ring 1, and so on. */
#define SLUICE_TRACE_PAGE UINT64_C(65536)
#define SLUICE_TRACE_RING_BYTES                                                                          \
  ((sizeof(sluice_trace_event) * SLUICE_TRACE_RING_EVENTS + SLUICE_TRACE_PAGE - 1) / SLUICE_TRACE_PAGE * \
   SLUICE_TRACE_PAGE)
#define SLUICE_TRACE_SIZE (SLUICE_TRACE_PAGE + SLUICE_TRACE_RING_COUNT * SLUICE_TRACE_RING_BYTES)

#endif
