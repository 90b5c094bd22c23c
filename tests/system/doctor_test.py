# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor`: recorded machines and their verdicts (tests/fixtures/machines), recording, probes, trials."""
import json
import os
import re
import shutil
import sys
import tarfile

from support import BUILD, SLUICE, SOURCE, contains, environment, equal, main, run, scratch, skip

sys.path.insert(0, str(SOURCE / "tests/fixtures"))
import describe  # noqa: E402  the folder is known only now
import expand  # noqa: E402

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


def write_verdict(path, status, ids, told):
    """Puts the verdict above the description: only where it is asked for, to be read in the diff."""
    lines = expand.read(path)[2]
    verdict = [f"status {status}"] + [f"finding {each}" for each in ids]
    verdict += [f"says {section} {words}" for section, each in told.items() for words in each]
    path.write_text("\n".join(verdict + [""] + "\n".join(lines).strip("\n").split("\n")) + "\n", encoding="utf-8")


def test_doctor_gives_each_recorded_machine_its_verdict():
    complaints = []
    with scratch() as folder:
        for path in machines():
            status, ids, _ = expand.read(path)
            found_status, found, answer = judged(laid_out(path.stem, folder))
            found = list(dict.fromkeys(found))
            # A section whose words are wanted is named by one of them, whatever it says yet.
            told = {section: answer["facts"][section] for section in expand.told(path)}
            if os.environ.get("SLUICE_WRITE_VERDICTS"):
                write_verdict(path, found_status, found, told)
            elif (found_status, found) != (status, ids):
                complaints.append(f"{path.stem}: {found_status} {found}, not {status} {ids}")
            elif told != expand.told(path):
                complaints.append(f"{path.stem}: {told}, not {expand.told(path)}")
    equal(complaints, [])
    equal(len(machines()) >= 30, True)


def test_doctor_judges_a_record_of_a_machine_as_the_machine():
    with scratch() as folder:
        for path in machines():
            top = laid_out(path.stem, folder)
            tar = folder / f"{path.stem}.tar"
            said = run(SLUICE, "doctor", "--root", top, "--record", tar).stdout
            # Where a name was replaced, the facts show the stand-in.
            parts = 2 if "replaced" in said else 3
            equal((path.stem, judged(tar)[:parts]), (path.stem, judged(top)[:parts]))


def test_a_record_of_a_machine_becomes_a_description_of_it():
    with scratch() as folder:
        for name in ("h200-server-ready", "switch-with-acs", "lustre-layouts", "gpu-operator-node", "deploy-advice",
                     "cross-socket", "nvme-rdma-non-optimized"):
            first = laid_out(name, folder)
            tar = folder / f"{name}.tar"
            run(SLUICE, "doctor", "--root", first, "--record", tar)
            second = folder / f"{name}-again"
            second.mkdir()
            expand.expand(describe.describe(tar).splitlines(), second)
            equal((name, judged(second)[:2]), (name, judged(first)[:2]))


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


def test_doctor_reads_how_lustre_spreads_files():
    with scratch() as folder:
        text = run(SLUICE, "doctor", "storage", "--root", laid_out("lustre-layouts", folder), status=None).stdout
        for part in ("/lustre/one: Lustre, 1 stripe of 1024 KiB on OST 7\n",
                     "/lustre/small: Lustre, 4 stripes of 64 KiB on OST 0+3+5+6 of the pool flash\n",
                     "/lustre/pieces: Lustre, 0 to 1 MiB: on the metadata server\n",
                     "/lustre/pieces: Lustre, 1 to 256 MiB: 1 stripe of 1024 KiB on OST 2\n",
                     "/lustre/pieces: Lustre, from 256 MiB on: 8 stripes of 4096 KiB on OST 0+1+2+3+4+5+6+7\n",
                     "/lustre/folder: Lustre, a stripe on every OST of the usual size\n",
                     "/lustre/strange: Lustre, a layout that is not known here\n",
                     "/lustre/one (8.0 GiB) lies on one OST of Lustre", "/lustre/small is dealt out in stripes of 64 KiB"):
            contains(text, part)
        for part in ("/lustre/pieces (", "/lustre/pieces is"):
            equal((part, part in text), (part, False))
        # However early it ends: told as not known, or without what is missing.
        lines = expand.read(expand.MACHINES / "lustre-layouts.txt")[2]
        whole = next(line.split()[3] for line in lines if line.startswith("lov /lustre/pieces"))
        top = folder / "cut"
        top.mkdir()
        expand.expand([f"lov /lustre/{end} 4096 {whole[:end]}" for end in range(2, len(whole))], top)
        text = run(SLUICE, "doctor", "storage", "--root", top, status=None).stdout
        contains(text, "/lustre/30: Lustre, a layout that is not known here\n")
        equal("/lustre/30: Lustre, 0 to" in text, False)


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
        for empty in (",", "", "uring,", ",uring"):
            contains(run(SLUICE, "doctor", "--expect", empty, status=2).stderr, "has an empty word")


