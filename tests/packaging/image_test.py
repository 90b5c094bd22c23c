# SPDX-License-Identifier: Apache-2.0
"""The image: built without a network, it looks at the machine; its two lines make another image use the library, as an ordinary
user, with nothing to write to."""
import json

from containers import podman
from support import BUILD, SOURCE, contains, equal, main, run, scratch, skip_when_sanitized

IMAGE = SOURCE / "deploy/image"
SOFT_DRIVER = ("--env", "SLUICE_SOFTGPU=1", "--env", "LD_LIBRARY_PATH=/opt/sluice/lib/sluice/softgpu")


def base_of(pod, folder, name, *more):
    """An image like a small distribution: a shell, and the libraries of C and C++."""
    root = folder / name
    run(IMAGE / "plain_root.sh", root, "sh", "ls", "cat", "id", "touch", BUILD / "lib/libcufile.so.0", *more)
    (root / "data").mkdir()
    pod.import_root(root, name)
    return root


def build_sluice(pod, folder):
    """The image as its page says, on a base of our own: the folder that it is built from, and the image."""
    base_of(pod, folder, "base")
    pod.settle("base", "/bin/id")
    context = folder / "context"
    run("cmake", "--install", BUILD, "--component", "runtime", "--prefix", context / "sluice")
    pod.build("--build-arg", "BASE=localhost/base", "--timestamp", "0", "--tag", "sluice", "--file", IMAGE / "Dockerfile", context)
    return context


def test_image_is_built_without_a_network_and_looks_at_the_machine():
    skip_when_sanitized()
    with podman() as pod, scratch() as folder:
        context = build_sluice(pod, folder)
        doctor = pod.run("sluice", status=None)
        equal((doctor.returncode in (0, 1, 2, 3), doctor.stderr), (True, ""))
        contains(doctor.stdout.splitlines()[-1], "verdict   ")
        version = json.loads(pod.run("sluice", "version", "--json").stdout)
        equal((version["library"], version["driver"]), ("/opt/sluice/lib/libcufile.so.0", "soft"))
        # As the image's own user, with nothing to write to but a folder in memory.
        demo = pod.run("--read-only", "--tmpfs", "/tmp", "--env", "SLUICE_SOFTGPU=1", "sluice", "demo", "--dir", "/tmp", "--size", "2M", "--json")
        equal(json.loads(demo.stdout)["verified"], True)
        equal(pod.run("--entrypoint", "id", "sluice", "-u").stdout.strip(), "65532")
        # The same folder makes the same image.
        first = pod.call("inspect", "--format", "{{.Id}}", "sluice").stdout
        pod.build("--no-cache", "--build-arg", "BASE=localhost/base", "--timestamp", "0", "--tag", "again", "--file", IMAGE / "Dockerfile", context)
        equal(pod.call("inspect", "--format", "{{.Id}}", "again").stdout, first)


def test_two_lines_make_another_image_read_through_the_library():
    skip_when_sanitized()
    lines = [line for line in (IMAGE / "yours.Dockerfile").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    equal([line.split()[0] for line in lines], ["ARG", "ARG", "FROM", "FROM", "COPY", "ENV"])
    for line in lines[-2:]:
        contains((SOURCE / "docs/guide/install.md").read_text(encoding="utf-8"), line)
    with podman() as pod, scratch() as folder:
        build_sluice(pod, folder)
        # A program of others: it is linked with a libcufile.so.0 that its image does not even have.
        program = BUILD / "samples/10_which_way"
        base_of(pod, folder, "theirs", program)
        pod.build("--build-arg", "YOURS=localhost/theirs", "--tag", "yours", "--file", IMAGE / "yours.Dockerfile", folder / "context")
        (folder / "data").mkdir()
        (folder / "data").chmod(0o777)  # the sample writes its file before it reads it; the root stays as it is
        mine = ("--user", "1000:1000", "--read-only", "--volume", f"{folder}/data:/data")
        answer = pod.run(*mine, *SOFT_DRIVER, "yours", program.name, "/data/file").stdout
        contains(answer, "path:   posix\nreason: soft_gpu")
        contains(answer, "1 reads of 1048576 bytes by posix (soft_gpu)")
        equal(pod.run(*mine, "yours", "sh", "-c", "id -u; touch /x 2>/dev/null || echo read-only").stdout.split(), ["1000", "read-only"])
        # Every program of the image has the library, without a word about it.
        maps = pod.run(*mine, "yours", "cat", "/proc/self/maps")
        contains(maps.stdout, "/opt/sluice/lib/libcufile.so.0")
        equal(maps.stderr, "")
        contains(pod.run(*mine, "theirs", program.name, "/data/file", status=127).stderr, "libc")


if __name__ == "__main__":
    main(globals())
