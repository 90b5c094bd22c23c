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

from pod_test import CALL, DRIVER, in_own_mounts, need_programs
from support import BUILD, contains, equal, main, run, scratch, skip

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/bandwidth"
POD = "11111111-2222-3333-4444-555555555555"


class ApiServer(http.server.ThreadingHTTPServer):
    """Keeps objects by their paths, as an API server does with resource versions, and lets nobody in without the token."""

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
        with server.changed:
            server.asked.append(f"{method} {self.path}")
        if self.headers.get("Authorization") != f"Bearer {server.token}":
            self.answer(401, {"kind": "Status", "message": "Unauthorized"})
        elif method == "POST":
            name = sent["metadata"].setdefault("name", f"{sent['metadata'].get('generateName', '')}{server.version}")
            path = f"{self.path}/{name}"
            server.keep(path, sent)
            self.answer(201, server.objects[path])
        elif self.path not in server.objects:
            self.answer(404, {"kind": "Status", "message": "not found"})
        elif method == "PUT" and sent["metadata"].get("resourceVersion") != server.objects[self.path]["metadata"]["resourceVersion"]:
            self.answer(409, {"kind": "Status", "message": "the object has been modified"})
        else:
            if method == "PUT":
                server.keep(self.path, sent)
            self.answer(200, server.objects[self.path])

    def do_GET(self):
        self.handle_call("GET")

    def do_POST(self):
        self.handle_call("POST")

    def do_PUT(self):
        self.handle_call("PUT")

    def log_message(self, *_):
        """Quiet."""


def claim(device, node="node-a"):
    return {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "bandwidth", "uid": "claim-uid"},
            "status": {"reservedFor": [{"resource": "pods", "name": "reader", "uid": POD}],
                       "allocation": {"devices": {"results": [
                           {"request": "gpu", "driver": "gpu.example", "pool": node, "device": "gpu-0"},
                           {"request": "storage", "driver": "gds.sluice.dev", "pool": node, "device": device, "shareID": "share-1",
                            "consumedCapacity": {"bandwidth": "5G"}}]}}}}


class Node:
    def __init__(self, folder, server):
        self.folder = folder
        account, pool = folder / "account", folder / "pool"
        for each in (account, pool, folder / "registry", folder / "kit", folder / "cgroup"):
            each.mkdir()
        shutil.copy(folder / "ca.crt", account)
        (account / "token").write_text(server.token, encoding="utf-8")
        with open(folder / "drive", "wb") as drive:
            drive.truncate(320 << 20)
        run("mkfs.xfs", "-q", "-K", folder / "drive")
        run("mount", "-o", "loop", folder / "drive", pool)
        self.disk = pathlib.Path(run("findmnt", "-no", "SOURCE", pool).stdout.strip()).name
        self.log = open(folder / "log", "wb")
        self.driver = subprocess.Popen(
            [DRIVER, "--endpoint", f"unix://{folder}/csi.sock", "--node", "node-a", "--pool", pool, "--quota", "none", "--kit", folder / "kit",
             "--registration", folder / "registry", "--cdi", folder / "cdi", "--cgroups", folder / "cgroup", "--dra", "--events", "--kube",
             f"https://127.0.0.1:{server.server_port}", "--account", account], stderr=self.log)

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

    def said(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def end(self):
        self.driver.terminate()
        self.driver.wait(timeout=60)
        self.log.close()
        subprocess.run(["umount", "-l", self.folder / "pool"], check=False)


def test_dynamic_resource_allocation_offers_drives_and_prepares_claims():
    in_own_mounts()
    need_programs()
    for program in ("openssl", "findmnt"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
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
            # Somebody changes it; kubelet's next start brings it back, as a newer generation.
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
    in_own_mounts()
    need_programs()
    for program in ("openssl", "findmnt"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
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
            run("umount", folder / "staging")
        finally:
            node.end()
            server.shutdown()


if __name__ == "__main__":
    main(globals())
