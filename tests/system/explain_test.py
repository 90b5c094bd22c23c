"""`sluice explain`: the path, the reason and the remedy, for people and for programs."""
import json
import os
import pathlib

from support import SLUICE, contains, environment, equal, main, run, scratch, skip

SOFT = environment(SLUICE_SOFTGPU="1")


def explain(*words, **options):
    return run(SLUICE, "explain", *words, env=SOFT, **options)


def explain_json(*words, **options):
    return json.loads(explain(*words, "--json", **options).stdout)


def places():
    """Folders on different file systems, as far as this machine has them."""
    with scratch() as here:
        yield here
    memory = pathlib.Path("/dev/shm")
    if os.access(memory, os.W_OK):
        with scratch(memory) as here:
            yield here


def test_explain_tells_people_path_reason_and_remedy():
    for folder in places():
        file = folder / "file"
        file.write_bytes(b"x" * 8192)
        text = explain(file).stdout
        for word in ("path    posix", "reason  ", "remedy  ", "facts   ", "memory  GPU 0"):
            contains(text, word)


def test_explain_tells_programs_the_same():
    for folder in places():
        file = folder / "file"
        file.write_bytes(b"x" * 8192)
        answer = explain_json(file)
        equal(answer["path"], "posix")
        equal(answer["driver"], "soft")
        for key in ("reason", "sentence", "remedy", "detail"):
            if not answer[key]:
                raise AssertionError(f"{key} is empty in {answer}")
        contains(explain(file).stdout, f"{answer['reason']}: {answer['sentence']}")
        equal(answer["size"], 1 << 20)


def test_explain_names_the_file_system():
    memory = pathlib.Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        skip("/dev/shm cannot be written")
    with scratch(memory) as folder:
        file = folder / "file"
        file.write_bytes(b"x")
        contains(explain_json(file)["detail"], "tmpfs")


def test_explain_reads_sizes_as_people_write_them():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"x" * 8192)
        for text, size in (("0", 0), ("4096", 4096), ("64K", 65536), ("1.5M", 3 << 19), ("2GiB", 2 << 30)):
            equal(explain_json(file, "--size", text, "--offset", "4k")["size"], size)
        for text in ("", "-1", "x", "1X", "1 K B", "99999999999G"):
            contains(explain(file, f"--size={text}", status=2).stderr, "--size")


def test_explain_tells_host_memory_from_device_memory():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"x" * 8192)
        equal(explain_json(file, "--host")["reason"], "host_memory")
        if explain_json(file)["reason"] == "host_memory":
            raise AssertionError("device memory was taken for host memory")


def test_explain_opens_for_writing_without_changing_the_file():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"content")
        before = file.stat().st_mtime_ns
        equal(explain_json(file, "--write", "--size", "1M")["operation"], "write")
        equal(file.read_bytes(), b"content")
        equal(file.stat().st_mtime_ns, before)
        equal([path.name for path in folder.iterdir()], ["file"])


def test_explain_says_in_one_sentence_why_it_cannot_answer():
    with scratch() as folder:
        os.mkfifo(folder / "pipe")
        (folder / "file").write_bytes(b"x")
        for words, part in (((folder / "missing",), "No such file"), ((folder,), "is a directory"),
                            ((folder / "pipe",), "is a pipe"), (("/dev/null",), "character device"),
                            ((folder / "file", "--gpu", "99"), "no GPU 99")):
            result = explain(*words, status=1)
            sentence, remedy = result.stderr.splitlines()
            contains(sentence, part)
            equal(bool(remedy.strip()), True)
            equal(result.stdout, "")
            answer = json.loads(explain(*words, "--json", status=1).stdout)
            contains(answer["error"], part)
            equal(answer["remedy"], remedy.strip())


if __name__ == "__main__":
    main(globals())
