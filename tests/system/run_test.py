# SPDX-License-Identifier: Apache-2.0
"""`sluice run`: an unmodified program on our library, and nothing else about it changed."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

from support import (BUILD, CLIENT, FOREIGN, LIBRARY, NEEDS_CUDA, SLUICE, STATIC_PROGRAM, contains, environment, equal, everything_in, main,
                     run, scratch, skip, skip_when_sanitized)


def sluice_run(*words, **options):
    skip_when_sanitized()
    return run(SLUICE, "run", *words, **options)


def start(*words):
    """Starts `sluice run -- WORDS` in a process group of its own and waits for the program's first line."""
    skip_when_sanitized()
    process = subprocess.Popen([str(word) for word in (SLUICE, "run", "--", *words)], env=environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: os.setpgid(0, 0))
    equal(process.stdout.readline(), "ready\n")
    return process


def finish(process):
    """Waits for the end; returns what was printed since."""
    return process.communicate(timeout=60)


def test_run_puts_a_program_on_sluice_whatever_it_was_linked_with():
    equal(run(CLIENT, "version").stdout, "9990\n")
    equal(sluice_run("--", CLIENT, "version").stdout, "1150\n")


def test_run_says_in_one_line_which_library_was_mapped():
    lines = sluice_run("--", CLIENT, "version").stderr.splitlines()
    equal(len(lines), 1)
    contains(lines[0], f"mapped {LIBRARY.resolve()} (Sluice)")


def test_run_says_nothing_when_asked_to_be_quiet():
    equal(sluice_run("--quiet", "--", CLIENT, "version").stderr, "")


def test_run_tells_what_went_through_the_library():
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 5000)
        result = sluice_run("--", CLIENT, "read", folder / "file")
        equal(result.stdout, "5000\n")
        contains(result.stderr, "1 read of 4.9 KiB by posix (host_memory)")


def test_run_explain_adds_a_line_for_a_file():
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 5000)
        command = ("--", CLIENT, "read", folder / "file")
        without = sluice_run("--quiet", *command).stderr
        equal(without, "")
        lines = sluice_run("--quiet", "--explain", *command).stderr.splitlines()
        equal(len(lines), 1)
        contains(lines[0], "posix")


def test_run_passes_the_exit_status_on():
    for status in (0, 1, 42, 255):
        sluice_run("--", CLIENT, "exit", str(status), status=status)


def test_run_and_stats_have_the_programs_status_also_where_their_own_words_are_lost():
    skip_when_sanitized()
    for words in (("run",), ("stats",), ("stats", "--json")):
        for status in (0, 7):
            command = [SLUICE, *words, "--", "sh", "-c", f"exit {status}"]
            with open("/dev/full", "w", encoding="utf-8") as full:
                equal(subprocess.run(command, env=environment(), stderr=full, timeout=60, check=False).returncode, status)
            closed = subprocess.run(command, env=environment(), preexec_fn=lambda: os.close(2), timeout=60, check=False)
            equal(closed.returncode, status)


def test_an_answer_that_stdout_does_not_take_is_a_failure_and_told():
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 4096)
        for words in ((SLUICE, "version"), (SLUICE, "version", "--json"), (SLUICE, "explain", folder / "file"), (SLUICE, "--help"),
                      (SLUICE, "topology", "--json"), (BUILD / "bin/gdscheck", "-v"), (BUILD / "bin/gds_stats", "--help")):
            with open("/dev/full", "w", encoding="utf-8") as full:
                answer = subprocess.run(words, env=environment(SLUICE_SOFTGPU="1"), stdout=full, stderr=subprocess.PIPE,
                                        text=True, timeout=60, check=False)
            equal((words, answer.returncode), (words, 1))
            contains(answer.stderr, "stdout cannot be written")
        closed = subprocess.run([SLUICE, "version"], env=environment(), stderr=subprocess.PIPE, text=True, timeout=60, check=False,
                                preexec_fn=lambda: os.close(1))
        equal(closed.returncode, 1)


def test_run_ends_by_the_signal_that_ended_the_program():
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGUSR2, signal.SIGPIPE):
        sluice_run("--", CLIENT, "raise", str(int(number)), status=-number)


