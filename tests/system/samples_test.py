# SPDX-License-Identifier: Apache-2.0
"""The samples with a file that the user names: one that is there is never changed, one that is not is made."""
import os

from support import BUILD, contains, environment, equal, main, run, scratch

SAMPLES = sorted(path for path in (BUILD / "samples").glob("[0-9][0-9]_*") if os.access(path, os.X_OK))
WRITES = "02_write"
LARGEST = 8 << 20  # more than any of them reads


def sample(path, *words, status=0):
    return run(path, *words, status=status, env=environment(LD_LIBRARY_PATH=str(BUILD / "softgpu")))


def test_samples_read_a_file_that_is_there_and_leave_it_as_it_is():
    equal(len(SAMPLES), 12)
    with scratch() as folder:
        file = folder / "file"
        content = os.urandom(LARGEST)
        file.write_bytes(content)
        file.chmod(0o444)
        for path in SAMPLES:
            answer = sample(path, file, status=1 if path.name == WRITES else 0)
            if path.name == WRITES:
                contains(answer.stderr, f"{file} is there already, and this sample writes.\nName a file that is not there yet.")
            equal(file.read_bytes() == content, True)
        equal([entry.name for entry in folder.iterdir()], ["file"])


def test_samples_say_when_a_file_is_too_small_or_none():
    with scratch() as folder:
        small = folder / "small"
        small.write_bytes(b"precious")
        os.mkfifo(folder / "pipe")
        for path in SAMPLES:
            if path.name == WRITES:
                continue
            answer = sample(path, small, status=1)
            contains(answer.stderr, f"{small} has 8 bytes, and this sample reads ")
            contains(answer.stderr, "Name a larger file, or one that is not there yet.")
            for other in (folder, folder / "pipe"):
                contains(sample(path, other, status=1).stderr, f"{other} is neither a file nor a block device.")
        equal(small.read_bytes(), b"precious")


def test_samples_make_a_file_that_is_not_there():
    with scratch() as folder:
        for path in SAMPLES:
            sample(path, folder / path.name)
            equal((folder / path.name).stat().st_size > 0, True)
            if path.name != WRITES:
                sample(path, folder / path.name)


if __name__ == "__main__":
    main(globals())