def test_doctor_shows_what_is_there_in_the_sections_that_are_named():
    with scratch() as folder:
        root = laid_out("h200-server-ready", folder)
        text = run(SLUICE, "doctor", "storage", "topology", "--root", root).stdout
        for part in ("storage:\n", "/data: xfs on nvme0n1 (nvme, pcie), O_DIRECT: offsets and lengths in steps of 512, "
                     "addresses of 4", "nvme0: 0000:19:00.0 same switch;", "node1: processors 56-111"):
            contains(text, part)
        equal("CUDA" in text, False)
        text = run(SLUICE, "doctor", "fabrics", "--root", laid_out("nvme-rdma-non-optimized", folder), status=1).stdout
        contains(text, " +- nvme2 rdma traddr=10.0.1.5,trsvcid=4420 live non-optimized, reconnects every 10 s for 600 s")


def test_doctor_tells_each_gpu_and_card_how_the_one_reaches_the_other():
    with scratch() as folder:
        for name, way, proven, against in (("rdma-dgx-h100", "dma-buf", True, ""),
                                           ("rdma-hidden-pod", "dma-buf", False, ""),
                                           ("mlnx-ofed-nvidia-fs", "nvidia_peermem", True, "the driver exports no dma-buf"),
                                           ("rdma-broadcom-late", "none", True, "the card's driver registers no dma-buf")):
            pairs = judged(laid_out(name, folder), "rdma")[2]["gpudirect_rdma"]
            equal((name, {(pair["way"], pair["proven"], pair["against_dma_buf"]) for pair in pairs}),
                  (name, {(way, proven, against)}))
        pairs = judged(folder / "rdma-dgx-h100", "rdma")[2]["gpudirect_rdma"]
        equal([(pair["gpu"], pair["device"]) for pair in pairs],
              [(gpu, card) for gpu in ("0000:1b:00.0", "0000:43:00.0") for card in ("mlx5_0", "mlx5_3")])
        probes = folder / "rdma-dgx-h100/sluice/probes"
        lines = [line for line in probes.read_text(encoding="utf-8").splitlines() if not line.startswith("export ")]
        probes.write_text("\n".join([*lines, "export_late 1", ""]), encoding="utf-8")
        text = run(SLUICE, "doctor", "rdma", "--root", folder / "rdma-dgx-h100", status=None).stdout
        contains(text, "export not tried (the driver gave no answer in time)")
        equal(judged(laid_out("plain-debian", folder), "rdma")[2]["gpudirect_rdma"], [])
        text = run(SLUICE, "doctor", "rdma", "--root", folder / "plain-debian", status=None).stdout
        equal(text.splitlines()[:2], ["rdma:", "  no network card with RDMA"])


def test_doctor_tries_to_export_memory_where_rdma_is_asked_about():
    def told(section, **knobs):
        answer = run(SLUICE, "doctor", section, "--json", env=environment(LD_LIBRARY_PATH=str(BUILD / "softgpu"), **knobs), status=None)
        return "\n".join(json.loads(answer.stdout)["facts"][section])
    promised = {"SLUICE_SOFTGPU_RDMA": "1", "SLUICE_SOFTGPU_RDMA_ORDERING": "100"}
    contains(told("rdma", **promised, SLUICE_SOFTGPU_DMA_BUF="2"),
             "GPUDirect RDMA yes, dma-buf yes, exported, sees a card's writes in order")
    contains(told("rdma", **promised, SLUICE_SOFTGPU_DMA_BUF="1"), "dma-buf yes, export refused (801 CUDA_ERROR_NOT_SUPPORTED)")
    contains(told("rdma", **promised, SLUICE_SOFTGPU_DMA_BUF="2", SLUICE_SOFTGPU_FAIL="cuMemAlloc:1:2"),
                 "export not tried (2 CUDA_ERROR_OUT_OF_MEMORY)")
    contains(told("rdma"), "GPUDirect RDMA no, dma-buf no, export refused")


