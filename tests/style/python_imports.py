#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of the Python package import each other in one direction, also where an import stands within a function: none
is needed by one that it needs."""

import ast
import pathlib

import project

PACKAGE = pathlib.PurePath("python/sluice")
FEWEST = 20  # modules; with fewer something was lost


def module_of(path):
    """"sluice._load"; of a package's own file the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree, module, is_package, modules):
    """The modules of the package that a source names."""
    base = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in modules)
        elif isinstance(node, ast.ImportFrom):
            start = base[:len(base) - node.level + 1] if node.level else []
            origin = ".".join(start + (node.module.split(".") if node.module else []))
            for one in node.names:
                name = f"{origin}.{one.name}"
                if name in modules:
                    yield name
                elif node.module and origin in modules:  # else a part that is compiled
                    yield origin


def circle(needs):
    """Modules that need each other, the first one again at the end; None where there are none."""
    seen = set()

    def follow(module, way):
        if module in way:
            return [*way[way.index(module):], module]
        if module in seen:
            return None
        seen.add(module)
        for other in sorted(needs[module]):
            found = follow(other, [*way, module])
            if found:
                return found
        return None

    for module in sorted(needs):
        found = follow(module, [])
        if found:
            return found
    return None


def main():
    top = project.arguments(__doc__).project.resolve()
    sources = {module_of(path): path for path in project.files(top, [str(PACKAGE)], (".py",))}
    needs = {}
    for module, path in sources.items():
        tree = ast.parse((top / path).read_text(encoding="utf-8"))
        needs[module] = set(imported(tree, module, path.name == "__init__.py", sources)) - {module}
    complaints = []
    found = circle(needs)
    if found:
        complaints.append(f"{sources[found[0]]}: a circle of imports: {' -> '.join(found)}")
    if len(sources) < FEWEST:
        complaints.append(f"only {len(sources)} modules were found")
    project.finish(complaints, f"{len(sources)} modules import each other in one direction")


main()
