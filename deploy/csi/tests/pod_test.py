# SPDX-License-Identifier: Apache-2.0
"""A pod: the driver brings a claim's volume and the library, and podman runs a container as Pod Security "restricted" wants it.
Another user, no capability, no way to get one, a root that cannot be written, a seccomp profile. What runs in it reads a file
of the volume through the library, compares every byte, and says which path they took.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from containers import podman
from support import BUILD, SOURCE, contains, equal, main, run, scratch, skip, skip_when_sanitized

DRIVER = BUILD / "bin/sluice-csi"
CALL = BUILD / "test-bin/csi_call"
PROGRAMS = (BUILD / "samples/10_which_way", BUILD / "bin/sluice")
SOFT_GPU = BUILD / "softgpu"
PROFILE = SOURCE / "deploy/helm/sluice/files/io-uring.json"
MOUNT = {"mount": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}


def in_own_mounts():
    """All that is mounted is gone with this process, however it ends."""
    if os.geteuid() != 0:
        skip("mounting needs root")
    if os.environ.get("SLUICE_POD_TEST") != "inside":
        os.environ["SLUICE_POD_TEST"] = "inside"
        os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable, "-B", *sys.argv])


def need_programs():
    for path in (DRIVER, CALL, *PROGRAMS, SOFT_GPU / "libcuda.so.1"):
        if not path.exists():
            skip(f"{path.name} is not built")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not shutil.which("mkfs.xfs"):
        skip("mkfs.xfs is not installed (xfsprogs)")
    if "\txfs\n" not in pathlib.Path("/proc/filesystems").read_text(encoding="utf-8"):
        skip("this kernel has no xfs")


def with_cdi(folder):
    """Where container runtimes read CDI specs: an /etc of this process's own."""
    for each in ("etc", "work"):
        (folder / each).mkdir()
    run("mount", "-t", "overlay", "-o", f"lowerdir=/etc,upperdir={folder}/etc,workdir={folder}/work", "overlay", "/etc")
    cdi = pathlib.Path("/etc/cdi")
    cdi.mkdir(exist_ok=True)
    return cdi


class Node:
    """A node with one drive: an xfs on a loop device, the kit, kubelet's folders, and the driver."""

    def __init__(self, folder):
        self.folder = folder
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
        self.pool, self.kit, self.kubelet = folder / "pool", folder / "kit", folder / "kubelet"
        for each in (self.pool, self.kit, self.kubelet / "device-plugins"):
            each.mkdir(parents=True)
        with open(folder / "drive", "wb") as drive:
            drive.truncate(320 << 20)
        run("mkfs.xfs", "-q", "-K", folder / "drive")
        run("mount", "-o", "loop", folder / "drive", self.pool)
        shutil.copy(BUILD / "lib/libcufile.so.0", self.kit)
        shutil.copy(BUILD / "share/sluice/cufile.json", self.kit)
        self.cdi = with_cdi(folder)
        self.log = open(folder / "log", "wb")
        self.driver = subprocess.Popen(
            [DRIVER, "--endpoint", f"unix://{folder}/csi.sock", "--node", "node-a", "--pool", self.pool, "--quota", "none",
             "--kit", self.kit, "--device-plugins", self.kubelet / "device-plugins", "--cdi", self.cdi], stderr=self.log)
        equal(self.call("Identity.Probe"), {"ready": True})

    def call(self, method, **request):
        return json.loads(run(CALL, self.folder / "csi.sock", f"csi.v1.{method}", json.dumps(request), timeout=130).stdout)

    def target(self, pod, volume):
        path = self.kubelet / f"pods/{pod}/volumes/kubernetes.io~csi/{volume}"
        path.mkdir(parents=True, exist_ok=True)
        return path / "mount"

    def claim(self, name):
        made = self.call("Controller.CreateVolume", name=name, capacity_range={"required_bytes": 64 << 20}, volume_capabilities=[MOUNT],
                         parameters={"type": "nvme-local", "directPath": "prefer"})
        return made["volume"]

    def bring(self, pod, volume):
        staging = self.folder / "staging"
        about = {"volume_id": volume["volume_id"], "staging_target_path": str(staging), "volume_capability": MOUNT,
                 "volume_context": volume["volume_context"]}
        self.call("Node.NodeStageVolume", **about)
        target = self.target(pod, "data")
        self.call("Node.NodePublishVolume", **about, target_path=str(target))
        return target

    def bring_kit(self, pod):
        target = self.target(pod, "sluice")
        self.call("Node.NodePublishVolume", volume_id="csi-1", target_path=str(target), readonly=True, volume_capability=MOUNT,
                  volume_context={"csi.storage.k8s.io/ephemeral": "true"})
        return target

    def take(self, pod, volume):
        self.call("Node.NodeUnpublishVolume", volume_id="csi-1", target_path=str(self.target(pod, "sluice")))
        self.call("Node.NodeUnpublishVolume", volume_id=volume["volume_id"], target_path=str(self.target(pod, "data")))
        self.call("Node.NodeUnstageVolume", volume_id=volume["volume_id"], staging_target_path=str(self.folder / "staging"))
        self.call("Controller.DeleteVolume", volume_id=volume["volume_id"])

    def end(self):
        self.driver.terminate()
        self.driver.wait(timeout=60)
        self.log.close()
        for place in ("/etc", self.pool, self.folder):
            subprocess.run(["umount", "-l", place], check=False)


