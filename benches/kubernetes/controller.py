"""Measures the controllers with many PhApplications, and with many PVCViewers, on a cluster with hollow nodes:

  controller.py PROGRAM APPS VIEWERS IDLE_SECONDS

No volume is there for the claims of viewers, so their pods wait for the scheduler. Prints one line per figure. Needs
kubectl, KUBECONFIG with an admin's credentials, and the audit log of the API server in LUDGATE_AUDIT_LOG, which names
each call of the controller. Uses only Python's standard library.
"""

import collections
import dataclasses
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

PROGRAM, APPS, VIEWERS, IDLE_SECONDS = sys.argv[1], *map(int, sys.argv[2:])
AUDIT_LOG = os.environ["LUDGATE_AUDIT_LOG"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
ACCOUNT = "ludgate-controller"
CREATORS = 8
# Seconds between two lists of thousands of objects, which take time from the controller.
LIST_PAUSE = 2


@dataclasses.dataclass(frozen=True)
class Measured:
    """A controller with a namespace of its own, so that it has no other rights and lists no other pods."""

    name: str
    namespace: str
    rights: str
    api: str
    toml: str = ""

    @property
    def objects(self):
        group, resource = self.api.rsplit("/", 1)
        return f"/apis/{group}/namespaces/{self.namespace}/{resource}"


OF_APPS = Measured(
    "applications", "bench-apps", "controller.yaml", "primehub.io/v1alpha1/phapplications",
    '[groups.phusers]\n[instance_types.tiny]\ncpu = 0.001\nmemory = "1MiB"\n')
OF_VIEWERS = Measured("viewers", "bench-viewers", "viewers.yaml", "kubeflow.org/v1alpha1/pvcviewers")
CLAIMS = f"/api/v1/namespaces/{OF_VIEWERS.namespace}/persistentvolumeclaims"


def kubectl(*arguments, given=None):
    return subprocess.run(["kubectl", *arguments], input=given, check=True, capture_output=True, text=True).stdout


config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
server = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
token = config["users"][0]["user"]["token"]
# Certificates are not verified: the caller has started the server.
tls = ssl.create_default_context()
tls.check_hostname = False
tls.verify_mode = ssl.CERT_NONE


def api():
    return http.client.HTTPSConnection(server.hostname, server.port, context=tls)


def call(connection, method, path, body=None, kind="application/json"):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    for patience in range(10, -1, -1):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        # A server with too much to do has the object nevertheless, or takes it the next time.
        if answer.status == 409 and method == "POST":
            return {}
        if answer.status not in (429, 500, 503, 504) or not patience:
            break
        time.sleep(1)
    assert answer.status in (200, 201), (answer.status, text)
    return json.loads(text)


def application(number):
    container = {
        "name": "app", "image": "registry.example.com/app:1", "args": ["serve"],
        "env": [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(10)],
    }
    return {
        "apiVersion": "primehub.io/v1alpha1", "kind": "PhApplication", "metadata": {"name": f"a{number}"},
        "spec": {
            "displayName": f"App {number}", "groupName": "phusers", "instanceType": "tiny", "scope": "group",
            "httpPort": 5000, "podTemplate": {"spec": {"containers": [container]}},
            "svcTemplate": {"spec": {"ports": [{"name": "http", "port": 5000}]}},
        },
    }


def claim(name):
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def viewer(name):
    networking = {"targetPort": 8080, "basePrefix": "/pvcviewers", "rewrite": "/", "timeout": "30s"}
    return {
        "apiVersion": "kubeflow.org/v1alpha1", "kind": "PVCViewer", "metadata": {"name": name},
        "spec": {"pvc": name, "rwoScheduling": True, "networking": networking},
    }


def create_apps(first):
    connection = api()
    for number in range(first, APPS, CREATORS):
        call(connection, "POST", OF_APPS.objects, application(number))


def create_viewers(first):
    connection = api()
    for number in range(first, VIEWERS, CREATORS):
        call(connection, "POST", CLAIMS, claim(f"v{number}"))
        call(connection, "POST", OF_VIEWERS.objects, viewer(f"v{number}"))


def create_all(create):
    creators = [threading.Thread(target=create, args=(first,)) for first in range(CREATORS)]
    for creator in creators:
        creator.start()
    for creator in creators:
        creator.join()


def everything(measured):
    """All objects, from the API server's memory: reading them from etcd each time would slow the controller."""
    return call(api(), "GET", f"{measured.objects}?resourceVersion=0")["items"]


def phases():
    listed = everything(OF_APPS)
    return collections.Counter(app.get("status", {}).get("phase", "none") for app in listed)


def settled_viewers():
    """How many viewers say that the scheduler has no node for their pods."""
    listed = everything(OF_VIEWERS)
    conditions = (one.get("status", {}).get("conditions", []) for one in listed)
    return sum(any(one["type"] == "PodScheduled" for one in of_viewer) for of_viewer in conditions)


def until(what, holds, pause=0.05):
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < 1800, f"waited in vain: {what}"
        time.sleep(pause)
    return time.monotonic() - begun


class Controller:
    def __init__(self, measured, folder, lease):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.admin = probe.getsockname()[1]
        path = folder / f"{measured.name}-{lease}.toml"
        path.write_text(
            f'[admin]\naddress = "127.0.0.1:{self.admin}"\n[site]\nurl = "https://hub.example.com"\n'
            f'[kubernetes]\nnamespace = "{measured.namespace}"\nkubeconfig = "{folder / measured.namespace}"\n'
            f'[controller]\n{measured.name} = true\nlease = "{lease}"\n{measured.toml}', encoding="utf-8")
        self.started = time.monotonic()
        self.process = subprocess.Popen([PROGRAM, "controller", "--config", path], stderr=subprocess.DEVNULL)

    def count(self, metric):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        except OSError:
            return 0
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(metric))

    def writes(self):
        return int(self.count("ludgate_controller_writes_total"))

    def resident(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmRSS"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def calls_since(offset, measured):
    """The controller's calls after a position of the audit log, by verb and resource."""
    calls = collections.Counter()
    account = f"system:serviceaccount:{measured.namespace}:{ACCOUNT}"
    with open(AUDIT_LOG, encoding="utf-8") as log:
        log.seek(offset)
        for line in log:
            event = json.loads(line)
            if event["user"]["username"] == account and event["stage"] == "ResponseComplete":
                calls[f'{event["verb"]} {event.get("objectRef", {}).get("resource", "?")}'] += 1
    return calls


def prepare(measured, folder):
    namespace = measured.namespace
    kubectl("create", "namespace", namespace)
    rights = (ROOT / "config/rbac" / measured.rights).read_text(encoding="utf-8")
    kubectl("-n", namespace, "apply", "-f", "-", given=rights.replace("namespace: hub", f"namespace: {namespace}"))
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    user = {"token": call(api(), "POST", path, request)["status"]["token"]}
    own = config | {"users": [config["users"][0] | {"user": user}]}
    (folder / namespace).write_text(json.dumps(own), encoding="utf-8")


def restart(measured, folder, many):
    """Starts the controller anew, with all objects made, and measures its first sync."""
    controller = Controller(measured, folder, "second")
    until("all objects are reconciled", lambda: controller.count("ludgate_controller_reconciles_total") >= many)
    print(f"first sync after a restart: {time.monotonic() - controller.started:.1f} s, {controller.writes()} writes, "
          f"{controller.resident()} MiB", flush=True)
    return controller


def idle(measured, controller):
    writes, offset = controller.writes(), os.path.getsize(AUDIT_LOG)
    # An idle period is what is measured.
    time.sleep(IDLE_SECONDS)
    print(f"{IDLE_SECONDS} idle seconds: {controller.writes() - writes} writes; "
          f"calls: {dict(calls_since(offset, measured))}", flush=True)


def changes():
    """The milliseconds that five changes of an app need until its Deployment has them, in ascending order."""
    durations = []
    for number in range(5):
        path = f"/apis/apps/v1/namespaces/{OF_APPS.namespace}/deployments/app-a{number}"
        connection = api()
        before = call(connection, "GET", path)["metadata"]["generation"]
        patch = {"spec": {"displayName": "changed", "appRoot": "/changed"}}
        begun = time.monotonic()
        call(connection, "PATCH", f"{OF_APPS.objects}/a{number}", patch, "application/merge-patch+json")
        until("the change", lambda: call(connection, "GET", path)["metadata"]["generation"] > before)
        durations.append((time.monotonic() - begun) * 1000)
    return sorted(durations)


def measure_apps(folder):
    prepare(OF_APPS, folder)
    controller = Controller(OF_APPS, folder, "first")
    create_all(create_apps)
    created = time.monotonic() - controller.started
    until("all apps are ready", lambda: phases()["Ready"] == APPS, pause=LIST_PAUSE)
    ready = time.monotonic() - controller.started
    print(f"{APPS} apps made in {created:.0f} s, all ready after {ready:.0f} s, "
          f"{controller.writes() / APPS:.1f} writes per app", flush=True)
    print(f"resident memory then: {controller.resident()} MiB", flush=True)
    controller.stop()

    controller = restart(OF_APPS, folder, APPS)
    durations = changes()
    print(f"a change of one app, until its Deployment has it: {durations[2]:.0f} ms "
          f"(from {durations[0]:.0f} to {durations[-1]:.0f})", flush=True)
    until("all apps are ready again", lambda: phases()["Ready"] == APPS, pause=LIST_PAUSE)
    idle(OF_APPS, controller)
    controller.stop()


def measure_viewers(folder):
    prepare(OF_VIEWERS, folder)
    controller = Controller(OF_VIEWERS, folder, "first")
    create_all(create_viewers)
    created = time.monotonic() - controller.started
    until("the scheduler has seen all pods", lambda: settled_viewers() == VIEWERS, pause=LIST_PAUSE)
    settled = time.monotonic() - controller.started
    print(f"{VIEWERS} viewers made in {created:.0f} s, all pods wait for volumes after {settled:.0f} s, "
          f"{controller.writes() / VIEWERS:.1f} writes per viewer", flush=True)
    print(f"resident memory then: {controller.resident()} MiB", flush=True)
    controller.stop()

    controller = restart(OF_VIEWERS, folder, VIEWERS)
    idle(OF_VIEWERS, controller)
    controller.stop()


def main(folder):
    # The real node would run the pods, and the figures would be those of containers.
    kubectl("cordon", "node-1")
    if APPS:
        measure_apps(folder)
    if VIEWERS:
        measure_viewers(folder)


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary))
