# SPDX-License-Identifier: Apache-2.0
"""gdscp, `sluice cp`, gdsio_verify and `sluice stats`: copies, comparisons and counts of whole programs."""
import json
import os
import shutil
import signal

from support import (BUILD, SLUICE, behind_a_mount, contains, environment, equal, everything_in, few_threads, main, run, scratch, skip,
                     skip_when_sanitized, where_processes_are_few)

GDSCP = BUILD / "bin/gdscp"
VERIFY = BUILD / "bin/gdsio_verify"
SOFT = {"SLUICE_SOFTGPU": "1"}
COPIERS = ((GDSCP,), (SLUICE, "cp"))


def soft(*words, status=0, **variables):
    return run(*words, status=status, env=environment(**SOFT, **variables))


def some_bytes(size):
    return os.urandom(size)


def test_copies_are_exact_whatever_the_size():
    with scratch() as folder:
        source = folder / "source"
        for copier in COPIERS:
            for size in (0, 1, 4095, 4096, 4097, 300000, (3 << 20) + 17):
                source.write_bytes(some_bytes(size))
                answer = soft(*copier, "--verify", "-i", "100000", "-w", "3", source, folder / "copy")
                equal((folder / "copy").read_bytes(), source.read_bytes())
                contains(answer.stdout, ", verified\n")
            equal(sorted(path.name for path in folder.iterdir()), ["copy", "source"])


def test_copies_keep_holes_and_mode_bits():
    with scratch() as folder:
        source = folder / "source"
        with open(source, "wb") as file:
            file.truncate(64 << 20)
            file.seek(10 << 20)
            file.write(some_bytes(1 << 20))
            file.seek(40 << 20)
            file.write(some_bytes(5000))
        source.chmod(0o640)
        if source.stat().st_blocks * 512 > 8 << 20:
            skip("this file system has no holes")
        answer = json.loads(soft(GDSCP, "--json", source, folder / "copy").stdout)
        copy = folder / "copy"
        equal(copy.read_bytes() == source.read_bytes(), True)
        equal(copy.stat().st_mode & 0o7777, 0o640)
        equal(copy.stat().st_blocks * 512 < 8 << 20, True)
        equal((answer["bytes"], answer["data_bytes"] < 8 << 20, answer["soft"]), (64 << 20, True, True))


def test_copies_run_as_no_other_user_than_their_source():
    with scratch() as folder:
        source, copy = folder / "source", folder / "copy"
        source.write_bytes(b"s" * 5000)
        owners = ((-1, -1, 0o6755),)  # the one who copies
        if os.geteuid() == 0:
            owners += ((12345, 12345, 0o755), (12345, 0, 0o2755), (0, 12345, 0o755))
        for owner, group, expected in owners:
            os.chown(source, owner, group)
            source.chmod(0o6755)
            for copier in COPIERS:
                copy.unlink(missing_ok=True)
                for _ in range(2):  # a file that is made, and one that is replaced
                    soft(*copier, "-q", source, copy)
                    equal((owner, group, oct(copy.stat().st_mode & 0o7777)), (owner, group, oct(expected)))
                    if os.geteuid() == 0:
                        os.chown(copy, owner, group)
                        copy.chmod(0o6755)
        # A process without the capability loses these bits as it writes.
        if os.geteuid() == 0 and shutil.which("setpriv") is not None:
            os.chown(source, 0, 0)
            source.chmod(0o6755)
            run("setpriv", "--bounding-set=-all", "--inh-caps=-all", GDSCP, "-q", source, copy, env=environment(**SOFT))
            equal(oct(copy.stat().st_mode & 0o7777), oct(0o6755))


def test_copies_go_into_folders_and_through_links():
    with scratch() as folder:
        (folder / "source").write_bytes(b"s" * 5000)
        (folder / "into").mkdir()
        (folder / "old").write_bytes(b"old")
        (folder / "link").symlink_to("old")
        soft(GDSCP, folder / "source", folder / "into")
        soft(GDSCP, "-q", folder / "source", folder / "link")
        equal((folder / "into/source").read_bytes(), b"s" * 5000)
        equal((folder / "link").is_symlink(), True)
        equal((folder / "old").read_bytes(), b"s" * 5000)


