# SPDX-License-Identifier: Apache-2.0
"""Dynamic resource allocation against a stand-in for the API server, over TLS: the node's drives become a ResourceSlice, and a
claim that the scheduler has met is prepared with its drive, its CDI device and its bandwidth.
"""
import http.server
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import threading
import time

from containers import podman
from pod_test import CALL, DRIVER, in_own_mounts, need_programs, pod_image, restricted, with_cdi, without_io_uring
from support import contains, equal, main, run, scratch, skip, skip_when_sanitized

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/bandwidth"
POD = "11111111-2222-3333-4444-555555555555"


class ApiServer(http.server.ThreadingHTTPServer):
    """Keeps objects by their paths, as an API server does with resource versions, and lets none in without the token."""

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Requests)
        self.objects, self.asked, self.version, self.token = {}, [], 0, "first token"
        self.changed = threading.Condition()
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            "/CN=stand-in", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "ca.crt")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that does not trust the certificate hangs up."""

    def keep(self, path, value):
        with self.changed:
            self.version += 1
            value["metadata"]["resourceVersion"] = str(self.version)
            self.objects[path] = value
            self.changed.notify_all()

    def await_object(self, path, condition):
        with self.changed:
            if not self.changed.wait_for(lambda: path in self.objects and condition(self.objects[path]), timeout=60):
                raise AssertionError(f"{path} did not come: {self.objects.get(path)}, asked was {self.asked}")
            return self.objects[path]


class Requests(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_call(self, method):
        server = self.server
        length = int(self.headers.get("Content-Length") or 0)
        sent = json.loads(self.rfile.read(length)) if length else None
        place = self.path.split("?")[0]
        with server.changed:
            server.asked.append(f"{method} {self.path}")
            server.changed.notify_all()
        if self.headers.get("Authorization") != f"Bearer {server.token}":
            self.answer(401, {"kind": "Status", "message": "Unauthorized"})
        elif method == "POST":
            name = sent["metadata"].setdefault("name", f"{sent['metadata'].get('generateName', '')}{server.version}")
            path = f"{self.path}/{name}"
            server.keep(path, sent)
            self.answer(201, server.objects[path])
        elif place not in server.objects:
            self.answer(404, {"kind": "Status", "message": "not found"})
        elif method == "PUT" and sent["metadata"].get("resourceVersion") != server.objects[place]["metadata"]["resourceVersion"]:
            self.answer(409, {"kind": "Status", "message": "the object has been modified"})
        else:
            if method == "PUT":
                server.keep(place, sent)
            self.answer(200, server.objects[place])

    def do_GET(self):
        self.handle_call("GET")

    def do_POST(self):
        self.handle_call("POST")

    def do_PUT(self):
        self.handle_call("PUT")

    def log_message(self, *_):
        """Quiet."""


def claim(device, node="node-a", config=()):
    return {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "bandwidth", "uid": "claim-uid"},
            "status": {"reservedFor": [{"resource": "pods", "name": "reader", "uid": POD}],
                       "allocation": {"devices": {"config": list(config), "results": [
                           {"request": "gpu", "driver": "gpu.example", "pool": node, "device": "gpu-0"},
                           {"request": "storage", "driver": "gds.sluice.dev", "pool": node, "device": device, "shareID": "share-1",
                            "consumedCapacity": {"bandwidth": "5G"}}]}}}}


def room(size, path="/scratch", requests=("storage",)):
    return {"source": "FromClaim", "requests": list(requests),
            "opaque": {"driver": "gds.sluice.dev", "parameters": {"size": size, "path": path}}}


class Node:
    """A node whose pools lie on a drive each, the first one the largest."""

    def __init__(self, folder, server, pools=("pool",), more=()):
        self.folder = folder
        account = folder / "account"
        for each in (account, folder / "registry", folder / "kit", folder / "cgroup"):
            each.mkdir()
        shutil.copy(folder / "ca.crt", account)
        (account / "token").write_text(server.token, encoding="utf-8")
        self.pools = [folder / name for name in pools]
        self.disks = [self.add_drive(pool, 400 - 40 * i) for i, pool in enumerate(self.pools)]
        self.disk = self.disks[0]
        self.log = open(folder / "log", "wb")
        self.words = [DRIVER, "--endpoint", f"unix://{folder}/csi.sock", "--node", "node-a", "--quota", "none", "--kit", folder / "kit",
                      "--registration", folder / "registry", "--cdi", folder / "cdi", "--cgroups", folder / "cgroup", "--dra", "--events",
                      "--kube", f"https://127.0.0.1:{server.server_port}", "--account", account,
                      *[word for pool in self.pools for word in ("--pool", pool)], *more]
        self.start()

    def start(self):
        self.driver = subprocess.Popen(self.words, stderr=self.log)

    @staticmethod
    def add_drive(pool, mebibytes):
        """An xfs, mounted for the pool; its drive's name."""
        image = pool.with_suffix(".drive")
        with open(image, "wb") as drive:
            drive.truncate(mebibytes << 20)
        run("mkfs.xfs", "-q", "-K", image)
        pool.mkdir()
        run("mount", "-o", "loop", image, pool)
        return pathlib.Path(run("findmnt", "-no", "SOURCE", pool).stdout.strip()).name

    def call(self, socket, method, **request):
        return json.loads(run(CALL, self.folder / socket, method, json.dumps(request)).stdout)

    def register(self):
        socket = "registry/gds.sluice.dev-reg.sock"
        info = self.call(socket, "pluginregistration.Registration.GetInfo")
        self.call(socket, "pluginregistration.Registration.NotifyRegistrationStatus", plugin_registered=True)
        return info

    def prepare(self, uid="claim-uid"):
        answer = self.call("dra.sock", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.NodePrepareResources",
                           claims=[{"namespace": "default", "name": "bandwidth", "uid": uid}])
        return answer["claims"][uid]

    def unprepare(self):
        answer = self.call("dra.sock", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.NodeUnprepareResources",
                           claims=[{"namespace": "default", "name": "bandwidth", "uid": "claim-uid"}])
        return answer["claims"]["claim-uid"]["error"]

    def promised(self):
        """Bytes of volumes on each pool."""
        return [sum(json.loads(path.read_text(encoding="utf-8"))["bytes"] for path in (pool / "sluice-csi/records").glob("*.json"))
                for pool in self.pools]

    def says(self, words, seconds=60):
        """Once these words are in its log."""
        until = time.monotonic() + seconds
        while words not in self.said():
            if time.monotonic() > until:
                raise AssertionError(f"{words} is not in {self.said()}")
            time.sleep(0.02)

    def said(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def end(self):
        self.driver.terminate()
        self.driver.wait(timeout=60)
        self.log.close()
        mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        for place in [line.split()[1] for line in reversed(mounts) if line.split()[1].startswith(f"{self.folder}/")]:
            subprocess.run(["umount", "-l", place], check=False)


def need_server():
    in_own_mounts()
    need_programs()
    for program in ("openssl", "findmnt"):
        if not shutil.which(program):
            skip(f"{program} is not installed")


def test_dynamic_resource_allocation_offers_drives_and_prepares_claims():
    need_server()
    with scratch(pathlib.Path("/tmp")) as folder:
        server = ApiServer(folder)
        server.keep("/api/v1/nodes/node-a", {"kind": "Node", "metadata": {"name": "node-a", "uid": "node-uid"}})
        node = Node(folder, server)
        try:
            info = node.register()
            equal(info, {"type": "DRAPlugin", "name": "gds.sluice.dev", "endpoint": f"{folder}/dra.sock",
                         "supported_versions": ["v1.DRAPlugin"]})
            path = f"{SLICES}/node-a-gds.sluice.dev"
            offered = server.await_object(path, lambda each: each["spec"]["devices"])
            equal(offered["metadata"]["ownerReferences"][0]["uid"], "node-uid")
            equal(offered["spec"]["pool"], {"name": "node-a", "generation": 1, "resourceSliceCount": 1})
            equal([each["name"] for each in offered["spec"]["devices"]], [node.disk])
            # Once more, and nothing is written: it is the same.
            version = server.version
            node.register()
            node.call("csi.sock", "csi.v1.Identity.Probe")
            # Another program changes it; kubelet's next start brings it back, as a newer generation.
            other = json.loads(json.dumps(offered))
            other["spec"]["devices"] = []
            equal(server.version, version)
            server.keep(path, other)
            node.register()
            equal(server.await_object(path, lambda each: each["spec"]["devices"])["spec"]["pool"]["generation"], 2)

            # A claim: only our part of it, with its drive, its CDI device and its share; and the pod is kept to what it asked for.
            contains(node.prepare()["error"], "404")
            server.keep(CLAIM, claim(node.disk))
            cgroup = folder / f"cgroup/kubepods/besteffort/pod{POD}"
            cgroup.mkdir(parents=True)
            (cgroup / "io.max").write_text("", encoding="utf-8")
            for _ in range(2):
                answer = node.prepare()
                equal((answer["error"], len(answer["devices"])), ("", 1))
                equal(answer["devices"][0], {"request_names": ["storage"], "pool_name": "node-a", "device_name": node.disk,
                                             "cdi_device_ids": [f"sluice.dev/drive={node.disk}"], "share_id": "share-1"})
            contains((cgroup / "io.max").read_text(encoding="utf-8"), " rbps=5000000000 wbps=5000000000\n")
            spec = json.loads((folder / "cdi/sluice.dev-drive.json").read_text(encoding="utf-8"))
            equal((spec["cdiVersion"], [each["name"] for each in spec["devices"]]), ("0.5.0", ["all", node.disk]))
            contains(node.prepare(uid="another")["error"], "made anew")
            server.keep(CLAIM, claim("nvme99n1"))
            contains(node.prepare()["error"], "no drive of this node")
            server.keep(CLAIM, {"kind": "ResourceClaim", "metadata": {"uid": "claim-uid"}})
            contains(node.prepare()["error"], "Nothing was allocated")
            equal(node.call("dra.sock", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.NodeUnprepareResources",
                            claims=[{"namespace": "default", "name": "gone", "uid": "x"}]), {"claims": {"x": {"error": ""}}})

            # The token is renewed under the driver's feet.
            server.token = "second token"
            contains(node.prepare()["error"], "401")
            (folder / "account/token").write_text(server.token, encoding="utf-8")
            contains(node.prepare()["error"], "Nothing was allocated")
            # A server with another certificate is not asked.
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                "/CN=other", "-keyout", folder / "other", "-out", folder / "account/ca.crt")
            asked = len(server.asked)
            contains(node.prepare()["error"], "certificate")
            equal(len(server.asked), asked)
            contains(node.said(), "kubelet has registered the plugin for dynamic resource allocation")
            if "second token" in node.said():
                raise AssertionError("the token is in the log")
        finally:
            node.end()
            server.shutdown()


