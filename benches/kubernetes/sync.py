"""Measures the first sync and single changes with many PhApplications.

Prints one line per figure, in milliseconds. Needs kubectl, and KUBECONFIG with an admin's
credentials. Uses only Python's standard library.
"""

import http.client
import json
import os
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

PROGRAM, MANY = sys.argv[1], int(sys.argv[2])
NAMESPACE = f"bench-{os.getpid()}"
# Runs of each measurement. The median and the spread are printed.
RUNS = 5
PATH = f"/apis/primehub.io/v1alpha1/namespaces/{NAMESPACE}/phapplications"

config = json.loads(subprocess.check_output(["kubectl", "config", "view", "--raw", "--minify", "-o", "json"]))
server = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
token = config["users"][0]["user"]["token"]
# Certificates are not verified: the caller has started or chosen the server.
tls = ssl.create_default_context()
tls.check_hostname = False
tls.verify_mode = ssl.CERT_NONE


def api():
    return http.client.HTTPSConnection(server.hostname, server.port, context=tls)


def call(connection, method, path, body, kind="application/json"):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
    connection.request(method, path, json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status in (200, 201), (answer.status, text)


def application(number):
    return {
        "apiVersion": "primehub.io/v1alpha1",
        "kind": "PhApplication",
        "metadata": {"name": f"app-{number}"},
        "spec": {
            "displayName": f"App {number}",
            "groupName": "phusers",
            "instanceType": "cpu-1",
            "scope": "group",
            "httpPort": 5000,
            "podTemplate": {
                "spec": {
                    "containers": [
                        {
                            "name": "app",
                            "image": "registry.example.com/app:1",
                            "args": ["serve", "--host", "0.0.0.0"],
                            "env": [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(10)],
                        }
                    ]
                }
            },
            "svcTemplate": {"spec": {"ports": [{"name": "http", "port": 5000, "targetPort": 5000}]}},
        },
    }


def create(first, step):
    connection = api()
    for number in range(first, MANY, step):
        call(connection, "POST", PATH, application(number))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    def __init__(self, folder):
        self.port, self.admin = free_port(), free_port()
        path = os.path.join(folder, "ludgate.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                f'[listen]\naddress = "127.0.0.1:{self.port}"\n'
                f'[admin]\naddress = "127.0.0.1:{self.admin}"\n'
                f'[site]\nurl = "http://127.0.0.1:{self.port}"\n'
                '[identity]\nissuer = "http://127.0.0.1:9"\nclient_id = "x"\n'
                f'[kubernetes]\nnamespace = "{NAMESPACE}"\nkubeconfig = "{os.environ["KUBECONFIG"]}"\n'
            )
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [PROGRAM, "gateway", "--config", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def get_status(self, port, path):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def until(self, port, path, status):
        while self.get_status(port, path) != status:
            assert self.process.poll() is None, "the gateway exited"
            time.sleep(0.002)

    def resident(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmRSS"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def show(what, figures):
    figures = sorted(figures)
    print(f"{what}: {statistics.median(figures):.0f} ms (from {figures[0]:.0f} to {figures[-1]:.0f})", flush=True)


subprocess.check_call(["kubectl", "create", "namespace", NAMESPACE], stdout=subprocess.DEVNULL)
creators = [threading.Thread(target=create, args=(first, 16)) for first in range(16)]
for creator in creators:
    creator.start()
for creator in creators:
    creator.join()

with tempfile.TemporaryDirectory() as folder:
    first_syncs = []
    for run in range(RUNS):
        gateway = Gateway(folder)
        gateway.until(gateway.admin, "/readyz", 200)
        first_syncs.append((time.monotonic() - gateway.started) * 1000)
        if run + 1 < RUNS:
            gateway.stop()
    show(f"first sync of {MANY} apps, from the start of the process", first_syncs)
    print(f"resident memory after the first sync: {gateway.resident()} MiB")
    changes, connection = [], api()
    for run in range(RUNS):
        # No pod is ready. So users with access get 503, which says that the app is starting.
        for scope, status in (("public", 503), ("group", 401)):
            patch = {"spec": {"scope": scope}}
            begun = time.monotonic()
            call(connection, "PATCH", f"{PATH}/app-{run}", patch, "application/merge-patch+json")
            gateway.until(gateway.port, f"/apps/app-{run}/", status)
            changes.append((time.monotonic() - begun) * 1000)
    show("a change of one app, from the API call until it takes effect", changes)
    gateway.stop()
