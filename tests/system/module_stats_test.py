# SPDX-License-Identifier: Apache-2.0
"""`gds_stats --nvidia-fs`: what the module counts, as its files in /proc say it, and the traps of these numbers."""
import json

from support import BUILD, contains, equal, main, run, scratch

GDS_STATS = BUILD / "bin/gds_stats"

STATS = """GDS Version: 1.17.0.1
NVFS statistics(ver: 4.0)
NVFS Driver(version: 2.28.4)
Mellanox PeerDirect Supported: True
IO stats: {io}, peer IO stats: Disabled
Logging level: info

Active Shadow-Buffer (MiB): 4
Active Process: 2
Reads\t\t\t\t: n=7 ok=6 err=1 readMiB=12 io_state_err=0
Reads\t\t\t\t: Bandwidth(MiB/s)=900 Avg-Latency(usec)=80
Sparse Reads\t\t        : n=3 io=2 holes=5 pages=9
Bar1-map\t\t\t: n=4 ok=4 err=0 free=1 callbacks=0 active=3 delay-frees=0
GPU 0000:65:00.0 uuid:00112233-4455-6677-8899-aabbccddeeff : Registered_MiB=16 Cache_MiB=0 max_pinned_MiB=32
"""
DISTANCE = ("gpu\t\tpeer\t\tpeerrank\tp2pdist\tlink\tgen\tnuma\tnp2p\tclass\n"
            "0000:65:00.0\t0000:66:00.0\t0x00030060\t0x0003\t0x04\t0x05\t0x00\t11\tnvme\n"
            "0000:65:00.0\t0000:b1:00.0\t0x00840060\t0x0084\t0x10\t0x05\t0x01\t2\tnetwork\n")
AFFINITY = ("GPU P2P DMA distribution based on pci-distance\n\n(last column indicates p2p via root complex)\n"
            "GPU :0000:65:00.0 :0 0 0 11 0 2\n")


def laid_out(folder, io="Enabled", modules="nvme: (null)\nwekafsio: 1\n"):
    proc = folder / "proc/driver/nvidia-fs"
    proc.mkdir(parents=True)
    for name, text in (("version", "version: 2.28\n"), ("modules", modules), ("stats", STATS.format(io=io)),
                       ("peer_distance", DISTANCE), ("peer_affinity", AFFINITY)):
        (proc / name).write_text(text, encoding="ascii")
    return folder


def test_gds_stats_shows_what_nvidia_fs_has_counted():
    with scratch() as folder:
        answer = json.loads(run(GDS_STATS, "--nvidia-fs", "--root", laid_out(folder), "--json").stdout)
    equal((answer["version"], answer["hooks"], answer["counts_io"]), ("2.28.4", ["nvme"], True))
    equal(answer["rows"]["Reads"], {"n": 7, "ok": 6, "err": 1, "readMiB": 12, "io_state_err": 0,
                                    "Bandwidth(MiB/s)": 900, "Avg-Latency(usec)": 80})
    equal(answer["rows"]["Sparse Reads"]["holes"], 5)
    equal(answer["rows"]["Active Process"], {"n": 2})
    equal(answer["gpus"], [{"address": "0000:65:00.0", "uuid": "00112233-4455-6677-8899-aabbccddeeff",
                            "counts": {"Registered_MiB": 16, "Cache_MiB": 0, "max_pinned_MiB": 32}}])
    equal([(peer["peer"], peer["distance"], peer["transfers"]) for peer in answer["peers"]],
          [("0000:66:00.0", 3, 11), ("0000:b1:00.0", 132, 2)])
    equal(answer["affinities"], [{"gpu": "0000:65:00.0", "transfers_by_distance": [0, 0, 0, 11, 0, 2]}])


def test_gds_stats_says_which_zeros_of_nvidia_fs_say_nothing():
    with scratch() as folder:
        text = run(GDS_STATS, "--nvidia-fs", "--root", laid_out(folder, "Disabled", "wekafsio: 1\n")).stdout
    contains(text, "hooks: none")
    contains(text, "reads and writes are not counted")
    contains(text, "distance 132 (by the root), 2 transfers")
    contains(text, "no process has a node of the module open")


def test_gds_stats_without_nvidia_fs_says_so():
    with scratch() as folder:
        (folder / "proc").mkdir()
        answer = run(GDS_STATS, "--nvidia-fs", "--root", folder, status=1)
    contains(answer.stderr, "nvidia-fs.ko is not loaded.")
    contains(answer.stderr, "sluice doctor nvidia-fs")


def test_gds_stats_takes_a_folder_of_a_machine_alone():
    with scratch() as folder:
        tar = folder / "machine.tar"
        tar.write_bytes(b"x" * 512)
        for root, why in ((folder / "gone", "cannot be examined: No such file or directory."), (tar, "is no folder."),
                          (folder, "is no recorded machine: it has neither /proc nor /sys.")):
            answer = run(GDS_STATS, "--nvidia-fs", "--root", root, "--json", status=2)
            contains(answer.stderr, f"gds_stats: {root} {why}")
            contains(json.loads(answer.stdout)["error"], why)


if __name__ == "__main__":
    main(globals())
