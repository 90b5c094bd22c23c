# SPDX-License-Identifier: Apache-2.0
"""gdsio: every flag, its lines against the contract, what it says to wrong arguments, with and without a terminal."""
import ctypes
import json
import mmap
import os
import pathlib
import platform
import pty
import re
import select
import shutil
import subprocess
import time

from support import (BUILD, behind_a_mount, contains, environment, equal, few_threads, main, run, scratch, skip, skip_when_sanitized,
                     where_processes_are_few)

GDSIO = BUILD / "bin/gdsio"
TYPES = ["GPUD", "CPUONLY", "CPU_GPU", "CPU_ASYNC_GPU", "CPU_CACHED_GPU", "GPUD_ASYNC", "GPU_BATCH", "GPU_BATCH_STREAM"]
# One line, one blank between parts, floats with six digits.
LINE = re.compile(r"IoType: (?P<io>READ|WRITE|RANDREAD|RANDWRITE) XferType: (?P<xfer>[A-Z_]+) Threads: (?P<threads>\d+)"
                  r"( IoDepth: (?P<depth>\d+))? DataSetSize: (?P<done>\d+)/(?P<total>\d+)\(KiB\) "
                  r"IOSize: (?P<size>\d+(-\d+-\d+)?)\(KiB\) Throughput: \d+\.\d{6} GiB/sec, "
                  r"Avg_Latency: \d+\.\d{6} usecs ops: (?P<ops>\d+) total_time \d+\.\d{6} secs")


def gdsio(*words, status=0, **variables):
    return run(GDSIO, *words, status=status, env=environment(SLUICE_SOFTGPU="1", **variables))


def result(text):
    """The one result line of an output, as a dictionary."""
    lines = [line for line in text.splitlines() if line.startswith("IoType")]
    equal(len(lines), 1)
    match = LINE.fullmatch(lines[0])
    if match is None:
        raise AssertionError(f"not the line that scripts know: {lines[0]!r}")
    return match.groupdict()


def measure(*words, **variables):
    return result(gdsio(*words, **variables).stdout)


def write(file, size="1M", *words):
    """Makes a file, without -V."""
    return measure("-f", file, "-s", size, "-i", "64K", "-x", "0", "-I", "1", *words)


def pattern_is_read_back(file, *words):
    gdsio("-f", file, "-I", "0", "-V", "-i", "100K", *words)


def test_gdsio_every_transfer_type_writes_and_reads_what_it_says():
    with scratch() as folder:
        for number, name in enumerate(TYPES):
            file = folder / f"file{number}"
            text = gdsio("-f", file, "-d", "0", "-w", "3", "-s", "2M", "-i", "64K", "-x", number, "-I", "1", "-V").stdout
            lines = text.splitlines()
            equal(len(lines), 3)
            equal(lines[1], "Verifying data ")
            for line, io in ((lines[0], "WRITE"), (lines[2], "READ")):
                found = result(line)
                expected = {"io": io, "xfer": name, "done": "2048", "total": "2048", "size": "64", "ops": "32"}
                expected |= {"threads": "1", "depth": "3"} if number >= 6 else {"threads": "3", "depth": None}
                equal(found, expected)
            # What one type wrote, another one reads.
            pattern_is_read_back(file)
            equal(file.stat().st_size, 2 << 20)


def test_gdsio_every_operation_has_its_name():
    with scratch() as folder:
        for number, name in ((1, "WRITE"), (0, "READ"), (3, "RANDWRITE"), (2, "RANDREAD")):
            found = measure("-f", folder / "file", "-s", "1M", "-i", "4K", "-I", number)
            equal((found["io"], found["ops"], found["done"]), (name, "256", "1024"))


def test_gdsio_default_is_a_read_of_the_whole_file_by_cufile_in_pieces_of_1_mib():
    with scratch() as folder:
        write(folder / "file", "3M")
        found = measure("-f", folder / "file")
        equal((found["io"], found["xfer"], found["threads"], found["size"], found["ops"]),
              ("READ", "GPUD", "1", "1024", "3"))


def test_gdsio_memory_kinds_work_where_the_contract_has_them():
    with scratch() as folder:
        gdsio("-f", folder / "file", "-s", "1M", "-I", "1", "-V")
        for kind in range(5):
            for transfer in range(8):
                words = ("-f", folder / "file", "-m", kind, "-x", transfer, "-I", "0", "-V", "-w", "2", "-i", "128K")
                if kind >= 2 and transfer in (2, 3, 4):
                    contains(gdsio(*words, status=2).stderr, f"-m {kind} is host memory")
                else:
                    equal(measure(*words)["ops"], "8")


def test_gdsio_shares_a_file_among_threads_and_gives_each_a_file_of_a_folder():
    with scratch() as folder:
        equal(write(folder / "file", "1M", "-w", "5")["total"], "1024")
        equal((folder / "file").stat().st_size, 1 << 20)
        found = measure("-D", folder, "-w", "3", "-s", "1M", "-I", "1")
        equal(found["total"], "3072")
        equal([(folder / f"gdsio.{i}").stat().st_size for i in range(3)], [1 << 20] * 3)
        # The batch of the contract: ten files of 8 KiB in pieces of 4 KiB.
        found = measure("-D", folder, "-w", "10", "-s", "8K", "-i", "4K", "-x", "6", "-I", "1")
        equal((found["threads"], found["depth"], found["done"], found["total"], found["ops"]),
              ("1", "10", "80", "80", "20"))


