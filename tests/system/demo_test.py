# SPDX-License-Identifier: Apache-2.0
"""`sluice demo`: verified bytes and a screenful, for every user and on file systems that cuFile users meet."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from support import BUILD, SLUICE, behind_a_mount, contains, environment, equal, everything_in, main, run, scratch, skip

SOFT = environment(SLUICE_SOFTGPU="1")
SIZE = "9000K"  # two pieces of different length


def check_answer(answer):
    equal(answer["verified"], True)
    equal(answer["bytes"], 9000 << 10)
    equal(answer["path"], "posix")
    equal(answer["driver"], "soft")
    equal(bool(answer["reason"] and answer["sentence"] and answer["file_system"]), True)


def test_demo_verifies_and_tells_in_a_screenful():
    with scratch() as folder:
        text = run(SLUICE, "demo", "--dir", folder, "--size", SIZE, env=SOFT).stdout
        for part in ("soft GPU (no hardware: ", "path        posix", "reason      ", "verified    every byte", "says nothing about a GPU",
                     "What to try next:", "sluice explain FILE", "sluice run --explain -- CMD"):
            contains(text, part)
        equal(len(text.splitlines()) <= 24, True)
        equal(everything_in(folder), [])


def test_demo_tells_programs_the_same():
    with scratch() as folder:
        check_answer(json.loads(run(SLUICE, "demo", "--dir", folder, "--size", SIZE, "--json", env=SOFT).stdout))
        equal(everything_in(folder), [])


def test_demo_says_why_it_cannot_run():
    with scratch() as folder:
        contains(run(SLUICE, "demo", "--dir", folder / "missing", env=SOFT, status=1).stderr, "No such file")
    contains(run(SLUICE, "demo", "--size", "0", env=SOFT, status=2).stderr, "--size 0")


def bytes_written_in(process, folder):
    """How large the file is that a process has open in a folder, with or without a name."""
    found = 0
    for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            if os.readlink(link).startswith(f"{folder}/"):
                found = max(found, link.stat().st_size)
        except FileNotFoundError:
            pass
    return found


def test_demo_leaves_nothing_when_it_is_ended():
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        with scratch() as folder:
            demo = subprocess.Popen([SLUICE, "demo", "--dir", folder, "--size", "1G"], env=SOFT, stdout=subprocess.DEVNULL)
            try:
                deadline = time.monotonic() + 60
                while demo.poll() is None and bytes_written_in(demo, folder) == 0 and time.monotonic() < deadline:
                    time.sleep(0.001)
            finally:
                demo.send_signal(ending)
                equal(demo.wait(60), -ending)
            equal(everything_in(folder), [])


def reachable_by_others(path):
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def test_demo_works_for_an_ordinary_user():
    """As root: as nobody, with a copy of the build where the checkout is not open to others."""
    if os.getuid() != 0:
        with scratch() as folder:
            check_answer(json.loads(run(SLUICE, "demo", "--dir", folder, "--size", SIZE, "--json", env=SOFT).stdout))
        return
    setpriv = shutil.which("setpriv") or skip("setpriv is not installed")
    with scratch(pathlib.Path("/tmp")) as folder:
        tool = SLUICE
        if not reachable_by_others(SLUICE):
            for part in ("bin/sluice", "lib/libcufile.so.0", "softgpu/libcuda.so.1"):
                (folder / "copy" / part).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(BUILD / part, folder / "copy" / part)
            tool = folder / "copy/bin/sluice"
        home = folder / "home"
        home.mkdir()
        os.chown(home, 65534, 65534)
        result = run(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", tool, "demo", "--size", SIZE, "--json",
                     env=SOFT | {"HOME": str(home), "TMPDIR": str(home)}, cwd=home)
        check_answer(json.loads(result.stdout))
        equal(everything_in(home), [])


def in_own_mounts(script, folder):
    """Runs a shell script in a mount namespace of its own: as root, or in a user namespace."""
    namespaces = ["--mount"] if os.getuid() == 0 else ["--user", "--map-root-user", "--mount"]
    unshare = shutil.which("unshare") or skip("unshare is not installed")
    if subprocess.run([unshare, *namespaces, "true"], capture_output=True).returncode != 0:
        skip("this user may not make a mount namespace")
    result = run(unshare, *namespaces, "sh", "-eu", "-c", script, "sh", folder, SLUICE, env=SOFT, status=None)
    if result.returncode == 99:
        skip(f"not mounted: {result.stderr.strip()}")
    equal((result.returncode, result.stderr), (0, ""))
    return json.loads(result.stdout)


def test_demo_works_on_tmpfs():
    with scratch() as folder:
        answer = in_own_mounts(
            f'mount -t tmpfs -o size=64M tmpfs "$1" || exit 99; "$2" demo --dir "$1" --size {SIZE} --json', folder)
        check_answer(answer)
        contains(answer["file_system"], "tmpfs")


def test_demo_works_on_overlayfs():
    with scratch() as folder:
        answer = in_own_mounts(
            'mount -t tmpfs -o size=64M tmpfs "$1" || exit 99\n'
            'mkdir "$1/lower" "$1/upper" "$1/work" "$1/merged"\n'
            'mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" overlay "$1/merged" || exit 99\n'
            f'"$2" demo --dir "$1/merged" --size {SIZE} --json', folder)
        check_answer(answer)
        contains(answer["file_system"], "overlay")


def test_demo_takes_less_where_there_is_little_room():
    with scratch() as folder:
        answer = in_own_mounts(
            'mount -t tmpfs -o size=8M tmpfs "$1" || exit 99; "$2" demo --dir "$1" --size 1G --json', folder)
        equal(answer["verified"], True)
        equal(answer["bytes"], 2 << 20)


def test_demo_says_how_much_room_it_wants():
    with scratch() as folder:
        answer = behind_a_mount(f"-t tmpfs -o size=1M tmpfs {folder}", f"{SLUICE} demo --dir {folder} --size 1M", env=SOFT)
        equal(answer.returncode, 1)
        contains(answer.stderr, "has 1.0 MiB left, and twice the size is wanted.\n        Make room for 2.0 MiB, or")


def test_demo_says_first_that_a_file_system_is_read_only():
    with scratch() as folder:
        answer = behind_a_mount(f"-t tmpfs -o ro,size=1M tmpfs {folder}", f"{SLUICE} demo --dir {folder} --size 1M", env=SOFT)
        equal(answer.returncode, 1)
        contains(answer.stderr, "Read-only file system.")


if __name__ == "__main__":
    main(globals())
