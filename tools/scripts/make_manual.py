#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes man pages and shell completion from what is written already: the comments of the public headers, and the
--help of the tools. So there is one source of each text.

  make_manual.py --include include --out DIR [--tool NAME=PROGRAM ...] [--emulator WORDS]

writes DIR/man3 (a page for each function of the headers), DIR/man1 (a page for each tool), DIR/man5 (cufile.json),
DIR/bash and DIR/zsh.
"""

import argparse
import pathlib
import re
import shlex
import subprocess
import sys

HEADERS = ["cufile.h", "sluice.h"]
SUBCOMMANDS = {"sluice": ["doctor", "topology", "run", "explain", "stats", "top", "exporter", "trace", "report", "profile", "cp", "version", "demo"]}

# What completion offers where --help does not say it in braces: words of a subcommand, values of a flag, processes.
SECTIONS = "gpu nvidia-fs p2pdma storage fabrics rdma vm container uring config topology".split()
WORDS = {("sluice", "doctor"): SECTIONS}
VALUES = {("sluice", "doctor", "--expect"): ["gpu", "p2pdma", "nvidia-fs", "rdma", "uring"],
          ("gdscheck", "", "-e"): ["cufile", "sysfs", "latency"], ("gdscheck", "", "-l"): ["0", "1", "2"]}
PROCESSES = {("sluice", "stats", ""), ("sluice", "trace", ""), ("gds_stats", "", "-p")}


# --- headers ----------------------------------------------------------------------------------------------------------

COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
FUNCTION = re.compile(r"^(?:static inline )?([A-Za-z_][\w ]*?[ *]+)((?:cuFile|cufileop_|sluice_)\w+)"
                      r"\(([^;{]*)\)\s*[;{]", re.MULTILINE)


def comment_text(raw):
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in raw.strip().splitlines()]
    return "\n".join(lines).strip()


def functions_of(text):
    """(name, prototype, comment) of each function. Functions that follow one comment without a blank line share it."""
    found = []
    for match in FUNCTION.finditer(text):
        before = text[:match.start()].rstrip("\n")
        # Upwards over prototypes that stand directly above, up to the comment that they share.
        while True:
            lines = before.rstrip().splitlines()
            if not lines or lines[-1].endswith("*/") or not re.search(r";\s*$|^#|,$|clang-format", lines[-1]):
                break
            before = "\n".join(lines[:-1])
        before = re.sub(r"/\* clang-format \w+ \*/\s*$", "", before.rstrip()).rstrip()
        comment = ""
        if before.endswith("*/"):
            comment = comment_text(before[before.rindex("/*") + 2:-2])
        prototype = " ".join(match.group(0).rstrip("{;").replace("static inline ", "").split()) + ";"
        found.append((match.group(2), prototype, comment))
    return found


def introduction_of(text):
    return comment_text(COMMENT.search(text).group(1))


# --- troff ------------------------------------------------------------------------------------------------------------

def troff(text):
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line.startswith((".", "\\(aq")) else line for line in escaped.splitlines())


def paragraphs(text):
    """Prose; lines that are indented stay as they are, and `Errors:` begins a paragraph."""
    out, verbatim = [], False
    for line in text.splitlines():
        indented = line.startswith("  ")
        if indented and not verbatim:
            out.append(".nf")
        if verbatim and not indented:
            out.append(".fi")
        verbatim = indented
        if line.startswith(("Errors:", "errno:")):
            out.append(".PP")
        out.append(troff(line) if line else ".PP")
    if verbatim:
        out.append(".fi")
    return "\n".join(out)


def first_sentence(text):
    flat = " ".join(text.split())
    match = re.match(r"(.*?[.:;])(\s|$)", flat)
    sentence = match.group(1)[:-1] if match else flat
    return sentence[:1].lower() + sentence[1:]


def page_of_function(name, prototype, comment, header, version, shared):
    see = sorted(set(shared) - {name})[:8]
    return "\n".join([
        f'.TH {name} 3 "" "Sluice {version}" "Sluice"', ".SH NAME", f"{name} \\- {troff(first_sentence(comment))}",
        ".SH SYNOPSIS", ".nf", f"#include <{header}>", "", troff(prototype), "", "Link with \\-lcufile.", ".fi",
        ".SH DESCRIPTION", paragraphs(comment), ".SH SEE ALSO",
        ", ".join([*(f"{other}(3)" for other in see), f"{header}(3)"]),
        ""])


def page_of_header(header, text, version, names):
    return "\n".join([
        f'.TH {header} 3 "" "Sluice {version}" "Sluice"', ".SH NAME",
        f"{header} \\- {troff(first_sentence(re.sub(r'^SPDX.*?$', '', text, flags=re.M).strip().split(': ', 1)[-1]))}",
        ".SH DESCRIPTION", ".nf", troff(re.sub(r"^SPDX.*?$", "", text, flags=re.M).strip()), ".fi", ".SH FUNCTIONS",
        troff(", ".join(f"{name}(3)" for name in names)), ""])


# --- tools ------------------------------------------------------------------------------------------------------------

# A line of --help that describes flags: "  -f FILE, -D FOLDER   where", "  -h,--help  this".
FLAGS = re.compile(r"^ {2,}(-.*?) {2,}(\S.*)$")
FLAG = re.compile(r"(?:^|, ?)(-{1,2}[A-Za-z][\w-]*)([ =][^,]+)?")


EMULATOR = []  # runs the programs of another architecture; scripts are this machine's


def help_of(program, *words):
    with open(program, "rb") as file:
        emulator = EMULATOR if file.read(4) == b"\x7fELF" else []
    result = subprocess.run([*emulator, program, *words, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=60, check=False)
    if result.returncode != 0:
        sys.exit(f"{program} {' '.join(words)} --help returned {result.returncode}: {result.stderr}")
    return result.stdout


def flags_of(text):
    """[(flags, takes a value, description, the values that stand in braces)]"""
    found = []
    for line in text.splitlines():
        match = FLAGS.match(line)
        flags = FLAG.findall(match.group(1)) if match else []
        if flags:
            braces = re.search(r"\{([\w,-]+)\}", match.group(1))
            found.append(([flag for flag, _ in flags], any(value for _, value in flags), match.group(2),
                          braces.group(1).split(",") if braces else []))
    return found


def about_of(name, text):
    """The first sentence of a tool's --help that is neither usage nor version."""
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines()
                 if line and not line.startswith((" ", "usage:", "Usage:")) and " version :" not in line]
        if lines:
            flat = " ".join(lines)
            flat = re.sub(rf"^{re.escape(name.split('.')[0])}(?:\.\w+)?: ", "", flat, flags=re.I)
            return re.split(r"[.?](?:\s|$)", flat)[0]
    return name


