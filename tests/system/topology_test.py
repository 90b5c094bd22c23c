# SPDX-License-Identifier: Apache-2.0
"""`sluice topology`: recorded trees (tests/fixtures/topologies) with the distance, route and words of each pair; the tree
as text, JSON and picture; what cuFileExportPCIeTopology and gdscheck make of the same facts."""
import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

from support import SLUICE, SOURCE, contains, environment, equal, main, run, scratch

sys.path.insert(0, str(SOURCE / "tests/fixtures"))
import expand  # noqa: E402  the folder is known only now

SVG = "{http://www.w3.org/2000/svg}"


def trees():
    return sorted(expand.TOPOLOGIES.glob("*.txt"))


def laid_out(path, folder):
    top = folder / path.stem
    top.mkdir()
    expand.expand(expand.read(path)[2], top)
    return top


def topology(top, *words):
    return run(SLUICE, "topology", "--root", top, *words).stdout


def rows_of(text):
    """A line a pair: how far, and the route and its words, with why earlier policies do not apply. GPUs of which the same is
    said share a line; there the words name the GPU by "it"."""
    lines = {}
    for pair in json.loads(text)["pairs"]:
        device, gpu = pair["names"]
        passed = "".join(f"; not {one['policy']}: {one['why']}" for one in pair["passed"])
        words = f"{pair['policy'] or '-'}: {pair['why']}{passed}"
        said = (f"{pair['distance']}, {pair['steps']} steps, {pair['preference']}, {pair['gbps']} GB/s, "
                + re.sub(rf"\b{gpu}\b", "it", words))
        lines.setdefault((device, said), []).append(gpu)
    return "".join(f"{device} {' '.join(gpus)}: {said}\n" for (device, said), gpus in lines.items())


def test_each_recorded_tree_has_its_distances_and_routes():
    complaints = []
    with scratch() as folder:
        for path in trees():
            golden = path.with_suffix(".routes")
            rows = rows_of(topology(laid_out(path, folder), "--json"))
            if os.environ.get("SLUICE_WRITE_VERDICTS"):
                golden.write_text(rows, encoding="utf-8")
            wanted = golden.read_text(encoding="utf-8") if golden.exists() else ""
            if rows != wanted:
                first = next((pair for pair in zip(rows.splitlines(), wanted.splitlines()) if pair[0] != pair[1]), "length")
                complaints.append(f"{path.stem}: {first}")
    equal(complaints, [])
    equal(len(trees()) >= 12, True)


def test_each_recorded_tree_is_a_picture_with_each_device_in_it():
    with scratch() as folder:
        for path in trees():
            top = laid_out(path, folder)
            picture = ElementTree.fromstring(topology(top, "--svg"))
            size = [float(picture.get(side)) for side in ("width", "height")]
            texts = [text.text or "" for text in picture.iter(f"{SVG}text")]
            for device in json.loads(topology(top, "--json"))["devices"]:
                if device["address"]:
                    equal((path.stem, device["address"], device["address"] in texts), (path.stem, device["address"], True))
            boxes = [[float(box.get(name)) for name in ("x", "y", "width", "height")] for box in picture.iter(f"{SVG}rect")]
            for x, y, width, height in boxes:
                inside = x >= 0 and y >= 0 and x + width <= size[0] + 0.1 and y + height <= size[1] + 0.1
                equal((path.stem, (x, y, width, height), inside), (path.stem, (x, y, width, height), True))
            tiles = [box for box, rect in zip(boxes, picture.iter(f"{SVG}rect"))
                     if rect.get("class") in ("gpu", "drive", "nic") and box[2] > 50]
            for number, one in enumerate(tiles):
                for other in tiles[number + 1:]:
                    apart = (one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0]
                             or one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1])
                    equal((path.stem, one, other, apart), (path.stem, one, other, True))


def test_topology_shows_the_tree_and_how_near_things_are():
    with scratch() as folder:
        text = topology(laid_out(expand.TOPOLOGIES / "two-sockets-no-nvlink.txt", folder))
        for line in ("ESC8000A-E12: 2 NUMA nodes, 4 GPUs, 2 NVMe drives, 2 network cards\n",
                     "node 0  processors 0-63,128-191\n",
                     "│  └─ switch 0000:01:00.0  Gen5 x16  access control on\n",
                     "│     ├─ GPU0     0000:05:00.0  NVIDIA L40S  Gen4 x16\n",
                     "│     └─ mlx5_0   0000:07:00.0  ens7np0 172.172.1.40  Gen5 x16\n",
                     "└─ nvme1    0000:41:00.0  Gen4 x2 of Gen4 x4\n",
                     "   └─ switch 0000:81:00.0  Gen5 x8 of Gen5 x16\n",
                     "nvme3  rdma 172.172.1.90, by mlx5_0\n",
                     "rxe0  on no bus  ens9 192.168.1.9\n",
                     "mlx5_0    switch  switch  far     far\n"):
            contains(text, line)
        text = topology(laid_out(expand.TOPOLOGIES / "dgx-2.txt", folder))
        contains(text, "6 NVLinks between each two of 16 GPUs\n")


def test_topology_does_not_guess_what_a_hypervisor_hides():
    with scratch() as folder:
        for name in ("vm-flat", "vm-ports"):
            top = laid_out(expand.TOPOLOGIES / f"{name}.txt", folder)
            contains(topology(top), "?: the bus does not tell\n")
            for pair in json.loads(topology(top, "--json"))["pairs"]:
                equal((pair["distance"], pair["steps"], pair["policy"]), ("unknown", 0, None))


