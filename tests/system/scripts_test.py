# SPDX-License-Identifier: Apache-2.0
"""gds_perf.sh, gds_log_collection.py and gdscheck.py, as they lie in the build's bin folder."""
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile

from support import BUILD, behind_a_mount, contains, environment, equal, main, run, scratch

BIN = BUILD / "bin"
SOFT = {"SLUICE_SOFTGPU": "1"}


def perf(*words, status=0):
    return run(BIN / "gds_perf.sh", *words, status=status, env=environment(**SOFT))


def test_gds_perf_sweeps_over_every_combination():
    with scratch() as folder:
        words = ("-f", folder / "file", "-s", "1M", "-x", "0 2", "-I", "1 0", "-i", "4K 64K", "-w", "1 2", "-T", "0.05")
        lines = perf(*words).stdout.splitlines()
        equal(len(lines), 16)
        found = {(re.search(r"IoType: (\w+)", line)[1], re.search(r"XferType: (\w+)", line)[1],
                  re.search(r"Threads: (\d+)", line)[1], re.search(r"IOSize: (\d+)", line)[1]) for line in lines}
        equal(found, {(io, xfer, threads, size) for io in ("WRITE", "READ") for xfer in ("GPUD", "CPU_GPU")
                      for threads in "12" for size in ("4", "64")})
        rows = perf(*words, "-c").stdout.splitlines()
        equal(rows[0], "io,xfer,threads,size_kib,gib_per_s,latency_us,ops")
        equal([bool(re.fullmatch(r"(WRITE|READ),(GPUD|CPU_GPU),[12],(4|64),[\d.]+,[\d.]+,\d+", row)) for row in rows[1:]],
              [True] * 16)
        perf("-D", folder, "-s", "64K", "-x", "6", "-I", "0", "-i", "4K", "-w", "3", "-T", "0.05", "--create", "--",
             "--cold")


def test_gds_perf_goes_on_after_a_failure_and_says_so():
    with scratch() as folder:
        answer = perf("-f", folder / "file", "-s", "1M", "-x", "2", "-I", "0", "-i", "1000 4K", "-w", "1", "-T", "0.05",
                      "--create", status=1)
        equal(len(answer.stdout.splitlines()), 1)
        contains(answer.stderr, "this failed: gdsio -x 2 -I 0 -i 1000 -w 1")
        for words in ((), ("-f",), ("-Q",), ("-f", "a", "-D", "b")):
            equal(perf(*words, status=2).stdout, "")
    contains(perf("--help").stdout, "Examples:")


def test_a_sweep_that_only_reads_writes_nothing():
    with scratch() as folder:
        words = ("-f", folder / "file", "-x", "2", "-I", "0", "-i", "64K", "-w", "1", "-T", "0.05", "-s", "64K")
        contains(perf(*words, status=2).stderr, "--create")
        equal((folder / "file").exists(), False)
        content = os.urandom(65536)
        (folder / "file").write_bytes(content)
        answer = perf(*words)
        equal(len(answer.stdout.splitlines()), 1)
        contains(answer.stderr, "1 runs of 0.05 s each")
        equal((folder / "file").read_bytes(), content)


def test_gds_perf_checks_all_of_its_words_before_it_writes():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"precious")
        for words, cause, remedy in ((("-T", "-1"), '-T cannot be "-1"', "-T takes seconds above 0"),
                                     (("-T", "0"), '-T cannot be "0"', "-T takes seconds above 0"),
                                     (("-x", "9"), '-x cannot be "9"', "-x takes numbers from 0 to 7"),
                                     (("-x", "*"), '-x cannot be "*"', "-x takes numbers from 0 to 7"),
                                     (("-I", "x"), '-I cannot be "x"', "-I takes 0 (read), 1 (write)"),
                                     (("-i", ""), "-i names nothing", "-i takes sizes"),
                                     (("-i", "4K 8Q"), '-i cannot be "8Q"', "-i takes sizes"),
                                     (("-i", "4K:8K"), '-i cannot be "4K:8K"', "-i takes sizes"),
                                     (("-w", "1 0"), '-w cannot be "0"', "-w takes numbers of threads"),
                                     (("-s", "0"), '-s cannot be "0"', "-s takes a size"),
                                     (("-d", "-1"), '-d cannot be "-1"', "-d takes the number of a GPU"),
                                     (("-d", "7"), "There is no GPU 7", "-d 0"),
                                     (("-n", "999"), "There is no NUMA node 999", "eave -n out."),  # a sentence of its own without nodes
                                     (("--", "--what"), "--what", "gdsio --help"),
                                     (("--", "-I", "3"), "-I stands after --", "before the two dashes"),
                                     (("-x", "6", "-w", "1 200"), "A batch of 200 is more than the library's limit", "smaller -w"),
                                     (("--", "--help"), "--help stands after --", "gdsio --help"),
                                     (("-c", "--", "--json"), "-c and --json exclude each other", "Leave one of them out")):
            answer = perf("-f", file, *words, status=2)
            equal((words, answer.stdout, len(answer.stderr.splitlines())), (words, "", 2))
            contains(answer.stderr.splitlines()[0], cause)
            contains(answer.stderr.splitlines()[1], remedy)
            equal(file.read_bytes(), b"precious")


