# SPDX-License-Identifier: Apache-2.0
"""What the tests of whole programs share: where things were built, running, skipping, scratch folders."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["SLUICE_BUILD"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
SLUICE = BUILD / "bin/sluice"
LIBRARY = BUILD / "lib/libcufile.so.0"
CLIENT = BUILD / "test-bin/system/client"
FOREIGN = BUILD / "test-bin/system/foreign/libcufile.so.0"
NEEDS_CUDA = BUILD / "test-bin/system/needs_cuda"
STATIC_PROGRAM = BUILD / "test-bin/system/static_program"

# What would change the outcome if the caller had set it.
OWN_VARIABLES = ("SLUICE_", "CUFILE_", "LD_PRELOAD", "LD_LIBRARY_PATH")


class Skip(Exception):
    """The test cannot be run here; the text says why."""


def skip(reason):
    raise Skip(reason)


def skip_when_sanitized():
    if os.environ.get("SLUICE_SANITIZE"):
        skip("a sanitizer's library cannot be preloaded into a program that was built without it")


def environment(**extra):
    """The caller's environment without the variables that this project looks at, and with `extra`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
    return clean | extra


def run(*command, env=None, cwd=None, status=0, timeout=60):
    """Runs a command to its end; `status` is what it must return, None for anything."""
    result = subprocess.run([str(word) for word in command], env=env or environment(), cwd=cwd, timeout=timeout,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if status is not None and result.returncode != status:
        raise AssertionError(f"{command} returned {result.returncode}, not {status}\n"
                             f"stdout:\n{result.stdout}\nstderr:\n{result.stderr}")
    return result


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


def contains(text, part):
    if part not in text:
        raise AssertionError(f"{part!r} is not in:\n{text}")


def behind_a_mount(mount, script, env=None):
    """What a shell answers in a mount namespace of its own, in which `mount MOUNT` has been done."""
    if os.geteuid() != 0:
        skip("mounting needs root")
    answer = run("unshare", "-m", "sh", "-c", f"mount {mount} || exit 77; {script}", status=None, env=env)
    if answer.returncode == 77 or "unshare" in answer.stderr:
        skip("no mount can be made here")
    return answer


# Of the threads that the program itself starts, not its libraries, no more than $MOST_THREADS begin: the state of a
# std::thread has a table of the program's.
FEW_THREADS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* state) {
  static int begun;
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = dlsym(RTLD_NEXT, "pthread_create");
  Dl_info of_start, of_state;
  if (dladdr((void*)start, &of_start) != 0 && strstr(of_start.dli_fname, "libstdc++") != NULL && state != NULL &&
      dladdr(*(void**)state, &of_state) != 0 && strstr(of_state.dli_fname, ".so") == NULL && ++begun > atoi(getenv("MOST_THREADS")))
    return EAGAIN;
  return real(thread, attributes, start, state);
}
"""


def few_threads(folder):
    """A library to preload that starts no more than $MOST_THREADS threads of the program's own."""
    (folder / "few_threads.c").write_text(FEW_THREADS, encoding="utf-8")
    run("cc", "-shared", "-fPIC", "-o", folder / "few_threads.so", folder / "few_threads.c")
    return folder / "few_threads.so"


def where_processes_are_few(most, *command, cwd):
    """What a command answers as a user who may have no more than `most` threads in all."""
    if os.geteuid() != 0:
        skip("another user, who has no other processes, needs root")
    if shutil.which("setpriv") is None or shutil.which("prlimit") is None:
        skip("setpriv or prlimit is not installed")
    return run("setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
               "prlimit", f"--nproc={most}:{most}", *command, cwd=cwd, env=environment(SLUICE_SOFTGPU="1"), status=None)


@contextlib.contextmanager
def scratch(parent=None):
    """A new folder that other users can enter, taken away at the end. In the build folder unless said otherwise."""
    parent = parent or BUILD / "system-scratch"
    parent.mkdir(exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="t-", dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def main(functions):
    """Runs the one test that the command line names; 77 says that it was skipped."""
    name = sys.argv[1]
    try:
        functions[name]()
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
