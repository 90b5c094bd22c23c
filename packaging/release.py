#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes all that a version is given away as, with sums that a key signs.

    release.py --key ~/.ssh/id_ed25519                       everything, into dist/VERSION
    release.py --unsigned --parts sources,wheel              some of it, to look at

The sources come first, as an archive; the rest is built from what that archive holds, so it can be built again from it, to
the same bytes: Debian packages, the Python wheel, the image and the chart for Kubernetes. A tree with changes that no commit
has is refused. SHA256SUMS is signed by ssh-keygen, which git can use as well; to verify:

    ssh-keygen -Y verify -f SIGNERS -I NAME -n sluice-release -s SHA256SUMS.sig <SHA256SUMS && sha256sum -c SHA256SUMS
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import source

PARTS = ["sources", "packages", "wheel", "image", "chart"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", type=pathlib.Path, help="the private key of ssh, or the public one of a key that an agent holds")
    parser.add_argument("--unsigned", action="store_true", help="sign nothing")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"which of {', '.join(PARTS)}; all unless given")
    parser.add_argument("--out", type=pathlib.Path, default=source.TOP / "dist", help="below it, a folder of the version's name")
    parser.add_argument("--work", type=pathlib.Path, default=source.TOP / "build/release-work", help="where it is built")
    parser.add_argument("--base", help="the image's base, instead of the one of its Dockerfile")
    parser.add_argument("--engine", help="what builds the image, with options: podman or docker, whichever is there, unless given")
    parser.add_argument("--changed", action="store_true", help="take a tree with changes that no commit has")
    parser.add_argument("--maintainer", metavar="'NAME <MAIL>'", help="who answers for the packages (default: debian/control's)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilations at a time")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if options.unsigned == (options.key is not None):
        parser.error("say by which key the sums are signed (--key FILE), or that none signs them (--unsigned)")
    return options


def call(*command: object, **more: object) -> None:
    words = [str(word) for word in command]
    print(f"== {' '.join(words)}", flush=True)
    if subprocess.run(words, check=False, stdin=subprocess.DEVNULL, **more).returncode != 0:
        sys.exit(f"release.py: this failed: {' '.join(words)}")


def engine_of(options: argparse.Namespace) -> "list[str]":
    if options.engine:
        return options.engine.split()
    for name in ("podman", "docker"):
        if shutil.which(name):
            return [name]
    sys.exit("release.py: neither podman nor docker is here to build the image; --parts can leave it out")


def unpack(archive: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """The tree that the archive holds, at a place that is the same each time."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(work)
    (tree,) = work.iterdir()
    return tree.rename(work / "sluice")


def build(tree: pathlib.Path, options: argparse.Namespace, more: "dict[str, str]") -> pathlib.Path:
    folder = tree / "build/release"
    call("cmake", "--preset", "release", "-DSLUICE_REPRODUCIBLE=ON", "-DSLUICE_TESTS=OFF", "-DSLUICE_BENCH=OFF", cwd=tree, env=more)
    call("ninja", "-C", folder, "-j", options.jobs, cwd=tree, env=more)
    return folder


def make_image(tree: pathlib.Path, folder: pathlib.Path, out: pathlib.Path, options: argparse.Namespace) -> None:
    engine, name = engine_of(options), f"sluice:{source.full_version().replace('+', '-')}"
    context = tree / "build/image"
    call("cmake", "--install", folder, "--component", "runtime", "--prefix", context / "sluice")
    more = ["--build-arg", f"BASE={options.base}"] if options.base else []
    # Times in the image are the sources' own; docker takes them from SOURCE_DATE_EPOCH.
    more += ["--timestamp", str(source.epoch())] if "podman" in engine[0] else []
    call(*engine, "build", *more, "--tag", name, "--file", tree / "deploy/image/Dockerfile", context)
    call(*engine, "save", "--output", out / f"sluice-{source.full_version()}-image.tar", name)


def make_chart(tree: pathlib.Path, out: pathlib.Path) -> None:
    """As `helm package` does it, with times that are the sources' own."""
    chart = tree / "deploy/helm/sluice"
    with open(out / f"sluice-chart-{source.full_version()}.tgz", "wb") as file, \
            gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            about = tarfile.TarInfo(f"sluice/{path.relative_to(chart).as_posix()}")
            data = path.read_bytes()
            about.size, about.mode, about.mtime = len(data), 0o644, source.epoch()
            tar.addfile(about, io.BytesIO(data))


def sign(out: pathlib.Path, options: argparse.Namespace) -> None:
    sums = out / "SHA256SUMS"
    made = sorted(path for path in out.iterdir() if path.name not in ("SHA256SUMS", "SHA256SUMS.sig"))
    sums.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made), encoding="utf-8")
    (out / "SHA256SUMS.sig").unlink(missing_ok=True)
    if options.key:
        call("ssh-keygen", "-q", "-Y", "sign", "-n", "sluice-release", "-f", options.key, sums)


def main() -> int:
    options = arguments()
    if source.description().endswith("-dirty") and not options.changed:
        sys.exit("release.py: there are changes that no commit has; commit them, or say --changed")
    if options.key and not options.key.is_file():
        sys.exit(f"release.py: there is no key {options.key}")
    out = options.out.resolve() / source.full_version()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    archive = out / f"sluice-{source.full_version()}.tar.gz"
    source.archive(archive)
    tree = unpack(archive, options.work.resolve())
    more = {**os.environ, "SOURCE_DATE_EPOCH": str(source.epoch())}
    if "packages" in options.parts:
        named = ["--maintainer", options.maintainer] if options.maintainer else []
        call(sys.executable, "-B", tree / "packaging/package.py", "--out", out, "--jobs", options.jobs, *named, env=more)
    if {"wheel", "image"} & set(options.parts):
        folder = build(tree, options, more)
        if "wheel" in options.parts:
            call(sys.executable, "-B", tree / "python/build_wheel.py", "--build", folder, "--out", out, env=more)
        if "image" in options.parts:
            make_image(tree, folder, out, options)
    if "chart" in options.parts:
        make_chart(tree, out)
    if "sources" not in options.parts:
        archive.unlink()
    sign(out, options)
    for path in sorted(out.iterdir()):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