def pod_image(pod, folder):
    """What a program's image is: a shell, the program, and no library of ours. Of the driver of a GPU there is the soft one."""
    root = folder / "root"
    run(SOURCE / "deploy/image/plain_root.sh", root, "sh", "id", "cat", "touch", BUILD / "lib/libcufile.so.0", *PROGRAMS)
    (root / "usr/softgpu").mkdir()
    for each in SOFT_GPU.glob("libcuda.so*"):
        shutil.copy(each, root / "usr/softgpu")
    for each in ("data", "opt/sluice"):
        (root / each).mkdir(parents=True)
    pod.import_root(root, "program")
    shutil.rmtree(root)
    pod.settle("program", "/bin/id")


def without_io_uring(folder):
    """What RuntimeDefault is from containerd 2 on: the same, less io_uring."""
    profile = json.loads(PROFILE.read_text(encoding="utf-8"))
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if not name.startswith("io_uring")]
    path = folder / "runtime-default.json"
    path.write_text(json.dumps(profile), encoding="utf-8")
    return path


def restricted(profile):
    return ("--user", "1000:1000", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--security-opt", f"seccomp={profile}",
            "--read-only", "--env", "SLUICE_SOFTGPU=1")


def reads(pod, name, *options):
    """The program's own words, and those of `sluice doctor` about the same file, in such a pod."""
    words = pod.run(*options, "program", PROGRAMS[0].name, "/data/file").stdout
    doctor = json.loads(pod.run(*options, "program", "sluice", "doctor", "--json", "/data/trial", status=None).stdout)
    trials = [each for each in doctor["findings"] if each["section"] == "trial"]
    equal(len(trials), 1)
    contains(trials[0]["sign"] + trials[0]["cause"], "every byte right")
    contains(words, "path:   posix\nreason: soft_gpu")
    contains(words, "1 reads of 1048576 bytes by posix (soft_gpu)")
    print(f"{name}: {words.splitlines()[0]}, {words.splitlines()[1]}; {trials[0]['sign']}")
    return [each["id"] for each in doctor["findings"] if each["section"] == "uring"]


def test_pod_without_privileges_reads_a_verified_file_of_its_volume_and_says_its_path():
    skip_when_sanitized()
    in_own_mounts()
    need_programs()
    with podman() as pod, scratch(pathlib.Path("/tmp")) as folder:
        node = Node(folder)
        try:
            pod_image(pod, folder)
            volume = node.claim("pvc-1")
            data, kit = node.bring("uid-1", volume), node.bring_kit("uid-1")
            data.chmod(0o777)  # what kubelet does for fsGroup
            shutil.copyfile(node.pool / "sluice-csi/trial", data / "trial")
            os.chown(data / "trial", 1000, 1000)
            mine = ("--volume", f"{data}:/data:rslave")
            by_volume = ("--volume", f"{kit}:/opt/sluice:ro", "--env", "LD_LIBRARY_PATH=/opt/sluice:/usr/softgpu",
                         "--env", "CUFILE_ENV_PATH_JSON=/opt/sluice/cufile.json")
            default = restricted(without_io_uring(folder))
            status = pod.run(*default, *mine, "program", "sh", "-c", "id -u; cat /proc/self/status; touch /x 2>&1; true").stdout
            for each in ("1000\n", "CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
                         "Read-only file system"):
                contains(status, each)
            refused = reads(pod, "inline volume, RuntimeDefault", *default, *mine, *by_volume)
            works = reads(pod, "inline volume, the chart's profile", *restricted(PROFILE), *mine, *by_volume)
            equal(("uring.works" in refused, works), (False, ["uring.works"]))
            # The other way in: the resource of the device plugin, by the CDI spec that the driver has written.
            by_cdi = ("--device", "sluice.dev/gds=all", "--env", "LD_LIBRARY_PATH=/usr/lib/sluice:/usr/softgpu")
            reads(pod, "CDI device, RuntimeDefault", *default, *mine, *by_cdi)
            variable = pod.run(*default, *by_cdi, "program", "sh", "-c", "echo $CUFILE_ENV_PATH_JSON; touch /usr/lib/sluice/x 2>&1; true")
            contains(variable.stdout, "/usr/lib/sluice/cufile.json\n")
            contains(variable.stdout, "Read-only file system")
            node.take("uid-1", volume)
            equal(node.call("Controller.ListVolumes")["entries"], [])
            with open("/proc/self/mounts", encoding="utf-8") as mounts:
                equal([line for line in mounts if f"{node.kubelet}" in line], [])
        finally:
            node.end()


if __name__ == "__main__":
    main(globals())
