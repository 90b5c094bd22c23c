# SPDX-License-Identifier: Apache-2.0
"""gds_perf.sh, gds_log_collection.py and gdscheck.py, as they lie in the build's bin folder."""
import os
import re
import tarfile

from support import BUILD, contains, environment, equal, main, run, scratch

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
