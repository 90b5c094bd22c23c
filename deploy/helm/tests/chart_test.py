# SPDX-License-Identifier: Apache-2.0
"""The chart, and every example of the guide: what helm makes of it, and whether Kubernetes knows each of its fields.

Each test_* function is a test. 77: something is missing here; the reason is printed. SLUICE_WRITE_CHART=1 writes the stored
outputs anew, to be read in the diff.
"""
import http.server
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
CHART = HERE.parent / "sluice"
GUIDE = PROJECT / "docs/guide/kubernetes.md"
SKIPPED = 77
OUTPUTS = {"default.yaml": [], "full.yaml": ["-f", str(HERE / "full-values.yaml")]}
# Fields that are newer than the Debian package of the Python client (22.6, Kubernetes 1.22).
NEWER = {"V1CSIDriverSpec": {"seLinuxMount"}}
NEWER["V1PodSpec"] = {"resourceClaims"}
NEWER["V1ResourceRequirements"] = {"claims"}
WITHOUT_NAMESPACE = {"CSIDriver", "ClusterRole", "ClusterRoleBinding", "DeviceClass", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
                     "PersistentVolume", "StorageClass", "VolumeAttributesClass", "VolumeSnapshotClass"}
# Kinds that are newer, or no built-in types: the fields that may stand at each place. None: whatever stands there is not looked at.
METADATA = {"name": None, "namespace": None, "labels": None}
MATCH = {"objectSelector": {"matchLabels": None}, "resourceRules": [{"apiGroups": None, "apiVersions": None, "operations": None, "resources": None}]}
DEVICE_REQUEST = {"deviceClassName": None, "selectors": [{"cel": {"expression": None}}], "count": None, "allocationMode": None,
                  "capacity": {"requests": None}}
FIELDS = {
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": None}}]}},
    "ResourceClaimTemplate": {"spec": {"metadata": METADATA, "spec": {"devices": {
        "requests": [{"name": None, "exactly": DEVICE_REQUEST}],
        "constraints": [{"requests": None, "matchAttribute": None}],
        "config": [{"requests": None, "opaque": {"driver": None, "parameters": None}}]}}}},
    "MutatingAdmissionPolicy": {"spec": {"matchConstraints": MATCH, "failurePolicy": None, "reinvocationPolicy": None, "mutations": [
        {"patchType": None, "applyConfiguration": {"expression": None}}]}},
    "MutatingAdmissionPolicyBinding": {"spec": {"policyName": None}},
    "VolumeAttributesClass": {"driverName": None, "parameters": None},
    "VolumeSnapshotClass": {"driver": None, "deletionPolicy": None, "parameters": None},
    "VolumeSnapshot": {"spec": {"volumeSnapshotClassName": None, "source": {"persistentVolumeClaimName": None}}},
    "PodMonitor": {"spec": {"selector": {"matchLabels": None}, "podMetricsEndpoints": [{"port": None, "interval": None, "path": None, "relabelings": None}],
                            "namespaceSelector": None}},
}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def need(module, package):
    """Where another Python comes first in PATH, the system's has the packages."""
    if importlib.util.find_spec(module):
        return
    system = "/usr/bin/python3"
    if os.path.exists(system) and os.environ.get("SLUICE_CHART_AGAIN") is None:
        os.environ["SLUICE_CHART_AGAIN"] = "1"
        os.execv(system, [system, "-B", *sys.argv])
    skip(f"the Python module {module} is not installed (package {package})")


def program(name):
    build = pathlib.Path(os.environ.get("SLUICE_BUILD", PROJECT / "build/release"))
    candidates = [build.parent / "helm" / name, shutil.which(name)]
    return next((str(each) for each in candidates if each and os.access(each, os.X_OK)), None)


