"""Measures the controller of apps with many PhApplications on a cluster with hollow nodes.

Prints one line per figure. Needs kubectl, KUBECONFIG with an admin's credentials, and the audit log of the API server
in LUDGATE_AUDIT_LOG, which names each call of the controller. Uses only Python's standard library.
"""

import collections
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

PROGRAM, MANY = sys.argv[1], int(sys.argv[2])
AUDIT_LOG = os.environ["LUDGATE_AUDIT_LOG"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMESPACE = "bench"
APPS = f"/apis/primehub.io/v1alpha1/namespaces/{NAMESPACE}/phapplications"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:ludgate-controller"
CREATORS = 8


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
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
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


def create(first):
    connection = api()
    for number in range(first, MANY, CREATORS):
        call(connection, "POST", APPS, application(number))


def phases():
    listed = call(api(), "GET", APPS)["items"]
    return collections.Counter(app.get("status", {}).get("phase", "none") for app in listed)


def until(what, holds):
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < 1800, f"waited in vain: {what}"
        time.sleep(0.05)
    return time.monotonic() - begun


class Controller:
    def __init__(self, folder, lease):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.admin = probe.getsockname()[1]
        path = folder / f"{lease}.toml"
        path.write_text(
            f'[admin]\naddress = "127.0.0.1:{self.admin}"\n[site]\nurl = "https://hub.example.com"\n'
            f'[kubernetes]\nnamespace = "{NAMESPACE}"\nkubeconfig = "{folder / "kubeconfig"}"\n'
            f'[controller]\napplications = true\nlease = "{lease}"\n[groups.phusers]\n'
            '[instance_types.tiny]\ncpu = 0.001\nmemory = "1MiB"\n', encoding="utf-8")
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


def calls_since(offset):
    """The controller's calls after a position of the audit log, by verb and resource."""
    calls = collections.Counter()
    with open(AUDIT_LOG, encoding="utf-8") as log:
        log.seek(offset)
        for line in log:
            event = json.loads(line)
            if event["user"]["username"] == ACCOUNT and event["stage"] == "ResponseComplete":
                calls[f'{event["verb"]} {event.get("objectRef", {}).get("resource", "?")}'] += 1
    return calls


def prepare(folder):
    kubectl("create", "namespace", NAMESPACE)
    # The real node would run the pods, and the figures would be those of containers.
    kubectl("cordon", "node-1")
    rights = (ROOT / "config/rbac/controller.yaml").read_text(encoding="utf-8")
    kubectl("-n", NAMESPACE, "apply", "-f", "-", given=rights.replace("namespace: hub", f"namespace: {NAMESPACE}"))
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/ludgate-controller/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    config["users"][0]["user"] = {"token": call(api(), "POST", path, request)["status"]["token"]}
    (folder / "kubeconfig").write_text(json.dumps(config), encoding="utf-8")


def main(folder):
    prepare(folder)
    controller = Controller(folder, "first")
    creators = [threading.Thread(target=create, args=(first,)) for first in range(CREATORS)]
    for creator in creators:
        creator.start()
    for creator in creators:
        creator.join()
    created = time.monotonic() - controller.started
    until("all apps are ready", lambda: phases()["Ready"] == MANY)
    ready = time.monotonic() - controller.started
    print(f"{MANY} apps made in {created:.0f} s, all ready after {ready:.0f} s, "
          f"{controller.writes() / MANY:.1f} writes per app", flush=True)
    print(f"resident memory then: {controller.resident()} MiB", flush=True)
    controller.stop()

    controller = Controller(folder, "second")
    until("all apps are reconciled", lambda: controller.count("ludgate_controller_reconciles_total") >= MANY)
    print(f"first sync after a restart: {time.monotonic() - controller.started:.1f} s, {controller.writes()} writes, "
          f"{controller.resident()} MiB", flush=True)

    durations = []
    for number in range(5):
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/app-a{number}"
        connection = api()
        before = call(connection, "GET", path)["metadata"]["generation"]
        patch = {"spec": {"displayName": "changed", "appRoot": "/changed"}}
        begun = time.monotonic()
        call(connection, "PATCH", f"{APPS}/a{number}", patch, "application/merge-patch+json")
        until("the change", lambda: call(connection, "GET", path)["metadata"]["generation"] > before)
        durations.append((time.monotonic() - begun) * 1000)
    print(f"a change of one app, until its Deployment has it: {sorted(durations)[2]:.0f} ms "
          f"(from {min(durations):.0f} to {max(durations):.0f})", flush=True)

    until("all apps are ready again", lambda: phases()["Ready"] == MANY)
    writes, offset = controller.writes(), os.path.getsize(AUDIT_LOG)
    # An idle minute is what is measured.
    time.sleep(60)
    print(f"an idle minute: {controller.writes() - writes} writes; calls: {dict(calls_since(offset))}", flush=True)
    controller.stop()


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary))
