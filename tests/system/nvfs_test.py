# SPDX-License-Identifier: Apache-2.0
"""What the tools say of nvidia-fs.ko: over a stand-in for the module that is preloaded (tests/nvfs)."""
import json

from support import BUILD, contains, environment, equal, main, run, skip_when_sanitized

GDSCHECK = BUILD / "bin/gdscheck"
STAND_IN = BUILD / "test-bin/libnvfs_preloaded.so"
LISTED = "nvme: (null)\nlnet: 2.15\nbeegfs: (null)\nwekafsio: 1\n"


def report(*words, modules=LISTED, **variables):
    skip_when_sanitized()
    return run(GDSCHECK, "--soft", *words, env=environment(
        SLUICE_SOFTGPU="1", LD_PRELOAD=str(STAND_IN), SLUICE_FAKE_NVFS_MODULES=modules, **variables)).stdout


def test_gdscheck_calls_supported_what_nvidia_fs_lists():
    text = report("-p", SLUICE_NVFS="behind_p2pdma")
    for row in (" NVMe               : Supported\n", " DDN EXAScaler      : Supported\n", " BeeGFS             : Supported\n",
                " NVMeOF             : Unsupported\n", " NFS                : Unsupported\n",
                " WekaFS             : Unsupported\n"):
        contains(text, row)
    contains(text, "nvidia-fs 2.28 lists hooks of: nvme lnet beegfs.")
    contains(text, "note:   nothing yet; `sluice explain FILE` makes the trial")


def test_gdscheck_prints_the_ways_by_nvidia_fs_in_later_layouts():
    text = report("-p", SLUICE_NVFS="first", CUFILE_VERSION_COMPAT="1190")
    contains(text, " NVMe               : nvfs, compat\n")
    contains(text, " FSx Lustre         : nvfs, compat\n")
    contains(text, " SCSI               : compat\n")


def test_gdscheck_says_that_nvidia_fs_is_left_alone():
    text = report("-p")
    contains(text, " NVMe               : Unsupported\n")
    contains(text, "nvidia-fs 2.28 is loaded; this library goes without it, since sluice.nvfs is off")


def test_gdscheck_tells_programs_what_nvidia_fs_lists():
    answer = json.loads(report("-p", "--json", SLUICE_NVFS="first"))
    equal(answer["nvidia_fs"]["used"], True)
    equal(answer["nvidia_fs"]["hooks"], ["nvme", "lnet", "beegfs"])


if __name__ == "__main__":
    main(globals())