def test_what_an_operator_should_know_is_an_event_of_the_claim():
    need_server()
    with scratch(pathlib.Path("/tmp")) as folder:
        server = ApiServer(folder)
        node = Node(folder, server)
        try:
            capability = {"mount": {"mount_flags": ["noatime", "nobarrier"]}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}
            volume = node.call("csi.sock", "csi.v1.Controller.CreateVolume", name="pvc-1", volume_capabilities=[capability],
                               capacity_range={"required_bytes": 8 << 20}, parameters={
                                   "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "default"})["volume"]
            for _ in range(2):
                node.call("csi.sock", "csi.v1.Node.NodeStageVolume", volume_id=volume["volume_id"], volume_capability=capability,
                          staging_target_path=str(folder / "staging"), volume_context=volume["volume_context"])
            with server.changed:
                events = "/api/v1/namespaces/default/events"
                if not server.changed.wait_for(lambda: any(path.startswith(events) for path in server.objects), timeout=60):
                    raise AssertionError(f"no event came; asked was {server.asked}")
                (event,) = [value for path, value in server.objects.items() if path.startswith(events)]
            equal((event["type"], event["reason"], event["source"]), ("Warning", "MountOptionLeftOut", {"component": "csi.sluice.dev", "host": "node-a"}))
            equal(event["involvedObject"], {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"})
            contains(event["message"], "nobarrier")
            # The same once more, in a call: it is not written twice, since the first was.
            equal(server.asked.count(f"POST {events}"), 1)
        finally:
            node.end()
            server.shutdown()


def test_a_claim_with_a_size_gets_a_folder_on_the_drive_that_it_was_given():
    need_server()
    with scratch(pathlib.Path("/tmp")) as folder:
        server = ApiServer(folder)
        server.keep("/api/v1/nodes/node-a", {"kind": "Node", "metadata": {"name": "node-a", "uid": "node-uid"}})
        node = Node(folder, server, ("pool", "given"))
        try:
            node.register()
            server.await_object(f"{SLICES}/node-a-gds.sluice.dev", lambda each: len(each["spec"]["devices"]) == 2)
            for wrong, why in ((room("much"), "claim's size"), (room("1Gi"), "bytes left"), (room("8Mi", "../x"), "no absolute path"),
                               ({**room("8Mi"), "opaque": {"driver": "gds.sluice.dev", "parameters": {"sise": "1Gi"}}}, "no parameter")):
                server.keep(CLAIM, claim(node.disks[1], config=[wrong]))
                contains(node.prepare()["error"], why)
            equal(node.promised(), [0, 0])
            # The class's is overridden by the claim's, and what is meant for others is theirs.
            other = {**room("8Mi"), "opaque": {"driver": "gpu.example", "parameters": {"size": 1}}}
            server.keep(CLAIM, claim(node.disks[1], config=[room("8Mi", "/default", ()), other, room("64Mi"), room("8Mi", "/x", ("gpu",))]))
            spec = folder / "cdi/sluice.dev-claim-claim-uid.json"
            for _ in range(2):
                answer = node.prepare()
                equal((answer["error"], answer["devices"][0]["cdi_device_ids"]),
                      ("", [f"sluice.dev/drive={node.disks[1]}", "sluice.dev/claim=claim-claim-uid-0"]))
            # Though the first pool has more room.
            equal(node.promised(), [0, 64 << 20])
            written = json.loads(spec.read_text(encoding="utf-8"))
            mount = written["devices"][0]["containerEdits"]["mounts"][0]
            equal((written["kind"], written["devices"][0]["name"], mount["containerPath"]),
                  ("sluice.dev/claim", "claim-claim-uid-0", "/scratch"))
            at = pathlib.Path(mount["hostPath"])
            equal((pathlib.Path(run("findmnt", "-vno", "SOURCE", at).stdout.strip()).name, at.stat().st_mode & 0o777), (node.disks[1], 0o777))
            (at / "file").write_bytes(b"kept")
            node.driver.kill()
            node.driver.wait(timeout=60)
            node.start()
            node.prepare()
            equal((at / "file").read_bytes(), b"kept")
            for _ in range(2):
                equal(node.unprepare(), "")
            equal((node.promised(), at.exists(), spec.exists()), ([0, 0], False, False))
            contains(node.call("dra.sock", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin.NodeUnprepareResources",
                               claims=[{"namespace": "default", "name": "x", "uid": "../x"}])["claims"]["../x"]["error"], "uid")
        finally:
            node.end()
            server.shutdown()


def test_a_pod_of_another_user_writes_to_the_folder_of_its_claim():
    skip_when_sanitized()
    need_server()
    with podman() as pod, scratch(pathlib.Path("/tmp")) as folder:
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder)
        server = ApiServer(folder)
        node = Node(folder, server)
        try:
            pod_image(pod, folder)
            server.keep(CLAIM, claim(node.disk, config=[room("8Mi")]))
            device = node.prepare()["devices"][0]["cdi_device_ids"][1]
            # Where a container runtime looks.
            with_cdi(folder)
            shutil.copy(folder / "cdi/sluice.dev-claim-claim-uid.json", "/etc/cdi")
            options = (*restricted(without_io_uring(folder)), "--device", device)
            equal(pod.run(*options, "program", "sh", "-c", "id -u; echo kept >/scratch/file").stdout, "1000\n")
            equal(pod.run(*options, "program", "cat", "/scratch/file").stdout, "kept\n")
            equal(node.unprepare(), "")
            equal(node.promised(), [0])
        finally:
            node.end()
            server.shutdown()
            for place in ("/etc", folder):
                subprocess.run(["umount", "-l", place], check=False)


def test_a_changed_class_reaches_the_pods_that_have_the_volume():
    need_server()
    with scratch(pathlib.Path("/tmp")) as folder:
        server = ApiServer(folder)
        node = Node(folder, server, more=("--follow-classes",))
        controllers = [subprocess.Popen([DRIVER, "--mode", "controller", "--driver", driver, "--endpoint", f"unix://{folder}/{socket}",
                                         "--follow-classes"], stderr=subprocess.DEVNULL)
                       for driver, socket in (("local", "controller.sock"), ("fabrics", "fabrics.sock"))]
        try:
            capability = {"mount": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}
            volume = node.call("csi.sock", "csi.v1.Controller.CreateVolume", name="pvc-1", volume_capabilities=[capability],
                               capacity_range={"required_bytes": 8 << 20})["volume"]["volume_id"]
            cgroup = folder / f"cgroup/kubepods/besteffort/pod{POD}"
            cgroup.mkdir(parents=True)
            (cgroup / "io.max").write_text("", encoding="utf-8")
            target = folder / f"pods/{POD}/volumes/kubernetes.io~csi/pv-of-it/mount"
            target.parent.mkdir(parents=True)
            classes = "/apis/storage.k8s.io/v1/volumeattributesclasses"
            for name, driver, bandwidth in (("fast", "csi.sluice.dev", "5G"), ("free", "csi.sluice.dev", "max"), ("other", "csi.example", "1G")):
                server.keep(f"{classes}/{name}", {"metadata": {"name": name}, "driverName": driver, "parameters": {"bandwidth": bandwidth}})

            def belongs(name, handle=volume):
                server.keep("/api/v1/persistentvolumes/pv-of-it", {"metadata": {"name": "pv-of-it"}, "spec": {
                    "csi": {"volumeHandle": handle}, **({"volumeAttributesClassName": name} if name else {})}})

            def is_asked_about(times, path="/api/v1/persistentvolumes/pv-of-it"):
                """kubelet asks for its usage; until the API server was asked so often."""
                node.call("csi.sock", "csi.v1.Node.NodeGetVolumeStats", volume_id=volume, volume_path=str(target))
                with server.changed:
                    if not server.changed.wait_for(lambda: sum(f"GET {path}?" in each for each in server.asked) >= times, timeout=60):
                        raise AssertionError(f"asked was {server.asked}")

            belongs("")
            node.call("csi.sock", "csi.v1.Node.NodeStageVolume", volume_id=volume, volume_capability=capability, staging_target_path=str(folder / "staging"))
            node.call("csi.sock", "csi.v1.Node.NodePublishVolume", volume_id=volume, volume_capability=capability,
                      staging_target_path=str(folder / "staging"), target_path=str(target))
            is_asked_about(1)
            equal((cgroup / "io.max").read_text(encoding="utf-8"), "")
            # The resizer asks the controller, which has no volume; then the class stands in the PersistentVolume.
            for socket, parameters in (("controller.sock", {"bandwidth": "5G"}), ("fabrics.sock", {"ctrlLossTmo": "30"})):
                contains(json.dumps(node.call(socket, "csi.v1.Controller.ControllerGetCapabilities")), "MODIFY_VOLUME")
                node.call(socket, "csi.v1.Controller.ControllerModifyVolume", volume_id=volume, mutable_parameters=parameters)
            wrong = subprocess.run([CALL, folder / "controller.sock", "csi.v1.Controller.ControllerModifyVolume",
                                    json.dumps({"volume_id": volume, "mutable_parameters": {"bandwith": "5G"}})], capture_output=True, text=True, check=False)
            contains(wrong.stdout + wrong.stderr, "bandwith")
            for name, words in (("fast", " rbps=5000000000 wbps=5000000000\n"), ("free", " rbps=max wbps=max\n")):
                belongs(name)
                is_asked_about(1, f"{classes}/{name}")
                node.says(f"{volume} has the VolumeAttributesClass {name} now")
                contains((cgroup / "io.max").read_text(encoding="utf-8"), words)
            (cgroup / "io.max").write_text("", encoding="utf-8")
            # Of another driver, and of another volume: nothing of ours. The server is gone: it is told once, in the log.
            belongs("other")
            is_asked_about(1, f"{classes}/other")
            server.token = "another"
            for _ in range(2):
                node.call("csi.sock", "csi.v1.Node.NodeGetVolumeStats", volume_id=volume, volume_path=str(target))
            node.says("answers 401")
            record, = (node.pools[0] / "sluice-csi/records").glob("*.json")
            contains(record.read_text(encoding="utf-8"), '"bandwidth": "max"')
        finally:
            for controller in controllers:
                controller.terminate()
                controller.wait(timeout=60)
            node.end()
            server.shutdown()


if __name__ == "__main__":
    main(globals())
