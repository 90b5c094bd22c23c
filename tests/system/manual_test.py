"""Man pages and shell completion: made for every tool and every function, readable, and of use to a shell."""
import json
import re
import shutil

from support import BUILD, SOURCE, contains, environment, equal, main, run, scratch, skip, skip_when_sanitized

MANUAL = BUILD / "manual"
TOOLS = ["gds_log_collection.py", "gds_perf.sh", "gdscheck", "gdscp", "gdsio", "gdsio_verify", "sluice"]


def made():
    if not (MANUAL / "made").exists():
        skip("the manual was not made: the build found no Python 3.9")


def test_every_public_function_has_a_man_page_that_says_what_its_header_says():
    made()
    exported = set(re.findall(r"\b((?:cuFile|sluice_)\w+)\s*\(",
                              re.sub(r"/\*.*?\*/", "", "".join((SOURCE / "include" / name).read_text(encoding="utf-8")
                                                               for name in ("cufile.h", "sluice.h")), flags=re.DOTALL)))
    for name in exported:
        page = (MANUAL / f"man3/{name}.3").read_text(encoding="utf-8")
        equal(bool(re.search(rf"^{name} \\- \w.+$", page, re.MULTILINE)), True)
        contains(page, ".SH SYNOPSIS")
        equal(len(page.split(".SH DESCRIPTION")[1].split(".SH SEE ALSO")[0].strip()) > 20, True)
    # Functions without a comment of their own have the one that they share.
    contains((MANUAL / "man3/cuFileWrite.3").read_text(encoding="utf-8"), "SH SEE ALSO\ncuFileRead(3), cufile.h(3)")
    contains((MANUAL / "man3/cuFileWrite.3").read_text(encoding="utf-8"), "Move bytes between a file and memory")
    equal(len(exported) > 50, True)


def test_every_man_page_is_read_without_a_warning():
    made()
    if shutil.which("groff") is None:
        skip("there is no groff, by which man reads pages")
    pages = sorted(MANUAL.glob("man?/*"))
    result = run("groff", "-man", "-Tascii", "-w", "all", *pages, env=environment(LC_ALL="C.UTF-8"))
    equal(result.stderr, "")
    for page in pages:
        contains(result.stdout, page.name[:-2])


def test_every_tool_has_a_man_page_with_its_help():
    made()
    equal(sorted(page.name for page in (MANUAL / "man1").iterdir()), [f"{tool}.1" for tool in TOOLS])
    page = (MANUAL / "man1/gdsio.1").read_text(encoding="utf-8")
    contains(page, "gdsio \\- Measures reads and writes between files and GPU memory")
    contains((MANUAL / "man1/sluice.1").read_text(encoding="utf-8"), ".SH SLUICE EXPLAIN")
    for tool in TOOLS:
        contains((MANUAL / f"man1/{tool}.1").read_text(encoding="utf-8"), "Examples:")


def completions(tool, *words):
    """What bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in (tool, *words))
    script = (f"source {MANUAL}/bash/{tool}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; "
              f"_{re.sub(chr(92) + 'W', '_', tool)}_completion; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return run("bash", "-c", script, cwd=SOURCE).stdout.split()


def test_bash_completes_flags_subcommands_and_files():
    made()
    equal(completions("sluice", "e"), ["explain"])
    equal(completions("sluice", "explain", "--s"), ["--size"])
    equal(completions("sluice", "explain", "READ"), ["README.md"])
    equal(completions("gdsio", "-f", "x", "--l"), ["--latency"])
    equal(completions("gdsio", "-f", "READ"), ["README.md"])
    equal(completions("gdscp", "--v"), ["--version", "--verify"])
    flags = completions("gdsio", "-")
    equal([flag for flag in "fDdnwsoimxITBpbVkURFaMJOP" if f"-{flag}" not in flags], [])
    for tool in TOOLS:
        equal("--help" in completions(tool, "--h"), True)


def test_zsh_completion_names_every_flag():
    made()
    for tool in TOOLS:
        text = (MANUAL / f"zsh/_{tool}").read_text(encoding="utf-8")
        equal(text.startswith(f"#compdef {tool}\n"), True)
        contains(text, "'--help[")
        if shutil.which("zsh"):
            run("zsh", "-n", MANUAL / f"zsh/_{tool}")


def test_installed_tools_find_their_library_and_their_pages():
    skip_when_sanitized()
    with scratch() as folder:
        run("cmake", "--install", BUILD, "--prefix", folder / "prefix")
        prefix = (folder / "prefix").rename(folder / "moved")
        (library,) = prefix.rglob("libcufile.so.0")
        soft = environment(SLUICE_SOFTGPU="1")
        answer = run(prefix / "bin/gdsio", "-f", folder / "file", "-s", "1M", "-I", "1", "--json", env=soft)
        equal(json.loads(answer.stdout)["library"], str(library.resolve()))
        contains(answer.stderr, "this is the soft GPU")
        run(prefix / "bin/gdscp", "--verify", folder / "file", folder / "copy", env=soft)
        contains(run(prefix / "bin/gdsio_verify", "-f", folder / "copy", env=soft).stdout, "Data Verification Success")
        contains(run(prefix / "bin/gds_perf.sh", "--help").stdout, "Examples:")
        contains(run(prefix / "bin/gdscheck.py", "-v", env=soft).stdout, "libcufile version")
        if (MANUAL / "made").exists():
            for page in ("share/man/man1/gdsio.1", "share/man/man3/cuFileRead.3",
                         "share/bash-completion/completions/gdsio", "share/zsh/site-functions/_gdsio"):
                equal((prefix / page).is_file(), True)


if __name__ == "__main__":
    main(globals())