ITEM = re.compile(r"^ {2,}(\S.*?) {2,}(\S.*)$")


def items(lines):
    """Lines of two columns as terms with their descriptions; what goes on in the second column belongs to it."""
    out = []
    for line in lines:
        match = ITEM.match(line)
        if match:
            out += [".TP", f".B {troff(match.group(1))}".replace('"', '\\(dq'), troff(match.group(2))]
        elif line.startswith(" " * 12) and out:
            out.append(troff(line.strip()))
        else:
            out += [".TP", f".B {troff(line.strip())}".replace('"', '\\(dq')]
    return out


def prose_of_help(text):
    """A --help as prose: paragraphs are filled, options and examples are terms with what they do."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.splitlines()
        title = lines[0].strip()
        heads_items = title.endswith(":") and len(lines) > 1 and all(line.startswith(" ") for line in lines[1:])
        if title.lower().startswith("usage:") and len(lines) == 1:
            out += [".PP", f".B {troff(title)}"]
        elif heads_items:
            out += [f".SS {troff(title)}", *items(lines[1:])]
        elif all(line.startswith(" ") for line in lines):
            out += items(lines)
        else:
            out.append(".PP")
            out += [troff(line.strip()) if not line.lower().startswith("usage:") else f".br\n.B {troff(line)}\n.br"
                    for line in lines]
    return out


def page_of_tool(name, about, texts, version):
    parts = [f'.TH {name} 1 "" "Sluice {version}" "Sluice"', ".SH NAME", f"{name} \\- {troff(about)}", ".SH DESCRIPTION"]
    for words, text in texts:
        if words:
            parts += [f".SH {troff((name + ' ' + words).upper())}"]
        parts += prose_of_help(text)
    return "\n".join([*parts, ""])


KEY = re.compile(r"^\| `([\w.]+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)


def page_of_configuration(page, version):
    """cufile.json(5), of the keys that docs/reference/configuration.md lists; that page is made of the library's own table."""
    plain = lambda cell: cell.replace("`", "").replace("*", "").replace("\\|", "|")
    parts = [f'.TH cufile.json 5 "" "Sluice {version}" "Sluice"', ".SH NAME",
             "cufile.json \\- the configuration of cuFile libraries", ".SH DESCRIPTION",
             "JSON with comments, at most 1 MiB, in the file that CUFILE_ENV_PATH_JSON names, else in /etc/cufile.json.",
             "Keys lie in sections: properties.io_batchsize is io_batchsize in the object properties.",
             "Nothing in it stops a program; what cannot be used is told, and its default holds.",
             "gdscheck \\-p tells what is wrong with a file, gdscheck \\-p \\-v what holds and who said so.",
             ".PP", "A key that is obeyed changes what the library does, one that is reported is shown and changes no",
             "transfer, one that is accepted is read and checked only.", ".SH EXAMPLE", ".nf",
             "{", '    "properties": { "use_pci_p2pdma": true },', '    "logging": { "dir": "/var/log/training", "level": "INFO" }',
             "}", ".fi", ".SH KEYS"]
    for name, takes, standard, meaning, here in KEY.findall(page):
        effect = re.sub(r"^(obeyed|reported|accepted) ", r"it is \1: ", plain(here))
        parts += [".TP", f".B {troff(name)}", troff(plain(meaning)),
                  troff(f"Takes {plain(takes)}; default {plain(standard)}. Here {effect}")]
    return "\n".join([*parts, ".SH SEE ALSO", "gdscheck(1), sluice(1)", ""])


