#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the check leaves out rests on what has changed: tools/dev/changed.py finds that, tools/dev/untouched.py tells the
tests that it cannot touch, and tools/dev/tidy.py chooses what it looks at."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

DEV = pathlib.Path(__file__).resolve().parents[2] / "tools/dev"
# Neither the repository that a hook of git runs in, nor what its user has configured.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
               "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
               "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@localhost", "GIT_COMMITTER_NAME": "t",
               "GIT_COMMITTER_EMAIL": "t@localhost"}


@unittest.skipIf(shutil.which("git") is None, "git is not installed")
class Changed(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="sluice-dev-")
        self.addCleanup(self.scratch.cleanup)
        self.top = pathlib.Path(self.scratch.name)
        (self.top / "tools/dev").mkdir(parents=True)
        shutil.copy(DEV / "changed.py", self.top / "tools/dev")

    def git(self, *arguments, **environment):
        subprocess.run(["git", "-C", self.top, "-c", "init.defaultBranch=main", *arguments], check=True, capture_output=True,
                       env={**ENVIRONMENT, **environment})

    def commit(self, name, hour=0):
        (self.top / name).write_text(name, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-m", name, GIT_COMMITTER_DATE=f"2026-01-01T{hour:02}:00:00Z")

    def told(self, *arguments):
        run = subprocess.run([sys.executable, "-B", self.top / "tools/dev/changed.py", *arguments], text=True,
                             capture_output=True, check=False, env=ENVIRONMENT)
        return run.returncode, run.stdout.split(), run.stderr

    def test_a_branch_is_held_against_where_it_left_main(self):
        self.git("init")
        self.commit("old")
        self.git("checkout", "-b", "mine")
        self.commit("new")
        self.git("checkout", "main")
        self.commit("others")
        self.git("checkout", "mine")
        (self.top / "old").unlink()
        (self.top / "untracked").write_text("", encoding="utf-8")
        self.assertEqual(self.told()[:2], (0, ["new", "old", "untracked"]))
        self.assertEqual(self.told("--since", "mine")[1], ["old", "untracked"])

    def test_commits_that_the_main_branch_of_the_remote_lacks_all_count(self):
        self.git("init")
        self.commit("old")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        self.commit("first")
        self.commit("second")
        status, changed, why = self.told()
        self.assertEqual((status, changed), (0, ["first", "second"]))
        self.assertIn("(what origin/main has of this)", why)

    def test_where_the_main_branch_has_all_half_a_day_counts(self):
        self.git("init")
        self.commit("before", hour=0)
        self.commit("older", hour=9)
        status, _, why = self.told()
        self.assertEqual(status, 3)
        self.assertIn("half a day", why)
        self.commit("first", hour=12)
        self.commit("second", hour=21)
        (self.top / "uncommitted").write_text("", encoding="utf-8")
        for remote in (False, True):
            with self.subTest(remote=remote):
                if remote:
                    self.git("update-ref", "refs/remotes/origin/main", "HEAD")
                status, changed, why = self.told()
                self.assertEqual((status, changed), (0, ["first", "second", "uncommitted"]))
                self.assertIn("older by half a day", why)
        self.assertIn("as --since says", self.told("--since", "HEAD^")[2])

    def test_what_cannot_be_told_is_said(self):
        self.assertEqual(self.told()[0], 3)
        self.git("init")
        self.commit("old")
        status, _, why = self.told("--since", "nowhere")
        self.assertEqual(status, 3)
        self.assertIn("no commit nowhere", why)


class Touched(unittest.TestCase):
    def test_a_source_touches_itself_a_header_one_that_includes_it_and_the_rules_all(self):
        sys.path.insert(0, str(DEV))
        self.addCleanup(sys.path.remove, str(DEV))
        import tidy
        base, route, small = (tidy.ROOT / name for name in ("build/Unity/base.cxx", "build/Unity/route.cxx", "src/io/small.cpp"))
        own, shared, public = (tidy.ROOT / name for name in ("src/route/own.h", "src/base/shared.h", "include/public.h"))
        sources = {base: [tidy.ROOT / "src/base/a.cpp"], route: [tidy.ROOT / "src/route/a.cpp"], small: [small]}
        made_of = {base: (sources[base], {shared, public, tidy.ROOT / "src/base/b.h"}), route: (sources[route], {own, shared, public}),
                   small: (sources[small], {shared, public})}
        for changed, expected in (({small}, {small}), ({*sources[route]}, {route}), ({own}, {route}), ({shared}, {base}),
                                  ({public}, {small}), ({shared, *sources[route]}, {route}), ({own, shared}, {base, route}),
                                  ({tidy.ROOT / "docs/a.md"}, set()), ({tidy.ROOT / ".clang-tidy"}, set(made_of)), (set(), set())):
            with self.subTest(changed=changed):
                self.assertEqual(tidy.touched(made_of, changed), expected)


@unittest.skipIf(shutil.which("git") is None, "git is not installed")
class Parts(unittest.TestCase):
    """`./run check --full --part`: what a part has found counts on as long as nothing has changed."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="sluice-dev-")
        self.addCleanup(self.scratch.cleanup)
        self.top = pathlib.Path(self.scratch.name)
        shutil.copy(DEV.parents[1] / "run", self.top)
        (self.top / ".gitignore").write_text("/build/\n", encoding="utf-8")
        self.shell("git init -q && git add -A && git commit -qm all")
        self.check = self.top / "build/check-full"

    def shell(self, commands):
        return subprocess.run(["bash", "-c", commands], cwd=self.top, check=True, capture_output=True, text=True,
                              env=ENVIRONMENT).stdout

    def begin(self, mode, *parts):
        self.shell(f". ./run help >/dev/null; begin_check {mode} {' '.join(parts)}")

    def left(self, *parts):
        for part in parts:
            (self.check / f"{part}.steps").write_text(f"passed|{part}|\n", encoding="utf-8")

    def found(self):
        return sorted(path.stem for path in self.check.glob("*.steps"))

    def test_those_that_ran_before_count_on_where_others_are_asked_for(self):
        self.begin("part", "asan")
        self.left("asan", "tsan")
        self.begin("part", "asan")
        self.assertEqual(self.found(), ["tsan"])
        self.begin("full", "release")
        self.assertEqual(self.found(), [])

    def test_what_a_light_check_has_found_is_none_of_theirs(self):
        self.begin("part", "tsan")
        self.left("tsan")
        self.begin("light", "release")
        self.assertTrue((self.top / "build/check/of").exists())
        self.begin("part", "lab")
        self.assertEqual(self.found(), ["tsan"])

    def test_they_do_not_behind_a_change_be_it_committed_or_not(self):
        for change in ("echo >>.gitignore", "git commit -qam more", "touch new", "echo >>new"):
            with self.subTest(change=change):
                self.begin("part", "asan")
                self.left("tsan")
                self.shell(change)
                self.begin("part", "asan")
                self.assertEqual(self.found(), [])

    def test_the_summary_names_those_that_are_left(self):
        self.begin("full", "asan")
        self.left("asan")
        told = subprocess.run([sys.executable, "-B", DEV / "summary.py", self.check, "release", "asan"], text=True,
                              capture_output=True, check=True).stdout
        self.assertIn("not run yet: release\n", told)
        self.assertTrue(told.endswith("1 passed, 0 failed, 0 skipped\n"), told)

    def test_one_that_is_none_is_refused_before_anything_is_installed(self):
        for words, why in ((["--full", "--part", "tsna"], 'no part "tsna"'), (["--part", "tsan"], "goes with --full"),
                           (["--full", "--part", "lab tidy"], 'no part "lab tidy"'), (["--full", "--part", ""], "--part wants one of")):
            run = subprocess.run(["bash", self.top / "run", "check", *words], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn(why, run.stderr)


class Untouched(unittest.TestCase):
    """Tests that the check leaves out, since other tests show what has changed."""

    def setUp(self):
        sys.path.insert(0, str(DEV))
        self.addCleanup(sys.path.remove, str(DEV))
        import untouched  # pylint: disable=import-outside-toplevel
        self.table = untouched

    def test_what_no_rule_knows_touches_every_test_and_so_does_what_all_rest_on(self):
        for path in ("CMakeLists.txt", "cmake/Compiler.cmake", "run", "a-new-folder/file", "tests/CMakeLists.txt",
                     "tools/dev/untouched.py", "src/CMakeLists.txt", "src/base/outcome.h", "src/facts/mount.cpp",
                     "include/cufile.h"):
            with self.subTest(path=path):
                self.assertEqual(self.table.untouched(["docs/roadmap.md", path]), [])

    def test_the_driver_for_kubernetes_is_left_out_by_what_cannot_touch_it(self):
        self.assertEqual(self.table.untouched(["src/transfer/plan.cpp"]), ["csi"])
        self.assertEqual(self.table.untouched(["src/batch/entry.h", "deploy/csi/core/gpt.cpp"]), [])
        self.assertNotIn("csi", self.table.untouched(["docs/guide/kubernetes.md"]))

    def test_nothing_of_the_library_is_touched_by_a_page(self):
        self.assertEqual(set(self.table.untouched(["docs/guide/install.md", "README.md"])), self.table.EVERY)
        self.assertEqual(set(self.table.untouched(["python/sluice/load.py"])), self.table.EVERY - {"python"})

    def test_every_place_is_there_and_every_label_is_one_of_tests(self):
        project = DEV.parents[1]
        for place in self.table.PLACES:
            self.assertTrue((project / place).exists(), f"{place} is not there")
        labels = set()
        for folder in ("tests", "deploy", "python"):
            for file in (project / folder).rglob("CMakeLists.txt"):
                text = " ".join(line.partition("#")[0] for line in file.read_text(encoding="utf-8").splitlines())
                for named in re.findall(r"LABELS ([^)]*)", text):
                    labels.update(re.findall(r"[a-z_]+", named))
        self.assertEqual(self.table.EVERY - labels, set())

    def test_the_check_leaves_these_out_and_says_so(self):
        told = self.check("docs/roadmap.md src/batch/entry.h")
        self.assertIn("tests: release -LE ^(full|csi)$, csi OFF\n", told)
        self.assertIn("skipped|tests of csi|other tests show what has changed", told)
        self.assertIn("tests: release -LE ^(full)$, csi ON\n", self.check("run"))

    def check(self, changed):
        """What `./run check` does behind such a change."""
        with tempfile.TemporaryDirectory(prefix="sluice-dev-") as folder:
            shutil.copy(DEV.parents[1] / "run", folder)
            dev = pathlib.Path(folder, "tools/dev")
            dev.mkdir(parents=True)
            shutil.copy(DEV / "untouched.py", dev)
            (dev / "changed.py").write_text(f"print(*{changed.split()!r}, sep='\\n')\n", encoding="utf-8")
            (dev / "summary.py").write_text("", encoding="utf-8")
            return subprocess.run(["bash", "-c", """
                . ./run help >/dev/null
                install_missing() { :; }
                fetch_for_tests() { :; }
                step() { note passed "$1" ""; }
                tests() { echo "tests: $*, csi $csi"; }
                check_tidy() { :; }
                check_lab() { :; }
                do_check
                cat $results/*.steps
                """], cwd=folder, capture_output=True, text=True, check=True, timeout=60, env=ENVIRONMENT).stdout


class SideBySide(unittest.TestCase):
    def test_what_clang_tidy_finds_beside_the_tests_is_told_behind_them_and_counts(self):
        with tempfile.TemporaryDirectory(prefix="sluice-dev-") as folder:
            shutil.copy(DEV.parents[1] / "run", folder)
            told = subprocess.run(["bash", "-c", """
                . ./run help >/dev/null
                build_all() { :; }
                wants() { [ "$1" = release ] || [ "$1" = tidy ]; }
                python3() { echo "judged"; touch judged; false; }
                nice() { echo "gives way"; shift 2; "$@"; }
                tests() { until [ -e judged ]; do sleep 0.01; done; echo "== tests: of $part" >&2; }
                tested=() tidied=()
                mkdir -p $results
                check_release
                cat $results/tidy.steps
                """], cwd=folder, capture_output=True, text=True, check=True, timeout=60, env=ENVIRONMENT)
            self.assertIn("failed|clang-tidy|", told.stdout)
            self.assertLess(told.stderr.index("== tests: of release"), told.stderr.index("gives way\njudged\n"))
            self.assertIn("== clang-tidy: FAILED", told.stderr)


class Help(unittest.TestCase):
    def test_each_command_tells_what_it_takes_and_installs_nothing_for_that(self):
        with tempfile.TemporaryDirectory(prefix="sluice-dev-") as folder:
            run = shutil.copy(DEV.parents[1] / "run", folder)
            for script in ("tests/fuzzers/fuzz.py", "tests/soak/soak.py", "packaging/package.py", "packaging/release.py"):
                told = pathlib.Path(folder, script)
                told.parent.mkdir(parents=True, exist_ok=True)
                told.write_text(f"print({script!r}, __import__('sys').argv[1])", encoding="utf-8")
            for words, begin in (("check --help", "Sluice:"), ("lab -h", "Sluice:"), ("fuzz --help", "tests/fuzzers/fuzz.py --help"),
                                 ("soak -h", "tests/soak/soak.py --help"), ("package --help", "packaging/package.py --help"),
                                 ("release --help", "packaging/release.py --help")):
                with self.subTest(words=words):
                    told = subprocess.run(["bash", run, *words.split()], capture_output=True, text=True, check=False)
                    self.assertEqual((told.returncode, told.stderr), (0, ""))
                    self.assertTrue(told.stdout.startswith(begin), told.stdout)
            self.assertFalse(pathlib.Path(folder, "build").exists())


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_known_args()
    sys.dont_write_bytecode = True
    unittest.main(argv=sys.argv[:1])
