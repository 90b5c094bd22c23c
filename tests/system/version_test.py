# SPDX-License-Identifier: Apache-2.0
"""`sluice version`, and the front of the command."""
import json

from support import FOREIGN, LIBRARY, SLUICE, contains, environment, equal, main, run


def test_version_names_the_library_and_the_driver():
    answer = json.loads(run(SLUICE, "version", "--json", env=environment(SLUICE_SOFTGPU="1")).stdout)
    equal(answer["library"], str(LIBRARY.resolve()))
    equal(answer["cufile_api"], 1150)
    equal(answer["driver"], "soft")
    equal(answer["devices"] >= 1, True)
    text = run(SLUICE, "version", env=environment(SLUICE_SOFTGPU="1")).stdout
    for part in (answer["sluice"], "1.15", answer["library"], "soft GPU"):
        contains(text, part)


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