def test_doctor_writes_a_script_of_remedies_that_a_shell_can_read():
    with scratch() as folder:
        for path in machines():
            top = laid_out(path.stem, folder)
            script = folder / "fix.sh"
            script.write_text(run(SLUICE, "doctor", "--root", top, "--fix-script", status=None).stdout, encoding="utf-8")
            run("sh", "-n", script)
        text = run(SLUICE, "doctor", "--root", folder / "io-uring-switched-off", "--fix-script", status=None).stdout
        contains(text, "\nsysctl kernel.io_uring_disabled=0\n")
        # What only looks mends nothing.
        text = run(SLUICE, "doctor", "--root", folder / "plain-debian", "--fix-script", status=3).stdout
        contains(text, "\n# sluice demo\n")


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


IDENTITIES = """kernel 6.8.0-49-generic
nvidia 595.45.04 open
gpu 0000:17:00.0 bar=128G
file /proc/sys/kernel/hostname
gpu-farm-17

file /proc/version
Linux version 6.8.0 (mockbuild@builder9.corp.example) (gcc 13.2.0.1)

file /proc/cmdline
root=UUID=0f5a3c1e-77aa-4b1c-9d3e-aabbccddeeff ip=10.77.3.4::10.77.3.1 rd.lvm.lv=gpu-farm-17-vg/root nfsroot=boothost.corp:/export

file /etc/fstab
UUID=0f5a3c1e-77aa-4b1c-9d3e-aabbccddeeff / ext4 rw 0 1
/dev/disk/by-id/nvme-SAMSUNG_MZQL_S64HNE0T5 /data xfs rw 0 0
PARTUUID=5e4d3c2b-07 /boot ext4 rw 0 0
LABEL=payroll /pay ext4 rw 0 0

file /proc/net/fib_trie
           |-- 10.77.3.4
              /32 host LOCAL
           |-- 127.0.0.1

file /proc/1/cgroup
0::/kubepods.slice/kubepods-pod9d3ec0de_77aa_4b1c_9d3e_aabbccddee01.slice/cri-containerd-5f0c7d21e90a45c7be6f5f0c7d21e90a45c7be6f5f0c7d21e90a45c7be6f1a2b.scope

mount / ext4 /dev/mapper/gpu--farm--17-root
mapping dm-0 LVM-Xq7ZrT0pLmN4bV8cYs2dKf6gHj1wAe3uXq7ZrT0pLmN4bV8cYs2dKf6gHj1wAe3u
mount /nfs nfs4 storage-a.corp.example:FOLDER_OF/anna/set rw,rsize=1048576,proto=tcp,nconnect=8,addr=10.77.3.9,clientaddr=10.77.3.4
mount /smb cifs //files.corp/set rw,username=anna,vers=3
mount /v6 nfs4 [fd12:3456::9]:/x rw,rsize=1048576,proto=tcp,nconnect=8,addr=fd12:3456::9
subsystem nvme-subsys0 nqn=nqn.2014-08.org.nvmexpress:uuid:0f5a3c1e-1111-4b1c-9d3e-aabbccddee77
path nvme-subsys0 nvme3 tcp traddr=10.77.3.50,trsvcid=4420,src_addr=10.77.3.4
file /sluice/kernel-log
nvme nvme0: eui.0025385b21404321, Serial Number: S64HNE0T512345
NVRM: GPU at PCI:0000:17:00: GPU-9f3ec0de-77aa-4b1c-9d3e-aabbccddee02 on gpu-farm-17
mlx5_core 0000:1b:00.0 nvidia port GUID a0:88:c2:03:00:5f:1c:2e, MAC a0:88:c2:5f:1c:2e

file /etc/cufile.json
{"properties": {"rdma_dev_addr_list": ["10.77.3.4"]}}

env CUFILE_LOGFILE_PATH=FOLDER_OF/anna/cufile.log
env NVIDIA_VISIBLE_DEVICES=GPU-9f3ec0de-77aa-4b1c-9d3e-aabbccddee02
starts
uring
""".replace("FOLDER_OF", "/" + "home")
TELLING = ("gpu-farm", "builder9", "mockbuild", "0f5a3c1e", "aabbccddee", "10.77.3", "boothost", "S64HNE", "5e4d3c2b",
           "payroll", "5f0c7d21", "Xq7ZrT0p", "storage-a", "anna", "files.corp", "fd12:3456", "0025385b", "a0:88:c2")