def test_copies_go_through_no_link_that_leads_nowhere():
    with scratch() as folder:
        (folder / "source").write_bytes(b"s" * 5000)
        (folder / "dangling").symlink_to("none")
        (folder / "loop").symlink_to("loop")
        before = everything_in(folder)
        for copier in COPIERS:
            for name, cause in (("dangling", "No such file or directory"), ("loop", "Too many levels of symbolic links")):
                answer = soft(*copier, folder / "source", folder / name, status=1)
                contains(answer.stderr, f"{name} is a link that leads to no file: {cause}.\n")
                contains(answer.stderr.splitlines()[-1], "  Remove the link, or name the file")
                equal((folder / name).is_symlink(), True)
        equal(everything_in(folder), before)


def test_copies_may_have_any_name_that_a_file_may_have():
    with scratch() as folder:
        (folder / "source").write_bytes(b"s" * 5000)
        (folder / "into").mkdir()
        most = os.pathconf(folder / "into", "PC_NAME_MAX")
        for name in ("n" * (most - 13), "n" * (most - 12), "n" * most, "n" + "\u00e9" * ((most - 1) // 2)):
            for _ in range(2):
                soft(GDSCP, "-q", folder / "source", folder / "into" / name)
            equal(os.listdir(folder / "into"), [name])
            equal((folder / "into" / name).read_bytes(), b"s" * 5000)
            (folder / "into" / name).unlink()
        answer = soft(GDSCP, folder / "source", folder / "into" / ("n" * (most + 1)), status=1)
        contains(answer.stderr, "cannot be made: File name too long.\n       Use a shorter name.\n")
        equal(os.listdir(folder / "into"), [])


def test_copies_say_which_limit_was_reached():
    with scratch() as folder:
        (folder / "source").write_bytes(b"s" * 5000)
        found = set()
        for most in range(4, 16):
            answer = run("sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", GDSCP, folder / "source", folder / "copy",
                         env=environment(**SOFT), status=None)
            if "Too many open files" in answer.stderr:
                found.add(answer.stderr.splitlines()[-1])
        equal(found, {"       Raise the limit of open files (ulimit -n)."})


def test_copies_are_called_as_they_were_asked_for():
    with scratch() as folder:
        (folder / "source").write_bytes(b"s" * 5000)
        (folder / "into").mkdir()
        for copier in COPIERS:
            for asked, name in (("copy", "copy"), ("copy", "copy"), ("into", "into/source"), ("into/", "into/source")):
                answer = run(*copier, "source", asked, cwd=folder, env=environment(**SOFT))
                contains(answer.stdout, f"source -> {name}: 4.9 KiB in ")
                answer = run(*copier, "--json", "source", asked, cwd=folder, env=environment(**SOFT))
                equal(json.loads(answer.stdout)["destination"], name)
        contains(run(SLUICE, "cp", "--help").stdout, "  sluice cp ")


def test_copies_that_fail_tell_of_it_as_json_where_json_was_asked_for():
    with scratch() as folder:
        for copier in COPIERS:
            answer = soft(*copier, "--json", folder / "none", folder / "x", status=1)
            failure = json.loads(answer.stdout)
            equal(list(failure), ["error", "remedy"])
            contains(failure["error"], "none cannot be opened")
            contains(answer.stderr, failure["error"])
        contains(json.loads(soft(GDSCP, "--json", folder / "none", status=2).stdout)["error"], "DESTINATION")


def test_copying_tools_say_which_numbers_are_allowed():
    with scratch() as folder:
        (folder / "file").write_bytes(b"s" * 5000)
        for words in ((GDSCP, folder / "file", folder / "copy", "-d"), (VERIFY, "-f", folder / "file", "-d")):
            for wrong in ("-1", "x", "99999999999"):
                answer = soft(*words, wrong, status=2)
                contains(answer.stderr, "takes the number of a GPU, counted from 0.")
                equal(len(answer.stderr) < 300, True)
        for copier in COPIERS:
            for flag, wrong, part in (("-w", "-1", "-w is -1, and has to be 1 to 256."), ("-w", "0", "-w is 0, and has to be"),
                                      ("-w", "257", "-w is 257, and has to be"), ("-w", "x", "-w is x, and has to be"),
                                      ("-d", "x", "-d cannot be x.")):
                answer = soft(*copier, "--json", folder / "file", folder / "copy", flag, wrong, status=2)
                failure = json.loads(answer.stdout)
                equal(list(failure), ["error", "remedy"])
                contains(failure["error"], part)
                contains(answer.stderr, f": {part}")
        for wrong in ("-1", "0", "00"):
            contains(soft(VERIFY, "-f", folder / "file", "-n", wrong, status=2).stderr, "takes a whole number, 1 or more.")
        contains(soft(VERIFY, "-f", folder / "file", "-d", "9", status=1).stderr, "Use: -d 0\n")


def test_copies_that_cannot_be_leave_everything_as_it_was():
    with scratch() as folder:
        (folder / "source").write_bytes(b"s" * 5000)
        os.link(folder / "source", folder / "same")
        os.mkfifo(folder / "pipe")
        before = sorted(folder.iterdir())
        for words, status, part in (((folder / "none", folder / "x"), 1, "none cannot be opened"),
                                    ((folder, folder / "x"), 1, "is no regular file"),
                                    ((folder / "pipe", folder / "x"), 1, "is no regular file"),
                                    ((folder / "source", folder / "same"), 1, "are the same file"),
                                    ((folder / "source", folder / "pipe"), 1, "is no regular file"),
                                    ((folder / "source", folder / "no/x"), 1, "cannot be made"),
                                    ((folder / "source", folder / "x", "-d", "5"), 1, "There is no GPU 5"),
                                    ((folder / "source", folder / "x", "-i", "0"), 2, "-i has to be"),
                                    ((folder / "source", folder / "x", "-i", "x"), 2, "-i wants a size"),
                                    ((folder / "source", folder / "x", "-w", "0"), 2, "-w is 0"),
                                    ((folder / "source", folder / "x", "-d", "-1"), 2, "gdscp: "),
                                    ((folder / "source",), 2, "DESTINATION"), ((), 2, "Use: gdscp SOURCE"),
                                    ((folder / "source", folder / "x", "--what"), 2, "--what")):
            answer = soft(GDSCP, *words, status=status)
            equal(answer.stdout, "")
            contains(answer.stderr, part)
            equal(sorted(folder.iterdir()), before)


def test_copies_to_a_full_file_system_keep_the_old_file():
    with scratch() as folder:
        (folder / "source").write_bytes(some_bytes(4 << 20))
        (folder / "full").mkdir()
        answer = behind_a_mount(f"-t tmpfs -o size=1M none {folder}/full", f"echo old > {folder}/full/copy; "
                                f"{GDSCP} {folder}/source {folder}/full/copy; echo status $?; ls {folder}/full; cat {folder}/full/copy",
                                env=environment(**SOFT))
        equal(answer.stdout, "status 1\ncopy\nold\n")
        contains(answer.stderr, "No space left on device")


def test_copies_go_on_with_the_threads_that_there_are():
    skip_when_sanitized()
    with scratch() as folder:
        library = few_threads(folder)
        (folder / "source").write_bytes(some_bytes(300000))
        (folder / "into").mkdir()
        for copier in COPIERS:
            for most in (0, 1, 2):
                answer = soft(*copier, "-i", "64K", "-w", "3", folder / "source", folder / "into/copy",
                              LD_PRELOAD=str(library), MOST_THREADS=str(most))
                contains(answer.stderr, f"note: {most} of 3 threads could be started. Raise the limit of processes (ulimit -u")
                equal((folder / "into/copy").read_bytes(), (folder / "source").read_bytes())
                equal(everything_in(folder / "into"), ["copy"])


def test_copies_by_a_user_who_may_start_few_threads_end_in_order():
    with scratch() as folder:
        (folder / "source").write_bytes(some_bytes(1000000))
        (folder / "into").mkdir()
        (folder / "into").chmod(0o777)
        for most in (1, 2, 3, 5):
            answer = where_processes_are_few(most, GDSCP, "-q", "-i", "64K", folder / "source", "copy", cwd=folder / "into")
            equal((most, answer.returncode in (0, 1)), (most, True))
            equal(everything_in(folder / "into"), ["copy"] if answer.returncode == 0 else [])
            if answer.returncode == 1:
                contains(answer.stderr.splitlines()[-1], "       Raise the limit of processes (ulimit -u")
            (folder / "into/copy").unlink(missing_ok=True)


# Sends this program a signal as it makes its file, as it writes for the third time, or before it gives the file its
# name; what is left to do after a signal that ends nothing is done.
INTERRUPTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static void interrupt_at(const char* place) {
  if (strcmp(getenv("INTERRUPT_AT"), place) == 0) kill(getpid(), atoi(getenv("INTERRUPT_BY")));
}
int mkostemp(char* name, int flags) {
  int (*real)(char*, int) = dlsym(RTLD_NEXT, "mkostemp");
  int file = real(name, flags);
  interrupt_at("mkostemp");
  return file;
}
ssize_t cuFileWrite(void* h, const void* p, size_t n, off_t at, off_t from) {
  static int calls;
  ssize_t (*real)(void*, const void*, size_t, off_t, off_t) = dlsym(RTLD_NEXT, "cuFileWrite");
  if (++calls == 3) interrupt_at("cuFileWrite");
  return real(h, p, n, at, from);
}
int rename(const char* from, const char* to) {
  int (*real)(const char*, const char*) = dlsym(RTLD_NEXT, "rename");
  interrupt_at("rename");
  return real(from, to);
}
"""


PLACES = ("mkostemp", "cuFileWrite", "rename")
FAULTS = (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS)
OTHERS = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGALRM, signal.SIGXCPU, signal.SIGXFSZ,
          signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR, signal.SIGRTMIN, signal.SIGRTMAX)
NO_CORE = ("sh", "-c", 'ulimit -c 0; exec "$@"', "sh")


def interrupted_copies(folder, by, start=(), places=PLACES):
    """The exit status of a copy that gets the signal, for each place where it may."""
    (folder / "interrupter.c").write_text(INTERRUPTER, encoding="utf-8")
    run("cc", "-shared", "-fPIC", "-o", folder / "interrupter.so", folder / "interrupter.c")
    (folder / "source").write_bytes(some_bytes(100000))
    (folder / "into").mkdir()
    for place in places:
        answer = soft(*start, GDSCP, "-q", "-i", "4K", "-w", "1", folder / "source", folder / "into/copy", status=None,
                      LD_PRELOAD=str(folder / "interrupter.so"), INTERRUPT_AT=place, INTERRUPT_BY=str(int(by)))
        yield answer.returncode


def test_copies_that_are_interrupted_leave_nothing():
    skip_when_sanitized()
    for by in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with scratch() as folder:
            for status in interrupted_copies(folder, by):
                equal(status, -by)
                equal(list((folder / "into").iterdir()), [])


def test_copies_that_any_signal_ends_leave_nothing():
    skip_when_sanitized()
    for by in OTHERS + FAULTS:
        with scratch() as folder:
            # A fault while the file is made does not wait for its name.
            for status in interrupted_copies(folder, by, start=NO_CORE, places=PLACES[1:] if by in FAULTS else PLACES[:2]):
                equal(status, -by)
                equal((by, everything_in(folder / "into")), (by, []))


def test_copies_go_on_where_a_signal_is_to_be_ignored():
    skip_when_sanitized()
    with scratch() as folder:
        for status in interrupted_copies(folder, signal.SIGHUP, start=("nohup",)):
            equal(status, 0)
            equal((folder / "into/copy").read_bytes(), (folder / "source").read_bytes())
            (folder / "into/copy").unlink()


def test_gdsio_verify_prints_what_scripts_know():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(some_bytes(1 << 20))
        lines = soft(VERIFY, "-f", file, "-d", "0").stdout.splitlines()
        equal(lines, [
            f"gpu index :0,file :{file}, gpu buffer alignment :0, gpu buffer offset :0, gpu devptr offset :0, file offset :0,"
            " io_requested :1048576, io_chunk_size :1048576, bufregister :true, sync :1, nr ios :1,",
            "fsync :0,", "Batch mode: 0", "Data Verification Success"])
        for words in (("-o", "12345", "-s", "100001", "-n", "7"), ("-g", "512", "-S"), ("-m", "0"), ("-m", "0", "-n", "3", "-g", "1"),
                      ("-t", "1")):
            contains(soft(VERIFY, "-f", file, *words).stdout, "Data Verification Success\n")
        contains(soft(VERIFY, "-f", file, "-S", "-n", "4", "-m", "0").stdout,
                 "io_chunk_size :262144, bufregister :false, sync :0, nr ios :4,")


def test_gdsio_verify_notices_a_library_that_gives_other_bytes():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "liar.c").write_text(r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
ssize_t cuFileRead(void* h, void* p, size_t n, off_t at, off_t into) {
  ssize_t (*real)(void*, void*, size_t, off_t, off_t) = dlsym(RTLD_NEXT, "cuFileRead");
  return real(h, p, n, at + 1, into) + 1;
}
""", encoding="utf-8")
        run("cc", "-shared", "-fPIC", "-o", folder / "liar.so", folder / "liar.c")
        (folder / "file").write_bytes(some_bytes(10000))
        answer = soft(VERIFY, "-f", folder / "file", status=1, LD_PRELOAD=str(folder / "liar.so"))
        contains(answer.stderr, "Data Verification Failed: ")
        equal("Success" in answer.stdout, False)


def test_gdsio_verify_says_what_cannot_be():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"x" * 1000)
        for words, status, part in (((), 2, "-f is required"), (("-f", folder / "none"), 1, "cannot be opened"),
                                    (("-f", file, "-o", "1000"), 1, "nothing from 1000 on"),
                                    (("-f", file, "-s", "1001"), 2, "-s has to be 1 to 1000"),
                                    (("-f", file, "-n", "1001"), 2, "-n is 1001"), (("-f", file, "-m", "2"), 2, "-m"),
                                    (("-f", file, "-d", "9"), 1, "There is no GPU 9")):
            contains(soft(VERIFY, *words, status=status).stderr, part)


