# SPDX-License-Identifier: Apache-2.0
"""`sluice report` and `sluice profile`: pages that a browser opens without a complaint, and what they answer."""
import contextlib
import html.parser
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zlib

from support import BUILD, SLUICE, SOURCE, behind_a_mount, contains, environment, equal, main, run, scratch, skip, skip_when_sanitized

GDSIO = BUILD / "bin/gdsio"
MEBIBYTE = 1 << 20
# Elements that stay open; all others have to be closed.
VOID = {"meta", "link", "br", "rect", "line"}


class Reader(html.parser.HTMLParser):
    """Text of a page; complains of what no browser should have to mend."""

    def __init__(self):
        super().__init__()
        self.open, self.parts, self.attributes = [], [], []

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes
        if tag not in VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.attributes += attributes

    def handle_endtag(self, tag):
        equal(self.open.pop(), tag)

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"):
            self.parts.append(data)


def text_of(page):
    """What a reader sees, after a look at the page as a whole: one file, which loads nothing."""
    text = page.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    equal(reader.open, [])
    equal([value for name, value in reader.attributes
           if name in ("src", "href", "action", "xlink:href") and not value.startswith("data:")], [])
    equal(("<script" in text, "@import" in text, "url(" in text), (False, False, False))
    return re.sub(r"\s+", " ", " ".join(reader.parts))


@contextlib.contextmanager
def reported(*words, size=16 * MEBIBYTE, before=()):
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").write_bytes(os.urandom(size))
        run(SLUICE, "report", "--soft-gpu", *before, "-o", folder / "page.html", "--", GDSIO, "-f", folder / "file", "-d", "0", "-x", "0",
            "-I", "0", "-O", "1", "-s", str(size), *words)
        yield folder / "page.html", folder


def test_a_report_of_a_run_tells_how_much_which_way_and_why():
    with reported("-i", "1M", "-w", "2") as (page, folder):
        text = text_of(page)
        contains(text, "16 transfers")
        contains(text, "16.0 MiB moved")
        contains(text, "posix (soft_gpu)")
        contains(text, str(folder / "file"))
        for heading in ("What stands out", "Over time", "How long transfers took", "Which way, and why", "Files", "The slowest"):
            contains(text, heading)


def test_a_report_of_a_program_without_transfers_says_so():
    skip_when_sanitized()
    with scratch() as folder:
        run(SLUICE, "report", "-o", folder / "page.html", "--", "true")
        contains(text_of(folder / "page.html"), "No transfer went through cuFile.")


def test_a_report_that_has_lost_events_does_not_say_that_there_were_no_transfers():
    with reported("-i", "64K", before=("--events", "1")) as (page, _):
        text = text_of(page)
        contains(text, "Not all was recorded: ")
        contains(text, "how many there were is not known")
        equal(("No transfer went through cuFile" in text, "0 transfers" in text), (False, False))


def test_a_report_says_of_slow_parts_what_its_picture_shows():
    for words in (("-i", "4K"), ("-i", "64K", "-w", "8"), ("-i", "1M")):
        with reported(*words) as (page, _):
            text, html_text = text_of(page), page.read_text()
            picture = html_text[html_text.index("Over time"):html_text.index("How long transfers took")]
            red = len(re.findall(r"<rect [^>]*var\(--bad\)", picture))
            if red == 0:
                contains(text, "No part of the run moved less than half of what is usual in it.")
            else:
                contains(text, f"{red} of 96 parts of ")


def test_a_report_is_refused_before_the_program_runs_where_it_cannot_be_written():
    skip_when_sanitized()
    with scratch() as folder:
        told = run(SLUICE, "report", "-o", "/nowhere/page.html", "--", "touch", folder / "ran", status=125)
        contains(told.stderr, "The report cannot be written to /nowhere/page.html: No such file or directory.")
        equal(list(folder.iterdir()), [])
        (folder / "results").write_text(rows((5,)))
        for words in (("--machine",), (folder / "results",)):
            contains(run(SLUICE, "report", "-o", folder, *words, status=1).stderr, "Is a directory.")


