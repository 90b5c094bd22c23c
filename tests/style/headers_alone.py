#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles on its own, included twice: none leans on what its user happened to include before.

Private headers as C++20; the public ones as C11 and C++17, pedantically, with and without CUFILE_NO_CUDA_H.
"""

import concurrent.futures
import os
import subprocess

import project

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def jobs(top, c, cxx, generated):
    """(header, what it is compiled as, command) for each way that a header has to compile."""
    public = [f"-I{top / 'include'}"]
    for header in project.files(top, ["include"], {".h"}):
        for definition in ([], ["-DCUFILE_NO_CUDA_H"]):
            yield header, "C11", [c, "-std=c11", "-x", "c", *public, *definition]
            yield header, "C++17", [cxx, "-std=c++17", "-x", "c++", *public, *definition]
    private = [cxx, "-std=c++20", "-x", "c++", "-DCUFILE_NO_CUDA_H", *public]
    inside = [f"-I{top / 'src'}", f"-I{generated}"]
    for folder, search in (("src", inside), ("softgpu", [f"-I{top / 'softgpu'}", *inside]),
                           ("tools", [f"-I{top / 'tools'}"]), ("bench", [f"-I{top / 'bench'}"])):
        for header in project.files(top, [folder], {".h"}):
            # What judges machines, and draws them, rests on the library's own readers (layers.py).
            more = inside if header.as_posix().startswith(("tools/doctor/", "tools/topology_view/")) else []
            yield header, "C++20", [*private, *search, *more]


def compile_alone(job, top):
    header, language, command = job
    text = f'#include "{top / header}"\n' * 2
    run = subprocess.run([*command, *WARNINGS, "-fsyntax-only", "-"], input=text, text=True, capture_output=True,
                         check=False)
    return f"{header} does not compile alone as {language}:\n{run.stderr}" if run.returncode else None


def main():
    options = project.arguments(__doc__, ("--c", "the C compiler"), ("--cxx", "the C++ compiler"),
                                ("--generated", "where the build puts the headers that it makes"))
    top = options.project.resolve()
    work = list(jobs(top, options.c, options.cxx, options.generated))
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        complaints = [complaint for complaint in pool.map(lambda job: compile_alone(job, top), work) if complaint]
    if not work:
        complaints.append(f"no header found below {top}: is this the project?")
    project.finish(complaints, f"{len({job[0] for job in work})} headers compile alone, in {len(work)} ways")


if __name__ == "__main__":
    main()