def test_gdsio_batches_of_several_threads_have_a_depth_of_their_own():
    with scratch() as folder:
        for transfer in (6, 7):
            found = measure("-f", folder / "file", "-w", "2", "-B", "5", "-s", "1M", "-i", "16K", "-x", transfer, "-I", "1")
            equal((found["threads"], found["depth"], found["ops"]), ("2", "5", "64"))


def test_gdsio_sizes_go_through_a_range():
    with scratch() as folder:
        found = measure("-f", folder / "file", "-s", "1280K", "-i", "64K:256K:64K", "-I", "1")
        # 64 + 128 + 192 + 256 are 640: twice.
        equal((found["size"], found["ops"], found["done"]), ("64-256-64", "8", "1280"))


def test_gdsio_begins_at_the_offset_and_leaves_what_lies_before():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"k" * 10000)
        gdsio("-f", file, "-s", "64K", "-o", "12345", "-i", "10000", "-I", "1", "-V")
        data = file.read_bytes()
        equal(len(data), 12345 + 65536)
        equal(data[:10000], b"k" * 10000)
        equal(data[10000:12345], bytes(2345))
        contains(gdsio("-f", file, "-o", "1M", status=1).stderr, "nothing from 1048576 on")


def test_gdsio_verification_fails_when_a_byte_differs():
    with scratch() as folder:
        file = folder / "file"
        gdsio("-f", file, "-s", "1M", "-I", "1", "-V", "-w", "2", "-k", "7")
        gdsio("-f", file, "-I", "0", "-V", "-k", "7")
        contains(gdsio("-f", file, "-I", "0", "-V", "-k", "8", status=1).stderr, "differs at offset 0.")
        with open(file, "r+b") as data:
            data.seek(777777)
            byte = data.read(1)
            data.seek(777777)
            data.write(bytes([byte[0] ^ 1]))
        for transfer in range(8):
            contains(gdsio("-f", file, "-I", "0", "-V", "-k", "7", "-x", transfer, status=1).stderr,
                     f"{file} differs at offset 777777.")


def test_gdsio_random_offsets_come_again_with_the_same_seed():
    with scratch() as folder:
        file = folder / "file"
        words = ("-f", file, "-s", "1M", "-i", "4K", "-w", "2", "-V")
        gdsio(*words, "-I", "3", "-k", "5")
        gdsio(*words, "-I", "2", "-k", "5")
        # Other offsets fall where nothing was written, or other bytes were.
        contains(gdsio(*words, "-I", "2", "-k", "6", status=1).stderr, "Verification failed")


def test_gdsio_random_offsets_are_aligned_as_asked():
    with scratch() as folder:
        def touched(*words):
            file = folder / "file"
            file.unlink(missing_ok=True)
            measure("-f", file, "-s", "1M", "-i", "8K", "-O", "1", "-I", "3", *words)
            data = file.read_bytes()
            return [at for at in range(len(data)) if data[at] and (at == 0 or not data[at - 1])]
        equal(all(at % 8192 == 0 for at in touched()), True)
        equal(all(at % 65536 == 0 for at in touched("-a", "64K")), True)
        for order in (("-U", "-I", "3"), ("-I", "3", "-U")):
            equal(any(at % 512 for at in touched(*order)), True)


def test_gdsio_fills_with_what_is_asked_for():
    with scratch() as folder:
        def blocks(*words):
            write(folder / "file", "1M", *words)
            data = (folder / "file").read_bytes()
            return [data[at:at + 65536] for at in range(0, len(data), 65536)]
        equal(set(blocks()), {b"\xa5" * 65536})
        once = blocks("-R")
        equal((len(set(once)), len(set(once[0])) > 200), (1, True))
        equal(len(set(blocks("-F"))), 16)
        equal(blocks("-R", "-k", "1") != blocks("-R", "-k", "2"), True)


def test_gdsio_mixes_reads_and_writes_in_a_batch():
    with scratch() as folder:
        def written(percent):
            file = folder / "file"
            file.write_bytes(bytes(1 << 20))
            measure("-f", file, "-s", "1M", "-i", "4K", "-x", "6", "-w", "16", "-I", "1", "-M", percent, "-F")
            data = file.read_bytes()
            return sum(any(data[at:at + 4096]) for at in range(0, len(data), 4096))
        equal((written("0"), written("100")), (0, 256))
        equal(64 < written("50") < 192, True)


def test_gdsio_goes_on_for_as_long_as_asked():
    with scratch() as folder:
        write(folder / "file")
        begin = time.monotonic()
        answer = gdsio("-f", folder / "file", "-T", "1.5", "-V", "-n", "0", "-w", "1", "-x", "0", "-I", "0", "-d", "0",
                       "-i", "256K")
        equal(time.monotonic() - begin >= 1.5, True)
        equal(int(result(answer.stdout)["ops"]) > 4, True)  # of a file that holds four
        contains(answer.stderr, "with -T nothing is verified")
        gdsio("-f", folder / "file", "-T", "0.2", "-x", "2", "-i", "256K")


def test_gdsio_flags_of_preparation_change_nothing_of_the_result():
    with scratch() as folder:
        write(folder / "file")
        gdsio("-f", folder / "file", "-s", "1M", "-I", "1", "-V")
        for words in (("-b",), ("-p",), ("-O", "0"), ("-O", "1"), ("--cold",), ("-n", "0"), ("-b", "-m", "3")):
            equal(measure("-f", folder / "file", "-V", "-i", "64K", *words)["ops"], "16")
        equal(run(GDSIO, "-f", folder / "file", "-p", "-V", env=environment(
            SLUICE_SOFTGPU="1", SLUICE_SOFTGPU_DEVICES="2")).returncode, 0)