def test_a_report_that_cannot_be_written_at_last_keeps_the_programs_status_apart():
    skip_when_sanitized()
    for ends, status in (("true", 125), ("exit 7", 7)):
        told = run(SLUICE, "report", "-o", "/dev/full", "--", "sh", "-c", ends, status=status)
        contains(told.stderr, "The report cannot be written to /dev/full: No space left on device.")


def test_a_full_disk_leaves_the_old_report_and_nothing_beside_it():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "results").write_text(rows((5,)))
        full = folder / "full"
        full.mkdir()
        answer = behind_a_mount(f"-t tmpfs -o size=64k none {full}",
                                f"printf 'a good one' >{full}/page.html; cat /dev/zero >{full}/rest 2>&-; "
                                f"{SLUICE} report -o {full}/page.html {folder}/results; echo \" $?\"; cat {full}/page.html; "
                                f"echo; ls -A {full}")
        contains(answer.stderr, "No space left on device.")
        equal(answer.stdout, " 1\na good one\npage.html\nrest\n")


def test_a_report_is_written_into_a_file_that_cannot_be_replaced():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "results").write_text(rows((5,)))
        (folder / "real").write_text("an old one, and a much longer name of it")
        (folder / "page.html").write_text("")
        answer = behind_a_mount(f"--bind {folder}/real {folder}/page.html",
                                f"exec {SLUICE} report -o {folder}/page.html {folder}/results")
        equal(answer.returncode, 0)
        contains(text_of(folder / "real"), "read-1M")
        equal(sorted(path.name for path in folder.iterdir()), ["page.html", "real", "results"])


def test_a_report_follows_no_link_that_another_user_has_put_where_all_may_write():
    if os.getuid() != 0:
        skip("links of another user are made by root")
    with scratch() as folder:
        (folder / "results").write_text(rows((5,)))
        (folder / "precious").write_text("precious")
        public = folder / "public"
        public.mkdir()
        public.chmod(0o1777)
        (public / "page.html").symlink_to(folder / "precious")
        os.lchown(public / "page.html", 65534, 65534)
        told = run(SLUICE, "report", "-o", public / "page.html", folder / "results", status=1)
        contains(told.stderr, "a link of another user")
        equal((folder / "precious").read_text(), "precious")


def test_a_report_takes_the_place_of_an_old_one_also_behind_a_link():
    with scratch() as folder:
        (folder / "results").write_text(rows((5,)))
        (folder / "elsewhere").mkdir()
        real, link = folder / "elsewhere/page.html", folder / "page.html"
        link.symlink_to("elsewhere/page.html")
        for _ in range(2):  # the link leads to nothing at first
            run(SLUICE, "report", "-o", link, folder / "results")
            contains(text_of(real), "read-1M")
            real.write_text("an old one")
            real.chmod(0o640)
        run(SLUICE, "report", "-o", link, folder / "results")
        contains(text_of(real), "read-1M")
        equal((link.is_symlink(), real.is_symlink(), real.stat().st_mode & 0o777), (True, False, 0o640))
        equal([path.name for path in real.parent.iterdir()], ["page.html"])


def rows(speeds, name="read-1M"):
    return "".join(json.dumps({"row": name, "gib_per_s": speed, "p50_us": 1000 / speed, "p99_us": 3000 / speed}) + "\n"
                   for speed in speeds)


