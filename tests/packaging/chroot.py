# SPDX-License-Identifier: Apache-2.0
"""A small system in a folder, to install packages in: what it mounts and starts is gone with each command."""
import contextlib
import os
import shlex
import shutil
import subprocess

from support import SOURCE, environment, run, scratch, skip

BASE = SOURCE / "build/package/base.tar"


def base():
    """The archive of that system, which comes over the network when there is none yet; skips where it cannot."""
    if os.geteuid() != 0:
        skip("chroot needs root")
    for program in ("mmdebstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")
    made = subprocess.run([SOURCE / "packaging/make_base.sh", BASE], capture_output=True, text=True, timeout=900, check=False)
    if made.returncode != 0:
        skip(f"no base system could be made (is there a network?): {made.stderr.strip().splitlines()[-1:]}")
    return BASE


class System:
    def __init__(self, root):
        self.root = root

    def run(self, command, status=0, user="root", timeout=300):
        """A line of shell in the system, without a network, as a user of it."""
        inside = ["chroot", f"--userspec={user}", str(self.root), "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                  "LC_ALL=C.UTF-8", "HOME=/tmp", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", command]
        script = f"mount -t proc proc {shlex.quote(str(self.root))}/proc && cd / && exec {shlex.join(inside)}"
        return run("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", script, status=status,
                   timeout=timeout, env=environment())

    def says(self, command, **more):
        return self.run(command, **more).stdout.strip()


@contextlib.contextmanager
def system():
    tar = base()
    with scratch() as folder:
        root = folder / "root"
        root.mkdir()
        run("tar", "-C", root, "--numeric-owner", "-xpf", tar, timeout=300)
        # There are no terminals in it.
        (root / "etc/apt/apt.conf.d/no-terminal").write_text('Dpkg::Use-Pty "0";\n', encoding="utf-8")
        yield System(root)
