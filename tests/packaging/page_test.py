# SPDX-License-Identifier: Apache-2.0
"""docs/guide/install.md shows what a stranger sees who installs by apt, pip or docker, or builds for 64-bit Arm: each transcript is
made here, with SLUICE_WRITE_PAGES=1 written, else compared. It is that of Debian 12 on x86-64; elsewhere compilers and file names
differ.

Versions are shown as a release would have them, and identities of images as an ellipsis.
"""
import os
import pathlib
import platform
import re
import shutil

import arm_test
import source
from chroot import base, system
from containers import podman
from deb_test import packages, version_of
from support import BUILD, SOURCE, equal, main, run, scratch, skip, skip_when_sanitized

PAGE = SOURCE / "docs/guide/install.md"
IMAGE = SOURCE / "deploy/image"


def only_on_debian_12():
    skip_when_sanitized()
    release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    if "VERSION_CODENAME=bookworm" not in release or platform.machine() != "x86_64":
        skip("the transcripts are those of Debian 12 on x86-64")


def neutral(text):
    """What differs from build to build, as it is in a release."""
    version = source.version()
    text = re.sub(r"\b\d+\.\d+\.\d+\+git[\d.]+\.[0-9a-f]+(\.dirty)?", version, text)
    text = re.sub(r"libc-bin \(\S+\)", "libc-bin", text)
    text = re.sub(r"from \S+ by GNU \d+\.\d+\.\d+", f"from v{version} by GNU 12.2.0", text)
    text = re.sub(r"\b[0-9a-f]{11,64}\b", "…", text)
    # What only a system as small as this one says.
    dropped = ("(Reading database", "debconf: delaying package configuration")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if not line.startswith(dropped))