def resident_pages(file):
    """For each page of a file whether it is in the page cache, as mincore tells of a mapping that is not touched."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    size = file.stat().st_size
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    with open(file, "r+b") as data:
        place = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, data.fileno(), 0)
        equal(libc.mincore(place, size, pages), 0)
        libc.munmap(place, size)
    return [byte & 1 == 1 for byte in pages.raw]


def skip_where_pages_stay(folder):
    """Writes a file back and asks for its pages to be dropped; skips where they are there all the same."""
    with open(folder / "trial", "w+b") as trial:
        trial.write(bytes(1 << 20))
        trial.flush()
        os.fsync(trial.fileno())
        os.posix_fadvise(trial.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if any(resident_pages(folder / "trial")):
        skip(f"the file system of {folder} keeps the pages of its files in memory")


def test_gdsio_cold_empties_the_page_cache_before_it_reads():
    with scratch() as folder:
        skip_where_pages_stay(folder)
        size, part = 16 << 20, 64 << 10
        files = [folder / "gdsio.0", folder / "gdsio.1"]

        def pages_after(*words):
            """Of both files, after a run that found them in the page cache, and dirty."""
            for file in files:
                # Short of memory, the kernel may take some back at once.
                for _ in range(5):
                    file.write_bytes(bytes(size))
                    if all(resident_pages(file)):
                        break
                equal(all(resident_pages(file)), True)
            answer = gdsio("-D", folder, "-w", "2", "-i", part, *words)
            equal("page cache" in answer.stderr, False)
            return [resident_pages(file) for file in files]

        for transfer in (0, 1, 2, 5, 6):
            # Buffered reads of the first part bring that back. The rest is gone, so it went before, and of all files.
            for pages in pages_after("-x", transfer, "-O", "1", "-s", part, "--cold"):
                equal(all(pages[:part // mmap.PAGESIZE]), True)
                equal(any(pages[len(pages) // 2:]), False)
            # O_DIRECT brings nothing back.
            for pages in pages_after("-x", transfer, "-s", part, "--cold"):
                equal(any(pages), False)
        # It is the flag that does it. Short of memory, the kernel may take some back here, too.
        for _ in range(5):
            kept = [all(pages) for pages in pages_after("-x", "1", "-O", "1", "-s", part)]
            if kept == [True, True]:
                break
        equal(kept, [True, True])


def test_gdsio_cold_tells_of_pages_that_stay():
    if tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2]) < (6, 5):
        skip("this kernel has no cachestat(2), which came with 6.5")
    with scratch() as folder:
        answer = behind_a_mount(f"-t tmpfs none {folder}", f"{GDSIO} -f {folder}/file -s 1M -x 1 -I 1 && "
                                f"exec {GDSIO} -f {folder}/file -x 1 --cold", env=environment(SLUICE_SOFTGPU="1"))
        contains(answer.stderr, f"gdsio: note: 1.0 MiB of {folder}/file stay in the page cache")
        equal(result(answer.stdout.splitlines()[-1])["done"], "1024")


def test_gdsio_tells_of_each_job():
    with scratch() as folder:
        (folder / "a").mkdir()
        (folder / "b").mkdir()
        text = gdsio("-D", folder / "a", "-w", "2", "-D", folder / "b", "-w", "3", "-s", "64K", "-i", "4K", "-I", "1",
                     "-J").stdout.splitlines()
        equal(len(text), 3)
        found = [result(re.sub(r"^job\d: ", "", line)) for line in text]
        equal([line["threads"] for line in found], ["5", "2", "3"])
        equal([line["ops"] for line in found], ["80", "32", "48"])
        equal(text[1].startswith("job0: IoType"), True)


def test_gdsio_reads_configuration_files():
    with scratch() as folder:
        config = folder / "test.gdsio"
        config.write_text(f"""# two jobs
