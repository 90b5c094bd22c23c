# SPDX-License-Identifier: Apache-2.0
"""A release: an archive that holds the sources and says what they are, sums that a key has signed, and all the rest built from it."""
import contextlib
import json
import os
import re
import shutil
import tarfile

import package
import source
from containers import podman
from deb_test import PACKAGES, packages
from image_test import base_of
from support import SOURCE, contains, environment, equal, main, run, scratch, skip, skip_when_sanitized

RELEASE = SOURCE / "packaging/release.py"


def key_in(folder):
    if shutil.which("ssh-keygen") is None:
        skip("ssh-keygen is not installed")
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", folder / "key")
    (folder / "signers").write_text(f"somebody {(folder / 'key.pub').read_text(encoding='utf-8')}", encoding="utf-8")
    return folder / "key"


def verify(folder, out, status=0):
    return run("sh", "-c", f"ssh-keygen -Y verify -f {folder}/signers -I somebody -n sluice-release -s SHA256SUMS.sig <SHA256SUMS && "
               "sha256sum --quiet -c SHA256SUMS", cwd=out, status=status)


def test_archive_holds_the_sources_and_says_what_they_are():
    if not (SOURCE / ".git").exists():
        skip("this tree has no git to compare with")
    with scratch() as folder:
        one, other = folder / "sluice-x.tar.gz", folder / "other/sluice-x.tar.gz"
        other.parent.mkdir()
        source.archive(one)
        source.archive(other)
        equal(one.read_bytes() == other.read_bytes(), True)
        with tarfile.open(one) as tar:
            tar.extractall(folder)
        tree = folder / "sluice-x"
        for name in ("run", "CMakeLists.txt", "packaging/debian/rules", "LICENSE"):
            equal((name, (tree / name).read_bytes() == (SOURCE / name).read_bytes(), os.access(tree / name, os.X_OK)),
                  (name, True, os.access(SOURCE / name, os.X_OK)))
        # Without git it tells the same, and makes the same archive.
        ask = "import source; from pathlib import Path; print(source.full_version(), source.epoch()); source.archive(Path('sluice-x.tar.gz'))"
        told = run("python3", "-B", "-c", ask, cwd=folder / "other", env=environment(PYTHONPATH=f"{tree}/packaging")).stdout.split()
        equal(told, [source.full_version(), str(source.epoch())])
        equal(other.read_bytes() == one.read_bytes(), True)


def test_versions_between_releases_sort_between_them():
    if shutil.which("dpkg") is None:
        skip("dpkg is not installed")
    version = f"{source.full_version()}-1"
    number = source.version()
    if not source.is_release():
        run("dpkg", "--compare-versions", f"{number}-1", "lt", version)
    run("dpkg", "--compare-versions", version, "lt", f"{number}.1-1")
    changes = package.changelog("Somebody <somebody@example.org>")
    contains(changes, f"sluice ({version}) unstable; urgency=medium")
    equal([line for line in changes.splitlines()[:-1] if len(line) > 80], [])


def test_sums_are_signed_by_the_key_that_is_given():
    with scratch() as folder:
        key = key_in(folder)
        options = ("--parts", "sources,chart", "--out", folder / "out", "--work", folder / "work", "--changed")
        run("python3", "-B", RELEASE, *options, "--key", key)
        (out,) = (folder / "out").iterdir()
        equal(sorted(path.name for path in out.iterdir()),
              sorted(["SHA256SUMS", "SHA256SUMS.sig", f"sluice-chart-{out.name}.tgz", f"sluice-{out.name}.tar.gz"]))
        verify(folder, out)
        # A byte of a file, a byte of the sums: neither passes.
        archive = out / f"sluice-{out.name}.tar.gz"
        archive.write_bytes(archive.read_bytes() + b"x")
        contains(verify(folder, out, status=1).stdout, "FAILED")
        sums = (out / "SHA256SUMS").read_text(encoding="utf-8")
        (out / "SHA256SUMS").write_text(sums.replace("a", "b"), encoding="utf-8")
        verify(folder, out, status=255)
        with tarfile.open(out / f"sluice-chart-{out.name}.tgz") as chart:
            contains(chart.extractfile("sluice/Chart.yaml").read().decode(), f"version: {source.version()}")
        contains(run("python3", "-B", RELEASE, *options, status=2).stderr, "--key FILE")
        contains(run("python3", "-B", RELEASE, *options, "--unsigned", "--parts", "floppy", status=2).stderr, "no part floppy")


def test_releases_have_every_part_and_the_bytes_of_another_build():
    skip_when_sanitized()
    ours = packages()
    with contextlib.ExitStack() as stack:
        folder, pod = stack.enter_context(scratch()), None
        options = ["--parts", "sources,packages,wheel,chart"]
        if os.geteuid() == 0 and shutil.which("podman") is not None:
            pod = stack.enter_context(podman())
            base_of(pod, folder, "base")
            options = ["--base", "localhost/base", "--engine", " ".join(str(word) for word in pod.front)]
        run("python3", "-B", RELEASE, "--key", key_in(folder), "--out", folder / "out", "--work", folder / "a-folder-of-another-name",
            "--changed", *options, timeout=7000, env=environment(BUILDAH_ISOLATION="chroot"))
        (out,) = (folder / "out").iterdir()
        verify(folder, out)
        names = "\n".join(sorted(path.name for path in out.iterdir()))
        for pattern in (r"sluice-tools_.*\.deb", r"libcufile-sluice-dbgsym_.*\.d?deb", r"sluice_.*\.buildinfo", r"sluice-.*\.tar\.gz",
                        r"sluice-.*\.whl", r"sluice-chart-.*\.tgz", *([r"sluice-.*-image\.tar"] if pod else [])):
            equal((pattern, re.search(rf"^{pattern}$", names, re.MULTILINE) is not None), (pattern, True))

        # These packages were built from the archive, in another folder: each has the bytes of the one built from the tree.
        theirs = sorted(path.name for path in out.glob("*.deb"))
        equal(theirs, sorted(path.name for path in PACKAGES.glob("*.deb")))
        equal([name for name in theirs if (out / name).read_bytes() != (PACKAGES / name).read_bytes()], [])
        equal(len(theirs) > len(ours), True)

        if pod:
            # What was built from the archive says of which sources it is.
            pod.settle("base", "/bin/id")
            pod.call("load", "--input", next(out.glob("*-image.tar")))
            name = f"sluice:{source.full_version().replace('+', '-')}"
            about = json.loads(pod.run(name, "version", "--json").stdout)
            equal((about["build"]["description"], about["build"]["options"]["reproducible"]), (source.description(), True))


if __name__ == "__main__":
    main(globals())