def test_a_report_of_results_tells_before_from_after_with_bounds():
    with scratch() as folder:
        (folder / "before.json").write_text(rows((10, 10.1, 9.9, 10)) + rows((5,), "write-1M"))
        (folder / "after.json").write_text(rows((20, 20.4, 19.8, 20.1)) + rows((5,), "write-1M"))
        run(SLUICE, "report", "-o", folder / "page.html", folder / "before.json", folder / "after.json")
        text = text_of(folder / "page.html")
        contains(text, "after.json by before.json")
        (mean, low, high), = re.findall(r"read-1M (\d\.\d\d)x \((\d\.\d\d) to (\d\.\d\d)\)", text)
        equal((1.9 < float(low) < float(mean) < float(high) < 2.1, mean), (True, "2.01"))
        contains(text, "write-1M 1.00x, of one measurement")


def test_a_report_takes_what_gdsio_and_comparisons_write():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").write_bytes(os.urandom(MEBIBYTE))
        measured = run(GDSIO, "-f", folder / "file", "-d", "0", "-x", "0", "-I", "0", "-s", "1M", "-i", "64K", "--json",
                       env=environment(SLUICE_SOFTGPU="1")).stdout
        (folder / "gdsio.json").write_text(measured)
        comparison = sorted((SOURCE / "bench/results").glob("comparison-*.json"))[0]
        run(SLUICE, "report", "-o", folder / "page.html", folder / "gdsio.json", comparison)
        text = text_of(folder / "page.html")
        contains(text, "READ GPUD 64.0 KiB x1")
        contains(text, "By the other library of the comparison")


def test_a_report_refuses_what_holds_no_results_and_says_why():
    with scratch() as folder:
        for content in ("", "[]", "{}", "\0\1", '{"passes": [{}]}', '{"results": {"a": 3}}', '[{"row": "x"}]'):
            (folder / "bad.json").write_text(content)
            told = run(SLUICE, "report", "-o", folder / "page.html", folder / "bad.json", status=1)
            contains(told.stderr, "holds no results that this tool knows")
        equal((folder / "page.html").exists(), False)
        contains(run(SLUICE, "report", status=2).stderr, "There is nothing to report.")


def test_what_cannot_be_read_is_told_in_the_systems_words_with_a_remedy():
    with scratch() as folder:
        for words, part in (((folder,), "Is a directory."), ((folder / "nosuch",), "No such file or directory."),
                            (("--machine", "--profile", folder / "nosuch"), "No such file or directory."),
                            (("--machine", "--profile", folder), "Is a directory.")):
            told = run(SLUICE, "report", "-o", folder / "page.html", *words, status=1).stderr
            contains(told, f"{words[-1]} cannot be read: {part}")
            contains(told, "sluice profile -o FILE" if "--profile" in words else "Name files that")
        (folder / "other.json").write_text("{}")
        told = run(SLUICE, "report", "-o", folder / "page.html", "--machine", "--profile", folder / "other.json", status=1)
        contains(told.stderr, "is no profile of this version")


def test_a_report_escapes_what_others_have_named():
    with scratch() as folder:
        (folder / "bad.json").write_text(json.dumps({"row": "<script>alert(1)</script>\"'", "gib_per_s": 1}))
        run(SLUICE, "report", "-o", folder / "page.html", folder / "bad.json")
        contains(text_of(folder / "page.html"), "<script>alert(1)</script>")


def profile_of(folder):
    run(SLUICE, "profile", "--seconds", "0.01", "--size", "32M", "-o", folder / "profile.json", folder,
        env=environment(SLUICE_SOFTGPU="1"))
    return json.loads((folder / "profile.json").read_text())