def test_a_recorded_machine_is_nobodys_and_judged_alike():
    with scratch() as folder:
        top = folder / "machine"
        top.mkdir()
        expand.expand(IDENTITIES.splitlines(), top)
        first, second = folder / "first.tar", folder / "second.tar"
        contains(run(SLUICE, "doctor", "--root", top, "--record", first).stdout, "names and addresses replaced")
        whole = first.read_bytes().decode(errors="replace")
        equal([word for word in TELLING if word in whole], [])
        for kept in ("127.0.0.1", "proto=tcp,nconnect=8", "0000:17:00", "(gcc 13.2.0.1)", "595.45.04", "rsize=1048576"):
            contains(whole, kept)
        # The same address is the same stand-in in the table of addresses and in the configuration.
        status, ids, _ = judged(top)
        equal("rdma.foreign_address" in ids, False)
        equal(judged(first)[:2], (status, ids))
        # What is replaced stays as it is the second time.
        equal("replaced" in run(SLUICE, "doctor", "--root", first, "--record", second).stdout, False)
        equal(second.read_bytes() == first.read_bytes(), True)


def test_an_archive_that_leads_out_of_its_folder_is_refused():
    with scratch() as folder:
        for name, link in (("../evil", None), ("sys/evil", "../../../evil")):
            tar = folder / "evil.tar"
            with tarfile.open(tar, "w", format=tarfile.USTAR_FORMAT) as archive:
                member = tarfile.TarInfo(name)
                if link:
                    member.type, member.linkname = tarfile.SYMTYPE, link
                archive.addfile(member)
            contains(run(SLUICE, "doctor", "--root", tar, status=2).stderr, "leads out of it")
        (folder / "no.tar").write_bytes(b"x" * 2048)
        for wrong in (folder / "no.tar", "/dev/null"):
            answer = run(SLUICE, "doctor", "--root", wrong, status=2)
            contains(answer.stderr, "no tar archive")
            contains(answer.stderr, "Name a folder or a tar file that `sluice doctor --record` has written.")
        run(SLUICE, "doctor", "--root", folder / "gone", status=2)