def test_gds_perf_tells_of_operations_by_name_that_they_write():
    with scratch() as folder:
        answer = perf("-f", folder / "file", "-s", "64K", "-x", "2", "-I", "write", "-i", "4K:16K:4K", "-w", "1", "-T", "0.05")
        contains(answer.stderr, "writes 64K into ")
        equal(len(answer.stdout.splitlines()), 1)


def test_gds_perf_keeps_its_table_a_table():
    with scratch() as folder:
        rows = perf("-f", folder / "file", "-s", "64K", "-x", "2", "-I", "1", "-i", "4K", "-w", "1", "-T", "0.05", "-c", "--",
                    "--latency", "-J", "--path").stdout.splitlines()
        equal((len(rows), [row.count(",") for row in rows]), (2, [6, 6]))


def test_gds_perf_says_that_stdout_takes_nothing():
    with scratch() as folder:
        sweep = f"-f {folder}/file -s 64K -x 2 -I 1 -i 4K -w 1 -T 0.05"
        for words in (f"{sweep} -c", sweep, "--version", "--help"):
            for redirection in (">/dev/full", ">&-"):
                told = run("sh", "-c", f"{BIN}/gds_perf.sh {words} {redirection}", status=1, env=environment(**SOFT))
                cause, remedy = [line for line in told.stderr.splitlines() if "gdsio" not in line and " first" not in line]
                equal(cause, "gds_perf.sh: What was to be printed is not all there: stdout cannot be written.")
                equal(remedy.strip(), "Look at the room of its disk, or at what it is connected with.")


def test_scripts_tell_their_version():
    version = run(BIN / "gdsio", "--version").stdout.strip().rpartition("(")[2]
    for script in ("gds_perf.sh", "gds_log_collection.py"):
        equal(run(BIN / script, "--version").stdout, f"{script} ({version}\n")


def test_gds_perf_without_gdsio_says_so_first():
    with scratch() as folder:
        script = folder / "bin/gds_perf.sh"
        script.parent.mkdir()
        script.write_bytes((BIN / script.name).read_bytes())
        for name in ("dirname", "readlink"):
            (folder / "bin" / name).symlink_to(shutil.which(name))
        for words in (("--version",), ("-f", folder / "file", "-s", "64K")):
            answer = run("/bin/sh", script, *words, status=1, env=environment(PATH=str(folder / "bin")))
            equal((answer.stdout, len(answer.stderr.splitlines())), ("", 2))
            contains(answer.stderr, "gds_perf.sh: There is no gdsio, ")
        equal((folder / "file").exists(), False)


def alone(folder):
    """The log collection in a folder where no other tools are, so that it takes a moment; its path, and an environment
    whose PATH has none either."""
    script = folder / "bin/gds_log_collection.py"
    script.parent.mkdir()
    script.write_bytes((BIN / script.name).read_bytes())
    script.chmod(0o755)
    (folder / "out").mkdir()
    return script, environment(PATH=str(folder / "bin"))


def collect(script, *words, **options):
    return run(sys.executable, script, *words, **options)


def test_gds_log_collection_says_which_named_files_it_lacks():
    with scratch() as folder:
        script, variables = alone(folder)
        os.mkfifo(folder / "pipe")
        (folder / "there").write_text("here\n", encoding="utf-8")
        variables["CUFILE_ENV_PATH_JSON"] = str(folder / "pipe")
        # Told by something that would wait for the pipe, too.
        (folder / "bin/gdscheck").write_text('#!/bin/sh\nexec /bin/cat ${CUFILE_ENV_PATH_JSON:-/dev/null}\n', encoding="utf-8")
        (folder / "bin/gdscheck").chmod(0o755)
        names = ",".join(str(folder / name) for name in ("none", "there", "pipe"))
        answer = collect(script, "-d", folder / "out", "-f", names, status=1, env=variables, timeout=50)
        contains(answer.stderr, f"{folder}/none: No such file or directory; this file is not in the archive.\n")
        contains(answer.stderr, f"{folder}/pipe: no regular file; this file is not in the archive.\n")
        equal("there" in answer.stderr, False)
        path = answer.stdout.split("GDS Log file saved under ")[1].strip()
        with tarfile.open(path) as archive:
            equal(any(name.endswith("/there") for name in archive.getnames()), True)


def test_gds_log_collection_makes_an_archive_of_its_own_each_time():
    with scratch() as folder:
        script, variables = alone(folder)
        # All in the same second: the clock stands still.
        (folder / "bin/datetime.py").write_text("""
class datetime:
    now = staticmethod(lambda: datetime())
    timestamp = lambda self: 0
    __format__ = lambda self, form: "20260102030405"
""", encoding="utf-8")
        for _ in range(3):
            collect(script, "-d", folder / "out", env=variables)
        found = sorted(path.name.rpartition("20260102030405")[2] for path in (folder / "out").iterdir())
        equal(found, ["-2.tar.gz", "-3.tar.gz", ".tar.gz"])