[global]
name = example
xfer_type=0
rw=write   # then read back
bs=4K:16K:4K
size=256K
do_verify=1
skip_bufregister=0
enable_nvlinks=0
random_seed=3
refill_buffer=0
fill_random=1
unaligned_random=0
start_offset=4096
per_job_stats=1
mem_type=1
fd_type=1
[job1]
numa_node=0
gpu_dev_id=0
num_threads=2
directory={folder}
[job2]
filename={folder}/file
num_threads=1
size=64K
start_offset=0
""", encoding="utf-8")
        lines = gdsio(config).stdout.splitlines()
        equal([line.split(":")[0] for line in lines],
              ["IoType", "job1", "job2", "Verifying data ", "IoType", "job1", "job2"])
        total = result(lines[0])
        equal((total["threads"], total["total"], total["size"]), ("3", str(2 * 256 + 64), "4-16-4"))
        equal((folder / "gdsio.1").stat().st_size, 4096 + (256 << 10))
        equal((folder / "file").stat().st_size, 64 << 10)
        equal(json.loads(gdsio(config, "--json").stdout)["passes"][1]["verified"], True)


def test_gdsio_configuration_mistakes_name_their_line():
    with scratch() as folder:
        config = folder / "bad.gdsio"
        for text, part in (("[global]\nrw=raed\n[j]\nfilename=f\n", ":2: rw wants "),
                           ("[global]\nspeed=9\n[j]\nfilename=f\n", ":2: [global] has no key \"speed\""),
                           ("[j]\ncolour=9\n", ":2: [j] has no key \"colour\""),
                           ("size=1\n", ":1: a key stands before the first section"),
                           ("[global\n", ":1: a section ends with ]"), ("[global]\nfoo\n", ":2: neither a section"),
                           ("[global]\nsize=1M\n", "has no job"), ("[j]\nnum_threads=2\n", "nothing to read or write"),
                           ("[j]\nnum_threads=-2\nfilename=f\n", ":2: num_threads wants a number")):
            config.write_text(text, encoding="utf-8")
            answer = gdsio(config, status=2)
            equal(answer.stdout, "")
            contains(answer.stderr, part)
        contains(gdsio(folder / "none.gdsio", status=2).stderr, "cannot be read")


# Flags that cannot be, and what has to be said of them.
WRONG = [
    ([], "nothing to read or write"), (["-Q"], "-Q"), (["-f"], "-f wants a value"), (["-w"], "-w wants a value"),
    (["--nothing"], "--nothing"), (["-f", "F", "-D", "."], "exclude each other"),
    (["-f", "F", "extra", "more"], "more"), (["-f", "F", "some.gdsio"], "exclude each other"),
    (["-f", "F", "-w", "0"], "-w is 0"), (["-f", "F", "-w", "x"], "-w wants a number"),
    (["-f", "F", "-w", "99999"], "-w wants a number"), (["-f", "F", "-w", "1", "-w", "2"], "-w is given 2 times"),
    (["-f", "F", "-f", "G", "-f", "H", "-d", "0", "-d", "0"], "-d is given 2 times"),
    (["-f", "F", "-d", "x"], "-d wants a number"), (["-f", "F", "-d", "7"], "no GPU 7"),
    (["-f", "F", "-n", "node"], "-n wants a number"), (["-f", "F", "-n", "1000", "-m", "3"], "no NUMA node 1000"),
    (["-f", "F", "-s", "big"], "-s wants a size"), (["-f", "F", "-s", "0"], "-s is 0"),
    (["-f", "F", "-I", "1"], "how large"), (["-f", "F", "-s", "1M", "-o", "-4K"], "-o wants a"),
    (["-f", "F", "-o", "far"], "-o wants a size"), (["-f", "F", "-s", "9000000T"], "-s"),
    (["-f", "F", "-i", "0"], "-i is 0"), (["-f", "F", "-i", "1K:2K"], "one size, or three"),
    (["-f", "F", "-i", "1K:2K:3K:4K"], "one size, or three"), (["-f", "F", "-i", "4K:1K:1K"], "is no range"),
    (["-f", "F", "-i", "1K:4K:0"], "is no range"), (["-f", "F", "-i", "a:b:c"], "wants a size"),
    (["-f", "F", "-i", "100T"], "-i is more than"), (["-f", "F", "-m", "5"], "-m wants a number from 0 to 4"),
    (["-f", "F", "-m", "3", "-x", "2"], "-m 3 is host memory"), (["-f", "F", "-x", "8"], "-x wants a number from 0 to 7"),
    (["-f", "F", "-I", "4"], "-I wants a number from 0 to 3"), (["-f", "F", "-T", "0"], "-T wants seconds"),
    (["-f", "F", "-T", "soon"], "-T wants seconds"), (["-f", "F", "-T", "nan"], "-T wants seconds"),
    (["-f", "F", "-B", "4"], "-B is the size of a batch"), (["-f", "F", "-x", "6", "-B", "0"], "-B is 0"),
    (["-f", "F", "-M", "50"], "-M mixes"), (["-f", "F", "-x", "6", "-M", "101"], "-M wants a number from 0 to 100"),
    (["-f", "F", "-x", "6", "-M", "50", "-V"], "-M and -V exclude"), (["-f", "F", "-k", "-1"], "-k wants a"),
    (["-f", "F", "-a", "4K"], "-a is about random offsets"), (["-f", "F", "-U"], "-U is about random offsets"),
    (["-f", "F", "-I", "2", "-a", "0"], "-a is 0"), (["-f", "F", "-I", "2", "-U", "-x", "1"], "-U does not go with -x 1"),
    (["-f", "F", "-i", "1000", "-x", "2"], "-i is 1000 bytes"), (["-f", "F", "-o", "1", "-x", "3"], "-o is 1 bytes"),
    (["-f", "F", "-s", "1001", "-x", "1", "-I", "1"], "-s is 1001 bytes"), (["-f", "F", "-O", "2"], "-O wants a number"),
    (["-f", "F", "-P", "10.0.0.1"], "no RDMA between machines"),
]


def test_gdsio_says_one_sentence_and_the_right_usage_to_what_cannot_be():
    with scratch() as folder:
        for words, part in WRONG:
            answer = run(GDSIO, *words, status=2, cwd=folder, env=environment(SLUICE_SOFTGPU="1"))
            equal((words, answer.stdout), (words, ""))
            lines = [line for line in answer.stderr.splitlines() if not line.startswith("gdsio: note:")]
            if len(lines) != 2 or not re.fullmatch(r"gdsio: .*\.", lines[0]) or not lines[1].startswith("       "):
                raise AssertionError(f"{words}: {answer.stderr}")
            contains(lines[0], part)
            # None advises to write where nothing was to be written.
            if not {"1", "3"} & set(words[words.index("-I") + 1:][:1] if "-I" in words else ()):
                equal((words, re.search(r"-I [13]|rw.?1", lines[1])), (words, None))
        equal(list(folder.iterdir()), [])


def test_gdsio_remedies_name_what_is_allowed():
    with scratch() as folder:
        for flag, wrong, remedy in (("-I", "7", "-I takes a number or its name: 0 (read), 1 (write), 2 (randread) or 3 (randwrite)."),
                                    ("-x", "9", "-x takes a number or its name: 0 (GPUD), 1 (CPUONLY), "),
                                    ("-m", "9", "-m takes 0 (device memory), "), ("-O", "2", "-O takes 0 (O_DIRECT) or 1 (buffered)."),
                                    ("-d", "-1", "-d takes the number of a GPU, counted from 0."),
                                    ("-n", "-1", "-n takes the number of a NUMA node; without one "),
                                    ("-w", "-1", "-w takes a number of threads, 1 to 4096."), ("-w", "0", "-w takes a number of threads"),
                                    ("-B", "0", "-B takes a number of operations, 1 to 4096."), ("-M", "x", "-M takes per cent, 0 to 100."),
                                    ("-i", "0", "-i takes a size above 0, as 1M."), ("-T", "x", "-T takes seconds above 0"),
                                    ("-s", "x", "K, M, G or T")):
            contains(gdsio("-f", folder / "file", flag, wrong, status=2).stderr.splitlines()[-1], remedy)
        contains(gdsio("-f", folder / "file", "-w", "x", status=2).stderr, "a number from 1 to 4096")
        config = folder / "wrong.gdsio"
        for key, remedy in (("rw=foo", "rw takes a number or its name: 0 (read), "), ("bs=0", "bs takes a size above 0"),
                            ("do_verify=2", "do_verify takes 0 (no) or 1 (yes)."), ("runtime=x", "runtime takes seconds above 0")):
            config.write_text(f"[global]\n{key}\n[job]\nfilename=f\n", encoding="utf-8")
            equal(gdsio(config, status=2).stderr.splitlines()[-1].strip().startswith(remedy), True)


def test_gdsio_tells_of_options_that_a_configuration_file_silences():
    with scratch() as folder:
        write(folder / "file")
        config = folder / "run.gdsio"
        config.write_text(f"[global]\nrw=read\n[job]\nfilename={folder}/file\n", encoding="utf-8")
        for words in (("-T", "2"), ("-I", "1"), ("-w", "2"), ("-V",), ("-b",)):
            answer = gdsio(config, *words)
            contains(answer.stdout, "IoType: READ XferType: GPUD Threads: 1 ")
            contains(answer.stderr, f"left out, since {config} says what the run does: {words[0]}")
        for words in (("-f", "other"), ("-D", folder)):
            answer = gdsio(config, *words, status=2)
            equal(answer.stdout, "")
            contains(answer.stderr, "exclude each other")
        equal(len(gdsio(config, "-J", "--latency", "--path", "--cold").stdout.splitlines()), 4)


def test_gdsio_opens_nothing_that_is_no_storage():
    with scratch() as folder:
        os.mkfifo(folder / "pipe")
        for operation in (("-I", "0"), ("-I", "1", "-s", "4K")):
            for place in ("/dev/null", folder / "pipe", folder):
                answer = gdsio("-f", place, *operation, status=1)
                contains(answer.stderr, f"{place} is neither a regular file nor a block device.")
                contains(answer.stderr, "Use -D for a folder." if place == folder else "Name a file with -f")
                equal("O_DIRECT" in answer.stderr, False)


def test_gdsio_says_which_numa_nodes_there_are():
    with scratch() as folder:
        write(folder / "file")
        remedy = gdsio("-f", folder / "file", "-n", "1000", status=2).stderr.splitlines()[-1]
        equal(bool(re.search(r"The NUMA nodes of this machine: [\d,-]+; or leave -n out\.|Leave -n out\.", remedy)), True)


def test_gdsio_shows_small_sizes():
    with scratch() as folder:
        equal(result(gdsio("-f", folder / "file", "-s", "1", "-I", "1").stdout)["total"], "1")
        contains(gdsio("-f", folder / "file", "-s", "64K", "-I", "1", "-i", "4096:8192:1").stdout, " IOSize: 4-8-0.001(KiB) ")
        contains(gdsio("-f", folder / "file", "-s", "64K", "-I", "1", "-i", "1000").stdout, " IOSize: 0.977(KiB) ")


def answer_where(stream, place, *words):
    """Status and what the other stream has, of gdsio with one stream at a place that takes nothing."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | ({stream: full} if place == "full" else {})
        number = {"stdout": 1, "stderr": 2}[stream]
        answer = subprocess.run([str(word) for word in words], env=environment(SLUICE_SOFTGPU="1"), text=True, timeout=60,
                                check=False, preexec_fn=(lambda: os.close(number)) if place == "closed" else None, **streams)
    return answer.returncode, answer.stderr if stream == "stdout" else answer.stdout