def with_transcript(text, name, made):
    """The page with this transcript below that name."""
    pattern = re.compile(rf"(<!-- transcript: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    equal((name, len(pattern.findall(text))), (name, 1))
    return pattern.sub(lambda match: f"{match[1]}```text\n{neutral(made)}```\n{match[2]}", text)


def check(name, made):
    """The transcript of that name on the page is this one."""
    new = with_transcript(PAGE.read_text(encoding="utf-8"), name, made)
    if os.environ.get("SLUICE_WRITE_PAGES"):
        PAGE.write_text(new, encoding="utf-8")
    equal(PAGE.read_text(encoding="utf-8"), new)


def test_transcripts_are_each_made_by_a_test_and_compared():
    text = PAGE.read_text(encoding="utf-8")
    shown = dict(re.findall(r"<!-- transcript: (.*?) -->\n```text\n(.*?)```\n<!-- end -->", text, re.DOTALL))
    tested = re.findall(r'^ +check\("(.*?)", ', pathlib.Path(__file__).read_text(encoding="utf-8"), re.MULTILINE)
    equal(sorted(shown), sorted(tested))
    equal(sorted(shown), ["apt", "arm64", "cross build", "docker", "pip"])
    for name, transcript in shown.items():
        equal((name, transcript.startswith("$ ")), (name, True))
        equal((name, with_transcript(text, name, transcript) == text), (name, True))
        equal((name, with_transcript(text, name, transcript.replace("$ ", "$  ", 1)) == text), (name, False))


def played(machine, lines):
    """What a terminal shows of these lines, in a folder of an ordinary user; sudo is being root."""
    out = ""
    for line in lines:
        user = "root" if "sudo " in line else "nobody"
        out += f"$ {line}\n" + machine.run(f"umask 022; export PATH=$PATH:/sbin; cd /srv/you && {{ {line.replace('sudo ', '')}\n}} 2>&1", user=user).stdout
    return out


def typed(folder, lines):
    """What a terminal of this machine shows of these lines, in a folder."""
    out, exported = "", ""
    for line in lines:
        exported += f"{line}; " if line.startswith("export ") else ""
        said = run("bash", "-c", exported + line, cwd=folder, timeout=3600)
        out += f"$ {line}\n{said.stdout}{said.stderr}"
    return out


def place_for_you(machine):
    folder = machine.root / "srv/you"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_page_shows_what_apt_does():
    only_on_debian_12()
    found = packages()
    with system() as machine:
        place = place_for_you(machine)
        for path in found.values():
            shutil.copy(path, place / path.name.replace(version_of(path), source.version()))
        check("apt", played(machine, [
            "ls",
            "sudo apt-get install -qq ./libcufile-sluice_*.deb ./sluice-tools_*.deb ./sluice-softgpu_*.deb ./libcufile-sluice-dev_*.deb",
            "sluice version",
            "cp -rL /usr/share/doc/libcufile-sluice-dev/examples samples",
            "make -s -C samples 10_which_way",
            "sluice run -- samples/10_which_way",
            "ldconfig -p | grep libcufile || echo no program finds it by itself",
            "sudo update-alternatives --set libcufile.so.0-x86_64-linux-gnu /usr/lib/x86_64-linux-gnu/sluice/ld.so/sluice.conf && sudo ldconfig",
            "ldconfig -p | grep libcufile",
            "sudo apt-get purge -qq sluice-tools sluice-softgpu libcufile-sluice libcufile-sluice-dev",
            "ldconfig -p | grep libcufile || echo it is gone",
        ]))


def test_page_shows_what_pip_does():
    only_on_debian_12()
    base()
    with system() as machine, scratch() as folder:
        run("python3", "-B", SOURCE / "python/build_wheel.py", "--build", BUILD, "--out", folder, timeout=120)
        place = place_for_you(machine)
        shutil.copy(next(folder.glob("*.whl")), place)
        (place / "data.bin").write_bytes(bytes(1 << 20))
        read = ("import sluice; memory = bytearray(1 << 20); print(sluice.File(\"data.bin\").read(memory), "
                "sluice.explain(\"data.bin\")[0])")
        check("pip", played(machine, [
            "python3 -m venv ai",
            "ai/bin/pip install ./sluice-*.whl",
            "ai/bin/python -m sluice doctor | grep -E '^(library|driver|version)'",
            f"SLUICE_SOFTGPU=1 ai/bin/python -c '{read}'",
        ]))


def test_page_shows_what_docker_does():
    only_on_debian_12()
    tar = base()
    with podman() as pod, scratch() as folder:
        run(IMAGE / "plain_root.sh", folder / "theirs", "sh", BUILD / "lib/libcufile.so.0", BUILD / "samples/10_which_way")
        (folder / "theirs/data").mkdir()
        pod.import_root(folder / "theirs", "your-image")
        pod.settle("your-image", "/bin/sh", "-c", "true")
        pod.call("import", "-q", tar, "docker.io/library/debian:bookworm-slim")
        (folder / "data").mkdir()
        (folder / "data").chmod(0o777)
        out = ""

        def play(shown, call):
            nonlocal out
            answer = call(*[word.replace("$PWD", str(folder)) for word in shown.replace(" \\\n   ", "").split()[2:]])
            out += f"$ {shown}\n{answer.stdout}"

        def build(*words):
            return pod.build("--quiet", *[str(SOURCE / word) if word.startswith("deploy/") else str(folder / word) if word == "build/image" else word
                                          for word in words])

        out += "$ cmake --install build/release --component runtime --prefix build/image/sluice >/dev/null\n"
        run("cmake", "--install", BUILD, "--component", "runtime", "--prefix", folder / "build/image/sluice")
        play("podman build --tag sluice --file deploy/image/Dockerfile build/image", build)
        play("podman run --rm sluice version", pod.run)
        play("podman build --build-arg YOURS=your-image --tag your-image-on-sluice --file deploy/image/yours.Dockerfile build/image", build)
        play("podman run --rm --user 1000 --read-only --volume $PWD/data:/data \\\n    --env SLUICE_SOFTGPU=1 --env "
             "LD_LIBRARY_PATH=/opt/sluice/lib/sluice/softgpu \\\n    your-image-on-sluice 10_which_way /data/file", pod.run)
        check("docker", out.replace("podman build", "podman build --quiet"))


def test_page_shows_a_cross_build():
    only_on_debian_12()
    arm_test.needs("aarch64-linux-gnu-g++", "qemu-aarch64")
    check("cross build", typed(SOURCE, [
        "cmake --preset aarch64 -DSLUICE_TESTS=OFF >/dev/null",
        "cmake --build --preset aarch64 --target sluice sluice_witness softcuda sample_10_which_way >/dev/null",
        "readelf -h build/aarch64/lib/libcufile.so.0 | grep Machine",
        "export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu",
        "qemu-aarch64 build/aarch64/bin/sluice version",
        "LD_LIBRARY_PATH=build/aarch64/softgpu qemu-aarch64 build/aarch64/samples/10_which_way",
    ]).replace(str(SOURCE), "/srv/you/sluice"))


def test_page_shows_packages_for_arm():
    only_on_debian_12()
    found = arm_test.packages()
    arm_test.needs("aarch64-linux-gnu-gcc", "qemu-aarch64", "pkg-config")
    with scratch() as folder:
        for path in found.values():
            shutil.copy(path, folder / path.name.replace(version_of(path), source.version()))
        check("arm64", typed(folder, [
            "ls",
            "for package in *_arm64.deb; do dpkg-deb -x $package root; done",
            "readelf -h root/usr/lib/aarch64-linux-gnu/sluice/libcufile.so.0 | grep Machine",
            "export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu",
            "qemu-aarch64 root/usr/bin/sluice version",
            "cp -r root/usr/share/sluice/samples .",
            "export PKG_CONFIG_PATH=$PWD/root/usr/lib/aarch64-linux-gnu/pkgconfig",
            "make -s -C samples CC=aarch64-linux-gnu-gcc CUDA=soft 10_which_way",
            "qemu-aarch64 samples/10_which_way",
        ]).replace(str(folder), "/srv/you"))


if __name__ == "__main__":
    main(globals())