def helm(*words, status=0):
    if program("helm") is None:
        skip("helm is not installed (deploy/helm/fetch.sh build/helm)")
    run = subprocess.run([program("helm"), *words], capture_output=True, text=True, timeout=60, check=False)
    if (run.returncode == 0) != (status == 0):
        raise AssertionError(f"helm {' '.join(words)}: {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout + run.stderr


def rendered(more):
    return helm("template", "sluice", str(CHART), "-n", "sluice-system", *more)


def documents(text):
    need("yaml", "python3-yaml")
    import yaml
    return [each for each in yaml.safe_load_all(text) if each]


def stored():
    return [(name, each) for name in OUTPUTS for each in documents((HERE / name).read_text(encoding="utf-8"))]


def examples():
    blocks = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = [(f"{GUIDE.name}", each) for block in blocks for each in documents(block) if "kind" in each]
    if len(found) < 3:
        raise AssertionError(f"{GUIDE} has {len(found)} examples: are their blocks marked yaml?")
    return found


def test_helm_finds_nothing_to_complain_about():
    helm("lint", "--strict", str(CHART))
    helm("lint", "--strict", str(CHART), "-f", str(HERE / "full-values.yaml"))


def test_the_outputs_are_the_stored_ones():
    for name, more in OUTPUTS.items():
        text = rendered(more)
        if os.environ.get("SLUICE_WRITE_CHART"):
            (HERE / name).write_text(text, encoding="utf-8")
        elif text != (HERE / name).read_text(encoding="utf-8"):
            raise AssertionError(f"{name} is another one now. If that is meant: SLUICE_WRITE_CHART=1 ctest -R csi.chart")


def test_the_chart_brings_the_dashboard_and_nothing_of_the_exporter_by_itself():
    dashboard = (PROJECT / "deploy/grafana/sluice.json").read_text(encoding="utf-8")
    if (CHART / "dashboards/sluice.json").read_text(encoding="utf-8") != dashboard:
        raise AssertionError("cp deploy/grafana/sluice.json deploy/helm/sluice/dashboards/")
    maps = [each for name, each in stored() if each["kind"] == "ConfigMap" and name == "full.yaml"]
    (shown,) = [json.loads(each["data"]["sluice.json"]) for each in maps if "sluice.json" in each.get("data", {})]
    if shown["panels"][0]["datasource"]["uid"] != "prometheus" or len(shown["panels"]) != len(json.loads(dashboard)["panels"]):
        raise AssertionError("the dashboard of the chart is another one")
    if any("exporter" in each["metadata"]["name"] for name, each in stored() if name == "default.yaml"):
        raise AssertionError("the exporter is there without being asked for")


def test_misspelt_values_are_refused():
    for wrong in ("pools[0].pth=/x", "quota=maybe", "storageClasses[0].directPaht=off", "nothing=1"):
        said = helm("template", "sluice", str(CHART), "--set", wrong, status=1)
        if "values don't meet the specifications" not in said:
            raise AssertionError(f"{wrong}: {said}")


def unknown_fields(value, kind, where, models):
    """The paths of fields that a type of the client does not have."""
    nested = re.match(r"list\[(.+)\]$", kind)
    if nested:
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [each for i, item in enumerate(value) for each in unknown_fields(item, nested[1], f"{where}[{i}]", models)]
    nested = re.match(r"dict\(str, (.+)\)$", kind)
    if nested:
        return [each for key, item in value.items() for each in unknown_fields(item, nested[1], f"{where}.{key}", models)]
    model = getattr(models, kind, None)
    if model is None:
        scalars = {"str": str, "int": int, "bool": bool}
        if kind in scalars and type(value) is not scalars[kind]:
            return [f"{where} is {value!r}, and has to be {kind}"]
        return []
    if not isinstance(value, dict):
        return [f"{where} is {value!r}, and has to be {kind}"]
    names = {json: python for python, json in model.attribute_map.items()}
    found = []
    for key, item in value.items():
        if key in names:
            found += unknown_fields(item, model.openapi_types[names[key]], f"{where}.{key}", models)
        elif key not in NEWER.get(kind, ()):
            found.append(f"{where}.{key} is no field of {kind}")
    return found


def fields_beside(value, known, where):
    """The paths of fields that are not written down in FIELDS."""
    if known is None:
        return []
    if isinstance(known, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [each for i, item in enumerate(value) for each in fields_beside(item, known[0], f"{where}[{i}]")]
    if not isinstance(value, dict):
        return [f"{where} is {value!r}, and has to be an object"]
    return [each for key, item in value.items() for each in
            (fields_beside(item, known[key], f"{where}.{key}") if key in known else [f"{where}.{key} is no field of it"])]


def complaints_about(document, models):
    kind = document["kind"]
    if kind in FIELDS:
        return fields_beside(document, {"apiVersion": None, "kind": None, "metadata": METADATA, **FIELDS[kind]}, kind)
    version = document["apiVersion"].split("/")[-1]
    name = f"{version[0].upper()}{version[1:]}{kind}"
    if getattr(models, name, None) is None:
        return [f"there is no {kind} in {document['apiVersion']}"]
    return unknown_fields(document, name, kind, models)


def test_kubernetes_knows_every_field_of_the_chart_and_of_the_guide():
    need("kubernetes", "python3-kubernetes")
    from kubernetes.client import models
    complaints = [f"{name}: {text}" for name, each in stored() + examples() for text in complaints_about(each, models)]
    if complaints:
        raise AssertionError("\n".join(complaints))
    misspelt = {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "provisioner": "x", "volumeBindingModes": "x"}
    newer = {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "x"}, "spec": {"selektors": []}}
    if not complaints_about(misspelt, models) or not complaints_about(newer, models):
        raise AssertionError("a misspelt field is not noticed")


def resource_of(document):
    """What an API server's discovery says of a kind."""
    kind = document["kind"]
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    return {"name": plural, "singularName": kind.lower(), "kind": kind, "namespaced": kind not in WITHOUT_NAMESPACE, "verbs": ["create", "get"]}


class Discovery(http.server.BaseHTTPRequestHandler):
    """An API server that knows kinds, and nothing else: kubectl asks for these even where it only tries."""

    def do_GET(self):
        versions = sorted({each["apiVersion"] for each in self.server.documents})
        groups = [{"name": version.split("/")[0], "versions": [{"groupVersion": version, "version": version.split("/")[1]}]}
                  for version in versions if "/" in version]
        asked = self.path.split("?")[0]
        answers = {"/api": {"kind": "APIVersions", "versions": ["v1"]}, "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}}
        for version in versions:
            kinds = {each["kind"]: resource_of(each) for each in self.server.documents if each["apiVersion"] == version}
            answers["/api/v1" if version == "v1" else f"/apis/{version}"] = {
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list(kinds.values())}
        body = json.dumps(answers.get(asked, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})).encode()
        self.send_response(200 if asked in answers else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Quiet."""


def test_kubectl_would_create_every_object_of_the_chart_and_of_the_guide():
    need("yaml", "python3-yaml")
    import yaml
    kubectl = program("kubectl")
    if kubectl is None:
        skip("kubectl is not installed (deploy/helm/fetch.sh build/helm)")
    with tempfile.TemporaryDirectory() as folder, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Discovery) as server:
        server.documents = [each for _, each in stored() + examples()]
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def tried(text):
            return subprocess.run([kubectl, f"--server=http://127.0.0.1:{server.server_port}", f"--cache-dir={folder}", "create",
                                   "--dry-run=client", "--validate=false", "-o", "name", "-f", "-"], input=text, capture_output=True, text=True,
                                  timeout=60, check=False, env={"PATH": os.environ["PATH"], "HOME": folder, "KUBECONFIG": "/dev/null"})

        texts = [(HERE / name).read_text(encoding="utf-8") for name in OUTPUTS] + [yaml.safe_dump_all(each for _, each in examples())]
        for text in texts:
            run = tried(text)
            if run.returncode != 0 or run.stderr or len(run.stdout.splitlines()) != len(documents(text)):
                raise AssertionError(f"{run.returncode}\n{run.stdout}{run.stderr}")
        for wrong in ("kind: StorageClas\napiVersion: storage.k8s.io/v1\nmetadata: {name: x}\n", "kind: Pod\napiVersion: v1\nmetadata: {name: x\n"):
            if tried(wrong).returncode == 0:
                raise AssertionError(f"kubectl takes {wrong}")
        server.shutdown()


def pod_specs(document):
    if document["kind"] == "Pod":
        return [document["spec"]]
    return [document["spec"]["template"]["spec"]] if document["kind"] in ("DaemonSet", "Deployment", "Job") else []


def test_only_the_drivers_of_nodes_are_privileged():
    privileged = set()
    for _, document in stored():
        for spec in pod_specs(document):
            for container in spec.get("initContainers", []) + spec["containers"]:
                if container.get("securityContext", {}).get("privileged"):
                    privileged.add((document["kind"], container["name"]))
    if privileged != {("DaemonSet", "driver"), ("DaemonSet", "fabrics")}:
        raise AssertionError(f"privileged are {privileged}")
    for _, document in stored():
        for rule in document.get("rules", []):
            if "secrets" in rule["resources"] or "*" in rule["resources"] or "*" in rule["verbs"]:
                raise AssertionError(f"{document['metadata']['name']} has a right that it does not need: {rule}")


ADMITTED_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def against_restricted(spec):
    """What Pod Security "restricted" would refuse in a pod, control by control."""
    pod = spec.get("securityContext", {})
    wrong = [f"a volume of type {key}" for volume in spec.get("volumes", []) for key in volume.keys() - {"name"} - ADMITTED_VOLUMES]
    wrong += [key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    wrong += ["sysctls"] if pod.get("sysctls") else []
    for container in [*spec.get("initContainers", []), *spec["containers"], *spec.get("ephemeralContainers", [])]:
        context = container.get("securityContext", {})
        own = {**pod, **context}
        capabilities = context.get("capabilities", {})
        wrong += ["is privileged"] if context.get("privileged") else []
        wrong += [] if own.get("runAsNonRoot") is True else ["may run as root"]
        wrong += ["runs as root"] if own.get("runAsUser") == 0 else []
        wrong += [] if context.get("allowPrivilegeEscalation") is False else ["may gain privileges"]
        wrong += [] if "ALL" in capabilities.get("drop", []) else ["keeps capabilities"]
        wrong += [f"capability {each}" for each in capabilities.get("add", []) if each != "NET_BIND_SERVICE"]
        wrong += [] if own.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost") else ["has no seccomp profile"]
        wrong += ["procMount"] if own.get("procMount", "Default") != "Default" else []
        wrong += ["SELinux options"] if own.get("seLinuxOptions") else []
        wrong += ["a port of the host" for port in container.get("ports", []) if port.get("hostPort")]
    return wrong


def test_pod_security_restricted_admits_every_pod_but_those_that_serve_a_node():
    # A node's driver mounts what pods see, and the exporter looks at processes of the host.
    serving = {("DaemonSet", "sluice-node"), ("DaemonSet", "sluice-exporter")}
    seen, refused = 0, {}
    for name, document in stored() + examples():
        for spec in pod_specs(document):
            seen += 1
            if wrong := against_restricted(spec):
                refused[(document["kind"], document["metadata"]["name"])] = f"{name}: {', '.join(wrong)}"
    if set(refused) != serving or seen < 7:
        raise AssertionError(f"of {seen} pods it refuses {refused}")
    good = next(spec for _, document in examples() for spec in pod_specs(document))
    for path, value in (("hostNetwork", True), ("volumes", [{"name": "x", "hostPath": {}}]), ("securityContext", {}),
                        ("containers", [{**good["containers"][0], "securityContext": {"allowPrivilegeEscalation": False}}]),
                        ("containers", [{**good["containers"][0], "ports": [{"containerPort": 1, "hostPort": 1}]}])):
        if not against_restricted({**good, path: value}):
            raise AssertionError(f"a pod with {path}: {value} is admitted")


def test_the_seccomp_profile_admits_io_uring_and_no_more_than_a_runtime_does():
    profile = json.loads((CHART / "files/io-uring.json").read_text(encoding="utf-8"))
    (shown,) = [each["data"]["io-uring.json"] for name, each in stored() if each["kind"] == "ConfigMap" and "io-uring.json" in each["data"]]
    if json.loads(shown) != profile or profile["defaultAction"] != "SCMP_ACT_ERRNO":
        raise AssertionError("the chart's profile is another one, or admits what it does not name")
    names = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule for name in rule["names"]}
    if not {"io_uring_setup", "io_uring_enter", "io_uring_register", "pread64", "mmap"} <= names:
        raise AssertionError("what the library needs is missing")
    dangerous = {"mount", "umount2", "unshare", "setns", "bpf", "ptrace", "init_module", "finit_module", "kexec_load", "reboot", "clone",
                 "clone3", "open_by_handle_at", "perf_event_open", "userfaultfd", "keyctl", "process_vm_writev", "pivot_root", "socket"}
    if dangerous & names:
        raise AssertionError(f"it admits {dangerous & names}")


def test_the_driver_knows_every_flag_that_the_chart_gives_it():
    driver = pathlib.Path(os.environ.get("SLUICE_BUILD", PROJECT / "build/release")) / "bin/sluice-csi"
    if not driver.exists():
        skip(f"{driver.name} is not built (-DSLUICE_CSI=ON)")
    known = set(re.findall(r"--[a-z-]+", subprocess.run([driver, "--help"], capture_output=True, text=True, check=True,
                                                        timeout=20).stdout))
    given = set()
    for _, document in stored():
        for spec in pod_specs(document):
            for container in spec["containers"]:
                if container.get("command") == ["sluice-csi"]:
                    given |= {word.split("=")[0] for word in container["args"]}
                probes = [container.get(probe, {}).get("exec", {}).get("command", []) for probe in ("livenessProbe", "readinessProbe")]
                given |= {word for words in probes for word in words if word.startswith("--")}
    if not given or not given <= known:
        raise AssertionError(f"sluice-csi does not know {given - known}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