def test_run_passes_signals_on_to_the_program():
    process = start(CLIENT, "wait")
    process.send_signal(signal.SIGUSR1)
    out, err = finish(process)
    equal(out, "usr1\n")
    equal(process.returncode, 5)
    contains(err, "mapped")


def test_run_stops_and_continues_with_the_program():
    process = start(CLIENT, "wait")
    process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    equal(os.WIFSTOPPED(status), True)
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGUSR1)
    out, _ = finish(process)
    equal(out, "usr1\n")
    equal(process.returncode, 5)


def test_run_takes_the_program_along_when_it_is_killed():
    process = start(CLIENT, "wait")
    process.kill()
    # The program holds the other end of this pipe: it reads as ended when the program has.
    out, _ = finish(process)
    equal(out, "")


def test_run_keeps_blanks_and_dashes_in_arguments():
    words = ["two words", "", "--help", "--", "a\tb", "'\"", "*"]
    expected = "".join(f"[{word}]\n" for word in words)
    equal(sluice_run("--", CLIENT, "words", *words).stdout, expected)
    equal(sluice_run(CLIENT, "words", *words).stdout, expected)


def test_run_keeps_a_preload_that_was_there():
    out = sluice_run("--", "env", env=environment(LD_PRELOAD="libm.so.6")).stdout
    line = next(line for line in out.splitlines() if line.startswith("LD_PRELOAD="))
    names = line.removeprefix("LD_PRELOAD=").split(":")
    equal(names[0], str(LIBRARY.resolve()))
    equal(names[-1], "libm.so.6")


def test_run_gives_a_configuration_only_where_there_is_none():
    def seen(**variables):
        out = sluice_run("--", "env", env=environment(**variables)).stdout
        return [line.split("=", 1)[1] for line in out.splitlines() if line.startswith("CUFILE_ENV_PATH_JSON=")]

    equal(seen(CUFILE_ENV_PATH_JSON="/some/where.json"), ["/some/where.json"])
    if pathlib.Path("/etc/cufile.json").exists():
        equal(seen(), [])
        return
    (given,) = seen()
    contains(pathlib.Path(given).read_text(), '"properties"')


def test_run_leaves_no_file_behind():
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 5000)
        before = everything_in(folder)
        sluice_run("--explain", "--", CLIENT, "read", "file", cwd=folder,
                   env=environment(HOME=str(folder), TMPDIR=str(folder), XDG_RUNTIME_DIR=str(folder)))
        equal(everything_in(folder), before)


def test_run_counts_the_children_of_the_program():
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 100)
        command = 'for i in 1 2 3; do "$0" read "$1" || exit 1; done'
        result = sluice_run("--", "bash", "-c", command, CLIENT, folder / "file")
        equal(result.stdout, "100\n" * 3)
        contains(result.stderr, "in 4 processes (Sluice); 3 reads of 300 bytes in all by posix (host_memory)")


def test_run_counts_a_read_once_when_the_program_forks_after_it():
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 100)
        result = sluice_run("--", CLIENT, "fork", folder / "file")
        contains(result.stderr, "in 2 processes (Sluice); 1 read of 100 bytes by posix (host_memory)")


def test_run_names_a_foreign_library_that_was_opened_by_its_path():
    result = sluice_run("--", CLIENT, "open", FOREIGN, "version")
    contains(result.stderr, f"mapped {FOREIGN.resolve()}, which is not Sluice")


def test_run_names_a_foreign_library_of_a_program_that_is_killed():
    process = start(CLIENT, "open", FOREIGN, "wait")
    process.terminate()
    _, err = finish(process)
    contains(err, f"mapped {FOREIGN.resolve()}, which is not Sluice")
    equal(process.returncode, -signal.SIGTERM)


def test_run_gives_the_soft_gpu_when_asked():
    equal(sluice_run("--soft-gpu", "--", CLIENT, "driver").stdout, "soft\n")
    equal(sluice_run("--", CLIENT, "driver", env=environment(SLUICE_SOFTGPU="1")).stdout, "soft\n")