def test_gds_log_collection_takes_away_nothing_of_another():
    with scratch() as folder:
        script, _ = alone(folder)
        specification = importlib.util.spec_from_file_location("collection", script)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        archive = module.Archive(str(folder / "out"), "logs")
        archive.publish()
        # As another one that found the name free again.
        (folder / "out/logs.tar.gz.unfinished").write_text("another's", encoding="utf-8")
        archive.drop()
        equal(sorted(path.name for path in (folder / "out").iterdir()), ["logs.tar.gz", "logs.tar.gz.unfinished"])


def test_gds_log_collection_tells_when_stdout_takes_nothing():
    with scratch() as folder:
        script, variables = alone(folder)
        for redirection in (">&-", ">/dev/full"):
            for words, part in ((f"-d {folder}/out", ".tar.gz is there, and stdout takes no line about it."),
                                ("--version", "The version cannot be told")):
                answer = run("/bin/sh", "-c", f"exec {sys.executable} {script} {words} {redirection}", status=1, env=variables)
                contains(answer.stderr, part)
                contains(answer.stderr, "Give stdout a place to go.")


def test_gds_log_collection_leaves_nothing_on_a_full_disk():
    with scratch() as folder:
        script, variables = alone(folder)
        (folder / "noise").write_bytes(os.urandom(1 << 16))
        answer = behind_a_mount(f"-t tmpfs -o size=4k none {folder}/out",
                                f"{sys.executable} {script} -d {folder}/out -f {folder}/noise; echo status $?; ls -A {folder}/out",
                                env=variables | {"PATH": os.environ["PATH"]})
        equal(answer.stdout, "status 1\n")
        contains(answer.stderr, "cannot be written: No space left on device.\n")
        contains(answer.stderr, "Name a folder with more room with -d.")
        equal("Traceback" in answer.stderr, False)


def test_gds_log_collection_leaves_nothing_when_it_is_interrupted():
    with scratch() as folder:
        script, variables = alone(folder)
        os.mkfifo(folder / "begun")
        # The first command that it finds tells that it runs, and goes on until it is ended.
        (folder / "bin/dmesg").write_text(f"#!/bin/sh\necho > {folder}/begun\nexec /bin/sleep 50\n", encoding="utf-8")
        (folder / "bin/dmesg").chmod(0o755)
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([sys.executable, script, "-d", folder / "out"], env=variables, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                (folder / "begun").read_text(encoding="utf-8")
                child.send_signal(number)
                out, err = child.communicate(timeout=40)
            equal((child.returncode, out, "Traceback" in err), (128 + number, "", False))
            equal(list((folder / "out").iterdir()), [])


def test_gds_log_collection_leaves_secrets_out():
    with scratch() as folder:
        (folder / "extra.json").write_text('{"api_key": "hush1", "size": 7, "url": "http://me:hush2@host/x"}\n'
                                           'PASSWORD=hush3 and auth-token: hush4\n', encoding="utf-8")
        (folder / "cufile.log").write_text("a line of the log\n", encoding="utf-8")
        answer = run(BIN / "gds_log_collection.py", "-d", folder, "-f", folder / "extra.json", cwd=folder, timeout=110,
                     env=environment(**SOFT, CUFILE_LOGGING_LEVEL="INFO", MY_SECRET="hush5", SLUICE_TOKEN="hush6"))
        path = answer.stdout.split("GDS Log file saved under ")[1].strip()
        equal(bool(re.fullmatch(rf"{folder}/gds-logs-.*-\d{{14}}\.tar\.gz", path)), True)
        equal(os.stat(path).st_mode & 0o777, 0o600)
        with tarfile.open(path) as archive:
            texts = {name.split("/", 1)[1]: archive.extractfile(name).read().decode() for name in archive.getnames()}
        contains(texts[f"files{folder}/extra.json"], '"size": 7')
        contains(texts[f"files{folder}/cufile.log"], "a line of the log")
        contains(texts["environment.txt"], "CUFILE_LOGGING_LEVEL=INFO")
        contains(texts["commands/gdscheck.txt"], "CUFILE CONFIGURATION:")
        contains(texts["commands/sluice.txt"], "cuFile API")
        contains(texts["what-is-missing.txt"], "modinfo")
        equal([name for name, text in texts.items() if "hush" in text], [])
        contains(run(BIN / "gds_log_collection.py", "-d", folder / "no", status=1).stderr, "cannot be made")
        contains(run(BIN / "gds_log_collection.py", "--help").stdout, "Examples:")


def test_gdscheck_py_is_gdscheck():
    contains(run(BIN / "gdscheck.py", "-pvV", env=environment(**SOFT), status=1).stdout, "Platform verification failed: no GPU")
    contains(run(BIN / "gdscheck.py", "-p", "--soft", env=environment(**SOFT)).stdout, "Platform verification succeeded")
    equal(run(BIN / "gdscheck.py", "-h").stdout, run(BIN / "gdscheck", "-h").stdout)
    run(BIN / "gdscheck.py", "--no-such-option", status=2)


if __name__ == "__main__":
    main(globals())
