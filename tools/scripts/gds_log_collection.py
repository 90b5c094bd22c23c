#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gds_log_collection.py: what a bug report about GPUDirect Storage needs, in one archive.

Gathers facts about the machine, its GPUs, storage, kernel and libraries, and the log and configuration of cuFile. What
cannot be had is noted in the archive and stops nothing. Nothing leaves the machine.

Secrets are left out: values of variables and keys whose names speak of a key, token, password, secret, credential or
session, user names and passwords within addresses, and serial numbers. Look the archive through before sending it, all
the same: it names files, hosts and programs of yours.

Examples:
  gds_log_collection.py
  gds_log_collection.py -d /data -f /var/log/app.log,/etc/app.json

Exit status: 0; 1 when there is no archive, or a file that -f names is not in it; 2 when the command line is not
understood.
"""

import argparse
import contextlib
import datetime
import io
import itertools
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile

NAME = "gds_log_collection.py"
LIMIT = 32 << 20  # of one file; the end of a longer one is kept
SECONDS = 60      # for one command

MODULES = ["nvidia_fs", "nvidia", "gdrdrv", "nvme", "nvme_core", "nvme_rdma", "rpcrdma", "wekafsio", "lustre", "lnet"]
COMMANDS = {
    "uname": ["uname", "-a"],
    "dmesg": ["dmesg"],
    "lsmod": ["lsmod"],
    "lspci": ["lspci", "-vvv"],
    "lsblk": ["lsblk", "-O", "-J"],
    "mounts": ["findmnt", "-A", "-J"],
    "nvidia-smi": ["nvidia-smi", "-q"],
    "nvidia-topology": ["nvidia-smi", "topo", "-m"],
    "ibv_devinfo": ["ibv_devinfo"],
    "ofed": ["ofed_info", "-s"],
    "gdscheck": ["gdscheck", "-p", "-v", "-V"],
    "sluice": ["sluice", "version"],
    "libraries": ["ldconfig", "-p"],
}
FILES = ["/etc/os-release", "/proc/cmdline", "/proc/cpuinfo", "/proc/meminfo", "/proc/modules", "/proc/self/mountinfo",
         "/proc/driver/nvidia/version", "/proc/driver/nvidia/params", "/etc/cufile.json"]
FOLDERS = ["/proc/driver/nvidia-fs", "/sys/bus/pci/drivers/nvme"]

SECRET = r"[\w.-]*(?:key|token|passw|secret|credential|session|cookie|auth)[\w.-]*"
RULES = [
    # NAME=value, name: value, "name": "value"
    (re.compile(rf"(?i)\b({SECRET})([\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)"), r"\1\2[left out]"),
    (re.compile(r"(?i)(://)[^/\s:@]+:[^/\s@]+@"), r"\1[left out]@"),
    (re.compile(r"(?i)\b(serial(?: number)?|board part number|gpu uuid)([\"']?\s*[=:]\s*)(\"[^\"]*\"|[^\s,]+)"),
     r"\1\2[left out]"),
]


def without_secrets(text):
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text


def tell(cause, remedy=""):
    """On stderr; where that takes nothing, the work goes on."""
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write(f"{NAME}: {cause}\n" + (f"{' ' * len(NAME)}  {remedy}\n" if remedy else ""))
        sys.stderr.flush()


def answer(text):
    """Whether stdout, which is None where it was closed, takes the line."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        return True
    except (OSError, AttributeError):
        return False


class Unwritable(Exception):
    """The archive itself cannot be written; the cause is an OSError."""