def choices_of(name, groups):
    """{(subcommand, flag): values}: those that --help has in braces, and VALUES."""
    found = {(words, flag): values for (tool, words, flag), values in VALUES.items() if tool == name}
    for words, flags in groups.items():
        for spellings, _, _, braces in flags:
            found |= {(words, flag): braces for flag in spellings if braces}
    return found


def bash_completion(name, groups):
    safe = re.sub(r"\W", "_", name)
    names = " ".join(word for word in groups if word)
    cases = "".join(f"    {words or '*'}) words='{' '.join(flag for flags, *_ in found for flag in flags)}' ;;\n"
                    for words, found in sorted(groups.items(), reverse=True))
    values = "".join(f"    '{words} {flag}') COMPREPLY=($(compgen -W '{' '.join(offered)}' -- \"$current\")); return ;;\n"
                     for (words, flag), offered in choices_of(name, groups).items())
    for tool, words, flag in sorted(PROCESSES):
        if tool == name and flag:
            values += f"    '{words} {flag}') COMPREPLY=($(compgen -W \"$(ls /proc)\" -X '!+([0-9])' -- \"$current\")); return ;;\n"
    more = "".join(f"    {words}) COMPREPLY+=($(compgen -W '{' '.join(offered)}' -- \"$current\")) ;;\n"
                   for (tool, words), offered in WORDS.items() if tool == name)
    for tool, words, flag in sorted(PROCESSES):
        if tool == name and not flag:
            more += f"    {words}) COMPREPLY+=($(compgen -W \"$(ls /proc)\" -X '!+([0-9])' -- \"$current\")) ;;\n"
    return f"""# bash completion for {name}
_{safe}_completion() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]-}} command='' words
  shopt -q extglob || {{ shopt -s extglob; trap 'shopt -u extglob; trap - RETURN' RETURN; }}
  COMPREPLY=()
  [[ " {names} " == *" ${{COMP_WORDS[1]-}} "* && -n ${{COMP_WORDS[1]-}} ]] && command=${{COMP_WORDS[1]}}
  case "$command $previous" in
{values}    *) ;;
  esac
  case ${{COMP_WORDS[1]-}} in
{cases}  esac
  if [[ $COMP_CWORD -eq 1 ]]; then words="$words {names}"; fi
  if [[ $current == -* || ( $COMP_CWORD -eq 1 && -n "{names}" ) ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
  case $command in
{more}    *) ;;
  esac
}}
complete -o filenames -F _{safe}_completion {name}
"""


