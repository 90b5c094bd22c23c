# SPDX-License-Identifier: Apache-2.0
"""`sluice version`, and the front of the command."""
import json
import os
import re

from support import BUILD, FOREIGN, LIBRARY, SLUICE, SOURCE, contains, environment, equal, main, run, scratch


def test_version_names_the_library_and_the_driver():
    answer = json.loads(run(SLUICE, "version", "--json", env=environment(SLUICE_SOFTGPU="1")).stdout)
    equal(answer["library"], str(LIBRARY.resolve()))
    equal(answer["cufile_api"], 1150)
    equal(answer["driver"], "soft")
    equal(answer["devices"] >= 1, True)
    text = run(SLUICE, "version", env=environment(SLUICE_SOFTGPU="1")).stdout
    for part in (answer["sluice"], "1.15", answer["library"], "soft GPU"):
        contains(text, part)


def test_version_tells_what_was_built_and_how():
    answer = json.loads(run(SLUICE, "version", "--json").stdout)
    build = answer["build"]
    cache = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    equal(f"CMAKE_BUILD_TYPE:STRING={build['type']}\n" in cache, True)
    equal(build["options"]["sanitizers"], os.environ.get("SLUICE_SANITIZE", ""))
    for name, key in (("SLUICE_UNITY", "by_folders"), ("SLUICE_REPRODUCIBLE", "reproducible")):
        equal(bool(re.search(rf"^{name}:BOOL=(ON|TRUE|1)$", cache, re.MULTILINE)), build["options"][key])
    for part in ("-O", "-g"):
        contains(build["flags"], part)
    equal(re.fullmatch(r"(GNU|Clang) \d+\.\d+\.\d+", build["compiler"]) is not None, True)
    equal(build["machine"], os.uname().machine)
    text = run(SLUICE, "version").stdout
    contains(text, f"from {build['description']} by {build['compiler']}")


def test_the_version_comes_from_one_place_and_git_tells_the_rest():
    with scratch() as folder:
        out = folder / "description.cpp"

        def told():
            run("cmake", "-D", f"source={folder}", "-D", f"out={out}", "-P", SOURCE / "cmake/Description.cmake")
            return re.search(r'return "(.*)"', out.read_text(encoding="utf-8"))[1]

        equal(told(), "unknown")
        git = ("git", "-C", folder, "-c", "user.name=n", "-c", "user.email=e")
        run(*git, "init", "-q")
        (folder / "file").write_text("one\n")
        run(*git, "add", "file")
        run(*git, "commit", "-q", "-m", "one")
        run(*git, "tag", "v1.2.3")
        equal(told(), "v1.2.3")
        made = out.stat().st_mtime_ns
        equal(told(), "v1.2.3")
        equal(out.stat().st_mtime_ns, made)  # what includes it is not compiled again
        (folder / "file").write_text("two\n")
        equal(told(), "v1.2.3-dirty")
        run(*git, "commit", "-q", "-a", "-m", "two")
        equal(re.fullmatch(r"v1\.2\.3-1-g[0-9a-f]{12}", told()) is not None, True)
        # A source archive has no git.
        (folder / "packaging").mkdir()
        (folder / "packaging/description").write_text("v1.2.4\n")
        equal(told(), "v1.2.4")
    # Whatever names a version takes it from CMakeLists.txt.
    version = re.search(r"project\(Sluice VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    equal(json.loads(run(SLUICE, "version", "--json").stdout)["sluice"], version)
    equal(re.search(r"^version: (.*)$", (SOURCE / "deploy/helm/sluice/Chart.yaml").read_text(encoding="utf-8"),
                    re.MULTILINE)[1], version)
    equal(re.search(r"^appVersion: \"(.*)\"$", (SOURCE / "deploy/helm/sluice/Chart.yaml").read_text(encoding="utf-8"),
                    re.MULTILINE)[1], version)
    contains((SOURCE / "CHANGELOG.md").read_text(encoding="utf-8"), f"\n## {version}\n")


def test_version_tells_the_version_that_is_reported():
    answer = run(SLUICE, "version", "--json", env=environment(SLUICE_SOFTGPU="1", CUFILE_VERSION_COMPAT="1190")).stdout
    equal(json.loads(answer)["cufile_api"], 1190)


def test_version_says_why_the_soft_gpu_stands_in():
    answer = json.loads(run(SLUICE, "version", "--json").stdout)
    if answer["driver"] == "real":
        equal(answer["why_not_real"], "")
    else:
        equal(answer["driver"], "soft")
        equal(bool(answer["why_not_real"]), True)


def test_tools_run_on_their_own_library_under_a_foreign_library_path():
    answer = run(SLUICE, "version", "--json", env=environment(LD_LIBRARY_PATH=str(FOREIGN.parent))).stdout
    equal(json.loads(answer)["library"], str(LIBRARY.resolve()))


def test_help_teaches_with_examples():
    for words in ((), ("--help",), ("run", "--help"), ("explain", "--help"), ("version", "--help"), ("demo", "--help")):
        contains(run(SLUICE, *words).stdout, "Examples:")
    run(SLUICE, "no-such-command", status=2)


if __name__ == "__main__":
    main(globals())
