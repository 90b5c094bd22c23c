# SPDX-License-Identifier: Apache-2.0
"""Man pages and shell completion: made for every tool and every function, readable, and of use to a shell."""
import json
import os
import pty
import re
import select
import shutil
import subprocess

from support import BUILD, SOURCE, contains, environment, equal, main, run, scratch, skip, skip_when_sanitized

MANUAL = BUILD / "manual"
TOOLS = ["gds_log_collection.py", "gds_perf.sh", "gds_stats", "gdscheck", "gdscheck.py", "gdscp", "gdsio", "gdsio_verify", "sluice"]
# Built where it was asked for, and installed by a component of its own.
CSI = ["sluice-csi"] if (BUILD / "bin/sluice-csi").exists() else []


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
    equal(sorted(page.name for page in (MANUAL / "man1").iterdir()), sorted(f"{tool}.1" for tool in TOOLS + CSI))
    page = (MANUAL / "man1/gdsio.1").read_text(encoding="utf-8")
    contains(page, "gdsio \\- Measures reads and writes between files and GPU memory")
    contains((MANUAL / "man1/sluice.1").read_text(encoding="utf-8"), ".SH SLUICE EXPLAIN")
    contains((MANUAL / "man1/gdscheck.py.1").read_text(encoding="utf-8"), "\ngdscheck.py \\- the platform and the conf")
    for tool in TOOLS + CSI:
        contains((MANUAL / f"man1/{tool}.1").read_text(encoding="utf-8"), "Examples:")


def test_the_configuration_has_a_man_page_of_every_key():
    made()
    page = (MANUAL / "man5/cufile.json.5").read_text(encoding="utf-8").replace("\\-", "-")
    keys = re.findall(r"^\| `([a-z]+\.[\w.]+)` \|.*\|.*\|.*\|.*\|$", (SOURCE / "docs/reference/configuration.md").read_text(encoding="utf-8"),
                      re.MULTILINE)
    equal(len(keys) > 100, True)
    equal([key for key in keys if f"\n.B {key}\n" not in page], [])


def test_man_pages_of_tools_are_prose_for_80_columns():
    made()
    if shutil.which("groff") is None:
        skip("there is no groff, by which man reads pages")
    for tool in TOOLS:
        page = run("groff", "-man", "-Tascii", "-P-cbou", MANUAL / f"man1/{tool}.1", env=environment(LC_ALL="C.UTF-8")).stdout
        contains(page, "Examples:")
        # A command that is longer than a line cannot be broken; prose can.
        equal([line for line in page.splitlines() if len(line) > 80 and " " in line.strip()[:40] and line.startswith(" " * 14)], [])


def test_bash_completes_choices_sections_and_processes():
    made()
    equal(completions("gdscheck", "-e", "la"), ["latency"])
    equal(completions("sluice", "doctor", "p2p"), ["p2pdma"])
    equal(completions("sluice", "doctor", "--expect", "nv"), ["nvidia-fs"])
    own = str(os.getpid())
    equal(own in completions("sluice", "stats", own), True)
    equal(own in completions("gds_stats", "-p", own), True)
    equal(completions("sluice", "d"), ["doctor", "demo"])


