"""`sluice doctor`: recorded machines and their verdicts (tests/fixtures/machines), recording, probes, trials."""
import json
import os
import re
import sys
import tarfile

from support import SLUICE, SOURCE, contains, environment, equal, main, run, scratch

sys.path.insert(0, str(SOURCE / "tests/fixtures"))
import expand  # noqa: E402  the folder is known only now

PAGE = SOURCE / "docs/reference/doctor.md"
SOFT = environment(SLUICE_SOFTGPU="1")


def machines():
    return sorted(expand.MACHINES.glob("*.txt"))


def laid_out(name, folder):
    top = folder / name
    top.mkdir()
    expand.expand(expand.read(expand.MACHINES / f"{name}.txt")[2], top)
    return top


def judged(root, *words):
    answer = json.loads(run(SLUICE, "doctor", "--root", root, "--json", *words, status=None).stdout)
    return answer["status"], [finding["id"] for finding in answer["findings"]], answer


def write_verdict(path, status, ids):
    """Puts the verdict above the description: only where somebody asks for it, to be read in the diff."""
    lines = expand.read(path)[2]
    verdict = [f"status {status}"] + [f"finding {each}" for each in ids]
    path.write_text("\n".join(verdict + [""] + "\n".join(lines).strip("\n").split("\n")) + "\n", encoding="utf-8")


def test_doctor_gives_each_recorded_machine_its_verdict():
    complaints = []
    with scratch() as folder:
        for path in machines():
            status, ids, _ = expand.read(path)
            found_status, found, _ = judged(laid_out(path.stem, folder))
            found = list(dict.fromkeys(found))
            if os.environ.get("SLUICE_WRITE_VERDICTS"):
                write_verdict(path, found_status, found)
            elif (found_status, found) != (status, ids):
                complaints.append(f"{path.stem}: {found_status} {found}, not {status} {ids}")
    equal(complaints, [])
    equal(len(machines()) >= 30, True)


def test_doctor_judges_a_record_of_a_machine_as_the_machine():
    with scratch() as folder:
        for path in machines():
            top = laid_out(path.stem, folder)
            tar = folder / f"{path.stem}.tar"
            run(SLUICE, "doctor", "--root", top, "--record", tar)
            equal((path.stem, judged(tar)), (path.stem, judged(top)))


def findings():
    return {finding["id"]: finding for finding in json.loads(run(SLUICE, "doctor", "--findings").stdout)}


def test_each_finding_of_the_doctor_has_a_machine_that_shows_it():
    shown = {each for path in machines() for each in expand.read(path)[1]}
    equal(sorted(set(findings()) - shown), [])
    equal(sorted(shown - set(findings())), [])


def page():
    """docs/reference/doctor.md, made of the table of findings and of the machines that show them."""
    where = {}
    for path in machines():
        for each in expand.read(path)[1]:
            where.setdefault(each, []).append(path.stem)
    text = PAGE.read_text(encoding="utf-8")
    head = text[:text.index("<!-- findings: begin -->")]
    lines = ["<!-- findings: begin -->", ""]
    section = None
    for identity, finding in findings().items():
        if finding["section"] != section:
            section = finding["section"]
            lines += ["" if lines[-1] else None, f"## {section}", "", "| finding | harm | sign · cause | remedy | machine |",
                      "|---|---|---|---|---|"]
        cells = [f"`{identity}`", finding["harm"], f"{finding['sign']} · {finding['cause']}", finding["remedy"],
                 ", ".join(where.get(identity, [])[:2])]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return head + "\n".join(line for line in lines if line is not None) + "\n"


def test_the_page_of_findings_is_made_of_the_table():
    made = page()
    if os.environ.get("SLUICE_WRITE_PAGES"):
        PAGE.write_text(made, encoding="utf-8")
    equal(PAGE.read_text(encoding="utf-8") == made, True)


