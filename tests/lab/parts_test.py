#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lab's own parts: what a guest prints is read as meant, and a DMA promise that is not kept is noticed."""

import os
import pathlib
import random
import struct
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree as ElementTree

import cases
import dma
import machine
import power
import rows

GPU, PLAIN, MARK = 1, 11, 99
WINDOWS = [dma.Window("GPU0", 0x10000, 0x1ffff, GPU), dma.Window("GPU1", 0x20000, 0x2ffff, 2)]


def command(operation, nsid, length, place=0, segments=()):
    opname = " opname 'x'" if operation == "write" else ""
    yield f"pci_nvme_io_cmd cid 1 nsid 0x{nsid:x} sqid 1 opc 0x2 opname 'x'"
    yield f"pci_nvme_{operation} cid 1{opname} nsid {nsid} nlb {length // 512} count {length} lba 0x{place // 512:x}"
    for address, size in segments:
        yield f"pci_nvme_map_addr addr 0x{address:x} len {size}"


def mark(index):
    place = (dma.FIRST_MARK + index) * dma.MARK_BLOCK
    return command("read", MARK, dma.MARK_BLOCK, place, [(0x5000, dma.MARK_BLOCK)])


def within_stretch(number, *commands):
    lines = [*mark(2 * number)]
    for lines_of_command in commands:
        lines += lines_of_command
    return [*lines, *mark(2 * number + 1)]


def verdict(lines, inside=8192, operation="read", window="GPU0", windows=WINDOWS):
    stretches = dma.stretches(dma.read_commands(lines), MARK)
    return dma.judge(dma.Promise(3, "row", operation, inside, window), stretches.get(3), windows)


class Promises(unittest.TestCase):
    def test_transfers_into_the_window_keep_it(self):
        lines = within_stretch(3, command("read", PLAIN, 8192, 0, [(0x10000, 4096), (0x11000, 4096)]))
        self.assertEqual(verdict(lines), "")

    def test_it_adds_up_over_commands_and_drives(self):
        lines = within_stretch(3, command("read", PLAIN, 4096, 0, [(0x10000, 4096)]),
                               command("read", PLAIN + 1, 4096, 0, [(0x1f000, 4096)]))
        self.assertEqual(verdict(lines), "")

    def test_bytes_that_lie_elsewhere_break_it(self):
        lines = within_stretch(3, command("read", PLAIN, 8192, 0, [(0x10000, 4096), (0x90000, 4096)]))
        self.assertIn("moved 4096 bytes in the memory of GPU0, not 8192", verdict(lines))

    def test_a_segment_that_sticks_out_of_the_window_breaks_it(self):
        lines = within_stretch(3, command("read", PLAIN, 8192, 0, [(0x1f000, 8192)]))
        self.assertIn("moved 0 bytes", verdict(lines))

    def test_bytes_inside_break_the_promise_of_a_copy(self):
        lines = within_stretch(3, command("read", PLAIN, 4096, 0, [(0x10000, 4096)]))
        self.assertIn("moved 4096 bytes in the memory of GPU0, not 0", verdict(lines, inside=0))

    def test_bytes_in_another_provider_break_it(self):
        lines = within_stretch(3, command("read", PLAIN, 8192, 0, [(0x10000, 8192)]),
                               command("read", PLAIN, 4096, 0, [(0x20000, 4096)]))
        self.assertIn("memory of GPU1, not 0", verdict(lines))

    def test_a_drive_in_its_own_memory_does_not_count(self):
        lines = within_stretch(3, command("read", GPU, 8192, 0, [(0x10000, 8192)]))
        self.assertIn("moved 0 bytes", verdict(lines))

    def test_the_other_direction_does_not_count(self):
        lines = within_stretch(3, command("write", PLAIN, 8192, 0, [(0x10000, 8192)]))
        self.assertIn("reads moved 0 bytes", verdict(lines))
        self.assertEqual(verdict(lines, operation="write"), "")

    def test_transfers_outside_the_stretch_do_not_count(self):
        transfer = list(command("read", PLAIN, 8192, 0, [(0x10000, 8192)]))
        self.assertIn("moved 0 bytes", verdict([*transfer, *within_stretch(3), *transfer]))
        self.assertEqual(verdict([*transfer, *within_stretch(3, transfer), *transfer]), "")

    def test_segments_of_an_admin_command_are_not_the_last_transfers(self):
        admin = ["pci_nvme_admin_cmd cid 1 sqid 0 opc 0x6 opname 'NVME_ADM_CMD_IDENTIFY'",
                 "pci_nvme_map_addr addr 0x10000 len 4096"]
        lines = within_stretch(3, command("read", PLAIN, 8192, 0, [(0x10000, 8192)]), admin)
        self.assertEqual(verdict(lines), "")

    def test_zeros_are_written_without_data(self):
        zeros = ["pci_nvme_io_cmd cid 2 nsid 0x1 sqid 1 opc 0x8 opname 'NVME_NVM_CMD_WRITE_ZEROES'",
                 "pci_nvme_write cid 2 opname 'NVME_NVM_CMD_WRITE_ZEROES' nsid 1 nlb 80 count 40960 lba 0x32030"]
        transfer = command("write", PLAIN, 8192, 0, [(0x10000, 8192)])
        self.assertEqual(verdict(within_stretch(3, zeros, transfer, zeros), operation="write"), "")

    def test_a_command_without_its_segments_is_noticed(self):
        lines = within_stretch(3, command("read", PLAIN, 8192, 0, [(0x10000, 8192)]), command("read", PLAIN, 4096))
        self.assertIn("lacks some", verdict(lines))

    def test_missing_marks_and_windows_are_noticed(self):
        transfer = command("read", PLAIN, 8192, 0, [(0x10000, 8192)])
        self.assertIn("both marks", verdict([*mark(6), *transfer]))
        lines = within_stretch(3, command("read", PLAIN, 8192, 0, [(0x10000, 8192)]))
        self.assertIn("no window of GPU0", verdict(lines, windows=WINDOWS[1:]))

    def test_segments_are_counted_for_other_drives_alone(self):
        commands = dma.read_commands([*command("read", PLAIN, 8192, 0, [(0x10000, 4096), (0x90000, 4096)]),
                                      *command("write", GPU, 4096, 0, [(0x10000, 4096)]),
                                      *command("write", GPU, 4096, 0, [(0x20000, 4096)])])
        self.assertEqual(dma.count_segments(commands, WINDOWS), 2)


