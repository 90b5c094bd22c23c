# SPDX-License-Identifier: Apache-2.0
"""Every command of docs/guide works as it stands there.

Blocks of the guide that are marked ```sh are run, one after the other in one shell a page, in a folder that looks like this
repository after a build. A block that cannot be run here says so behind the mark, with the reason: ```sh not run: REASON.
One whose commands end with a status that depends on the machine: ```sh may fail: REASON.
"""
import pathlib
import re
import shlex

from support import BUILD, SOURCE, environment, equal, main, run, scratch, skip_when_sanitized

GUIDE = SOURCE / "docs/guide"
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a block may be: commands, text that a program prints, and source. doctor_test.py makes the transcripts.
LANGUAGES = {"sh", "text", "c", "json", "python", "yaml"}
MARK = re.compile(r"sh(?: (not run|may fail): (\S.+))?$")


def blocks_of(page):
    """(mark, text) of each block that is no transcript."""
    text = re.sub(r"<!-- transcript:.*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return BLOCK.findall(text)


def lay_out(folder):
    """What looks like this repository after a build."""
    (folder / "build").mkdir()
    (folder / "build/release").symlink_to(BUILD)
    for path in SOURCE.iterdir():
        if path.name not in ("build", ".git"):
            (folder / path.name).symlink_to(path)


def run_page(name):
    skip_when_sanitized()
    lines = []
    for mark, commands in blocks_of(GUIDE / name):
        kind = MARK.match(mark)
        if kind is None or kind[1] == "not run":
            continue
        shown = shlex.quote(f"-- {commands.strip().splitlines()[0]}")
        lines.append(f"echo {shown} >&2\n{commands}" if kind[1] is None else f"echo {shown} >&2\n{{\n{commands}}} || true\n")
    if not lines:
        raise AssertionError(f"{name} has no command that can be run: mark blocks of commands as sh")
    with scratch() as folder:
        lay_out(folder)
        home = folder / "home"
        home.mkdir()
        # On a machine without a GPU, the driver is the soft GPU, as sluice run and the samples find it.
        env = environment(HOME=str(home), SLUICE_SOFTGPU="1", LD_LIBRARY_PATH=str(BUILD / "softgpu"))
        run("bash", "-euo", "pipefail", "-c", "\n".join(lines), cwd=folder, env=env, timeout=240)


def test_guide_install_works():
    run_page("install.md")


def test_guide_run_your_program_works():
    run_page("run-your-program.md")


def test_guide_batches_works():
    run_page("batches.md")


def test_guide_streams_works():
    run_page("streams.md")


def test_guide_graphs_works():
    run_page("graphs.md")


def test_guide_watch_works():
    run_page("watch.md")


def test_what_the_guide_says_for_a_machine_without_a_gpu_works():
    skip_when_sanitized()
    # Nothing here but what a reader types.
    env, told = environment(), 0
    for page in sorted(GUIDE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        runs_samples = any("build/release/samples/" in commands for mark, commands in blocks_of(page)
                           if (kind := MARK.match(mark)) and kind[1] is None)
        for command in re.findall(r"Without a GPU: `([^`]+)`", text):
            told += 1
            with scratch() as folder:
                lay_out(folder)
                run("bash", "-c", command, cwd=folder, env=env, timeout=240)
        if runs_samples and "Without a GPU: `" not in text and "`export SLUICE_SOFTGPU=1`" not in text:
            raise AssertionError(f"{page.name} runs samples, and does not say how without a GPU")
    equal(told >= 4, True)
    env["SLUICE_SOFTGPU"] = "1"
    for mark, commands in blocks_of(GUIDE / "run-your-program.md"):
        if mark == "sh" and "gdsio" not in commands:
            with scratch() as folder:
                lay_out(folder)
                run("bash", "-euo", "pipefail", "-c", commands, cwd=folder, env=env | {"HOME": str(folder)}, timeout=240)


def test_every_other_page_of_the_guide_works():
    named = set(re.findall(r"run_page\(\"([\w-]+\.md)\"\)", pathlib.Path(__file__).read_text(encoding="utf-8")))
    missing = [name for name in named if not (GUIDE / name).exists()]
    if missing:
        raise AssertionError(f"tests name pages that are not there: {', '.join(missing)}")
    for page in sorted(GUIDE.glob("*.md")):
        for mark, text in blocks_of(page):
            if mark.split(" ")[0] not in LANGUAGES or (mark.startswith("sh") and not MARK.match(mark)):
                raise AssertionError(f"{page.name}: a block is marked \"{mark}\": {text.splitlines()[0]}")
        if page.name not in named and any(MARK.match(mark) and "not run" not in mark for mark, _ in blocks_of(page)):
            run_page(page.name)


if __name__ == "__main__":
    main(globals())