def test_tools_that_move_bytes_tell_when_their_answer_is_lost_and_lose_notes_in_silence():
    with scratch() as folder:
        file = folder / "file"
        write(file)
        for words in ((GDSIO, "-f", file), (GDSIO, "-f", file, "--json"), (GDSIO, "--help"), (BUILD / "bin/gdscp", file, folder / "copy"),
                      (BUILD / "bin/gdscp", "--json", file, folder / "copy"), (BUILD / "bin/gdsio_verify", "-f", file)):
            for place in ("full", "closed"):
                status, err = answer_where("stdout", place, *words)
                equal((words, place, status), (words, place, 1))
                contains(err, "stdout cannot be written")
                status, out = answer_where("stderr", place, *words)
                equal((words, place, status, out != ""), (words, place, 0, True))
        # More than stdio keeps is written, and refused, before the end.
        long = f"{folder}/{'./' * 1900}"
        for words in ((GDSIO, "--json", "-f", long + "none"), (BUILD / "bin/gdscp", long + "file", long + "copy"),
                      (BUILD / "bin/gdsio_verify", "-f", long + "file")):
            status, err = answer_where("stdout", "full", *words)
            equal((words, status), (words, 1))
            contains(err, "Look at the room of its disk")


def test_gdsio_tells_of_a_failure_as_json_where_json_was_asked_for():
    with scratch() as folder:
        for words, status, part in ((("-f", folder / "none"), 1, "does not exist"), (("-f", "f", "-x", "9"), 2, "-x wants"),
                                    (("--what",), 2, "--what")):
            answer = gdsio("--json", *words, status=status)
            failure = json.loads(answer.stdout)
            equal(list(failure), ["error", "remedy"])
            contains(failure["error"], part)
            contains(answer.stderr, failure["error"])


