#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No dead link: every file, folder and heading that a page links to is there, and so is every page of docs/ that
anything in the project names."""

import re
import urllib.parse

import project

# What names pages: sources, scripts and texts. Results are data, and the notebook tells of pages that have been.
FOLDERS = [".github", "bench", "cmake", "deploy", "docs", "examples", "include", "packaging", "python", "samples",
           "softgpu", "src", "tests", "tools"]
SUFFIXES = {"", ".c", ".cmake", ".cpp", ".cu", ".cuh", ".go", ".h", ".in", ".json", ".md", ".py", ".sh", ".svg", ".txt", ".yml"}
TOP = ["CHANGELOG.md", "CMakeLists.txt", "CONTRIBUTING.md", "README.md", "run"]
NOTEBOOK = "docs/lab-notebook/"
OWN_FOLDER = "tests/style/"  # has to spell out what it forbids

FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
ATTRIBUTE = re.compile(r"\b(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
NAMED_PAGE = re.compile(r"(?<![\w./-])docs/[\w./-]*\.(?:md|json|svg)\b")


def slug(heading):
    """A heading's anchor, as the usual renderers make it."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    found, count = set(), {}
    for heading in HEADING.findall(FENCE.sub("", text)):
        name = slug(heading)
        found.add(name if name not in count else f"{name}-{count[name]}")
        count[name] = count.get(name, 0) + 1
    return found | set(re.findall(r"<a (?:name|id)=\"([^\"]+)\"", text))


def dead_links(top, page, text):
    """(line, target, why) of each link that leads nowhere."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])  # noqa: E731 (keeps the numbers of lines)
    prose = FENCE.sub(blank, text)
    links = [*LINK.finditer(INLINE_CODE.sub(lambda match: "`" * len(match[0]), prose)), *ATTRIBUTE.finditer(prose)]
    for link in links:
        target = link[1]
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, anchor = urllib.parse.unquote(target).partition("#")
        path = (top / page).parent / name if name else top / page
        why = None
        if not path.exists():
            why = "is not there"
        elif not path.resolve().is_relative_to(top):
            why = "lies outside of the project"
        elif anchor and (path.suffix != ".md" or anchor not in anchors(path.read_text(encoding="utf-8"))):
            why = "has no such heading"
        if why:
            yield prose.count("\n", 0, link.start()) + 1, target, why


def main():
    top = project.arguments(__doc__).project.resolve()
    paths = project.files(top, [folder for folder in FOLDERS if (top / folder).is_dir()], SUFFIXES)
    paths += [path.relative_to(top) for path in (top / name for name in TOP) if path.is_file()]
    complaints, pages = [], 0
    for path in paths:
        if path.as_posix().startswith(OWN_FOLDER) or path.as_posix().startswith("bench/results/comparison"):
            continue
        text = (top / path).read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".md":
            pages += 1
            complaints += [f"{path}:{line}: {target} {why}" for line, target, why in dead_links(top, path, text)]
        if not path.as_posix().startswith(NOTEBOOK):
            for named in sorted(set(NAMED_PAGE.findall(text))):
                if not (top / named).exists():
                    complaints.append(f"{path}: names {named}, which is not there")
    if not pages:
        complaints.append(f"no page found below {top}: is this the project?")
    project.finish(complaints, f"{pages} pages have no dead link")


if __name__ == "__main__":
    main()