def test_topology_tells_what_the_lists_of_addresses_come_to():
    with scratch() as folder:
        text = topology(laid_out(expand.TOPOLOGIES / "two-sockets-no-nvlink.txt", folder), "--routes")
        for line in ("dynamic routing is on\norder: GPU_MEM_NVLINKS GPU_MEM SYS_MEM P2P\n",
                     "properties.rdma_dev_addr_list\n    192.168.1.9: rxe0\n",
                     "    10.9.9.9: cannot be used: the interface bond0 has it, and no RDMA device stands behind that\n",
                     "    172.172.1.41: cannot be used: no interface of this machine has it\n",
                     "fs.lustre.mount_table /lustre/ai200/client1\n    172.172.1.40: mlx5_0\n",
                     "mlx5_0 GPU2  SYS_MEM  by host memory of node 0, where mlx5_0 is\n"
                     "    not GPU_MEM_NVLINKS: no NVLink leads from a GPU near mlx5_0 to GPU2\n"
                     "    not GPU_MEM: GPU2 does not reach the memory of GPU0\n"):
            contains(text, line)


def test_topology_tells_the_way_of_a_file():
    with scratch() as folder:
        top = laid_out(expand.TOPOLOGIES / "two-sockets-no-nvlink.txt", folder)
        equal(topology(top, "--file", "/lustre/ai200/client1/run/a.bin"),
              "/lustre/ai200/client1/run/a.bin: lustre at /lustre/ai200/client1, from 10.0.0.1@o2ib:/ai200\n"
              "dynamic routing is on\norder: GPU_MEM_NVLINKS GPU_MEM SYS_MEM P2P\n\n"
              "fs.lustre.mount_table /lustre/ai200/client1\n    172.172.1.40: mlx5_0\n"
              "mlx5_0 GPU0  -  straight: mlx5_0 and GPU0 are both below 0000:01:00.0, where access control sends the bytes up to"
              " the host\n"
              "mlx5_0 GPU1  -  straight: mlx5_0 and GPU1 are both below 0000:01:00.0, where access control sends the bytes up to"
              " the host\n"
              "mlx5_0 GPU2  SYS_MEM  by host memory of node 0, where mlx5_0 is\n"
              "    not GPU_MEM_NVLINKS: no NVLink leads from a GPU near mlx5_0 to GPU2\n"
              "    not GPU_MEM: GPU2 does not reach the memory of GPU0\n"
              "mlx5_0 GPU3  SYS_MEM  by host memory of node 0, where mlx5_0 is\n"
              "    not GPU_MEM_NVLINKS: no NVLink leads from a GPU near mlx5_0 to GPU3\n"
              "    not GPU_MEM: GPU3 does not reach the memory of GPU0\n")
        contains(topology(top, "--file", "/lustre/ai200/client10/a"), "no mount is above it\n")
        top = laid_out(expand.TOPOLOGIES / "workstation.txt", folder)
        contains(topology(top, "--file", "/data/a"), "/data/a: xfs at /data, from /dev/nvme0n1\n"
                 "dynamic routing is off: this is how it would be\n")
        contains(topology(top, "--file", "/data/a"), "nvme0 GPU0  SYS_MEM  by host memory of node 1, where nvme0 is\n")


def test_an_exported_topology_is_a_file_of_static_routes():
    with scratch() as folder:
        path = expand.TOPOLOGIES / "two-sockets-no-nvlink.txt"
        top = laid_out(path, folder)
        tree = json.loads(topology(top, "--json"))
        for pair in tree["pairs"]:
            # As if the user knew better: nvme1 is near GPU3.
            if pair["names"] == ["nvme1", "GPU3"]:
                pair["preference"] = "0x1"
        place = top / "etc/topology.json"
        place.write_text("// Topology file for cuFile.\n" + json.dumps(tree), encoding="utf-8")
        (top / "etc/cufile.json").write_text('{"miscellaneous": {"enable_static_routing": true}}', encoding="utf-8")
        contains(topology(top, "--routes"), "nvme1 GPU3  -  straight: the file of static routes has nvme1 near GPU3\n")
        tree["pairs"][0]["preference"] = -1
        place.write_text(json.dumps(tree), encoding="utf-8")
        text = topology(top, "--routes")
        contains(text, "/etc/topology.json is not used: line 1: preference is -1, not 0x1 to 0x7000\n")
        contains(text, "nvme1 GPU3  SYS_MEM  ")


def test_topology_of_a_record_is_that_of_the_machine():
    with scratch() as folder:
        for name in ("hgx-h100", "two-sockets-no-nvlink", "azure-nd-h100-v5"):
            top = laid_out(expand.TOPOLOGIES / f"{name}.txt", folder)
            tar = folder / f"{name}.tar"
            run(SLUICE, "doctor", "--root", top, "--record", tar)
            first, second = (json.loads(topology(root, "--json")) for root in (top, tar))
            for part in ("bridges", "pairs", "peers", "nodes"):
                equal((name, part, second[part]), (name, part, first[part]))


def test_topology_tells_no_way_of_a_file_that_is_not_there():
    with scratch() as folder:
        gone = run(SLUICE, "topology", "--file", folder / "gone", status=2)
        contains(gone.stderr, f"{folder}/gone cannot be examined: No such file or directory.")
        equal(gone.stdout, "")
        (folder / "there").write_bytes(b"x")
        contains(run(SLUICE, "topology", "--file", folder / "there").stdout, f"{folder}/there: ")


def test_topology_looks_at_this_machine():
    for form in ("--json", "--svg", "--routes"):
        run(SLUICE, "topology", form, env=environment(SLUICE_SOFTGPU="1"))
    contains(run(SLUICE, "topology", "--root", "/no/such/tree", status=2).stderr, "/no/such/tree cannot be read")
    contains(run(SLUICE, "topology", "--svg", "--json", status=2).stderr, "Two forms are asked for.")


if __name__ == "__main__":
    main(globals())