def test_gdsio_a_folder_is_no_configuration():
    with scratch() as folder:
        answer = gdsio(folder, status=2)
        contains(answer.stderr, f"gdsio: {folder} is a folder, not a configuration.\n       Use -D for a folder: gdsio -D {folder} ")


def test_gdsio_a_missing_file_is_an_error_that_tells_how_to_make_it():
    with scratch() as folder:
        answer = gdsio("-f", folder / "none", "-s", "1M", status=1)
        contains(answer.stderr, "none does not exist.")
        command = answer.stderr.splitlines()[-1].split("gdsio ", 1)[1].split()
        gdsio(*command)
        gdsio("-f", folder / "none", "-s", "1M")
        contains(gdsio("-D", folder, "-w", "2", status=1).stderr, f"gdsio -D {folder} -w 2 -s 1G -i 1M -x 0 -I 1")
        contains(gdsio("-D", folder / "no", "-s", "1M", "-I", "1", status=1).stderr, "Make the folder first")
        contains(gdsio("-f", folder, status=1).stderr, "regular file")


def test_gdsio_a_transfer_that_fails_is_told_as_scripts_know_it():
    with scratch() as folder:
        for transfer, size in (("0", 1 << 20), ("2", 1 << 20), ("6", 1 << 20)):
            answer = behind_a_mount(f"-t tmpfs -o size=1M none {folder}",
                                    f"{GDSIO} -f {folder}/file -s 4M -i {size} -x {transfer} -I 1; status=$?; "
                                    f"[ -e {folder}/file ] || echo there is no file; exit $status",
                                    env=environment(SLUICE_SOFTGPU="1"))
            equal((answer.returncode, answer.stdout), (1, "there is no file\n"))
            contains(answer.stderr, "       Make room on the file system, or use a smaller -s.\n")
            equal("-x 2" in answer.stderr, False)
            equal(bool(re.search(rf"^Tid: 0 incomplete Write, done = \d+ issued = {size}$", answer.stderr, re.M)), True)
            equal(bool(re.search(r"^gdsio: A write of 1.0 MiB at \d+ of .*file failed: ", answer.stderr, re.M)), True)


def test_gdsio_a_write_that_is_cut_short_is_told_by_its_cause():
    with scratch() as folder:
        for transfer in (0, 1, 2, 5, 6, 7):
            for last in ((), ("--json",)):
                answer = behind_a_mount(f"-t tmpfs -o size=1M none {folder}",
                                        f"{GDSIO} -f {folder}/file -s 4M -i 768K -x {transfer} -I 1 {' '.join(last)}; status=$?; "
                                        f"[ -e {folder}/file ] && echo there is a file; exit $status",
                                        env=environment(SLUICE_SOFTGPU="1"))
                equal(answer.returncode, 1)
                contains(answer.stderr, "failed: No space left on device.\n       Make room on the file system, or use a smaller -s.\n")
                equal("there is a file" in answer.stdout, False)
                if last:
                    contains(json.loads(answer.stdout)["error"], "No space left on device.")


def test_gdsio_a_write_that_fails_leaves_a_file_as_long_as_it_was():
    with scratch() as folder:
        answer = behind_a_mount(f"-t tmpfs -o size=1M none {folder}",
                                f"echo precious > {folder}/file; "
                                f"{GDSIO} -f {folder}/file -s 4M -o 4K -i 1M -x 1 -I 1; echo status $?; cat {folder}/file; "
                                f"{GDSIO} -D {folder} -w 3 -s 600K -i 100K -x 1 -I 1; echo status $?; ls {folder}",
                                env=environment(SLUICE_SOFTGPU="1"))
        equal(answer.stdout, "status 1\nprecious\nstatus 1\nfile\n")


def test_gdsio_without_all_of_its_threads_measures_nothing_and_leaves_nothing():
    skip_when_sanitized()
    with scratch() as folder:
        library = few_threads(folder)
        for transfer, most, wanted in ((0, 0, 4), (0, 2, 4), (1, 1, 4), (5, 3, 4), (6, 0, 1)):
            answer = gdsio("-f", folder / "file", "-x", transfer, "-w", "4", "-s", "1M", "-i", "64K", "-I", "1", status=1,
                           LD_PRELOAD=str(library), MOST_THREADS=str(most))
            equal(answer.stdout, "")
            contains(answer.stderr, f"gdsio: {most} of {wanted} threads could be started.\n       Raise the limit of processes (ulimit -u")
            equal((folder / "file").exists(), False)


def test_gdsio_of_a_user_who_may_start_few_threads_ends_in_order():
    with scratch() as folder:
        (folder / "into").mkdir()
        (folder / "into").chmod(0o777)
        for transfer in (0, 5, 6, 7):
            for most in (1, 2, 3, 4, 5):
                answer = where_processes_are_few(most, GDSIO, "-f", "file", "-x", transfer, "-w", "4", "-s", "1M", "-i", "64K", "-I", "1",
                                                 cwd=folder / "into")
                equal((transfer, most, answer.returncode in (0, 1)), (transfer, most, True))
                equal((folder / "into/file").exists(), answer.returncode == 0)
                if answer.returncode == 1:
                    contains(answer.stderr.splitlines()[-1], "       ")
                    equal("keeps its size" in answer.stderr, False)
                (folder / "into/file").unlink(missing_ok=True)