class Rows(unittest.TestCase):
    def test_every_kind_of_line_is_read(self):
        output = rows.read_output("pass a: b\nfail c: d -- answered EINVAL: why -- not\nskip e -- no tool\n"
                                  "window GPU0 0x10 0x1f\ndma 7 f: g -- read 4096 GPU0\ncount h, i -- 12\npassing by\n")
        self.assertEqual(output.rows, [rows.Row("passed", "a: b"), rows.Row("failed", "c: d", "answered EINVAL: why -- not"),
                                       rows.Row("skipped", "e", "no tool")])
        self.assertEqual(output.windows, {"GPU0": (0x10, 0x1f)})
        self.assertEqual(output.counts, {"h, i": 12})
        self.assertEqual(output.promises, [dma.Promise(7, "f: g", "read", 4096, "GPU0")])

    def test_names_that_occur_twice_are_found(self):
        self.assertEqual(rows.doubled([rows.Row("passed", name) for name in "abca"]), ["a"])

    def test_the_report_tells_each_status(self):
        with tempfile.TemporaryDirectory(prefix="sluice-lab-") as folder:
            report = pathlib.Path(folder) / "lab.xml"
            rows.write_junit(report, [rows.Row("passed", "a"), rows.Row("failed", "b", "why"),
                                      rows.Row("skipped", "c", "no tool")])
            found = {case.get("name"): case for case in ElementTree.parse(report).getroot().iter("testcase")}
        self.assertEqual(found["a"].get("status"), "run")
        self.assertIsNotNone(found["b"].find("failure"))
        self.assertIsNotNone(found["c"].find("skipped"))
        self.assertIn("no tool", found["c"].findtext("system-out"))