def test_a_profile_is_measured_kept_and_shown_with_the_machine():
    skip_when_sanitized()
    with scratch() as folder:
        profile = profile_of(folder)
        (measured,) = profile["folders"]
        equal([(link["gpu"], link["device"], link["to_device_gib_per_s"]) for link in profile["links"]],
              [(0, profile["device"], profile["link"]["to_device_gib_per_s"])])
        equal((profile["left_out"], measured["file_system"] != "", measured["mount"] != ""), ([], True, True))
        for drive in profile["drives"]:
            equal(drive["drive"] in measured["drives"], True)
            equal("why" in drive or (drive["read_gib_per_s"] > 0 and drive["read_4k_us"] > 0), True)
        equal([drive["drive"] for drive in profile["drives"]], measured["drives"])
        equal((profile["soft"], measured["folder"], measured["path"]), (True, str(folder), "posix"))
        speeds = [*profile["link"].values(), *measured["cached_read_gib_per_s"].values(), measured["write_gib_per_s"]]
        equal((len(speeds), all(speed > 0 for speed in speeds)), (6, True))
        best = {"sluice.copy": measured["best_copy"]}
        if "direct_read_by_gib_per_s" in measured:  # the file system takes O_DIRECT
            equal(measured["direct_read_gib_per_s"], measured["direct_read_by_gib_per_s"]["auto"])
            best["sluice.disk_reads"] = measured["best_disk_reads"]
        equal(profile["best"], best)
        equal([path.name for path in folder.iterdir()], ["profile.json"])
        run(SLUICE, "report", "--machine", "--profile", folder / "profile.json", "-o", folder / "page.html")
        text = text_of(folder / "page.html")
        for part in ("What was measured", "link: host memory to device", "What the doctor finds", "What is there", "soft GPU"):
            contains(text, part)


def test_a_profile_looks_at_all_that_is_named_before_it_measures():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").touch()
        env = environment(SLUICE_SOFTGPU="1")
        for words, parts in (((folder, folder / "nosuch"), ("nosuch cannot be measured: No such file or directory.",)),
                             ((folder, folder / "file"), ("file cannot be measured: Not a directory.",)),
                             (("-o", "/nowhere/p", folder), ("The profile cannot be written to /nowhere/p: No such file",)),
                             (("--size", "1000000G", folder), ("has no room for ",)),
                             (("--size", "0", folder), ("--size 0: files of less than 1 MiB", "at least 1M"))):
            # As long as the test may take: it ends at once.
            told = run(SLUICE, "profile", "--seconds", "60", "--limit", "3600", *words, status=2 if "0" in words else 1, env=env)
            for part in parts:
                contains(told.stderr, part)
            equal(told.stdout, "")
        equal([path.name for path in folder.iterdir()], ["file"])


def test_a_folder_without_room_is_told_with_a_size_that_would_fit():
    skip_when_sanitized()
    with scratch() as folder:
        told = behind_a_mount(f"-t tmpfs -o size=16m none {folder}", f"{SLUICE} profile --size 64M {folder}",
                              env=environment(SLUICE_SOFTGPU="1"))
        equal(told.returncode, 1)
        contains(told.stderr, "has no room for 64.0 MiB.")
        contains(told.stderr, "Choose a smaller size: --size 8M.")


def test_a_profile_that_cannot_be_kept_is_shown_all_the_same():
    skip_when_sanitized()
    told = run(SLUICE, "profile", "--seconds", "0.01", "-o", "/dev/full", status=1, env=environment(SLUICE_SOFTGPU="1"))
    contains(told.stderr, "The profile cannot be written to /dev/full: No space left on device.")
    contains(told.stdout, "GiB/s to the device")


def test_a_profile_shows_the_link_of_each_gpu_and_units():
    skip_when_sanitized()
    with scratch() as folder:
        text = run(SLUICE, "profile", "--seconds", "0.01", "--size", "1M", folder,
                   env=environment(SLUICE_SOFTGPU="1", SLUICE_SOFTGPU_DEVICES="3")).stdout
        equal(len(re.findall(r"(?m)^.*: [0-9.]+ GiB/s to the device, [0-9.]+ GiB/s from it$", text)), 3)
        contains(text, "in GiB/s: ")