def meddling(folder):
    """A library in which the first transfer runs $MEANWHILE, as another process would, and fails."""
    (folder / "meddler.c").write_text(r"""
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
ssize_t cuFileWrite(void* h, void* p, size_t n, off_t at, off_t into) {
  (void)h, (void)p, (void)n, (void)at, (void)into;
  unsetenv("LD_PRELOAD");
  if (system(getenv("MEANWHILE")) != 0) abort();
  errno = EIO;
  return -1;
}
""", encoding="utf-8")
    run("cc", "-shared", "-fPIC", "-o", folder / "meddler.so", folder / "meddler.c")
    return folder / "meddler.so"


def test_gdsio_a_write_that_fails_leaves_what_another_process_has_written():
    skip_when_sanitized()
    with scratch() as folder:
        library = meddling(folder)
        file = folder / "data/file"
        file.parent.mkdir()
        for before, meanwhile, after in ((None, ":", {}),
                                         (None, f"echo more >> {file}", {"file": bytes(64) + b"more\n"}),
                                         (None, f"mv {file} {file}.1; echo other > {file}", {"file": b"other\n", "file.1": bytes(64)}),
                                         (None, f"rm {file}", {}),
                                         (b"precious", ":", {"file": b"precious"}),
                                         (b"precious", f"echo more >> {file}", {"file": b"precious" + bytes(56) + b"more\n"}),
                                         (b"precious", f"echo short > {file}", {"file": b"short\n"})):
            for path in file.parent.iterdir():
                path.unlink()
            if before is not None:
                file.write_bytes(before)
            answer = gdsio("-f", file, "-s", "64", "-i", "64", "-I", "1", status=1, LD_PRELOAD=str(library), MEANWHILE=meanwhile)
            contains(answer.stderr, "Tid: 0 incomplete Write")
            equal((before, meanwhile, {path.name: path.read_bytes() for path in file.parent.iterdir()}), (before, meanwhile, after))
        # Jobs of this process that share a file are no others.
        config = folder / "two.gdsio"
        config.write_text(f"[global]\nrw=write\nbs=64\n[a]\nfilename={file}\nsize=64\n[b]\nfilename={file}\nsize=128\n",
                          encoding="utf-8")
        for before in (None, b"precious"):
            file.unlink(missing_ok=True)
            if before is not None:
                file.write_bytes(before)
            gdsio(config, status=1, LD_PRELOAD=str(library), MEANWHILE=":")
            equal(file.read_bytes() if file.exists() else None, before)


def test_gdsio_makes_files_whose_mode_lets_none_write():
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ()
    if powerless and shutil.which("setpriv") is None:
        skip("setpriv, without which root writes everywhere, is not installed")
    for parent in (None, pathlib.Path("/dev/shm")):  # with O_DIRECT, and often without
        with scratch(parent) as folder:
            command = f'umask 0222; exec {GDSIO} -f {folder}/file -s 64K -I 1'
            answer = run(*powerless, "sh", "-c", command, env=environment(SLUICE_SOFTGPU="1"))
            equal(result(answer.stdout)["done"], "64")
            equal((folder / "file").stat().st_mode & 0o777, 0o444)


def test_gdsio_a_driver_that_does_not_open_is_told_as_scripts_know_it():
    with scratch() as folder:
        (folder / "cufile.json").write_text('{"properties": {"allow_compat_mode": false}}', encoding="utf-8")
        write(folder / "file")
        answer = gdsio("-f", folder / "file", status=1, CUFILE_ENV_PATH_JSON=str(folder / "cufile.json"))
        contains(answer.stderr, "cuFile driver open error: 5001\n")
        # The other types need no driver.
        gdsio("-f", folder / "file", "-x", "2", CUFILE_ENV_PATH_JSON=str(folder / "cufile.json"))


def test_gdsio_json_tells_what_the_line_tells_and_more():
    with scratch() as folder:
        write(folder / "file")
        answer = json.loads(gdsio("-f", folder / "file", "-i", "64K", "-w", "2", "--json").stdout)
        equal((answer["soft"], answer["library"]), (True, str((BUILD / "lib/libcufile.so.0").resolve())))
        (only,) = answer["passes"]
        equal((only["io_type"], only["xfer_type"], only["threads"], only["ops"], only["bytes"]),
              ("READ", "GPUD", 2, 16, 1 << 20))
        times = only["latency_us"]
        order = [times[name] for name in ("min", "p50", "p90", "p99", "p99_9", "max")]
        equal(order, sorted(order))
        equal(times["min"] <= times["avg"] <= times["max"], True)
        equal(sum(way["ops"] for way in only["paths"]), 16)


def test_gdsio_latency_and_path_are_lines_of_their_own():
    with scratch() as folder:
        write(folder / "file")
        lines = gdsio("-f", folder / "file", "--latency", "--path").stdout.splitlines()
        equal(len(lines), 3)
        equal(bool(re.fullmatch(r"Latency \(usecs\): min [\d.]+ p50 [\d.]+ p90 [\d.]+ p99 [\d.]+ p99.9 [\d.]+ "
                                r"max [\d.]+", lines[1])), True)
        equal(lines[2].startswith("Path: posix Reason: soft_gpu Ops: 1 Bytes: 1048576: The device is the soft GPU"), True)
        contains(gdsio("-f", folder / "file", "-x", "2", "--path").stdout, "Path: none, because -x 2 ")
        contains(gdsio("-f", folder / "file", "-m", "3", "--path").stdout, "Reason: host_memory")


