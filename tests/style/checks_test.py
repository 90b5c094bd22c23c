#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The style checks notice what they are there for: each runs on a small tree that breaks its rule, and on one that
does not."""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

import formatted
import layers
import project

HERE = pathlib.Path(__file__).resolve().parent
COMPILER = "c++"
FOLDERS_WITH_SOURCES = ["bench", "deploy", "examples", "include", "python", "samples", "softgpu", "src", "tests", "tools"]

GOOD = {
    "include/cufile.h": "#ifndef CUFILE_H\n#define CUFILE_H\ntypedef int CUresult;\n#endif\n",
    "src/base/strong.h": "#pragma once\nstruct Strong {};\n",
    "src/base/version.h.in": "#pragma once\n",
    "src/route/route.h": '#pragma once\n#include "base/strong.h"\n#include "base/version.h"\nstruct Route : Strong {};\n',
    "src/route/route.cpp": '#include "route/route.h"\n\n#include "cufile.h"\n',
    "src/route/decision.h": "#pragma once\n",
    "src/gpu/cuda_abi.h": "#pragma once\n",
    "src/gpu/cuda_api.h": "#pragma once\n",
    "src/paths/path.h": '#pragma once\n#include "route/decision.h"\n',
    "src/CMakeLists.txt": "target_sources(x PRIVATE route/route.cpp)\n",
    "docs/rooms.md": f"# Rooms\n{layers.BEGIN}\n{layers.table()}\n{layers.END}\n",
    "softgpu/device.h": '#pragma once\n#include "gpu/cuda_abi.h"\n',
    ".clang-format": "BasedOnStyle: Google\n",
}


class Checks(unittest.TestCase):
    def run_check(self, script, changes, *more):
        """Exit status and output of a check on the good tree with some files added or replaced."""
        with tempfile.TemporaryDirectory(prefix="sluice-style-") as folder:
            top = pathlib.Path(folder)
            for name in ("bench", "examples", "softgpu", "tests", "tools", "generated/base"):
                (top / name).mkdir(parents=True, exist_ok=True)
            (top / "generated/base/version.h").write_text("#pragma once\n", encoding="utf-8")
            for name, text in {**GOOD, **changes}.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(text, encoding="utf-8")
            more = [argument.replace("TOP", folder) for argument in more]
            run = subprocess.run([sys.executable, "-B", HERE / script, "--project", folder, *more], text=True,
                                 capture_output=True, check=False)
            return run.returncode, run.stdout + run.stderr

    def passes(self, script, changes=None, *more):
        status, output = self.run_check(script, changes or {}, *more)
        self.assertEqual(status, 0, output)

    def fails(self, script, changes, expected, *more):
        status, output = self.run_check(script, changes, *more)
        self.assertEqual(status, 1, output)
        self.assertIn(expected, output)

    def fails_in_every_folder(self, script, text):
        _, output = self.run_check(script, {f"{folder}/bad.c": text for folder in FOLDERS_WITH_SOURCES})
        for folder in FOLDERS_WITH_SOURCES:
            self.assertIn(f"{folder}/bad.c:1", output)

    def test_layers(self):
        self.passes("layers.py")
        for name, text, expected in (
                ("src/route/bad.cpp", '#include "gpu/cuda_api.h"\n', "src/route may not include src/gpu/cuda_api.h"),
                ("src/base/bad.h", '#include "route/route.h"\n', "src/base may not include src/route/route.h"),
                ("src/io/bad.h", '  #  include "route/route.h"\n', "src/io may not include src/route/route.h"),
                ("src/gpu/bad.h", '#include <route/route.h>\n', "src/gpu may not include src/route/route.h"),
                ("softgpu/bad.cpp", '#include "gpu/cuda_api.h"\n', "softgpu may not include src/gpu/cuda_api.h"),
                ("tools/bad.cpp", '#include "../src/base/strong.h"\n', "tools may not include src/base/strong.h"),
                ("tests/contract/bad.cpp", '#include "base/strong.h"\n', "tests/contract may not include"),
                ("src/new/bad.cpp", '#include "base/strong.h"\n', "has no line in LAYERS"),
                ("docs/rooms.md", f"{layers.BEGIN}\n| base | |\n{layers.END}\n", "is not what layers.json says"),
                ("docs/rooms.md", "# Rooms\n", "no page of docs has the line"),
                ("src/batch/bad.cpp", '#include "batch/gone.h"\n', "is no file of this project")):
            with self.subTest(name=name):
                self.fails("layers.py", {name: text}, expected)

    def test_headers_compile_alone(self):
        more = ("--c", COMPILER.replace("clang++", "clang").replace("g++", "gcc").replace("c++", "cc"),
                "--cxx", COMPILER, "--generated", "TOP/generated")
        self.passes("headers_alone.py", {}, *more)
        for name, text, expected in (
                ("src/base/leaning.h", "#pragma once\nstd::size_t size();\n", "src/base/leaning.h does not compile"),
                ("src/base/twice.h", "struct Twice {};\n", "src/base/twice.h does not compile"),
                ("include/cxx.h", "#ifndef X\n#define X\nnamespace x {}\n#endif\n", "include/cxx.h does not compile")):
            with self.subTest(name=name):
                self.fails("headers_alone.py", {name: text}, expected, *more)

    def test_forbidden_words(self):
        self.passes("forbidden_words.py", {"docs/good.md": "A todo list, /proc/self, mkstemp XXXXXX, $HOME/x.\n",
                                            "bench/results/good.json": '{"library": "/usr/lib/x.so"} {"library": "lib/x.so"}\n'})
        for text in ("// TODO: more", "/* FIXME */", "good enough for now", "Not implemented.", "a placeholder",
                     'open("/home/somebody/x")', "see /Users/somebody", "cd /root/x"):
            with self.subTest(text=text):
                self.fails("forbidden_words.py", {"src/base/bad.h": text + "\n"}, "src/base/bad.h:1")
        self.fails("forbidden_words.py", {"bench/results/bad.json": '{"library": "/builds/x/lib/x.so"}\n'},
                   "bench/results/bad.json:1")
        self.fails_in_every_folder("forbidden_words.py", "// FIXME\n")

    def test_sources_are_built(self):
        self.passes("sources_built.py", {
            "src/route/other.cpp": "", "src/route/CMakeLists.txt": "foreach(name other)\n",
            "tests/support/main.cpp": "", "tests/abi/CMakeLists.txt": "add_executable(x ../support/main.cpp)\n"})
        for name in ("src/route/forgotten.cpp", "tests/unit/route/routes.cpp", "tools/x/x.c", "samples/99_x.c"):
            with self.subTest(name=name):
                self.fails("sources_built.py", {name: ""}, f"{name}: no CMakeLists.txt names it")

    def test_links(self):
        page = "# One\n\n## Two `words`, here\n\n[a](docs/b.md#three) [b](#two-words-here) [c](https://x/y)\n"
        other = "# Three\n\n`[no](link.md)`\n\n```\n[no](link.md)\n```\n<img src=\"../README.md\">\n"
        good = {"README.md": page, "docs/rooms.md": "", "docs/b.md": other, "src/base/named.h": "// docs/b.md tells.\n"}
        self.passes("links.py", good)
        for name, text, expected in (
                ("docs/c.md", "[a](gone.md)\n", "docs/c.md:1: gone.md is not there"),
                ("docs/c.md", "\n[a](b.md#four)\n", "docs/c.md:2: b.md#four has no such heading"),
                ("docs/c.md", "<img src=\"gone.svg\">\n", "gone.svg is not there"),
                ("docs/c.md", "[a](../../x)\n", "x"),
                ("src/base/named.h", "// docs/gone.md tells.\n", "names docs/gone.md, which is not there")):
            with self.subTest(text=text):
                self.fails("links.py", {**good, name: text}, expected)

    def test_page_lengths(self):
        page = "a line\n" * 120
        pages = {"docs/internals/io.md": page, "docs/performance.md": page, "docs/internals/a.md": "| " + "x" * 200 + " |\n"}
        self.passes("page_lengths.py", pages)
        for name, text, expected in (("docs/internals/io.md", page + "one more\n", "has 121 lines"),
                                     ("docs/performance.md", page * 2, "has 240 lines"),
                                     ("docs/internals/io.md", "word " * 40 + "\n", "io.md:1: is wider")):
            with self.subTest(name=name):
                self.fails("page_lengths.py", {**pages, name: text}, expected)
        self.fails("page_lengths.py", {"docs/internals/io.md": page}, "there is no docs/performance.md")

    def test_plain_words(self):
        self.passes("plain_words.py", {"tools/doctor/a.cpp": "int lanes;\n"})
        for name, text, expected in (
                ("src/workers/bad.h", "unsigned lane_count();\n", "write worker"),
                ("src/workers/bad.cpp", "class KernelLane {};\n", "write worker"),
                ("softgpu/bad.h", "// Whoever reads it waits.\n", "the thing itself"),
                ("src/io/bad.h", "bool nobody_waits();\n", "which: a thread"),
                ("tools/bad.cpp", "int x;  // of a parcel\n", "write item"),
                ("docs/bad.md", "The courier brings it.\n", "write stream copier"),
                ("src/stream/station.h", "#pragma once\n", "write stream channel"),
                ("src/io/bad.cpp", "// The launch was called off.\n", "revoke")):
            with self.subTest(name=name):
                self.fails("plain_words.py", {name: text}, expected)

    def test_python_imports(self):
        good = {f"python/sluice/_m{number}.py": f"from . import _m{number + 1}\n" for number in range(20)}
        good.update({"python/sluice/__init__.py": "from ._m0 import a\n", "python/sluice/_m20.py": "from . import _native\n"})
        self.passes("python_imports.py", good)
        for text in ("def late():\n    from ._m3 import b\n", "import sluice._m3\n", "from . import _m19\n", "from sluice import a\n"):
            with self.subTest(text=text):
                self.fails("python_imports.py", {**good, "python/sluice/_m20.py": text}, "a circle of imports: ")
        self.fails("python_imports.py", {}, "only 0 modules")

    def test_rows(self):
        files = {"docs/reference/differences.md": "| x | y | z | `Own.Thing` |\n",
                 "tests/contract/a.cpp": "TEST_F(Own, Thing) {}\nTEST(Common, Thing) {}\n"}
        row = "driver | a situation | {} | {}\n".format
        good = row("same", "Common.Thing") * 60 + row("ours", "Own.Thing") * 40 + row("open", "it is hard")
        self.passes("rows.py", {**files, "tests/contract/rows.txt": good})
        for line, expected in ((row("same", "Gone.Thing"), "there is no test Gone.Thing"),
                               (row("ours", "Common.Thing"), "split it"),
                               (row("same", "Own.Thing"), "holds a difference"),
                               ("driver | a situation | same\n", "not \"section"),
                               (row("alike", "Common.Thing"), "not \"section")):
            with self.subTest(line=line):
                self.fails("rows.py", {**files, "tests/contract/rows.txt": good + line}, expected)
        self.fails("rows.py", {**files, "tests/contract/rows.txt": ""}, "only 0 rows")

    @unittest.skipIf(formatted.formatter() is None, f"clang-format {formatted.VERSION} is not installed")
    def test_formatted(self):
        self.passes("formatted.py")
        self.fails_in_every_folder("formatted.py", "int   x ;\n")
        self.passes("formatted.py", {"samples/bad.c": "int   x ;\n"}, "--fix")

    def test_every_folder_that_has_sources_is_looked_at(self):
        top = HERE.parents[1]
        folders = [path.name for path in top.iterdir()
                   if path.is_dir() and path.name not in project.GENERATED_FOLDERS and not (path / "CMakeCache.txt").exists()]
        self.assertEqual(sorted(name for name in folders if project.files(top, [name], {".c", ".cpp", ".h"})),
                         FOLDERS_WITH_SOURCES)

    def test_an_empty_project_is_no_success(self):
        for script in ("layers.py", "forbidden_words.py", "sources_built.py"):
            with self.subTest(script=script), tempfile.TemporaryDirectory() as folder:
                run = subprocess.run([sys.executable, "-B", HERE / script, "--project", folder], text=True,
                                     capture_output=True, check=False)
                self.assertNotEqual(run.returncode, 0, run.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cxx", default=COMPILER)
    options, rest = parser.parse_known_args()
    COMPILER = options.cxx
    unittest.main(argv=[sys.argv[0], *rest])