def test_a_profile_reads_the_drive_below_a_file_system_by_itself():
    skip_when_sanitized()
    if os.getuid() != 0 or shutil.which("losetup") is None or shutil.which("mkfs.ext4") is None:
        skip("a drive is made by root, with losetup and mkfs.ext4")
    with scratch() as folder, contextlib.ExitStack() as undone:
        (folder / "mnt").mkdir()
        with open(folder / "image", "wb") as image:
            image.truncate(256 * MEBIBYTE)
        made = run("losetup", "--find", "--show", folder / "image", status=None)
        if made.returncode != 0:
            skip(f"no loop device: {made.stderr}")
        device = made.stdout.strip()
        undone.callback(run, "losetup", "-d", device)
        run("mkfs.ext4", "-q", device)
        if run("mount", device, folder / "mnt", status=None).returncode != 0:
            skip("a loop device cannot be mounted")
        undone.callback(run, "umount", folder / "mnt")
        run(SLUICE, "profile", "--seconds", "0.01", "--size", "32M", "-o", folder / "kept", folder / "mnt",
            env=environment(SLUICE_SOFTGPU="1"))
        profile = json.loads((folder / "kept").read_text())
        (measured,), (drive,) = profile["folders"], profile["drives"]
        equal((measured["file_system"], measured["drives"]), ("ext4", [os.path.basename(device)]))
        equal((drive["drive"], drive["read_gib_per_s"] > 0, drive["read_4k_us"] > 0), (os.path.basename(device), True, True))
        run(SLUICE, "report", "--machine", "--profile", folder / "kept", "-o", folder / "page.html")
        contains(text_of(folder / "page.html"), f"drive {os.path.basename(device)}: read by itself")


def test_a_profile_ends_when_its_time_is_up_and_says_what_it_left_out():
    skip_when_sanitized()
    with scratch() as folder:
        told = run(SLUICE, "profile", "--limit", "0.1", "--seconds", "0.1", "--size", "32M", "--json", folder,
                   env=environment(SLUICE_SOFTGPU="1"))
        profile = json.loads(told.stdout)
        equal(len(profile["left_out"]) > 0, True)
        equal((profile["best"], list(folder.iterdir())), ({}, []))
        shown = run(SLUICE, "profile", "--limit", "0.1", "--seconds", "60", env=environment(SLUICE_SOFTGPU="1")).stdout
        contains(shown, "not measured from it")
        equal("0.00" in shown, False)
        contains(told.stderr, "kept nowhere: -o FILE keeps it")


def test_a_profile_of_all_file_systems_measures_each_once_and_leaves_nothing():
    skip_when_sanitized()
    with scratch() as folder:
        before = set(os.listdir("/"))
        told = run(SLUICE, "profile", "--all", "--limit", "0.1", "--seconds", "0.01", "--size", "1M", "-o", folder / "kept",
                   folder, env=environment(SLUICE_SOFTGPU="1"))
        profile = json.loads((folder / "kept").read_text())
        begun = [each["folder"] for each in profile["folders"]]
        equal((begun[:1], len(set(begun))), ([str(folder)] if begun else [], len(begun)))
        equal((set(os.listdir("/")) - before, [path.name for path in folder.iterdir()]), (set(), ["kept"]))
        contains(told.stderr, f"kept in {folder / 'kept'}; a program takes what was quickest with SLUICE_PROFILE=")


def test_a_profile_chooses_for_a_program_what_nobody_has_chosen():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "profile.json").write_text('{"sluice_profile": 1, "best": {"sluice.copy": "engine"}}')
        text = run(BUILD / "bin/gdscheck", "-p", "-v", "--soft", status=None,
                   env=environment(SLUICE_SOFTGPU="1", SLUICE_PROFILE=str(folder / "profile.json"))).stdout
        contains(re.sub(r" +", " ", text), 'sluice.copy : "engine" [as measured, by sluice.profile; obeyed]')