TROUBLE = SOURCE / "docs/guide/trouble.md"
TRANSCRIPT = re.compile(r"(<!-- transcript: (\S+): (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def test_the_transcripts_of_the_guide_to_trouble_are_what_the_doctor_says():
    text = TROUBLE.read_text(encoding="utf-8")
    with scratch() as folder:
        def made(match):
            opening, name, command, closing = match.groups()
            root = folder / name
            if not root.exists():
                laid_out(name, folder)
            words = [str(root) if word == name else word for word in command.split()[1:]]
            answer = run(SLUICE, *words, status=None)
            return f"{opening}```\n$ {command}\n{answer.stdout}$ echo $?\n{answer.returncode}\n```\n{closing}"
        new = TRANSCRIPT.sub(made, text)
    if os.environ.get("SLUICE_WRITE_PAGES"):
        TROUBLE.write_text(new, encoding="utf-8")
    equal(TROUBLE.read_text(encoding="utf-8") == new, True)
    equal(len(TRANSCRIPT.findall(text)) >= 4, True)


def test_doctor_looks_at_this_machine():
    result = run(SLUICE, "doctor", status=None)
    equal(result.returncode in (0, 1, 2, 3), True)
    lines = result.stdout.splitlines()
    contains(lines[-1], "verdict   ")
    for line in lines[:-1]:
        equal((line, line.count(" · ") in (0, 2)), (line, True))


def test_doctor_orders_findings_by_harm_and_says_what_mends_them():
    with scratch() as folder:
        _, _, answer = judged(laid_out("deploy-advice", folder))
        order = ["broken", "no GPU", "degraded", "advice", "fine"]
        ranks = [order.index(finding["harm"]) for finding in answer["findings"]]
        equal(ranks, sorted(ranks))
        for finding in answer["findings"]:
            for part in ("sign", "cause", "remedy"):
                equal((finding["id"], bool(finding[part]), "?" in finding[part]), (finding["id"], True, False))


def test_doctor_as_a_probe_answers_for_what_is_expected_alone():
    with scratch() as folder:
        ready = laid_out("h200-server-ready", folder)
        missing = laid_out("keys-missing", folder)
        plain = laid_out("plain-debian", folder)
        for root, expected, status in ((ready, "gpu,p2pdma,uring,rdma", 0), (missing, "gpu,uring", 0),
                                       (missing, "gpu,p2pdma", 2), (plain, "gpu", 3), (plain, "uring", 0),
                                       (ready, "nvidia-fs", 2)):
            run(SLUICE, "doctor", "--root", root, "--expect", expected, status=status)
        text = run(SLUICE, "doctor", "--root", missing, "--expect", "p2pdma", status=2).stdout
        contains(text, "missing   p2pdma is expected · the driver does not hand GPU memory to the kernel")
        contains(run(SLUICE, "doctor", "--expect", "wings", status=2).stderr, "--expect does not know wings")


def test_doctor_shows_what_is_there_in_the_sections_that_are_named():
    with scratch() as folder:
        root = laid_out("h200-server-ready", folder)
        text = run(SLUICE, "doctor", "storage", "topology", "--root", root).stdout
        for part in ("storage:\n", "/data: xfs on nvme0n1 (nvme, pcie), O_DIRECT: offsets and lengths in steps of 512, "
                     "addresses of 4", "nvme0: 0000:19:00.0 same switch;", "node1: processors 56-111"):
            contains(text, part)
        equal("CUDA" in text, False)
        text = run(SLUICE, "doctor", "fabrics", "--root", laid_out("nvme-rdma-non-optimized", folder), status=1).stdout
        contains(text, " +- nvme2 rdma traddr=10.0.1.5,trsvcid=4420 live non-optimized")


def test_doctor_writes_a_script_of_remedies_that_a_shell_can_read():
    with scratch() as folder:
        for path in machines():
            top = laid_out(path.stem, folder)
            script = folder / "fix.sh"
            script.write_text(run(SLUICE, "doctor", "--root", top, "--fix-script", status=None).stdout, encoding="utf-8")
            run("sh", "-n", script)
        text = run(SLUICE, "doctor", "--root", folder / "io-uring-switched-off", "--fix-script", status=None).stdout
        contains(text, "\nsysctl kernel.io_uring_disabled=0\n")


def test_a_recorded_machine_keeps_secrets_to_itself():
    with scratch() as folder:
        top = folder / "machine"
        top.mkdir()
        expand.expand(["kernel 6.8.0", "mount /smb cifs //server/share rw,username=ann,password=hunter2,vers=3",
                       "file /etc/cufile.json", '{"properties": {"rdma_dc_key": "0xdeadbeef"}}', "",
                       "env SLUICE_STATS=1", "uring"], top)
        tar = folder / "machine.tar"
        answer = run(SLUICE, "doctor", "--root", top, "--record", tar)
        contains(answer.stdout, "secrets left out")
        with tarfile.open(tar) as archive:
            text = "".join(archive.extractfile(member).read().decode() for member in archive if member.isfile())
        for secret in ("hunter2", "ann,", "0xdeadbeef"):
            equal((secret, secret in text), (secret, False))
        contains(text, "vers=3")
        run(SLUICE, "doctor", "--record", tar, env=environment(SLUICE_STATS="1", AWS_SECRET_ACCESS_KEY="hunter3"))
        with tarfile.open(tar) as archive:
            text = "".join(archive.extractfile(member).read().decode(errors="replace") for member in archive if member.isfile())
        equal("hunter3" in text, False)
        contains(text, "env SLUICE_STATS=1")


def test_an_archive_that_leads_out_of_its_folder_is_refused():
    with scratch() as folder:
        for name, link in (("../evil", None), ("sys/evil", "../../../evil")):
            tar = folder / "evil.tar"
            with tarfile.open(tar, "w", format=tarfile.USTAR_FORMAT) as archive:
                member = tarfile.TarInfo(name)
                if link:
                    member.type, member.linkname = tarfile.SYMTYPE, link
                archive.addfile(member)
            contains(run(SLUICE, "doctor", "--root", tar, status=1).stderr, "leads out of it")
        (folder / "no.tar").write_bytes(b"x" * 2048)
        contains(run(SLUICE, "doctor", "--root", folder / "no.tar", status=1).stderr, "no tar archive")
        run(SLUICE, "doctor", "--root", folder / "gone", status=2)


def test_doctor_tries_files_and_folders_with_real_bytes():
    with scratch() as folder:
        file = folder / "data"
        file.write_bytes(os.urandom(100_000))
        text = run(SLUICE, "doctor", file, folder, env=SOFT, status=None).stdout
        contains(text, f"{file}: 100000 bytes read into the soft GPU through host memory, every byte right")
        contains(text, f"{folder}: 1048576 bytes read into the soft GPU through host memory, every byte right")
        equal([path.name for path in folder.iterdir()], ["data"])
        (folder / "empty").write_bytes(b"")
        contains(run(SLUICE, "doctor", folder / "empty", env=SOFT, status=None).stdout, "the file is empty")
        contains(run(SLUICE, "doctor", "no-such-word", status=2).stderr, "is neither a section nor a file that is there")


def complaints_about(value, schema, place="$"):
    """What of `value` is not as the schema has it. Of JSON Schema only the words that doctor.schema.json uses."""
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if not isinstance(value, kinds[schema["type"]]):
        return [f"{place} is no {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{place}: {value}"]
    if schema["type"] == "array":
        return [each for i, item in enumerate(value) for each in complaints_about(item, schema["items"], f"{place}[{i}]")]
    if schema["type"] != "object":
        return []
    known = schema.get("properties", {})
    wrong = [f"{place} lacks {name}" for name in schema.get("required", []) if name not in value]
    for name, item in value.items():
        below = known.get(name, schema.get("additionalProperties"))
        wrong += complaints_about(item, below, f"{place}.{name}") if below else [f"{place}.{name} is not described"]
    return wrong


def test_the_json_of_the_doctor_is_as_its_schema_says():
    schema = json.loads((SOURCE / "docs/reference/doctor.schema.json").read_text(encoding="utf-8"))
    with scratch() as folder:
        for path in machines():
            _, _, answer = judged(laid_out(path.stem, folder), "--expect", "p2pdma")
            equal((path.stem, complaints_about(answer, schema)), (path.stem, []))


if __name__ == "__main__":
    main(globals())
