// SPDX-License-Identifier: Apache-2.0
// What --help teaches.
#include "gdsio/command_line.h"

namespace sluice::tools {

const char* gdsio_help() {
  return R"(gdsio version :1.12 (Sluice )" SLUICE_VERSION R"()
Usage: gdsio (-f FILE | -D FOLDER) [-d GPU] [-n NODE] [-w THREADS] [-s SIZE] [-i SIZE] [-x TYPE] [-I TYPE] [OPTION...]
       gdsio CONFIGURATION.gdsio [-J] [--json] [--latency] [--path] [--cold]

Measures reads and writes between files and GPU memory, by whichever libcufile.so.0 the loader finds.

What and where:
  -f FILE        this file, each thread its own part of it
  -D FOLDER      the files gdsio.0, gdsio.1, ... there, one for each thread; a read needs an earlier write
  -d GPU         whose memory; counted from 0 (default 0)
  -n NODE        run the threads on this NUMA node (default: anywhere)
  -w THREADS     threads (default 1); with -x 6 and 7 and without -B the operations in a batch
                 -f or -D, -d, -n and -w given several times make several jobs that run together:
                 the first of each belong together, and so on; one given once is for all
  -s SIZE        size of the file, with K, M, G or T; with -D of each file. A read without it takes what is there
  -o OFFSET      begin there (default 0)
  -i SIZE        size of each transfer (default 1M); MIN:MAX:STEP goes through a range of sizes

How:
  -x TYPE        0 GPUD             cuFile: storage to GPU (default)
                 1 CPUONLY          storage to host memory, no GPU
                 2 CPU_GPU          storage to host memory, then to the GPU
                 3 CPU_ASYNC_GPU    the same, the next read begins while the copy goes on
                 4 CPU_CACHED_GPU   like 2 through the page cache
                 5 GPUD_ASYNC       cuFile on a stream
                 6 GPU_BATCH        cuFile, a batch at a time
                 7 GPU_BATCH_STREAM cuFile, as many operations on streams at a time
  -I TYPE        0 read (default), 1 write, 2 random read, 3 random write
  -m TYPE        0 device memory (default), 1 device memory mapped by cuMemMap, 2 pinned host memory, 3 malloc, 4 mmap;
                 2, 3 and 4 go with -x 0, 5, 6 and 7
  -T SECONDS     go on for that long, around and around; nothing is verified then
  -B COUNT       operations in a batch; -w are then threads
  -M PERCENT     of a batch do what -I says, the others the opposite
  -b             do not register buffers
  -p             let GPUs reach each other's memory (NVLink) first
  -O TYPE        0 O_DIRECT (default), 1 buffered
  -a SIZE        alignment of random offsets (default: the size of a transfer, 4K with a range)
  -U             random offsets that are aligned to nothing
  -k SEED        of random offsets and of what -V writes (default 0)
  -R             fill what is written with random bytes, once
  -F             fill it anew before each write
  -V             verify. A write: all is read again and compared. A read: of files that were written with -V and the
                 same -k; random ones with the same -w, -o, -s and -i, too
  -P URL         RDMA between two machines: this version has none

What is told:
  -J             a line for each job, too
  --latency      a line with percentiles, too
  --path         the path that the bytes took, and why (with Sluice's library)
  --json         all of it as one JSON object instead
  --cold         drop the files' pages from the page cache first
  -h, --help     this
  --version      versions

Exit status: 0; 1 when something failed; 2 when the command line or configuration is not understood.

Examples:
  gdsio -f /data/file -d 0 -w 4 -s 1G -i 1M -x 0 -I 1          write 1 GiB from GPU 0 by four threads
  gdsio -f /data/file -d 0 -w 4 -s 1G -i 1M -x 0 -I 0          read it
  gdsio -f /data/file -d 0 -w 4 -s 1G -i 1M -x 2 -I 0          the same by way of host memory, to compare
  gdsio -D /data/dir -d 0 -n 0 -w 8 -s 1G -i 64K -x 0 -I 2 -T 30 --latency   random reads for 30 s
  gdsio -f /data/file -d 0 -w 32 -s 1G -i 4K -x 6 -I 0         batches of 32
  gdsio -D /a -d 0 -w 4 -D /b -d 1 -w 4 -s 1G -I 1             two jobs on two GPUs
  LD_LIBRARY_PATH=/usr/local/cuda/lib64 gdsio -f /data/file -w 4 -s 1G       on NVIDIA's library
)";
}

}  // namespace sluice::tools