class Archive:
    """What was gathered, each piece cleaned before it is kept, and notes about what was not. It has its name when it is
    whole; before that, and after an error, it has one that nothing else has, or is gone."""

    def __init__(self, folder, name):
        for number in itertools.count(1):
            self.top = name if number == 1 else f"{name}-{number}"
            self.path = os.path.join(folder, self.top + ".tar.gz")
            self.unfinished = self.path + ".unfinished"
            try:
                # 0600 from the beginning: the archive tells much of the machine.
                descriptor = os.open(self.unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue
            if not os.path.lexists(self.path):
                break
            os.close(descriptor)
            os.unlink(self.unfinished)
        self.file = os.fdopen(descriptor, "wb")
        self.tar = tarfile.open(fileobj=self.file, mode="w:gz")
        self.notes = []

    def add(self, name, text):
        data = without_secrets(text).encode()
        entry = tarfile.TarInfo(f"{self.top}/{name}")
        entry.size = len(data)
        entry.mtime = int(datetime.datetime.now().timestamp())
        try:
            self.tar.addfile(entry, io.BytesIO(data))
        except OSError as error:
            raise Unwritable from error

    def add_file(self, path, name=None):
        """Says whether the file is in the archive."""
        try:
            # Before it is opened: opening a pipe would wait for its other end.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise OSError(0, "no regular file")
            with open(path, "rb") as file:
                data = file.read(LIMIT + 1)
                if len(data) > LIMIT:
                    file.seek(-LIMIT, os.SEEK_END)
                    data = b"[only the end]\n" + file.read(LIMIT)
        except OSError as error:
            self.notes.append(f"{path}: {error.strerror}")
            return False
        self.add(name or f"files/{str(path).strip('/')}", data.decode(errors="replace"))
        return True

    def add_command(self, name, command):
        program = find(command[0])
        if program is None:
            self.notes.append(f"{command[0]}: there is no such program")
            return
        try:
            result = subprocess.run([program, *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.notes.append(f"{' '.join(command)}: {error}")
            return
        self.add(f"commands/{name}.txt", result.stdout.decode(errors="replace"))
        if result.returncode != 0:
            self.notes.append(f"{' '.join(command)}: exit status {result.returncode}")

    def publish(self):
        self.add("what-is-missing.txt", "\n".join(self.notes) + "\n")
        try:
            self.tar.close()
            self.file.flush()
            os.rename(self.unfinished, self.path)
            self.unfinished = None
        except OSError as error:
            raise Unwritable from error

    def drop(self):
        """Nothing where it was published: what has that name then is another's."""
        if self.unfinished is None:
            return
        with contextlib.suppress(OSError):
            os.unlink(self.unfinished)


def find(program):
    """Beside this file first: the tools that belong together."""
    beside = pathlib.Path(__file__).resolve().parent / program
    return str(beside) if os.access(beside, os.X_OK) else shutil.which(program)


def cufile_processes():
    """The processes that have a libcufile mapped, as far as this user may look."""
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit() or folder.name == str(os.getpid()):
            continue
        try:
            if "libcufile" in (folder / "maps").read_text(errors="replace"):
                yield folder
        except OSError:
            continue


def add_process(archive, folder):
    name = f"processes/{folder.name}"
    archive.add_command(f"gds_stats-{folder.name}", ["gds_stats", "-p", folder.name, "-l", "3"])
    for file in ("status", "limits", "maps", "stack"):
        archive.add_file(folder / file, f"{name}/{file}")
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        variables = dict(entry.split("=", 1) for entry in
                         (folder / "environ").read_bytes().decode(errors="replace").split("\0") if "=" in entry)
    except OSError as error:
        archive.notes.append(f"process {folder.name}: {error.strerror}")
        return
    archive.add(f"{name}/program", words[0].decode(errors="replace") + "\n")  # its arguments may be anything
    ours = {key: value for key, value in variables.items() if key.startswith(("CUFILE_", "SLUICE_", "CUDA_", "LD_"))}
    archive.add(f"{name}/environment", "".join(f"{key}={value}\n" for key, value in sorted(ours.items())))
    for key in ("CUFILE_ENV_PATH_JSON", "CUFILE_LOGFILE_PATH"):
        if ours.get(key):
            archive.add_file(ours[key], f"{name}/{key}")


def gather(archive, extra):
    """The files of `extra` that could not be had."""
    variables = {key: value for key, value in os.environ.items() if key.startswith(("CUFILE_", "SLUICE_", "CUDA_", "LD_"))}
    configuration = variables.get("CUFILE_ENV_PATH_JSON")
    if configuration and os.path.exists(configuration) and not os.path.isfile(configuration):
        del os.environ["CUFILE_ENV_PATH_JSON"]  # the commands would wait for what is in it
        archive.notes.append("CUFILE_ENV_PATH_JSON names no regular file: the commands were run without it")
    for name, command in COMMANDS.items():
        archive.add_command(name, command)
    for module in MODULES:
        archive.add_command(f"modinfo-{module}", ["modinfo", module])
    for path in FILES:
        archive.add_file(path)
    missing = [path for path in extra if not archive.add_file(path)]
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                archive.add_file(path)
    archive.add("environment.txt", "".join(f"{key}={value}\n" for key, value in sorted(variables.items())))
    for path in (variables.get("CUFILE_ENV_PATH_JSON"), variables.get("CUFILE_LOGFILE_PATH"), "cufile.log"):
        if path and os.path.exists(path):
            archive.add_file(os.path.abspath(path))
    for folder in cufile_processes():
        add_process(archive, folder)
    return missing


def version():
    """Of the tools beside this one."""
    try:
        told = subprocess.run([find("gdsio") or "gdsio", "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout
    except (OSError, subprocess.SubprocessError):
        return f"{NAME} (its gdsio is not there to tell the version)"
    return f"{NAME} ({told.rstrip().rpartition('(')[2]}"


class Version(argparse.Action):
    def __call__(self, parser, *_):
        if answer(version()):
            parser.exit()
        tell("The version cannot be told: stdout takes no line.", "Give stdout a place to go.")
        parser.exit(1)


def collect(folder, extra):
    """The exit status."""
    name = f"gds-logs-{socket.gethostname() or platform.node()}-{datetime.datetime.now():%Y%m%d%H%M%S}"
    try:
        archive = Archive(folder, name)
    except OSError as error:
        tell(f"{os.path.join(folder, name)}.tar.gz cannot be made: {error.strerror}.", "Name a folder that you may write with -d.")
        return 1
    try:
        missing = gather(archive, extra)
        archive.publish()
    except Unwritable as error:
        tell(f"{archive.path} cannot be written: {error.__cause__.strerror}.", "Name a folder with more room with -d.")
        return 1
    finally:
        archive.drop()
    for path in missing:
        (why,) = [note for note in archive.notes if note.startswith(f"{path}: ")][:1]
        tell(f"{why}; this file is not in the archive.", "Check what -f names, and run this again.")
    if not answer(f"GDS Log file saved under {archive.path}"):
        tell(f"{archive.path} is there, and stdout takes no line about it.", "Give stdout a place to go.")
        return 1
    return 1 if missing else 0


def end_by(number, _):
    raise SystemExit(128 + number)


def main():
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-f", metavar="FILE,...", default="", help="files to put in as well, separated by commas")
    parser.add_argument("-d", metavar="FOLDER", default="/tmp", help="where the archive goes (default: /tmp)")
    parser.add_argument("--version", action=Version, nargs=0, help="the version")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end_by)  # what is unfinished goes away
    if os.geteuid() != 0:
        tell("note: only root can read all that a report needs; the archive lists what is missing.")
    return collect(options.d, [name for name in options.f.split(",") if name])


if __name__ == "__main__":
    sys.exit(main())