def zsh_arguments(found):
    def one(flag, value, description, braces):
        clean = re.sub(r"[\[\]:'\\]", " ", description)
        # A flag with a value may stand there again, as gdsio's that make jobs.
        if braces:
            return f"'*{flag}[{clean}]:value:({' '.join(braces)})'"
        return f"'*{flag}[{clean}]:value:_files'" if value else f"'{flag}[{clean}]'"
    return " \\\n    ".join([one(flag, *rest) for flags, *rest in found for flag in flags]
                            + ["'*:file:_files'"])


def zsh_completion(name, groups):
    subcommands = [word for word in groups if word]
    if not subcommands:
        return f"#compdef {name}\n_arguments -s \\\n    {zsh_arguments(groups[''])}\n"
    cases = "".join(f"  {word})\n    _arguments -s \\\n    {zsh_arguments(groups[word])} ;;\n" for word in subcommands)
    return (f"#compdef {name}\nif (( CURRENT == 2 )); then\n  if [[ $words[2] == -* ]]; then\n    _arguments -s \\\n"
            f"    {zsh_arguments(groups[''])}\n  else\n    compadd {' '.join(subcommands)}\n  fi\n  return\nfi\n"
            f"local command=$words[2]\nshift words\n(( CURRENT-- ))\ncase $command in\n{cases}esac\n")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--configuration", type=pathlib.Path, help="docs/reference/configuration.md")
    parser.add_argument("--version", default="")
    parser.add_argument("--tool", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--emulator", default="", help="what runs them in a cross build, with its options")
    options = parser.parse_args()
    EMULATOR.extend(shlex.split(options.emulator))
    for header in HEADERS:
        text = (options.include / header).read_text(encoding="utf-8")
        found = functions_of(text)
        for name, prototype, comment in found:
            if not comment:
                sys.exit(f"{header}: {name} has no comment above it")
            shared = [other for other, _, words in found if words == comment]
            write(options.out / "man3" / f"{name}.3", page_of_function(name, prototype, comment, header, options.version, shared))
        write(options.out / "man3" / f"{header}.3",
              page_of_header(header, introduction_of(text), options.version, [name for name, _, _ in found]))
    if options.configuration:
        write(options.out / "man5/cufile.json.5",
              page_of_configuration(options.configuration.read_text(encoding="utf-8"), options.version))
    for tool in options.tool:
        name, program = tool.split("=", 1)
        texts = [("", help_of(program))] + [(word, help_of(program, word)) for word in SUBCOMMANDS.get(name, [])]
        about = about_of(name, texts[0][1])
        write(options.out / "man1" / f"{name}.1", page_of_tool(name, about, texts, options.version))
        groups = {words: flags_of(text) for words, text in texts}
        write(options.out / "bash" / name, bash_completion(name, groups))
        write(options.out / "zsh" / f"_{name}", zsh_completion(name, groups))
    return 0


if __name__ == "__main__":
    sys.exit(main())
