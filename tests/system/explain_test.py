# SPDX-License-Identifier: Apache-2.0
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


def test_explain_tells_why_nothing_of_a_profile_is_taken():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"x" * 8192)
        (folder / "other.json").write_text("{}", encoding="utf-8")
        for profile, why in ((folder / "gone", "there is no such file"), (folder / "other.json", "it is no profile")):
            variables = environment(SLUICE_SOFTGPU="1", SLUICE_PROFILE=str(profile))
            contains(run(SLUICE, "explain", file, env=variables).stdout, f"the profile {profile} is left alone: {why}")


def test_explain_tells_the_route_where_dynamic_routing_is_on():
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 8192)
        (folder / "cufile.json").write_text('{"properties": {"rdma_dynamic_routing": true, "rdma_dev_addr_list": ["192.0.2.1"]}}')
        on = environment(SLUICE_SOFTGPU="1", CUFILE_ENV_PATH_JSON=str(folder / "cufile.json"))
        told = "none, this GPU is not among those on the bus"
        text = run(SLUICE, "explain", folder / "file", env=on).stdout
        contains(text, f"\n  routing {told}\n")
        equal(text.count("dynamic routing"), 0)
        equal(json.loads(run(SLUICE, "explain", "--json", folder / "file", env=on).stdout)["routing"], told)
        equal("\n  routing " in explain(folder / "file").stdout, False)


def test_explain_tells_whether_file_and_memory_exchange_bytes_in_place():
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 8192)
        for variables, words in (({"SLUICE_SOFTGPU_COHERENT": "1"}, "memory: file and memory exchange bytes in place"),
                                 ({"SLUICE_SOFTGPU_COHERENT": "2"}, "the kernel does not get to the address that the driver tells"),
                                 ({"SLUICE_SOFTGPU_COHERENT": "3"}, "the driver tells no address at which the CPU finds it"),
                                 ({"SLUICE_COHERENT": "on"}, "sluice.coherent is on: the driver tells no address")):
            text = run(SLUICE, "explain", folder / "file", env=environment(SLUICE_SOFTGPU="1", **variables)).stdout
            contains(text, words)
        for variables in ({}, {"SLUICE_SOFTGPU_COHERENT": "1", "SLUICE_COHERENT": "off"}):
            text = run(SLUICE, "explain", folder / "file", env=environment(SLUICE_SOFTGPU="1", **variables)).stdout
            equal("driver tells" in text or "in place" in text, False)


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
        (folder / "empty").mkdir()
        (folder / "file").write_bytes(b"x")
        for words, part in (((folder / "missing",), "No such file"), ((folder / "empty",), "is a directory without files"),
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


def test_explain_without_a_gpu_answers_as_if_there_were_one():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"x" * 8192)
        plain = environment()
        if json.loads(run(SLUICE, "version", "--json", env=plain).stdout)["driver"] == "real":
            skip("there is a GPU here")
        for words in ((), ("--as-if-gpu",)):
            answer = json.loads(run(SLUICE, "explain", file, "--json", *words, env=plain).stdout)
            equal((answer["memory"], answer["reason"] in ("soft_gpu", "host_memory")), ("supposed", False))
            contains(answer["detail"], "GPU memory that is supposed")
        equal(json.loads(run(SLUICE, "explain", file, "--json", "--gpu", "0", env=plain).stdout)["reason"], "soft_gpu")
        contains(run(SLUICE, "explain", file, env=plain).stdout, "(no GPU is here: ")


def test_explain_tells_every_reason_in_order():
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(b"x" * 8192)
        answer = explain_json(file, "--as-if-gpu")
        names = [reason["reason"] for reason in answer["reasons"]]
        equal(names[0], answer["reason"])
        contains(" ".join(names), "direct_path_off")
        text = explain(file, "--as-if-gpu", "--all").stdout
        equal(text.count("  reason  "), len(names))
        equal(explain(file, "--as-if-gpu").stdout.count("  reason  "), 1)


def test_explain_takes_several_files_and_folders():
    with scratch() as folder:
        for name in ("a", "b"):
            (folder / name).write_bytes(b"x" * 8192)
        equal([answer["file"] for answer in explain_json(folder)], [str(folder / "a"), str(folder / "b")])
        equal([answer["file"] for answer in explain_json(folder / "b", folder)],
              [str(folder / name) for name in ("b", "a", "b")])
        equal(explain(folder).stdout.count("  path    "), 2)


def test_explain_of_several_files_answers_for_those_that_it_can():
    with scratch() as folder:
        good, gone = folder / "good", folder / "gone"
        good.write_bytes(bytes(4096))
        told = run(SLUICE, "explain", gone, good, "/proc/version", status=1)
        equal(told.stdout.startswith(f"{good}: a read of 1.0 MiB at 0\n  path    "), True)
        equal(told.stdout.count("  path    "), 1)
        # As of one file: a cause and a remedy each.
        first, remedy, second, other = told.stderr.splitlines()
        equal(first, f"sluice: {gone} cannot be opened: No such file or directory.")
        equal(second.startswith("sluice: /proc/version: "), True)
        contains(second, "a file of proc, which the kernel makes up")
        equal([line.startswith("        ") for line in (remedy, other)], [True, True])
        told = run(SLUICE, "explain", "--json", gone, good, status=1)
        equal(told.stderr.splitlines(), [first, remedy])
        answers = json.loads(told.stdout)
        equal([("error" in each, "path" in each) for each in answers], [(True, False), (False, True)])


def test_explain_never_cuts_facts():
    with scratch() as folder:
        deep = folder
        for _ in range(4):
            deep = deep / ("d" * 60)
        deep.mkdir(parents=True)
        (deep / "file").write_bytes(b"x" * 8192)
        answer = explain_json(deep / "file")
        equal(answer["detail"].endswith("..."), False)
        contains(answer["detail"], "GPU memory")


if __name__ == "__main__":
    main(globals())