class Cases(unittest.TestCase):
    def test_names_and_namespaces_are_told_apart(self):
        names = [case.name for case in cases.CASES]
        self.assertEqual(len(names), len(set(names)))
        for case in cases.CASES:
            numbers = [drive.nsid for drive in case.all_drives()]
            self.assertEqual(len(numbers), len(set(numbers)), case.name)

    def test_scripts_are_there(self):
        for case in cases.CASES:
            self.assertTrue((pathlib.Path(cases.__file__).parent / "guest" / case.script).exists(), case.name)

    def test_a_change_boots_what_it_can_touch(self):
        def booted(*paths):
            return {case.name for case in cases.CASES if case.is_touched(paths)}

        core = booted()
        everything = {case.name for case in cases.CASES}
        self.assertTrue(core and core < everything)
        self.assertEqual(booted("docs/guide/install.md", "tests/unit/base/backoff_test.cpp", "src/CMakeLists.txt"), core)
        self.assertEqual(booted("tests/lab/guest/disk.sh"), core | {"disk"})
        self.assertEqual(booted("tests/lab/guest/common.sh"), everything)
        cut = {case.name for case in cases.CASES if case.file_system}
        for path in ("tests/lab/power.py", "tests/lab/power/writers.cpp", "tests/lab/guest/power_check.sh"):
            self.assertEqual(booted(path), core | cut)
        self.assertEqual(booted("tests/lab/machine.py"), everything)
        self.assertEqual(booted("tests/model/file_actor.cpp"), core | {"model"})
        self.assertIn("fabrics", booted("src/facts/mount.cpp"))
        self.assertNotIn("fabrics", booted("src/route/judge.cpp"))

    def test_the_check_boots_of_these_what_nothing_else_shows(self):
        def booted(*paths):
            chosen, untouched, too_long = cases.chosen_of(cases.CASES, paths, True)
            self.assertEqual(sorted(case.name for case in (*chosen, *untouched, *too_long)), sorted(case.name for case in cases.CASES))
            self.assertTrue({case.name for case in too_long}.isdisjoint(case.name for case in cases.CASES if not case.is_touched(paths)))
            return {case.name for case in chosen}

        core = booted()
        for folder in (path for path in (pathlib.Path(cases.__file__).resolve().parents[2] / "src").iterdir() if path.is_dir()):
            self.assertLessEqual(booted(f"src/{folder.name}/a.cpp"), core | {"direct", "disk", "nvidia-fs"})
        self.assertEqual(booted("src/paths/a.cpp"), core | {"direct", "disk", "nvidia-fs"})
        self.assertEqual(booted("src/transfer/a.cpp"), core | {"disk"})
        self.assertEqual(booted("tests/lab/machine.py"), core | {"direct", "disk", "nvidia-fs"})
        self.assertEqual(booted("tests/lab/guest/fabrics.sh"), core | {"fabrics"})
        self.assertEqual(booted("deploy/csi/core/a.cpp"), core | {"kubernetes"})

    def test_the_check_boots_all_of_these_where_nothing_is_known_of_the_change(self):
        chosen, untouched, too_long = cases.chosen_of(cases.CASES, None, True)
        self.assertEqual({case.name for case in chosen if not case.core}, {"direct", "disk", "nvidia-fs"})
        self.assertEqual((untouched, len(chosen) + len(too_long)), ([], len(cases.CASES)))

    def test_without_the_check_all_that_are_touched_are_booted(self):
        chosen, untouched, too_long = cases.chosen_of(cases.CASES, ["src/transfer/a.cpp"], False)
        self.assertLess({"disk", "project", "model"}, {case.name for case in chosen})
        self.assertEqual((too_long, len(chosen) + len(untouched)), ([], len(cases.CASES)))

    def test_a_case_says_what_it_wants_and_was_not_given(self):
        case = next(case for case in cases.CASES if case.name == "nvidia-fs")
        with unittest.mock.patch.dict("os.environ"):
            for name in case.wants:
                os.environ.pop(name, None)
            self.assertIn("SLUICE_LAB_NVFS_KO (nvidia-fs.ko, built for this kernel)", case.missing())
            for name in case.wants:
                os.environ[name] = "/given"
            self.assertEqual(case.missing(), "")
        self.assertEqual(next(case for case in cases.CASES if case.name == "facts").missing(), "")

    def test_a_run_fails_without_a_segment_only_where_drives_are_to_reach_others(self):
        named = {case.name: case for case in cases.CASES}
        self.assertEqual(cases.status_of([named["fabrics"], named["disk"]], 0, 0), 0)
        self.assertEqual(cases.status_of([named["fabrics"], named["library"]], 0, 0), 1)
        self.assertEqual(cases.status_of([named["fabrics"], named["library"]], 0, 1), 0)
        self.assertEqual(cases.status_of([named["fabrics"]], 1, 0), 1)

    def test_every_folder_of_the_library_is_in_a_case(self):
        source = pathlib.Path(cases.__file__).resolve().parents[2] / "src"
        known = {folder for case in cases.CASES for folder in case.touched_by}
        self.assertEqual({path.name for path in source.iterdir() if path.is_dir()} - known, set())