def test_run_refuses_a_static_program_and_says_why():
    result = sluice_run("--", STATIC_PROGRAM, status=126)
    contains(result.stderr, "statically linked")


def test_run_names_the_missing_driver_of_a_program_that_was_not_loaded():
    if run(NEEDS_CUDA, status=None).returncode != 127:
        skip("the loader finds a libcuda.so.1 here")
    result = sluice_run("--", NEEDS_CUDA, status=127)
    contains(result.stderr, "it is linked with libcuda.so.1, which is not on this machine")
    contains(result.stderr, "sluice run --soft-gpu")
    with scratch() as folder:
        run(SLUICE, "stats", "--json", "-o", folder / "counters", "--", NEEDS_CUDA, status=127)
        contains(json.loads((folder / "counters").read_text(encoding="utf-8"))["no_library"], "it is linked with libcuda.so.1")
    sluice_run("--soft-gpu", "--", NEEDS_CUDA, status=run(STATIC_PROGRAM, status=None).returncode)


def test_run_names_a_cleared_preload():
    result = sluice_run("--", "env", "-u", "LD_PRELOAD", CLIENT, "exit", "0")
    equal("it is not a 64-bit program" in result.stderr, False)


def test_a_command_line_that_cannot_be_read_is_json_where_that_was_asked_for():
    for words in (("cp", "--json", "only-one"), ("version", "--json", "--nothing"), ("explain", "--json")):
        answer = run(SLUICE, *words, status=2)
        equal(sorted(json.loads(answer.stdout)), ["error", "remedy"])
        equal(answer.stderr != "", True)


def test_a_mistyped_subcommand_is_answered_by_the_nearest():
    for word, meant in (("explan", "explain"), ("docter", "doctor"), ("stat", "stats")):
        told = run(SLUICE, word, status=2).stderr
        contains(told, f"There is no subcommand {word}.")
        contains(told, f"Did you mean: sluice {meant}?")
    contains(run(SLUICE, "xyzzyplugh", status=2).stderr, "`sluice --help` lists them")


def test_run_refuses_a_setuid_program_and_says_why():
    if os.getuid() != 0:
        program = shutil.which("su") or skip("there is no su here")
        if not pathlib.Path(program).stat().st_mode & 0o4000:
            skip(f"{program} is not setuid here")
        result = sluice_run("--", program, status=126)
        contains(result.stderr, "privileges")
        return
    with scratch() as folder:
        program = folder / "setuid"
        shutil.copy(CLIENT, program)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        result = sluice_run("--", program, "exit", "0", status=126)
        contains(result.stderr, "privileges")


def test_run_looks_through_scripts_at_their_interpreter():
    with scratch() as folder:
        script = folder / "script"
        script.write_text(f"#! {STATIC_PROGRAM} argument\n")
        script.chmod(0o755)
        contains(sluice_run("--", script, status=126).stderr, "statically linked")
        script.write_text("#!/bin/sh\nexit 9\n")
        sluice_run("--", script, status=9)


def test_run_tells_a_missing_program_from_one_that_cannot_be_executed():
    contains(sluice_run("--", "no-such-program-anywhere", status=127).stderr, "There is no program")
    with scratch() as folder:
        (folder / "text").write_text("no program")
        contains(sluice_run("--", folder / "text", status=126).stderr, "Permission denied")
        # The program is there, and what it is executed by is not: of a script, of one behind it, and of an ELF file.
        script, behind, program = (folder / name for name in ("script", "behind", "program"))
        script.write_text("#!/no/such/shell -e\n")
        behind.write_text(f"#!{script}\n")
        program.write_bytes(pathlib.Path(CLIENT).read_bytes().replace(b"/ld-linux", b"/no-linux"))
        for each, missing in ((script, "/no/such/shell"), (behind, "/no/such/shell"), (program, "/no-linux")):
            each.chmod(0o755)
            told = sluice_run("--", each, status=126).stderr
            contains(told, f"{each} cannot be executed: its interpreter ")
            contains(told, missing)
    contains(sluice_run(status=2).stderr, "no program to run")


if __name__ == "__main__":
    main(globals())