def completions(tool, *words):
    """What bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in (tool, *words))
    script = (f"source {MANUAL}/bash/{tool}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; "
              f"_{re.sub(chr(92) + 'W', '_', tool)}_completion; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return run("bash", "-c", script, cwd=SOURCE).stdout.split()


def test_bash_completes_flags_subcommands_and_files():
    made()
    equal(completions("sluice", "e"), ["explain", "exporter"])
    equal(completions("sluice", "explain", "--s"), ["--size"])
    equal(completions("sluice", "explain", "READ"), ["README.md"])
    equal(completions("gdsio", "-f", "x", "--l"), ["--latency"])
    equal(completions("gdsio", "-f", "READ"), ["README.md"])
    equal(completions("gdscp", "--v"), ["--version", "--verify"])
    flags = completions("gdsio", "-")
    equal([flag for flag in "fDdnwsoimxITBpbVkURFaMJOP" if f"-{flag}" not in flags], [])
    # Two flags that --help explains in one line, and a value that it writes in an unusual way.
    equal(completions("gds_perf.sh", "-D"), ["-D"])
    equal(completions("gdsio_verify", "-m"), ["-m"])
    for tool in TOOLS:
        equal("--help" in completions(tool, "--h"), True)


def subcommands_of_sluice():
    text = (MANUAL / "man1/sluice.1").read_text(encoding="utf-8")
    return [name.lower() for name in re.findall(r"^\.SH SLUICE (\w+)$", text, re.MULTILINE)]


def flags_in_help(tool, *words):
    """Of the lines that describe flags: those flags, and the ones that take a value."""
    flags, with_value = set(), set()
    for line in run(BUILD / "bin" / tool, *words, "--help").stdout.splitlines():
        match = re.match(r" {2,4}(-.*?) {2}", line)
        found = re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", match.group(1)) if match else []
        flags |= set(found)
        if match and re.search(r"[A-Z\d]{2}|\.\.\.", re.sub(r"--?[A-Za-z][\w-]*", "", match.group(1))):
            with_value |= set(found)
    return flags, with_value


def test_zsh_completion_names_every_flag():
    made()
    for tool in TOOLS:
        text = (MANUAL / f"zsh/_{tool}").read_text(encoding="utf-8")
        equal(text.startswith(f"#compdef {tool}\n"), True)
        offered = re.findall(r"^ *'(\*?)(--?[A-Za-z][\w-]*)\[[^]]*\](:value:(?:_files|\([\w -]+\)))?'", text, re.MULTILINE)
        flags, with_value = flags_in_help(tool)
        for name in subcommands_of_sluice() if tool == "sluice" else ():
            more, more_with_value = flags_in_help(tool, name)
            flags |= more
            with_value |= more_with_value
        equal((tool, sorted({flag for _, flag, _ in offered})), (tool, sorted(flags)))
        equal((tool, sorted({flag for _, flag, value in offered if value})), (tool, sorted(with_value)))


def test_zsh_reads_every_completion_without_a_complaint():
    made()
    if shutil.which("zsh") is None:
        skip("zsh is not installed")
    for tool in TOOLS:
        equal(run("zsh", "-f", "-n", MANUAL / f"zsh/_{tool}").stderr, "")


class Zsh:
    """A zsh on a terminal, with our completion. A tool's name is a function there that shows the words it gets."""

    def __init__(self, folder):
        (folder / "unique-file").touch()
        (folder / ".zshrc").write_text(f"""
fpath=({MANUAL}/zsh $fpath)
autoload -Uz compinit && compinit -u -D
bindkey '^I' complete-word
setopt no_auto_menu no_list_ambiguous no_beep no_prompt_cr no_prompt_sp
LISTMAX=10000 PS1='[ready]' PS2='[more]'
""" + "".join(f"function {tool}() {{ print -r -- \"[{tool}:$*]\" }}\n" for tool in TOOLS), encoding="utf-8")
        self.leader, follower = pty.openpty()
        env = environment(ZDOTDIR=str(folder), HOME=str(folder), TERM="dumb", LC_ALL="C.UTF-8")
        self.child = subprocess.Popen(["zsh", "-d", "-i"], cwd=folder, env=env, stdin=follower, stdout=follower,
                                      stderr=follower, start_new_session=True)
        os.close(follower)
        self.seen = ""
        self.until(r"\[ready\]")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait(timeout=60)
        os.close(self.leader)

    def until(self, pattern):
        """Reads on until the pattern stands there; forgets all up to its end."""
        while (match := re.search(pattern, self.seen)) is None:
            if not select.select([self.leader], [], [], 60)[0]:
                raise AssertionError(f"zsh shows no {pattern!r}, but {self.seen!r}")
            self.seen += os.read(self.leader, 65536).decode(errors="replace")
        self.seen = self.seen[match.end():]
        return match

    def completed(self, line):
        """The words after the tool's name when Tab has been pressed at the end of this line."""
        os.write(self.leader, (line + "\t\r").encode())
        words = self.until(rf"\[{re.escape(line.split()[0])}:([^]]*)\]").group(1)
        self.until(r"\[ready\]")
        return words


def test_zsh_completes_flags_subcommands_and_files():
    made()
    if shutil.which("zsh") is None:
        skip("zsh is not installed")
    with scratch() as folder, Zsh(folder) as zsh:
        # As typed, where nothing fits.
        equal(zsh.completed("gdsio --nothing"), "--nothing")
        equal(zsh.completed("sluice expl"), "explain")
        equal(zsh.completed("sluice --ver"), "--version")
        equal(zsh.completed("sluice explain --si"), "explain --size")
        equal(zsh.completed("sluice explain uni"), "explain unique-file")
        equal(zsh.completed("gdsio -f uni"), "-f unique-file")
        equal(zsh.completed("gdsio -f x -f y --lat"), "-f x -f y --latency")
        equal(zsh.completed("gdscp --veri"), "--verify")
        equal(zsh.completed("gds_perf.sh -D uni"), "-D unique-file")
        for tool in TOOLS:
            equal((tool, zsh.completed(f"{tool} --he")), (tool, "--help"))


def test_everything_installed_to_be_run_has_a_man_page_and_completion():
    made()
    with scratch() as folder:
        prefix = folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", prefix)
        programs = sorted(path.name for path in (prefix / "bin").iterdir())
        equal(programs, TOOLS)
        for where, name in (("man/man1", "{}.1"), ("bash-completion/completions", "{}"),
                            ("zsh/site-functions", "_{}")):
            found = sorted(path.name for path in (prefix / "share" / where).iterdir())
            equal((where, found), (where, sorted(name.format(program) for program in programs)))


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