SIZE = 1 << 20
BLOCK = power.BLOCK


def header(place, length, flags=0):
    return struct.pack("<QQQQ", place // 512, length // 512, flags, 0).ljust(512, b"\0")


def written(block, value):
    """A block of the file system's, all of one value."""
    return power.Entry(power.FIRST_PARTITION + block * BLOCK, memoryview(bytes([value]) * BLOCK))


FLUSHED = power.Entry(flush=True)


def left(entries, *cuts):
    """What each cut leaves of the first four blocks: a value each."""
    chance = random.Random(1)
    return [[image[block * BLOCK] for block in range(4)] for image in power.leftovers(entries, cuts, SIZE, chance)]


def told(writer, number):
    bytes_ = power.ACKNOWLEDGED + struct.pack("<QQ", power.WRITERS.index(writer), number)
    return power.Entry(power.FIRST_PARTITION + SIZE, memoryview(bytes_.ljust(512, b"\0")))


class PowerCuts(unittest.TestCase):
    def test_a_log_is_read_up_to_what_the_kill_left_unfinished(self):
        first = struct.pack("<QQQI", 0x6a736677736872, 1, 1, 512).ljust(512, b"\0")
        log = first + header(4096, 1024) + b"a" * 1024 + header(0, 0, power.FLUSH) + header(0, 4096, power.DISCARD)
        entries = power.read_log(log + header(8192, 512) + b"b" * 100)
        self.assertEqual([(entry.place, bytes(entry.bytes), entry.flush) for entry in entries],
                         [(4096, b"a" * 1024, False), (0, b"", True)])
        self.assertEqual(len(power.read_log(log + bytes(4096))), 2)  # room that was never written to
        self.assertRaises(ValueError, power.read_log, bytes(4096))

    def test_what_was_flushed_is_there_and_what_was_not_may_be(self):
        entries = [written(0, 1), FLUSHED, written(0, 2), written(1, 3)]
        self.assertEqual(left(entries, power.Cut(4, "none")), [[1, 0, 0, 0]])
        self.assertEqual(left(entries, power.Cut(4, "all")), [[2, 3, 0, 0]])
        self.assertEqual(left(entries, power.Cut(3, "all")), [[2, 0, 0, 0]])
        found = {tuple(one) for one in left(entries, *[power.Cut(4, "some")] * 50)}
        self.assertEqual(found, {(1, 0, 0, 0), (2, 0, 0, 0), (1, 3, 0, 0), (2, 3, 0, 0)})

    def test_a_cut_does_not_see_what_an_earlier_one_had_kept(self):
        entries = [written(0, 1), written(1, 2), FLUSHED, written(2, 3)]
        self.assertEqual(left(entries, power.Cut(2, "all"), power.Cut(2, "none"), power.Cut(4, "none")),
                         [[1, 2, 0, 0], [0, 0, 0, 0], [1, 2, 0, 0]])

    def test_acknowledgements_count_by_their_place_in_the_log(self):
        entries = [told("calls", 1), written(0, 1), told("gdscp", 1), told("calls", 2)]
        found = power.acknowledgements(entries, power.FIRST_PARTITION + SIZE)
        self.assertEqual(power.acknowledged_before(found, 3), {0: 1, power.WRITERS.index("gdscp"): 1})
        self.assertEqual(power.acknowledged_before(found, 4)[0], 2)

    def test_what_was_acknowledged_without_a_flush_is_found(self):
        entries = [told("careless_direct", 1), FLUSHED, told("careless_direct", 2), written(0, 1), told("careless_direct", 3)]
        found = power.acknowledgements(entries, power.FIRST_PARTITION + SIZE)
        self.assertEqual(power.unflushed(entries, found, power.WRITERS.index("careless_direct")), [4])

    def test_cuts_come_once_each_writer_has_acknowledged_something_and_the_kill_is_among_them(self):
        entries = [told(writer, 1) for writer in power.WRITERS] + [written(0, 1), FLUSHED] * 20
        found = power.acknowledgements(entries, power.FIRST_PARTITION + SIZE)
        cuts = power.choose_cuts(entries, found, 12, random.Random(1))
        self.assertEqual(len(cuts), 12)
        self.assertGreaterEqual(cuts[0].entries, len(power.WRITERS))
        self.assertEqual(cuts[-1].entries, len(entries))
        with self.assertRaisesRegex(ValueError, "acknowledged nothing: gdscp"):
            power.choose_cuts(entries, [one for one in found if one[1] != power.WRITERS.index("gdscp")], 2, random.Random(1))

    def test_the_direct_case_waits_for_its_own_writers_alone(self):
        entries = [told(writer, 1) for writer in power.DIRECT_WRITERS]
        found = power.acknowledgements(entries, power.FIRST_PARTITION + SIZE)
        self.assertEqual(power.first_with_all(found, power.DIRECT_WRITERS), len(entries))
        self.assertRaises(ValueError, power.first_with_all, found)

    def test_a_journal_elsewhere_lies_behind_the_file_system_and_is_kept_with_it(self):
        inside, outside = (next(case for case in cases.CASES if case.name == name)
                           for name in ("power cut, xfs", "power cut, xfs, device to device"))
        size, journal = power.SIZES["xfs"], power.JOURNALS["xfs"]
        self.assertEqual((power.kept_size(inside), power.kept_size(outside)), (size, size + journal))

        def partitions(table):
            return [tuple(512 * number for number in struct.unpack_from("<II", table, at + 8)) for at in range(446, 510, 16)]

        begin, table = power.FIRST_PARTITION, power.partition_table(size, journal)
        self.assertEqual(len(table), 512)
        self.assertEqual(partitions(table), [(begin, size), (begin + size + journal, power.MEBI),
                                             (begin + size, journal), (0, 0)])
        self.assertEqual(partitions(power.partition_table(size, 0))[1:], [(begin + size, power.MEBI), (0, 0), (0, 0)])

    def test_a_drive_on_two_buses_has_one_image(self):
        arguments = " ".join(machine.drive_arguments(cases.CUT, None, iter(["port0"])))
        self.assertIn(f"drive={power.LOGGED},", arguments)
        self.assertIn("share-rw=on", arguments)
        self.assertNotIn("-drive", arguments)

    def test_what_a_drive_fetched_for_its_writes_is_counted(self):
        with tempfile.TemporaryDirectory(prefix="sluice-lab-") as name:
            folder = pathlib.Path(name)
            (folder / "out").mkdir()
            (folder / "out/output").write_text("window GPU0 0x10000 0x1ffff\n")
            lines = [*command("write", cases.CUT.nsid, 8192, 0, [(0x10000, 4096), (0x90000, 4096)]),
                     *command("read", cases.CUT.nsid, 4096, 0, [(0x10000, 4096)]),
                     *command("write", cases.GPU0.nsid, 4096, 0, [(0x10000, 4096)])]
            (folder / "trace").write_text("\n".join(lines))
            self.assertEqual(power.written_by_the_drive(folder, (cases.GPU0, cases.CUT)), (1, 4096))

    def test_a_loss_fails_and_so_does_a_careless_writer_that_lost_nothing(self):
        said = [f"held 0 {writer}" for writer in power.WRITERS if not writer.startswith("careless")]
        caught = [f"lost 0 {writer} -- gone" for writer in power.WRITERS if writer.startswith("careless")]

        def failed(*lines):
            tally = power.Tally()
            tally.add("\n".join(lines), ["kill 0"])
            case = next(case for case in cases.CASES if case.file_system == "ext4")
            return [row.name for row in power.judge(case, tally, 1) if row.status == "failed"]

        self.assertEqual(failed("looked 0", *said, *caught), [])
        self.assertEqual(failed(*said, *caught), ["power cut, ext4: each cut is looked at"])
        self.assertEqual(failed("looked 0", *said, *caught[1:], "held 0 careless_calls"),
                         ["power cut, ext4: careless_calls is caught"])
        self.assertEqual(len(failed("looked 0", *said[1:], "lost 0 calls -- gone", *caught)), 1)
        self.assertEqual(len(failed("looked 0", *said[1:], *caught)), 1)  # silence is no success


if __name__ == "__main__":
    unittest.main()