def test_a_folder_without_a_machine_in_it_is_no_recorded_machine():
    with scratch() as folder:
        (folder / "empty/sub").mkdir(parents=True)
        with tarfile.open(folder / "empty.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
            archive.add(folder / "empty", "empty")
        for root in (folder / "empty", folder / "empty.tar"):
            for words in (("doctor",), ("doctor", "--record", folder / "again.tar"), ("topology",)):
                told = run(SLUICE, *words, "--root", root, status=2).stderr
                contains(told, "is no recorded machine: it has neither /proc nor /sys.")
        equal((folder / "again.tar").exists(), False)


def test_doctor_says_what_a_configuration_that_is_no_file_is():
    with scratch() as folder:
        os.mkfifo(folder / "pipe")
        for path, why in ((folder / "pipe", "it is no regular file"), ("/dev/random", "it is no regular file"),
                          (folder, "it is a directory")):
            answer = run(SLUICE, "doctor", "config", env=environment(CUFILE_ENV_PATH_JSON=str(path)), status=2, timeout=30)
            contains(answer.stdout, f"broken    {path}: {why} · none of the file counts")


def test_doctor_says_what_is_wrong_with_a_configuration_as_a_whole():
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ()
    with scratch() as folder:
        path = folder / "cufile.json"
        for text in ("[1,2]", "null"):
            path.write_text(text, encoding="utf-8")
            answer = run(SLUICE, "doctor", "config", env=environment(CUFILE_ENV_PATH_JSON=str(path)), status=2)
            contains(answer.stdout, f"broken    {path}:1: the file is no object in braces; the defaults hold · none of the file counts")
        path.write_text("", encoding="utf-8")
        answer = run(SLUICE, "doctor", "config", env=environment(CUFILE_ENV_PATH_JSON=str(path)), status=2)
        contains(answer.stdout, f"broken    {path}:1: column 1: ")
        if powerless and shutil.which("setpriv") is None:
            skip("setpriv, without which root reads everything, is not installed")
        path.chmod(0)
        answer = run(*powerless, SLUICE, "doctor", "config", env=environment(CUFILE_ENV_PATH_JSON=str(path)), status=2)
        contains(answer.stdout, f"broken    {path}: it cannot be opened (Permission denied) · none of the file counts")


def test_doctor_tells_of_variables_that_count_for_nothing():
    for name, word in (("SLUICE_VERIFY", "maybe"), ("SLUICE_VERIFY", "2"), ("SLUICE_MODE", "nonsense"), ("SLUICE_STATS", "9"),
                       ("SLUICE_LINKS", "abc"), ("CUFILE_LOGGING_LEVEL", "NONSENSE")):
        answer = run(SLUICE, "doctor", "config", env=environment(**{name: word}), status=1)
        contains(answer.stdout, f"degraded  {name} takes ")
        contains(answer.stdout, "; it is ignored · what the file says of it holds, or the default · Give the variable ")


def test_doctor_tells_that_the_log_cannot_be_written():
    with scratch() as folder:
        log = folder / "cufile.log"
        equal("log" in run(SLUICE, "doctor", "config", env=environment(CUFILE_LOGFILE_PATH=str(log))).stdout, False)
        equal(log.exists(), False)
        text = run(SLUICE, "doctor", "config", env=environment(CUFILE_LOGFILE_PATH=str(folder / "no/cufile.log")), status=1).stdout
        contains(text, f"degraded  the log cannot be written: {folder}/no: No such file or directory · ")
        (folder / "cufile.json").write_text(json.dumps({"logging": {"dir": str(log)}}), encoding="utf-8")
        log.write_bytes(b"")
        variables = environment(CUFILE_ENV_PATH_JSON=str(folder / "cufile.json"))
        contains(run(SLUICE, "doctor", "config", env=variables, status=1).stdout, f"{log}: it is no folder")
        tar = folder / "machine.tar"
        run(SLUICE, "doctor", "--record", tar, env=variables)
        contains(run(SLUICE, "doctor", "config", "--root", tar, status=1).stdout, "it is no folder")


def test_doctor_and_library_agree_on_files_that_no_log_is_written_to():
    with scratch() as folder:
        (folder / "file").write_bytes(b"")
        (folder / "link").symlink_to(folder / "file")
        (folder / "loose").symlink_to(folder / "gone")
        (folder / "folder").mkdir()
        (folder / "data").write_bytes(b"x" * 8192)
        os.mkfifo(folder / "pipe")
        for place, why in (("file", ""), ("link", "it is a symbolic link; name the file itself"),
                           ("loose", "it is a symbolic link; name the file itself"), ("folder", "it is a folder"),
                           ("pipe", "it is no regular file"), ("/dev/null", "it is no regular file")):
            variables = environment(SLUICE_SOFTGPU="1", CUFILE_LOGFILE_PATH=str(folder / place))
            told = run(SLUICE, "doctor", "config", env=variables, status=1 if why else 0).stdout
            equal((place, "the log cannot be written" in told), (place, bool(why)))
            contains(told, f"{folder / place}: {why} · " if why else "")
            library = run(BUILD / "bin/gdscheck", "-f", folder / "data", env=variables).stderr
            equal((place, "sluice: the log: " in library), (place, bool(why)))


def test_a_log_folder_has_to_be_entered_as_well_as_written():
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ()
    if powerless and shutil.which("setpriv") is None:
        skip("setpriv, without which root enters everything, is not installed")
    with scratch() as folder:
        logs = folder / "logs"
        logs.mkdir()
        (folder / "cufile.json").write_text(json.dumps({"logging": {"dir": str(logs)}}), encoding="utf-8")
        for named in ({"CUFILE_ENV_PATH_JSON": str(folder / "cufile.json")}, {"CUFILE_LOGFILE_PATH": str(logs / "log")}):
            logs.chmod(0o600)
            answer = run(*powerless, SLUICE, "doctor", "config", env=environment(**named), status=1)
            logs.chmod(0o700)
            contains(answer.stdout, f"the log cannot be written: {logs}: Permission denied · ")


def test_what_cannot_be_unpacked_as_a_whole_is_not_judged():
    with scratch() as folder:
        tar = folder / "machine.tar"
        run(SLUICE, "doctor", "--record", tar)
        full = ("sh", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh")
        answer = run(*full, SLUICE, "doctor", "--root", tar, env=environment(TMPDIR=str(folder)), status=1)
        equal(answer.stdout, "")
        contains(answer.stderr, "A recording cannot be unpacked: ")
        contains(answer.stderr, "cannot be written: File too large.")
        contains(answer.stderr, "TMPDIR=")
        equal([path.name for path in folder.iterdir()], ["machine.tar"])
        # A recording that cannot be written leaves what has its name.
        before = tar.read_bytes()
        answer = run(*full, SLUICE, "doctor", "--record", tar, status=1)
        contains(answer.stderr, f"The recording cannot be written to {tar}: File too large.")
        equal(tar.read_bytes(), before)
        equal([path.name for path in folder.iterdir()], ["machine.tar"])


def test_a_section_that_wants_a_gpu_is_not_fine_without_one():
    with scratch() as folder:
        plain = laid_out("plain-debian", folder)
        for section in ("p2pdma", "rdma", "nvidia-fs"):
            text = run(SLUICE, "doctor", section, "--root", plain, status=3).stdout
            contains(text, "no GPU    no NVIDIA device is on the PCI bus · ")
            equal((section, text.splitlines()[-1]), (section, "verdict   no GPU"))
            status, ids, answer = judged(plain, section)
            equal((section, status, answer["verdict"], "gpu.none" in ids), (section, 3, "no GPU", True))
        contains(run(SLUICE, "doctor", "p2pdma", "--root", plain, status=3).stdout, "p2pdma:\n  nothing that could be judged\n")
        contains(run(SLUICE, "doctor", "fabrics", "--root", plain).stdout, "fabrics:\n  no NVMe subsystem\n")
        no_driver = laid_out("no-driver", folder)
        contains(run(SLUICE, "doctor", "p2pdma", "--root", no_driver, status=2).stdout, "the kernel module nvidia is not loaded")
        # Of a probe the verdict is about what is expected, whatever else is told.
        text = run(SLUICE, "doctor", "--root", plain, "--expect", "uring").stdout
        equal(text.splitlines()[-1], "verdict   fine: all that is expected is there")


def test_doctor_tells_of_compat_mode_that_is_off_without_a_gpu():
    with scratch() as folder:
        text = run(SLUICE, "doctor", "config", "--root", laid_out("compat-off-without-gpu", folder), status=1).stdout
        contains(text, "degraded  allow_compat_mode is false, and no direct path is ready · ")


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


def test_doctor_says_of_a_file_that_may_not_be_read_why_and_what_mends_it():
    # Root without capabilities is held to the mode as every user is.
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ()
    if powerless and shutil.which("setpriv") is None:
        skip("setpriv, without which root reads everything, is not installed")
    with scratch() as folder:
        file = folder / "data"
        file.write_bytes(os.urandom(8192))
        file.chmod(0)
        text = run(*powerless, SLUICE, "doctor", file, env=SOFT, status=None).stdout
        contains(text, "cannot be opened: Permission denied")
        contains(text, "Ask the owner for the permission, or run this as a user who has it.")
        if "is empty" in text:
            raise AssertionError(text)


def test_doctor_asks_cuda_before_a_trial_starts_it():
    with scratch() as folder:
        file = folder / "data"
        file.write_bytes(os.urandom(8192))
        probes = []
        for words in ((), (file,)):
            tar = folder / "machine.tar"
            run(SLUICE, "doctor", *words, "--record", tar, env=SOFT)
            with tarfile.open(tar) as archive:
                text = archive.extractfile("sluice/probes").read().decode()
            probes.append([line for line in text.splitlines() if line.startswith(("cuda", "device"))])
        equal(probes[1], probes[0])


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


def test_doctor_refuses_what_it_cannot_do_and_records_for_programs():
    with scratch() as folder:
        script = run(SLUICE, "doctor", "--fix-script", "--json", status=2)
        contains(json.loads(script.stdout)["error"], "--fix-script has no JSON")
        # No fault of the machine: there is no such GPU, and the soft one is here.
        contains(run(SLUICE, "doctor", "--gpu", "7", folder, status=2, env=environment(SLUICE_SOFTGPU="1")).stderr, "no GPU 7")
        told = json.loads(run(SLUICE, "doctor", "--record", folder / "machine.tar", "--json").stdout)
        equal((told["file"], told["entries"] > 0), (str(folder / "machine.tar"), True))


if __name__ == "__main__":
    main(globals())
