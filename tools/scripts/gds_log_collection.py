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
"""

import argparse
import datetime
import io
import os
import pathlib
import platform
import re
import shutil
import socket
import subprocess
import sys
import tarfile

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


class Archive:
    """What was gathered, each piece cleaned before it is kept, and notes about what was not."""

    def __init__(self, path, top):
        # 0600 from the beginning: the archive tells much of the machine.
        self.tar = tarfile.open(fileobj=os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"),
                                mode="w:gz")
        self.top = top
        self.notes = []

    def add(self, name, text):
        data = without_secrets(text).encode()
        entry = tarfile.TarInfo(f"{self.top}/{name}")
        entry.size = len(data)
        entry.mtime = int(datetime.datetime.now().timestamp())
        self.tar.addfile(entry, io.BytesIO(data))

    def add_file(self, path, name=None):
        try:
            with open(path, "rb") as file:
                data = file.read(LIMIT + 1)
                if len(data) > LIMIT:
                    file.seek(-LIMIT, os.SEEK_END)
                    data = b"[only the end]\n" + file.read(LIMIT)
        except OSError as error:
            self.notes.append(f"{path}: {error.strerror}")
            return
        self.add(name or f"files/{str(path).strip('/')}", data.decode(errors="replace"))

    def add_command(self, name, command):
        program = find(command[0])
        if program is None:
            self.notes.append(f"{command[0]}: there is no such program")
            return
        try:
            result = subprocess.run([program, *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
            self.add(f"commands/{name}.txt", result.stdout.decode(errors="replace"))
            if result.returncode != 0:
                self.notes.append(f"{' '.join(command)}: exit status {result.returncode}")
        except (OSError, subprocess.TimeoutExpired) as error:
            self.notes.append(f"{' '.join(command)}: {error}")

    def close(self):
        self.add("what-is-missing.txt", "\n".join(self.notes) + "\n")
        self.tar.close()
        self.tar.fileobj.close()


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
        archive.add(f"{name}/program", words[0].decode(errors="replace") + "\n")  # its arguments may be anything
        variables = dict(entry.split("=", 1) for entry in
                         (folder / "environ").read_bytes().decode(errors="replace").split("\0") if "=" in entry)
    except OSError as error:
        archive.notes.append(f"process {folder.name}: {error.strerror}")
        return
    ours = {key: value for key, value in variables.items() if key.startswith(("CUFILE_", "SLUICE_", "CUDA_", "LD_"))}
    archive.add(f"{name}/environment", "".join(f"{key}={value}\n" for key, value in sorted(ours.items())))
    for key in ("CUFILE_ENV_PATH_JSON", "CUFILE_LOGFILE_PATH"):
        if ours.get(key):
            archive.add_file(ours[key], f"{name}/{key}")


def gather(archive, extra):
    for name, command in COMMANDS.items():
        archive.add_command(name, command)
    for module in MODULES:
        archive.add_command(f"modinfo-{module}", ["modinfo", module])
    for path in [*FILES, *extra]:
        archive.add_file(path)
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                archive.add_file(path)
    variables = {key: value for key, value in os.environ.items() if key.startswith(("CUFILE_", "SLUICE_", "CUDA_", "LD_"))}
    archive.add("environment.txt", "".join(f"{key}={value}\n" for key, value in sorted(variables.items())))
    for path in (variables.get("CUFILE_ENV_PATH_JSON"), variables.get("CUFILE_LOGFILE_PATH"), "cufile.log"):
        if path and os.path.exists(path):
            archive.add_file(os.path.abspath(path))
    for folder in cufile_processes():
        add_process(archive, folder)


def main():
    parser = argparse.ArgumentParser(prog="gds_log_collection.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-f", metavar="FILE,...", default="", help="files to put in as well, separated by commas")
    parser.add_argument("-d", metavar="FOLDER", default="/tmp", help="where the archive goes (default: /tmp)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("gds_log_collection.py: note: only root can read all that a report needs; the archive lists what is missing.",
              file=sys.stderr)
    top = f"gds-logs-{socket.gethostname() or platform.node()}-{datetime.datetime.now():%Y%m%d%H%M%S}"
    path = os.path.join(options.d, top + ".tar.gz")
    try:
        archive = Archive(path, top)
    except OSError as error:
        print(f"gds_log_collection.py: {path} cannot be made: {error.strerror}.\n"
              "                       Name a folder that you may write with -d.", file=sys.stderr)
        return 1
    gather(archive, [name for name in options.f.split(",") if name])
    archive.close()
    print(f"GDS Log file saved under {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
