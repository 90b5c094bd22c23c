# SPDX-License-Identifier: Apache-2.0
"""Images and containers for tests, by podman with a storage of the test's own: without a registry, a network or a daemon."""
import contextlib
import os
import pathlib
import shutil
import subprocess

from support import run, scratch, skip

# What a machine for tests may refuse to containers: their limits, and groups of processes as crun wants them.
MODEST = (["--runtime", "runc", "--cgroup-manager", "cgroupfs"], ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"])


class Podman:
    def __init__(self, folder):
        self.folder = folder
        self.front = ["podman", "--root", folder / "storage", "--runroot", folder / "run", "--tmpdir", folder / "tmp",
                      "--storage-driver", "vfs"]
        self.engine, self.limits = [], []

    def import_root(self, root, name):
        """An image of the folder `root`, as a registry would give it."""
        tar = self.folder / "root.tar"
        run("tar", "-C", root, "-cf", tar, ".")
        self.call("import", "-q", tar, name)
        tar.unlink()

    def call(self, *words, status=0):
        return run(*self.front, *self.engine, *words, status=status, timeout=300)

    def build(self, *words):
        # Nothing runs in these builds, so nothing needs a runtime.
        return self.call("build", "--isolation", "chroot", "--network", "host", "--pull-never", *words)

    def run(self, *words, status=0):
        """What a container says comes from its log: podman, attached to one that ends at once, may hear nothing of it."""
        try:
            answer = self.call("run", "--name", "one", "--log-driver", "k8s-file", "--network", "none", *self.limits, *words, status=None)
            said = self.call("logs", "one", status=None)
        finally:
            self.call("rm", "--force", "--ignore", "one", status=None)
        if said.returncode == 0:
            answer.stdout, answer.stderr = said.stdout or answer.stdout, said.stderr or answer.stderr
        if status is not None and answer.returncode != status:
            raise AssertionError(f"{words} returned {answer.returncode}, not {status}\nstdout:\n{answer.stdout}\nstderr:\n{answer.stderr}")
        return answer

    def settle(self, name, *command):
        """Finds out how containers run here, by a command in an image; skips the test where none does."""
        answers = []
        for self.engine, self.limits in (([], []), MODEST):
            answer = self.run(name, *command, status=None)
            if answer.returncode == 0:
                return
            answers.append(answer.stderr.strip().splitlines()[-1] if answer.stderr.strip() else str(answer.returncode))
        skip("no container runs here: " + "; ".join(answers))


@contextlib.contextmanager
def podman():
    if os.geteuid() != 0:
        skip("containers with a storage of their own need root here")
    if shutil.which("podman") is None:
        skip("podman is not installed")
    # Below /tmp: sockets in it have names of a limited length.
    with scratch(pathlib.Path("/tmp")) as folder:
        try:
            yield Podman(folder)
        finally:
            # What podman has mounted of its storage it leaves mounted until the machine ends.
            with open("/proc/self/mounts", encoding="utf-8") as mounts:
                below = [line.split()[1] for line in mounts if line.split()[1].startswith(f"{folder}/")]
            for place in reversed(below):
                subprocess.run(["umount", place], check=False)