def test_stats_counts_what_went_which_way():
    skip_when_sanitized()
    with scratch() as folder:
        file = folder / "file"
        gdsio = (BUILD / "bin/gdsio", "-f", file, "-s", "1M", "-i", "64K")
        run(SLUICE, "stats", "--", *gdsio, "-I", "1", "-V", env=environment(**SOFT))
        answer = run(SLUICE, "stats", "--json", "--", *gdsio, "-I", "0", "-m", "3", env=environment(**SOFT))
        counters = json.loads(answer.stderr[answer.stderr.index("{"):])
        way = {"direction": "read", "path": "posix", "reason": "host_memory"}
        equal((counters["metrics"], counters["complete"]),
              ({"sluice_transfers_total": [{**way, "value": 16}], "sluice_transferred_bytes_total": [{**way, "value": 1 << 20}]},
               True))
        contains(answer.stdout, "IoType: READ")
        table = run(SLUICE, "stats", "--", *gdsio, "-I", "1", "-m", "3", env=environment(**SOFT)).stderr
        equal("posix (host_memory)                                   0      0 bytes         16      1.0 MiB" in table, True)
        contains(run(SLUICE, "stats", "--", "true").stderr, "no I/O through cuFile")
        # Into a file, where the program's own words do not come in between.
        written = folder / "counters.json"
        run(SLUICE, "stats", "--json", "-o", written, "--", "python3", "-c", "import sys; print('loud', file=sys.stderr)")
        equal(json.loads(written.read_text(encoding="utf-8"))["complete"], True)
        # Where it cannot be written is said before the program begins.
        ran = folder / "ran"
        refused = run(SLUICE, "stats", "-o", folder / "none/counters", "--", "touch", ran, status=125)
        contains(refused.stderr, "cannot be written")
        equal(ran.exists(), False)
        # One that is killed may have moved bytes: that it has not is nothing to say.
        contains(run(SLUICE, "stats", "--", "sh", "-c", "kill -9 $$", status=None).stderr, "ended before it could tell")
        equal(run(SLUICE, "stats", "--", "sh", "-c", "exit 7", status=None).returncode, 7)
        contains(run(SLUICE, "stats", status=2).stderr, "sluice stats -- CMD")


def test_help_of_the_copying_tools_teaches():
    for command in ((GDSCP,), (SLUICE, "cp"), (VERIFY,), (SLUICE, "stats")):
        contains(run(*command, "--help").stdout, "Examples:")


if __name__ == "__main__":
    main(globals())