def test_gdsio_says_that_it_is_the_soft_gpu():
    with scratch() as folder:
        write(folder / "file")
        contains(gdsio("-f", folder / "file").stderr, "this is the soft GPU")
        equal(gdsio("-f", folder / "file", "-x", "1").stderr, "")
        equal(gdsio("-f", folder / "file", "-m", "3").stderr, "")


def on_a_terminal(*words):
    """What a program writes to a terminal, stdout and stderr together."""
    leader, follower = pty.openpty()
    child = subprocess.Popen([str(word) for word in words], env=environment(SLUICE_SOFTGPU="1", TERM="xterm"),
                             stdin=subprocess.DEVNULL, stdout=follower, stderr=follower)
    os.close(follower)
    text = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the last one that had the terminal open has ended
            break
        text += part
    os.close(leader)
    equal(child.wait(timeout=60), 0)
    return text.decode()


def test_gdsio_shows_progress_on_a_terminal_alone_and_in_long_runs_alone():
    with scratch() as folder:
        write(folder / "file")
        long = on_a_terminal(GDSIO, "-f", folder / "file", "-T", "3", "-i", "64K")
        equal(bool(re.search(r"\rREAD +\d+ %  .*/s\x1b\[K", long)), True)
        # It is gone when the result stands there.
        equal(bool(LINE.search(long.rsplit("\r\x1b[K", 1)[1])), True)
        short = on_a_terminal(GDSIO, "-f", folder / "file", "-i", "64K")
        equal("%" in short, False)
        answer = gdsio("-f", folder / "file", "-T", "2.6", "-i", "64K")
        equal("\r" in answer.stdout + answer.stderr or "%" in answer.stderr, False)


def test_gdsio_shows_progress_of_small_ragged_writes():
    with scratch() as folder:
        # O_DIRECT writes of less than a block wait for each other. What is shown are bytes written, not time alone.
        text = on_a_terminal(GDSIO, "-f", folder / "file", "-T", "4", "-s", "4M", "-i", "1K", "-I", "3", "-w", "2")
        shown = re.findall(r"\rRANDWRITE +(\d+) %  ([\d.]+ \w+)  [\d.]+ \w+/s\x1b\[K", text)
        equal(len(shown) >= 1, True)
        percents = [int(percent) for percent, _ in shown]
        equal(percents, sorted(percents))
        equal([size for _, size in shown[1:] if float(size.split()[0]) == 0], [])


def test_gdsio_help_teaches_and_begins_with_the_version():
    answer = gdsio("-h")
    equal(answer.stdout.splitlines()[0].startswith("gdsio version :1.12"), True)
    contains(answer.stdout, "Examples:")
    for flag in "fDdnwsoimxITBpbVkURFaMJOP":
        equal(bool(re.search(rf"^  -{flag} ", answer.stdout, re.MULTILINE)), True)
    equal(gdsio("--help").stdout, answer.stdout)
    contains(gdsio("--version").stdout, "gdsio version :1.12 (Sluice ")


def test_gdsio_runs_on_the_library_that_the_loader_finds():
    skip_when_sanitized()
    dynamic = run("readelf", "-d", GDSIO).stdout
    contains(dynamic, "[libcufile.so.0]")
    contains(dynamic, "RUNPATH")
    with scratch() as folder:
        shutil.copy(BUILD / "lib/libcufile.so.0", folder / "libcufile.so.0")
        write(folder / "file")
        answer = gdsio("-f", folder / "file", "--json", LD_LIBRARY_PATH=str(folder))
        equal(json.loads(answer.stdout)["library"], str((folder / "libcufile.so.0").resolve()))


# Another library, of a time when there were neither batches nor streams.
OLDER_LIBRARY = r"""
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
typedef struct { int err, cu_err; } Result;
typedef struct { int type; union { int fd; void* handle; } handle; const void* ops; } Description;
static const Result good;
Result cuFileDriverOpen(void) { return (Result){getenv("REFUSES") ? 5001 : 0, 0}; }
Result cuFileDriverClose_v2(void) { return good; }
Result cuFileHandleRegister(void** handle, Description* d) { *handle = (void*)(long)(d->handle.fd + 1); return good; }
void cuFileHandleDeregister(void* handle) { (void)handle; }
Result cuFileBufRegister(const void* p, size_t n, int f) { (void)p, (void)n, (void)f; return good; }
Result cuFileBufDeregister(const void* p) { (void)p; return good; }
ssize_t cuFileRead(void* h, void* p, size_t n, off_t at, off_t into) {
  return pread((int)(long)h - 1, (char*)p + into, n, at);
}
"""


def test_gdsio_runs_on_a_library_that_is_neither_ours_nor_complete():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "older.c").write_text(OLDER_LIBRARY, encoding="utf-8")
        run("cc", "-shared", "-fPIC", "-Wl,-soname,libcufile.so.0", "-o", folder / "libcufile.so.0", folder / "older.c")
        gdsio("-f", folder / "file", "-s", "1M", "-I", "1", "-V")
        on_it = {"LD_LIBRARY_PATH": str(folder)}
        answer = gdsio("-f", folder / "file", "-m", "3", "-V", "-w", "2", "-i", "64K", "--path", **on_it)
        equal(result(answer.stdout)["ops"], "16")
        contains(answer.stdout, "Path: unknown, because this libcufile.so.0 is not Sluice's")
        contains(gdsio("-f", folder / "file", "-m", "3", status=1, REFUSES="1", **on_it).stderr,
                 "cuFile driver open error: 5001\n")
        equal(measure("-f", folder / "file", "-x", "1", **on_it)["xfer"], "CPUONLY")


if __name__ == "__main__":
    main(globals())