def test_a_profile_chooses_by_file_system_and_is_left_alone_where_it_is_of_another():
    skip_when_sanitized()
    with scratch() as folder:
        kept = folder / "profile.json"
        profile = profile_of(folder)
        (measured,) = profile["folders"]
        equal((len(profile["machine"]) in (0, 16), "best_copy" in measured), (True, True))
        env = environment(SLUICE_SOFTGPU="1", SLUICE_PROFILE=str(kept))

        def explained():
            kept.write_text(json.dumps(profile))
            return json.loads(run(SLUICE, "explain", "--json", kept, env=env).stdout)["detail"]

        profile["best"] = {}
        measured.update(best_copy="engine", best_disk_reads="threads")
        date = profile["date"]
        contains(explained(), f"; by the profile of {date}: sluice.copy is engine, sluice.disk_reads is threads")
        env["SLUICE_COPY"] = "kernel"
        contains(explained(), f"; by the profile of {date}: sluice.disk_reads is threads")
        del env["SLUICE_COPY"]
        measured["drives"] = ["sdz"]
        contains(explained(), f"; the profile of {date} is left alone here: {measured['mount']} was")
        profile["machine"] = "0123456789abcdef"
        contains(explained(), f"; the profile of {date} is left alone: it was made on another machine")


def test_an_explanation_names_what_a_profile_has_chosen():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "profile.json").write_text('{"sluice_profile": 1, "best": {"sluice.disk_reads": "threads"}}')
        env = environment(SLUICE_SOFTGPU="1", SLUICE_PROFILE=str(folder / "profile.json"))
        contains(run(SLUICE, "explain", folder / "profile.json", env=env).stdout,
                 '  profile sluice.disk_reads is "threads", as measured (sluice.profile)\n')
        told = json.loads(run(SLUICE, "explain", "--json", folder / "profile.json", env=env).stdout)
        equal(told["measured"], {"sluice.disk_reads": "threads"})
        env["SLUICE_DISK_READS"] = "io_uring"
        told = json.loads(run(SLUICE, "explain", "--json", folder / "profile.json", env=env).stdout)
        equal(told["measured"], {})


# --- a browser -------------------------------------------------------------------------------------------------------

def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    skip("there is no chromium: its picture of the page is not taken")


def size_of_png(path):
    """Width and height, and whether more than one colour is in it."""
    data = path.read_bytes()
    equal(data[:8], b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    return width, height, len(set(zlib.decompress(packed)[:: 997])) > 4


def pictured(page, picture, *flags):
    """Opens the page in a browser without a window; what it complains of."""
    with scratch() as home:
        told = run(browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
                   "--v=0", f"--user-data-dir={home}", "--window-size=1000,3200", "--hide-scrollbars", *flags,
                   f"--screenshot={picture}", page.as_uri(), env=environment(HOME=str(home)), timeout=240)
    return [line for line in told.stderr.splitlines() if "CONSOLE" in line]


def test_a_browser_shows_reports_and_complains_of_nothing():
    browser()
    with reported("-i", "1M", "-w", "2") as (page, folder):
        pages = [page]
        (folder / "before.json").write_text(rows((10, 10.1, 9.9, 10)))
        (folder / "after.json").write_text(rows((20, 20.4, 19.8, 20.1)))
        run(SLUICE, "report", "-o", folder / "results.html", folder / "before.json", folder / "after.json")
        profile_of(folder)
        run(SLUICE, "report", "--machine", "--profile", folder / "profile.json", "-o", folder / "machine.html")
        pages += [folder / "results.html", folder / "machine.html"]
        kept = os.environ.get("SLUICE_PICTURES")  # for a person to look at
        for each in pages:
            for name, flags in (("light", ()), ("dark", ("--blink-settings=preferredColorScheme=0",))):
                picture = folder / f"{each.stem}-{name}.png"
                equal(pictured(each, picture, *flags), [])
                width, height, drawn = size_of_png(picture)
                equal((width, height > 1000, drawn), (1000, True, True))
                if kept:
                    shutil.copy(picture, kept)


if __name__ == "__main__":
    main(globals())
