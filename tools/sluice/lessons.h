// SPDX-License-Identifier: Apache-2.0
// What `sluice --help` and each subcommand's --help teach. The man pages are made of the same.
#pragma once

namespace sluice::tools {

inline constexpr const char* about =
    "Sluice: an open GPUDirect Storage. Runs cuFile programs on its own libcufile.so.0, on any machine,\n"
    "and says which way the bytes went and why.";

inline constexpr const char* examples =
    "Examples:\n"
    "  sluice demo                              see it work: a file into GPU memory, verified\n"
    "  sluice run -- python3 train.py           run an unmodified program on this library\n"
    "  sluice run --explain -- ./reader /data   the same, with one line a file: its path and the reason\n"
    "  sluice doctor                            what is wrong with this machine, why, and what mends it\n"
    "  sluice topology --svg > machine.svg      drives, network cards and GPUs, and what joins them, as a picture\n"
    "  sluice explain /data/big.bin             which way this file's bytes go, and why\n"
    "  sluice stats -- ./reader /data           run it, and count what went which way\n"
    "  sluice stats 1234                        what the process 1234 does through cuFile\n"
    "  sluice top                               all such processes, live; `sluice exporter` is for Prometheus\n"
    "  sluice cp /data/big.bin /scratch/        copy a file through GPU memory\n"
    "\n"
    "`sluice SUBCOMMAND --help` teaches one subcommand.";

inline constexpr const char* run_about = "Run any program on Sluice's libcufile.so.0";
inline constexpr const char* run_lesson =
    "Whichever libcufile the program was linked with, it gets this one: it comes first in LD_PRELOAD (what stands "
    "there\n"
    "already is kept). CUFILE_ENV_PATH_JSON names a configuration when neither it nor /etc/cufile.json gives one. No\n"
    "file is written. Exit status and signals pass through unchanged. At the end one line on stderr says which\n"
    "libcufile the program and its children really mapped, and what went through it.\n"
    "\n"
    "Examples:\n"
    "  sluice run -- python3 train.py\n"
    "  sluice run --explain -- ./reader /data/big.bin    one line a file on stderr: path and reason\n"
    "  sluice run --soft-gpu -- ./reader /data/big.bin   without a GPU: programs of the CUDA driver API\n"
    "  SLUICE_MODE=plain sluice run -- ./reader FILE     the simplest way, to tell a bug from a feature\n"
    "\n"
    "--soft-gpu is for CI: a stand-in for the CUDA driver, for programs of the driver API. It moves data and runs\n"
    "Sluice's own kernels; programs of the CUDA runtime (libcudart: PyTorch, most of what nvcc compiles) and programs\n"
    "with kernels of their own need a real GPU. Its size, speed and failures can be chosen "
    "(docs/reference/softgpu.md):\n"
    "  SLUICE_SOFTGPU_FAIL=cuMemAlloc:3:2 sluice run --soft-gpu -- ./test    the third allocation fails\n"
    "  SLUICE_SOFTGPU_DEVICES=2 sluice run --soft-gpu -- ./test              two devices\n"
    "\n"
    "Exit status: the program's own; 125 when sluice itself fails, 126 when the program cannot be executed or\n"
    "preloading cannot work for it (static, setuid), 127 when there is no such program.";

inline constexpr const char* explain_about = "Tell which way a file's bytes go, and why";
inline constexpr const char* explain_lesson =
    "The way of a transfer between a file and memory, the reason, and what would change it. Nothing is moved; the "
    "file\n"
    "is opened as a careful program does it, with O_DIRECT where that works.\n"
    "\n"
    "Examples:\n"
    "  sluice explain /data/big.bin\n"
    "  sluice explain /data/big.bin --gpu 1 --size 16M --offset 4K\n"
    "  sluice explain /data/big.bin --write\n"
    "  sluice explain --all /data /scratch/a.bin   every reason, for all files of a folder and one more\n"
    "  sluice explain /data/big.bin --as-if-gpu    as on a machine with a GPU; where there is none, that is the "
    "default\n"
    "  sluice explain /data/big.bin --json | jq -r '.path, .reason, .remedy'";

inline constexpr const char* doctor_about = "Tell what is wrong with this machine, why, and what mends it";
inline constexpr const char* doctor_lesson =
    "Looks at the GPU and its driver, nvidia-fs, P2PDMA, file systems and drives, NVMe over fabrics, RDMA, virtual\n"
    "machines, containers, io_uring, cufile.json and the PCI tree. One line a finding: sign, cause, remedy; the worst\n"
    "comes first. Nothing is changed. A file or folder is tried: 1 MiB into GPU memory, every byte compared.\n"
    "\n"
    "Sections: gpu nvidia-fs p2pdma storage fabrics rdma vm container uring config topology. Named, they also show "
    "what\n"
    "is there.\n"
    "\n"
    "Examples:\n"
    "  sluice doctor\n"
    "  sluice doctor p2pdma /data               the direct path, with a trial in this folder\n"
    "  sluice doctor --json | jq -r '.findings[] | select(.harm == \"broken\") | .remedy'\n"
    "  sluice doctor --expect gpu,p2pdma        a readiness probe\n"
    "  sluice doctor --fix-script > fix.sh      the commands of the remedies, to be read first\n"
    "  sluice doctor --record machine.tar       what was looked at, for another person\n"
    "  sluice doctor --root machine.tar         the verdict on that\n"
    "\n"
    "Exit status: 0 fine, 1 degraded, 2 broken, 3 no GPU; with --expect 0 when all of it is there, else 2 or 3.\n"
    "The findings are listed in docs/reference/doctor.md.";

inline constexpr const char* topology_about = "Show how drives, network cards and GPUs hang together";
inline constexpr const char* topology_lesson =
    "The PCI tree by NUMA node with its switches and links, NVLinks between GPUs, and how near each device is to each "
    "GPU:\n"
    "below one switch, at one host bridge, on one NUMA node, or on another. Links that run at less than both ends can "
    "do\n"
    "are told. Where a hypervisor hides the tree, nearness is not guessed. --routes tells for each device and GPU "
    "which "
    "way\n"
    "dynamic routing takes (rdma_dynamic_routing in cufile.json), and why not an earlier one of its order.\n"
    "\n"
    "Examples:\n"
    "  sluice topology\n"
    "  sluice topology --svg > machine.svg\n"
    "  sluice topology --routes\n"
    "  sluice topology --file /lustre/a/big.bin   between this file and each GPU\n"
    "  sluice topology --json | jq -r '.pairs[] | [.names[], .distance] | @tsv'\n"
    "  sluice doctor --record machine.tar; sluice topology --root machine.tar   of a machine that was recorded";

inline constexpr const char* version_about = "Show the versions, the library file and the CUDA driver in use";
inline constexpr const char* version_lesson =
    "Examples:\n"
    "  sluice version\n"
    "  sluice version --json | jq -r .library\n"
    "  SLUICE_SOFTGPU=1 sluice version      the soft GPU, even where there is a real one";

inline constexpr const char* demo_about = "Read a file into GPU memory, verify it, and tell how it went";
inline constexpr const char* demo_lesson =
    "Writes a file, reads it into GPU memory through the cuFile API, compares every byte, and shows the device, the\n"
    "file system, the path, the reason and the throughput. The file is removed. Where no GPU works, the soft GPU\n"
    "stands in, and the text says so.\n"
    "\n"
    "Examples:\n"
    "  sluice demo\n"
    "  sluice demo --dir /dev/shm --size 1G\n"
    "  SLUICE_SOFTGPU=1 sluice demo         on the soft GPU, even where there is a real one";

inline constexpr const char* stats_about = "Count reads and writes of a program, or of a process that runs already";
inline constexpr const char* stats_lesson =
    "Of a program that it starts: the counters that always run in the library, by path and reason, from the program "
    "and\n"
    "its children, when they have ended. They go to stderr, or to the file of -o. Exit status: as of `sluice run`.\n"
    "\n"
    "Of a process that runs already, by its number: its statistics, on stdout. It has to run on this library with "
    "statistics\n"
    "of level 1 or more (SLUICE_STATS=3 in its environment, \"profile\": {\"cufile_stats\": 3} in its cufile.json, or\n"
    "cuFileSetStatsLevel(3)), and takes no part in being looked at. Only its user and root may ask. Exit "
    "status: 0;\n"
    "1 when there is nothing to see.\n"
    "\n"
    "Examples:\n"
    "  sluice stats -- ./reader /data/big.bin\n"
    "  sluice stats --json -o counters.json -- ./reader /data/big.bin   its own output stays its own\n"
    "  SLUICE_STATS=3 sluice run -- python3 train.py &\n"
    "  sluice stats $(pgrep -f train.py)                 totals, sizes, GPUs\n"
    "  sluice stats $(pgrep -f train.py) --interval 1    rates, a line a second, until it ends\n"
    "  sluice stats 1234 --json | jq .metrics.sluice_transfers_total\n"
    "  sluice stats --prometheus                         all processes, in Prometheus's text format\n"
    "  sluice stats --names                              what is counted, by name";

inline constexpr const char* trace_about = "Record what transfers are at, for a picture of time";
inline constexpr const char* trace_lesson =
    "Writes a file that https://ui.perfetto.dev opens: a row a thread, each transfer with its phases (the way that "
    "was\n"
    "chosen, reads of the file, launches, copies, first and last byte), and which workers helped. A program that is\n"
    "started is recorded from its first transfer on, and what was recorded is there also when it crashes. A process\n"
    "that runs already is recorded from now on; that needs root, or its user where debuggers may attach\n"
    "(kernel.yama.ptrace_scope 0), or SLUICE_TRACE=on in its environment. An event costs 50 to 100 ns.\n"
    "\n"
    "Examples:\n"
    "  sluice trace -- ./reader /data/big.bin            into sluice.pftrace\n"
    "  sluice trace -o run.json -- python3 train.py      for chrome://tracing and for jq\n"
    "  sluice trace 1234 --seconds 10                    ten seconds of a process\n"
    "  SLUICE_TRACE=on ./server &                        records always, each thread its last 16384 events\n"
    "  sluice trace $! --seconds 0                       what is there of it now: where does it hang?\n\n"
    "Exit status: of a program its own, but 125 where that is 0 and the trace could not be written; else 0, or 1 when\n"
    "there is nothing to see. docs/guide/tracing.md tells more.";

}  // namespace sluice::tools
