// SPDX-License-Identifier: Apache-2.0
// The keys that are about the library as a whole: ours, logging, profile, execution, properties.
#pragma once

#include <array>

#include "config/key.h"

namespace sluice::config {

inline constexpr std::string_view shown_only = "Shown by parameters and properties; no transfer changes with it.";
inline constexpr std::string_view pieces_only = "Shown by the parameters; every request is done in one piece.";

inline constexpr std::array general_keys{
    Key{"sluice.mode", Kind::choice, "\"auto\"", Effect::obeyed,
        "How clever the library may be: plain is one thread, one copy, nothing else.",
        "plain takes the simplest way for every transfer."}
        .of("auto|plain")
        .by("SLUICE_MODE"),
    Key{"sluice.copy", Kind::choice, "\"auto\"", Effect::obeyed,
        "Who carries large reads from staging memory to the device: a kernel of ours or the copy engine.",
        "auto takes the kernel for what is cached, the copy engine for what a disk has to bring first. In "
        "streams engine holds only where it is set, not by a profile. Then a program that frees memory (cuMemFree, "
        "cuMemFreeHost) behind a transfer in a stream waits for ever: drivers copy nothing until all streams have "
        "come to rest. And so may eight streams that wait for large reads at a time: a GPU has eight queues, and "
        "drivers may wait for one while a staging buffer is made (CUDA_DEVICE_MAX_CONNECTIONS=32 gives more)."}
        .of("auto|engine|kernel")
        .by("SLUICE_COPY"),
    Key{"sluice.small_reads", Kind::choice, "\"auto\"", Effect::obeyed,
        "Who carries reads of up to 64 KiB that the page cache has: a copy each, a kernel that stays, or "
        "the CPU itself.",
        "resident keeps one block on the GPU for each thread that reads, for 0.2 ms after a read and 0.5 ms in "
        "all; what waits for the whole device waits for it. auto does so where two threads and more read at "
        "once. window maps registered memory for the CPU with GDRCopy (libgdrapi.so.2, gdrdrv), which holds its "
        "size in the GPU's BAR1, and takes reads of up to 16 KiB; what has no such mapping goes as by auto, and "
        "the log tells why. It has been tried with the soft GPU alone, and is not built in unless the library is "
        "configured with -DSLUICE_GDRCOPY=ON: without, the log says so and reads go as by auto."}
        .of("auto|copy|resident|window")
        .by("SLUICE_SMALL_READS"),
    Key{"sluice.coherent", Kind::choice, "\"auto\"", Effect::obeyed,
        "Whether files and device memory that the CPU reaches (Grace Hopper, GB10) exchange bytes in place, "
        "without staging memory and copies.",
        "auto does so where the driver says that CPU and device share memory by hardware, but for reads of more "
        "than 128 KiB out of the page cache, which several threads stage; on takes these, too, and other "
        "machines. Both want an address for the CPU from the driver, a trial that succeeds, and sluice.copy "
        "auto. It has been tried with the soft GPU alone."}
        .of("auto|off|on")
        .by("SLUICE_COHERENT"),
    Key{"sluice.disk_reads", Kind::choice, "\"auto\"", Effect::obeyed,
        "How O_DIRECT reads of more than 128 KiB into device memory are kept on their way: by threads, or by "
        "io_uring, which may be polled (iopoll). Smaller ones are plain reads, unless they are to be polled.",
        "auto is io_uring, or threads where the kernel has none. iopoll needs drives with queues for it. What "
        "cannot be had is logged, and the next simpler way is taken."}
        .of("auto|threads|io_uring|iopoll")
        .by("SLUICE_DISK_READS"),
    Key{"sluice.links", Kind::links, "\"auto\"", Effect::obeyed,
        "Which GPUs lend their link to the host to large transfers of another GPU's memory: auto and lend (those "
        "that the process works with, that are joined by NVLink, and that are idle), ordinals, as 0,2, or own (none).",
        "auto lends to reads of what the page cache has, by kernels and memory of each lender's own, 64 MiB at "
        "most, where the process's transfers go to the lender, too: it switches no peer access on, loads no code, "
        "waits for no lender's driver, and rests while the host of a virtual machine takes its processors. With "
        "sluice.links_copy engine it is own. The others lend to writes, to "
        "O_DIRECT reads and in streams, too. A GPU that is named gets a context, of some 500 MB, if it has none: "
        "docs/guide/links.md."}
        .by("SLUICE_LINKS"),
    Key{"sluice.links_min_kb", Kind::number, "65536", Effect::obeyed,
        "The smallest transfer that other GPUs lend their links to; a quarter of it beside others and in plans.",
        "As sluice.links."}
        .within({.lowest = 256})
        .by("SLUICE_LINKS_MIN_KB"),
    Key{"sluice.links_copy", Kind::choice, "\"kernel\"", Effect::obeyed,
        "What carries other GPUs' part of a read: a kernel on each, which writes the target's memory by NVLink "
        "(kernel) or memory of its own, out of which the target fetches it (relay), or their copy engines (engine).",
        "kernel and relay hold for what the page cache has; the rest, and all writes, go by copy engines. kernel "
        "switches peer access on for contexts of the program's, and is relay with sluice.links auto. In streams there "
        "is kernel alone: docs/guide/links.md."}
        .of("kernel|relay|engine")
        .by("SLUICE_LINKS_COPY"),
    Key{"sluice.nvfs", Kind::choice, "\"off\"", Effect::obeyed,
        "Whether nvidia-fs.ko is spoken to where it is loaded, for registered device memory, and whether that "
        "comes before PCI P2PDMA.",
        "off leaves the module alone. behind_p2pdma takes it where use_pci_p2pdma is off or does not reach the "
        "file, first also elsewhere. Both want a driver with hooks, and trials of reads and of writes. It has "
        "been tried with the real module on emulated devices alone."}
        .of("off|behind_p2pdma|first")
        .by("SLUICE_NVFS"),
    Key{"sluice.operation_timeout_ms", Kind::number, "0", Effect::obeyed,
        "How long an operation that came with a handle (CUfileFSOps_t) may take.",
        "0: as long as it takes. Else it is called by a thread of its own, which costs some 10 us, and a transfer "
        "whose operation is late fails with ETIMEDOUT; docs/reference/rdma.md tells what becomes of the memory."}
        .within({.highest = 3600000})
        .by("SLUICE_OPERATION_TIMEOUT_MS"),
    Key{"sluice.api_version", Kind::number, "1150", Effect::obeyed,
        "The version of cuFile that the library answers for: 1150 for 1.15, 1190 for 1.19.",
        "cuFileGetVersion tells it. From 1170 on the slab arrays have the values of that stock file, and uniform "
        "bounce buffers (max_direct_io_size_kb, max_device_cache_size_kb, per_buffer_cache_size_kb) are told to "
        "be deprecated; from 1180 on a batch may have up to 65535 entries, unless io_batchsize binds; with 1190 "
        "the statistics have the counters of cuFileReadv and cuFileWritev behind level 1 (624 bytes in place of "
        "512), max_direct_io_size_kb is 1024 unless given, and the parameters of 1.19 are known."}
        .within({.lowest = 1150, .highest = 1190, .step = 10})
        .by("CUFILE_VERSION_COMPAT"),
    Key{"sluice.verify", Kind::flag, "false", Effect::obeyed, "Compare every transfer with a second, plain read.",
        "A difference fails the transfer and is logged."}
        .by("SLUICE_VERIFY"),
    Key{"sluice.explain", Kind::flag, "false", Effect::obeyed, "Say which way the bytes of each handle go, and why.",
        "One line a handle on stderr."}
        .by("SLUICE_EXPLAIN"),
    Key{"sluice.batch_all_events", Kind::flag, "false", Effect::obeyed, "Let every entry of a batch have its event.",
        "Without it entries that cuFileBatchIOCancel came before have none, nor have those of no bytes, as with "
        "NVIDIA's library; sluice_batch_cancelled() counts the former."}
        .by("SLUICE_BATCH_ALL_EVENTS"),
    Key{"sluice.profile", Kind::text, "\"\"", Effect::obeyed,
        "What `sluice profile` has measured on this machine, by the file's full name.",
        "sluice.copy and sluice.disk_reads, where they are not configured, are what was quickest: for cached reads, "
        "and for reads with O_DIRECT. Files on a file system that was measured take what was quickest there, as long "
        "as it is the same one on the same drives; others what was quickest in all. A profile of another machine is "
        "left alone."}
        .by("SLUICE_PROFILE"),
    Key{"sluice.strict", Kind::flag, "false", Effect::obeyed,
        "Let values of the file bind that equal NVIDIA's stock file.", "Without it such values count as not given."},
    Key{"sluice.poll_thread", Kind::flag, "false", Effect::obeyed,
        "Let a thread of the kernel submit and poll for direct transfers (SQPOLL).",
        "Takes effect where use_poll_mode does. The kernel's thread sleeps 5 ms after the last transfer."}
        .by("SLUICE_POLL_THREAD"),
    Key{"sluice.log_file", Kind::text, "\"\"", Effect::obeyed,
        "The log file, by its full name; given as empty it switches the log off.",
        "Wins over logging.dir. Symbolic links are refused."}
        .by("CUFILE_LOGFILE_PATH"),

    Key{"logging.dir", Kind::text, "\"\"", Effect::obeyed, "The folder of the log file.",
        "The file is cufile_PID.log there. Without it no log is written."},
    Key{"logging.level", Kind::level, "\"ERROR\"", Effect::obeyed,
        "How much is logged, from the least to the most in that order.",
        "Notices are written at every level. DEBUG tells files and buffers that come and go, TRACE every "
        "transfer."}
        .by("CUFILE_LOGGING_LEVEL"),
    Key{"logging.max_file_size_mb", Kind::number, "32", Effect::obeyed, "The largest size of the log file.",
        "A full one is renamed to end in .old, in the place of the one before, and a new one begins."}
        .within({.lowest = 1, .highest = 4096, .unlimited = true})
        .by("CUFILE_LOGFILE_MAX_SIZE_MB"),

    Key{"profile.nvtx", Kind::flag, "false", Effect::obeyed, "NVTX ranges for profilers.",
        "Transfers of 64 KiB and more, and groups of batches, have ranges of the domain sluice where a profiler "
        "names its library in NVTX_INJECTION64_PATH. docs/guide/tracing.md tells more."}
        .by("CUFILE_NVTX"),
    Key{"profile.cufile_stats", Kind::number, "0", Effect::obeyed, "The level of the statistics.",
        "Above 0 they run from the open on, and `sluice stats PID` shows them."}
        .within({.highest = 3})
        .by("SLUICE_STATS"),
    Key{"profile.trace", Kind::text, "\"\"", Effect::obeyed, "Record what transfers are at, for `sluice trace`.",
        "on records from the open of the driver on. `sluice trace -- CMD` sets it to the name of a socket of "
        "its own. docs/guide/tracing.md tells more."}
        .by("SLUICE_TRACE"),

    Key{"execution.max_io_queue_depth", Kind::number, "128", Effect::reported, "Pending pieces in the thread pool.",
        pieces_only}
        .within({.lowest = 1, .highest = 256}),
    Key{"execution.max_io_threads", Kind::number, "4", Effect::reported, "Threads of the pool, a GPU; 0: no pool.",
        pieces_only}
        .within({.highest = 32}),
    Key{"execution.parallel_io", Kind::flag, "true", Effect::reported, "Split large requests.", pieces_only},
    Key{"execution.min_io_threshold_size_kb", Kind::number, "8192", Effect::reported, "Only larger requests are split.",
        pieces_only}
        .within({.lowest = 4}),
    Key{"execution.max_request_parallelism", Kind::number, "4", Effect::reported, "The most pieces of one request.",
        pieces_only}
        .within({.highest = 8}),

    Key{"properties.max_direct_io_size_kb", Kind::number, "16384", Effect::reported,
        "The largest piece that the kernel is asked for at once.", shown_only}
        .within({.lowest = 64, .highest = 16384, .step = 64})
        .also("1024"),
    Key{"properties.max_device_cache_size_kb", Kind::number, "131072", Effect::obeyed, "Bounce memory of a GPU in all.",
        "Shown by parameters and properties; bounds the staging memory of a GPU that lends its link "
        "(sluice.links): 8 MiB for copies, and 32 MiB for each of two reads that a kernel relays."}
        .within({.highest = 268435456, .step = 4}),
    Key{"properties.per_buffer_cache_size_kb", Kind::number, "1024", Effect::reported, "The size of one bounce buffer.",
        shown_only}
        .within({.lowest = 64, .highest = 16384, .step = 64}),
    Key{"properties.gpu_bounce_buffer_slab_config.slab_size_kb", Kind::numbers, "[]", Effect::reported,
        "Sizes of the bounce buffers on the GPU, rising, at least one up to 16384; replaces the cache sizes.",
        shown_only}
        .within({.lowest = 4, .highest = 268435456, .step = 4})
        .also("[1024, 8192, 16384, 65536]"),
    Key{"properties.gpu_bounce_buffer_slab_config.slab_count", Kind::numbers, "[]", Effect::reported,
        "How many of each size.", shown_only}
        .within({.lowest = 1})
        .also("[128, 8, 4, 2]"),
    Key{"properties.max_device_pinned_mem_size_kb", Kind::number, "33554432", Effect::reported,
        "Device memory that may be pinned, bounce buffers included.", shown_only}
        .within({.lowest = 64, .highest = 268435456, .step = 4}),
    Key{"properties.posix_pool_slab_size_kb", Kind::numbers, "[4, 1024, 16384]", Effect::reported,
        "Sizes of the pinned host buffers.", "Shown by the slab arrays; a thread stages through 1 MiB of its own."}
        .within({.lowest = 4, .highest = 268435456, .step = 4}),
    Key{"properties.posix_pool_slab_count", Kind::numbers, "[128, 64, 64]", Effect::reported, "How many of each size.",
        "As above."}
        .within({.lowest = 1})
        .also("[128, 64, 32]"),
    Key{"properties.use_poll_mode", Kind::flag, "false", Effect::obeyed, "Poll for the end of small transfers.",
        "Direct transfers (use_pci_p2pdma) are polled for, on drives with queues for it; others are not."},
    Key{"properties.poll_mode_max_size_kb", Kind::number, "4", Effect::obeyed,
        "The largest transfer that is polled for.", "Larger direct transfers end by interrupt."}
        .within({.lowest = 4, .highest = 18014398509481980, .step = 4}),
    Key{"properties.use_pci_p2pdma", Kind::flag, "false", Effect::obeyed,
        "Let the kernel's PCI P2PDMA move bytes between drive and GPU.",
        "Transfers between device memory and O_DIRECT files take the path p2pdma where a trial read has been "
        "verified (docs/reference/paths.md). On NVIDIA GPUs experimental: refusals are told, and the posix "
        "path is taken."}
        .by("CUFILE_USE_PCIP2PDMA"),
    Key{"properties.allow_compat_mode", Kind::flag, "true", Effect::obeyed,
        "Let the CPU move the bytes where there is no direct way.",
        "When false, a machine without a direct way refuses to open the driver (5001), and a file without one is "
        "not registered (5008); force_compat_mode and sluice.mode plain win over it."}
        .by("CUFILE_ALLOW_COMPAT_MODE"),
    Key{"properties.force_compat_mode", Kind::flag, "false", Effect::obeyed, "Let the CPU move all bytes.",
        "Every transfer takes the posix path, for that reason."}
        .by("CUFILE_FORCE_COMPAT_MODE"),
    Key{"properties.force_odirect_mode", Kind::flag, "false", Effect::reported,
        "Move bytes past the page cache even for files opened without O_DIRECT.",
        "Shown by the parameters; files are used as they were opened."},
    Key{"properties.prefer_iouring", Kind::flag, "false", Effect::reported, "io_uring in place of AIO.",
        "Shown by the parameters; neither is used."},
    Key{"properties.allow_system_memory", Kind::flag, "true", Effect::obeyed, "Accept host memory as buffers.",
        "When false, registering host memory is refused."},
    Key{"properties.io_batchsize", Kind::number, "128", Effect::obeyed, "The most entries of a batch.",
        "A larger batch cannot be set up; see sluice.api_version."}
        .within({.lowest = 1, .highest = 256}),
    Key{"properties.batch_io_timeout_ms", Kind::number, "5", Effect::reported, "How long a batch waits.", shown_only}
        .within({.lowest = 1, .highest = 1000}),
    Key{"properties.io_priority", Kind::choice, "\"default\"", Effect::accepted, "The priority of the library's I/O.",
        "None: transfers have the priority of the calling thread."}
        .of("default|low|med|high")
        .by("CUFILE_IO_PRIORITY"),
    Key{"properties.vanilla_posix_io_mode", Kind::flag, "false", Effect::obeyed,
        "Plain POSIX I/O for everything; of 1.19.", "As force_compat_mode, whatever version is reported."},
    Key{"properties.gds_fallback_io", Kind::flag, "false", Effect::reported,
        "Repeat by POSIX I/O what failed on a direct path; of 1.19.",
        "Shown by parameters and properties; what a drive does not move is always moved by the CPU."},
    Key{"properties.compat_odirect_unaligned_read_split", Kind::flag, "false", Effect::accepted,
        "Cut unaligned O_DIRECT reads into an aligned body and edges.",
        "None: docs/reference/paths.md says how requests are cut."},
    Key{"properties.compat_odirect_unaligned_read_split_min_size_kb", Kind::number, "128", Effect::accepted,
        "Only larger reads are cut.", "None: as above."},
};

}  // namespace sluice::config
