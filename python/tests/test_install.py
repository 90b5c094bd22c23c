# SPDX-License-Identifier: Apache-2.0
"""install(): packages that ask for libcufile.so.0 get ours; where another is there already, that is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unittest

from support import TestCase, python

FIND = ("import ctypes\n"
        "found = ctypes.CDLL('libcufile.so.0')\n"
        "print('ours' if hasattr(found, 'sluice_version') else 'foreign')\n")


class Install(TestCase):
    def foreign(self) -> str:
        """A libcufile.so.0 that is not ours; skips where there is no compiler."""
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("there is no C compiler to make another libcufile.so.0 with")
        source, target = self.folder / "foreign.c", self.folder / "libcufile.so.0"
        source.write_text("int cuFileDriverOpen(void) { return 0; }\n")
        subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-soname,libcufile.so.0", "-o", str(target), str(source)],
                       check=True)
        return str(target)

    def test_packages_that_come_later_get_our_library(self):
        status, out, error = python("import sluice\nassert sluice.install() is not None\n" + FIND,
                                    environment={"LD_LIBRARY_PATH": os.path.dirname(self.foreign())})
        self.assertEqual((status, out, error), (0, "ours\n", ""))

    def test_a_library_that_needs_cufile_gets_ours(self):
        folder = os.path.dirname(self.foreign())
        source, target = self.folder / "client.c", self.folder / "libclient.so"
        source.write_text("const char* sluice_version(void) __attribute__((weak));\n"
                          "int cuFileDriverOpen(void);\nint has_ours(void) { return sluice_version != 0; }\n"
                          "int call(void) { return cuFileDriverOpen(); }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(target), str(source), f"{folder}/libcufile.so.0",
                        f"-Wl,-rpath,{folder}"], check=True)
        status, out, error = python("import ctypes, sys, sluice\nsluice.install()\n"
                                    "print(ctypes.CDLL(sys.argv[1]).has_ours())", target)
        self.assertEqual((status, out), (0, "1\n"), error)

    def test_too_late_is_said_with_the_remedy(self):
        foreign = self.foreign()
        text = "import ctypes, sys\nkept = ctypes.CDLL(sys.argv[1])\nimport sluice\n"
        status, out, error = python(text + "print(sluice.install())", foreign)
        self.assertEqual((status, out), (0, "None\n"))
        self.assertIn(f"too late: {foreign}", error)
        self.assertIn("before importing torch", error)
        status, out, error = python(text + "sluice.install(strict=True)", foreign)
        self.assertEqual(status, 1)
        self.assertIn("TooLate", error)
        status, out, error = python(text + "print(*sluice.doctor()['problems'])", foreign)
        self.assertIn(foreign, out)

    def test_loading_works_also_beside_a_foreign_library(self):
        path = self.model({"a": ("U8", (3,), b"abc")})
        status, out, error = python("import ctypes, sys\nkept = ctypes.CDLL(sys.argv[1])\nimport sluice.safetensors as st\n"
                                    "print(st.load_file(sys.argv[2], 'cuda', framework='sluice')['a'].tobytes())",
                                    self.foreign(), path)
        self.assertEqual((status, out), (0, "b'abc'\n"), error)

    def test_a_library_that_was_preloaded_is_used_and_no_second_one(self):
        import sluice

        status, out, error = python("import sluice._library as l\nl.library()\nprint(l.mapped_files('libcufile.so'))",
                                    environment={"LD_PRELOAD": sluice.library().path, "SLUICE_LIBRARY": "/nowhere"})
        self.assertEqual((status, out), (0, f"['{os.path.realpath(sluice.library().path)}']\n"), error)

    def test_a_library_that_is_missing_is_said(self):
        status, out, error = python("import sluice\nprint(sluice.doctor()['problems'][0])",
                                    environment={"SLUICE_LIBRARY": "/nowhere/libcufile.so.0"})
        self.assertEqual(status, 0, error)
        self.assertIn("/nowhere/libcufile.so.0", out)


class Command(TestCase):
    def run_module(self, *words, **environment):
        return subprocess.run([sys.executable, "-B", "-m", "sluice", *words], capture_output=True, text=True, timeout=60,
                              check=False, cwd=self.folder, env={**os.environ, **environment})

    def assert_one_line(self, done, status, *parts):
        """It failed as a tool does: one line that tells cause and remedy."""
        self.assertEqual((done.returncode, done.stderr.count("\n"), done.stderr[:18]), (status, 1, "python -m sluice: "), done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_run_starts_a_script_with_its_arguments_on_our_library(self):
        script = self.folder / "script.py"
        script.write_text("import sys\nimport beside\nprint(sys.argv[1:], __name__)\n" + FIND + "sys.exit(7)\n")
        (self.folder / "beside.py").write_text("")
        done = self.run_module("run", str(script), "--epochs", "3")
        self.assertEqual((done.returncode, done.stdout), (7, "['--epochs', '3'] __main__\nours\n"), done.stderr)

    def test_run_starts_a_module(self):
        done = self.run_module("run", "-m", "json.tool", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("json.tool", done.stdout)

    def test_doctor_explain_and_version_answer(self):
        path = self.model({"a": ("U8", (3,), b"abc")})
        self.assertIn("no problem found", self.run_module("doctor").stdout)
        self.assertIn("posix (", self.run_module("explain", path).stdout)
        self.assertIn("\"reason\"", self.run_module("explain", "--json", path).stdout)
        self.assertIn("libcufile.so.0", self.run_module("version").stdout)
        self.assertIn("usage", self.run_module("run", "--help").stdout)
        self.assertRegex(self.run_module("--version").stdout, r"^sluice [0-9.]+\n$")

    def test_ordinary_mistakes_are_told_in_one_line_with_a_remedy(self):
        (self.folder / "file").write_bytes(b"x")
        for words, status, parts in (
                (("explain", "nosuch"), 1, ("nosuch cannot be opened: No such file", "Name files")),
                (("explain", str(self.folder)), 1, ("is a folder", "Name files")),
                (("explain", "--gpu", "7", "file"), 1, ("no GPU 7: this process sees 1", "leave --gpu out")),
                (("run",), 2, ("nothing to run", "run SCRIPT")),
                (("run", "-m"), 2, ("the name of a module is missing", "run -m MODULE")),
                (("run", "nosuch.py"), 1, ("nosuch.py cannot be read: No such file", "Check its path")),
                (("run", str(self.folder)), 1, ("is a folder without a __main__.py",)),
                (("run", "-m", "nosuch"), 1, ("There is no module nosuch", "check the name")),
                (("run", "-m", "nosuch.deep"), 1, ("There is no module nosuch",)),
                (("run", "-m", "concurrent"), 1, ("concurrent is a package without a __main__",)),
                (("run", "-m", ".x"), 1, (".x is no full name",)),
                (("pth", "on", "--folder", "/nowhere"), 1, ("cannot be written: No such file", "--folder"))):
            self.assert_one_line(self.run_module(*words), status, *parts)

    def test_a_library_that_is_none_is_told_with_what_names_it(self):
        (self.folder / "file").write_bytes(b"x")
        (self.folder / "script.py").write_text("")
        for words in (("version",), ("explain", "file"), ("run", "script.py")):
            self.assert_one_line(self.run_module(*words, SLUICE_LIBRARY=str(self.folder / "file")), 1, "cannot be loaded",
                                 "SLUICE_LIBRARY")
        done = self.run_module("doctor", SLUICE_LIBRARY=str(self.folder / "file"))
        self.assertEqual((done.returncode, done.stdout.count("cannot be loaded"), done.stderr), (1, 1, ""))

    def test_a_programs_own_exception_stays_its_own(self):
        for text in ("raise OSError(5, 'mine')", "import sluice\nraise sluice.SluiceError('mine')", "import nosuch_of_it"):
            (self.folder / "script.py").write_text(text)
            for words in (("script.py",), ("-m", "script")):
                done = self.run_module("run", *words)
                self.assertEqual(done.returncode, 1)
                self.assertIn("Traceback", done.stderr)
                self.assertIn("script.py", done.stderr)

    def test_an_answer_that_has_no_place_is_told(self):
        for words in (["version"], ["doctor"], ["--version"], ["--help"], ["run", "--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([sys.executable, "-B", "-m", "sluice", *words], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60, check=False)
            self.assert_one_line(done, 1, "stdout: No space left on device")
        done = subprocess.run(["sh", "-c", "exec \"$0\" -B -m sluice version >&-", sys.executable], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assert_one_line(done, 1, "stdout is closed")

    def test_pth_makes_every_start_of_python_install_it_where_the_environment_asks(self):
        done = self.run_module("pth", "on", "--folder", str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        program = "import site, sys\nsite.addsitedir(sys.argv[1])\n" + FIND
        for asked, told in (("1", "ours\n"), ("0", "")):
            status, out, error = python(program, self.folder, environment={"SLUICE_INSTALL": asked, "LD_LIBRARY_PATH": ""})
            self.assertTrue(out == told or asked == "0" and out == "foreign\n", (asked, out, error))
        self.assertEqual(self.run_module("pth", "off", "--folder", str(self.folder)).returncode, 0)
        self.assertEqual(list(self.folder.glob("*.pth")), [])

    def test_stats_count_what_went_through(self):
        import sluice
        from sluice import safetensors as st

        before = sluice.stats()["read_bytes"]
        st.load_file(self.model({"a": ("U8", (5000,), bytes(5000))}), "cuda", framework="sluice")
        self.assertEqual(sluice.stats()["read_bytes"] - before, 5000)
        staged = sluice.stats()["staged"]["bytes"]
        st.load_file(self.model({"a": ("U8", (5000,), bytes(5000))}), "cuda", framework="sluice", engine="staged")
        self.assertEqual(sluice.stats()["staged"]["bytes"] - staged, 5000)
        self.assertEqual(sluice.stats()["read_bytes"] - before, 5000)

    def test_explain_answers_for_a_file(self):
        import sluice

        first = sluice.explain(self.model({"a": ("U8", (3,), b"abc")}))[0]
        self.assertEqual((first.path, first.reason), ("posix", "soft_gpu"))
        self.assertIn("soft GPU", str(first))


if __name__ == "__main__":
    unittest.main()
